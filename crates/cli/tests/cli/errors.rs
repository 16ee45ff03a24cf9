//! What users see when something is wrong: one line with the file, the cause and what to do; exit
//! code 1, or 2 for wrong usage.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::fixture::{Workshop, run, strobe};

/// Fails with exactly this line on standard error, and nothing on standard output.
#[track_caller]
fn check(arguments: &[&str], expected: &str) {
    let output = strobe(arguments);
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("strobe: {expected}\n"));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
}

/// The ELF header of a small x86-64 program, after changes.
fn elf_header(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[16..20].copy_from_slice(&[2, 0, 62, 0]);
    header[20] = 1;
    header[52..54].copy_from_slice(&[64, 0]);
    change(&mut header);
    header
}

#[test]
fn files_of_other_kinds() {
    let workshop = Workshop::new();
    let cases: &[(&str, Vec<u8>, &str)] = &[
        (
            "script",
            b"#!/usr/bin/env python3\nprint()\n".to_vec(),
            "a script, not an ELF file; give its interpreter (/usr/bin/env python3) instead",
        ),
        ("empty", Vec::new(), "the file is empty; give a program or a shared library"),
        ("text", b"hello, world\n".to_vec(), "not an ELF file; give a Linux program or shared library"),
        (
            "i386",
            elf_header(|header| header[4] = 1),
            "a 32-bit ELF file; strobe reads 64-bit x86-64 files, build it with -m64",
        ),
        ("arm64", elf_header(|header| header[18] = 183), "an ELF file for AArch64; strobe reads x86-64 files"),
        ("core", elf_header(|header| header[16] = 4), "a core dump; give the program that dumped it"),
        (
            "object.o",
            elf_header(|header| header[16] = 1),
            "an object file (.o) that is not linked yet; link it and give the result",
        ),
    ];
    for (name, content, cause) in cases {
        let path = workshop.write(name, content);
        check(&["inspect", &path], &format!("{path}: {cause}"));
        check(&["dump", "image", &path], &format!("{path}: {cause}"));
    }
}

#[test]
fn a_32_bit_arm_file_is_refused() {
    let workshop = Workshop::new();
    let header = elf_header(|header| {
        header[4] = 1;
        header[18] = 40;
    });
    let path = workshop.write("arm", header);
    let output = strobe(&["inspect", &path]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.starts_with(&format!("strobe: {path}: ")) && message.contains("strobe reads"), "{message}");
}

#[test]
fn things_that_are_not_files() {
    let workshop = Workshop::new();
    let folder = workshop.name("");
    check(&["inspect", &folder], &format!("{folder}: a directory, not a file; give a program or a shared library"));
    let missing = workshop.name("missing");
    check(&["inspect", &missing], &format!("{missing}: no such file; check the path"));
    check(&["inspect", "/dev/null"], "/dev/null: a device, not a file; give a program or a shared library");
}

#[test]
fn a_named_pipe_does_not_hang() {
    let workshop = Workshop::new();
    let pipe = workshop.name("pipe");
    run("mkfifo", &[&pipe]);
    let output = Command::new("timeout").args(["60", env!("CARGO_BIN_EXE_strobe"), "inspect", &pipe]).output();
    let output = output.expect("timeout starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!("strobe: {pipe}: a named pipe, not a file; give a program or a shared library\n")
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_bare_name_is_looked_up_for_advice() {
    let workshop = Workshop::new();
    let program = workshop.write("some-program", "");
    let output = Command::new(env!("CARGO_BIN_EXE_strobe"))
        .args(["inspect", "some-program"])
        .env("PATH", workshop.name(""))
        .output()
        .expect("strobe starts");
    let expected = format!("strobe: some-program: no such file; did you mean {program}?\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
}

#[test]
fn functions_that_are_not_there() {
    let workshop = Workshop::new();
    let program = workshop.walk();
    check(
        &["inspect", &program, "-f", "colatz"],
        &format!("{program}: no function is called colatz; did you mean collatz?"),
    );
    check(
        &["dump", "cfg", &program, "-f", "xyzzy"],
        &format!("{program}: no function is called xyzzy; `strobe dump cfg {program}` lists all of them"),
    );
    check(
        &["inspect", &program, "-f", "0x5"],
        &format!("{program}: no function contains 0x5; the nearest is _start at 0x401000"),
    );
}

#[test]
fn a_path_that_is_not_there() {
    let workshop = Workshop::new();
    let program = workshop.walk();
    let dump = crate::fixture::stdout(&["dump", "paths", &program, "-f", "collatz"]);
    let n_paths = dump.lines().filter(|line| line.contains(" path ")).count();
    check(
        &["inspect", &program, "-f", "collatz", "--path", "1000"],
        &format!("{program}: collatz has no path 1000; give a number below {n_paths}"),
    );
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [&["inspect"][..], &["fly"], &["inspect", "x", "--path", "1"], &["dump", "soup", "x"], &[]] {
        let output = strobe(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let workshop = Workshop::new();
    let program = workshop.large();
    for arguments in [["dump", "cfg", &program], ["inspect", "--json", &program]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_strobe"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strobe starts");
        let mut first = [0; 16];
        child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some output");
        let output = child.wait_with_output().expect("strobe ends");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_damaged_program_gives_a_partial_result() {
    let workshop = Workshop::new();
    let program = workshop.walk();
    let mut bytes = fs::read(&program).expect("the program just built");
    bytes.truncate(bytes.len() * 2 / 3);
    let damaged = workshop.write("damaged", bytes);
    let table = crate::fixture::stdout(&["inspect", &damaged]);
    assert!(table.lines().any(|line| line.starts_with("problem ")), "{table}");
}

#[test]
fn misspelt_options_are_not_programs() {
    for (option, near) in [("--ovehead=1%", "--overhead"), ("-p", "")] {
        let output = strobe(&["record", option, "true"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(option.split('=').next().unwrap_or(option)) && text.contains(near), "{text}");
    }
}
