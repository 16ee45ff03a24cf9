//! A short seeded run of the fuzzer, through the real command with its limits on time and memory.

use std::process::Command;

#[test]
fn damaged_files_break_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_strobe-lab"))
        .args(["fuzz", "--iterations", "1500", "--seed", "20", "--time-limit", "60", "--dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("1,500"), "{out}");
}
