//! Starting programs of all sorts, and judging them by their files.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use attach::{Error, Injection, Launch, Launchability, find_program, probe_binary, spawn};

/// A directory with programs.
struct Programs(tempfile::TempDir);

impl Programs {
    fn new() -> Programs {
        Programs(tempfile::tempdir().unwrap())
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let (code, program) = (self.0.path().join(format!("{name}.c")), self.0.path().join(name));
        std::fs::write(&code, source).unwrap();
        let output = Command::new("gcc").arg(&code).arg("-o").arg(&program).args(flags).output();
        let output = output.expect("gcc is needed for this test (package gcc)");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    fn file(&self, name: &str, contents: &[u8], mode: u32) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, contents).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }
}

fn launch(program: &Path, arguments: &[&str]) -> Launch {
    let name = program.as_os_str().to_owned();
    let argv = std::iter::once(name).chain(arguments.iter().map(OsString::from)).collect();
    Launch { program: program.to_owned(), argv, injection: None, ignored_signals: 0 }
}

const NOTHING: &str = "int main(void) { return 0; }\n";

#[test]
fn programs_are_told_apart() {
    let programs = Programs::new();
    let dynamic = programs.compile("dynamic", NOTHING, &[]);
    let Launchability::Dynamic { linker } = probe_binary(&dynamic) else { panic!("{:?}", probe_binary(&dynamic)) };
    assert!(linker.exists(), "{}", linker.display());
    assert_eq!(probe_binary(&programs.compile("static", NOTHING, &["-static"])), Launchability::Static);
    let static_pie = programs.compile("static-pie", NOTHING, &["-static-pie"]);
    assert_eq!(probe_binary(&static_pie), Launchability::Static);
    assert_eq!(probe_binary(&programs.0.path().join("absent")), Launchability::Missing);
    assert_eq!(probe_binary(programs.0.path()), Launchability::NotExecutable);
    assert_eq!(probe_binary(&programs.file("text", b"no program\n", 0o755)), Launchability::UnknownFormat);
    assert_eq!(probe_binary(&programs.file("empty", b"", 0o755)), Launchability::UnknownFormat);
    assert_eq!(probe_binary(&programs.file("data", b"\x7fELF", 0o644)), Launchability::NotExecutable);
}

#[test]
fn other_machines_are_recognized_by_their_headers() {
    let programs = Programs::new();
    let dynamic = std::fs::read(programs.compile("dynamic", NOTHING, &[])).unwrap();
    let changed = |at: usize, value: u8| {
        let mut bytes = dynamic.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(probe_binary(&programs.file("bits32", &changed(4, 1), 0o755)), Launchability::Bits32);
    assert_eq!(probe_binary(&programs.file("arm", &changed(18, 183), 0o755)), Launchability::Foreign { machine: 183 });
    assert_eq!(probe_binary(&programs.file("core", &changed(16, 4), 0o755)), Launchability::Foreign { machine: 62 });
    assert_eq!(probe_binary(&programs.file("cut", &dynamic[..70], 0o755)), Launchability::UnknownFormat);
}

#[test]
fn scripts_are_followed_once() {
    let programs = Programs::new();
    let dynamic = programs.compile("dynamic", NOTHING, &[]);
    let script = programs.file("script", format!("#! {} -x\nrest\n", dynamic.display()).as_bytes(), 0o755);
    let found = probe_binary(&script);
    assert!(found.is_profilable());
    assert!(matches!(found, Launchability::Script { interpreter, .. } if interpreter == dynamic));
    let of_script = programs.file("of-script", format!("#!{}\n", script.display()).as_bytes(), 0o755);
    assert!(!probe_binary(&of_script).is_profilable());
    let absent = programs.file("of-absent", b"#!/does/not/exist\n", 0o755);
    assert!(matches!(probe_binary(&absent), Launchability::Script { then, .. } if *then == Launchability::Missing));
}

#[test]
fn setuid_programs_of_others_are_privileged() {
    let programs = Programs::new();
    let program = programs.compile("program", NOTHING, &[]);
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    assert!(probe_binary(&program).is_profilable(), "a program of one's own gives no other rights");
    // Only the superuser can give files away; anybody else finds such files in the system.
    match std::os::unix::fs::chown(&program, Some(12345), None) {
        Ok(()) => {
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
            assert_eq!(probe_binary(&program), Launchability::Privileged);
        }
        Err(_) => assert_eq!(probe_binary(Path::new("/usr/bin/passwd")), Launchability::Privileged),
    }
}

#[test]
fn exit_codes_and_signals_are_reported() {
    let shell = Path::new("/bin/sh");
    let exit = spawn(&launch(shell, &["-c", "exit 7"])).unwrap().wait().unwrap();
    assert_eq!((exit.code, exit.signal), (Some(7), None));
    let exit = spawn(&launch(shell, &["-c", "kill -TERM $$"])).unwrap().wait().unwrap();
    assert_eq!((exit.code, exit.signal), (None, Some(15)));
}

#[test]
fn resources_of_an_ended_program_are_known_and_stay_known() {
    let mut target = spawn(&launch(Path::new("/bin/true"), &[])).unwrap();
    let exit = target.wait().unwrap();
    assert!(exit.used.max_resident_bytes > 0);
    assert_eq!(target.try_wait().unwrap(), Some(exit));
    assert_eq!(target.wait().unwrap(), exit);
}

#[test]
fn a_running_program_can_be_killed() {
    let mut target = spawn(&launch(Path::new("/bin/sleep"), &["1000"])).unwrap();
    assert_eq!(target.try_wait().unwrap(), None);
    let pid = Pid::from_raw(target.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert_eq!(target.wait().unwrap().signal, Some(9));
}

#[test]
fn what_cannot_be_started_is_named() {
    let programs = Programs::new();
    let absent = programs.0.path().join("absent");
    assert!(matches!(spawn(&launch(&absent, &[])), Err(Error::Missing { program }) if program == absent));
    let data = programs.file("data", b"data", 0o644);
    assert!(matches!(spawn(&launch(&data, &[])), Err(Error::NotExecutable { program }) if program == data));
    let empty = programs.file("nonsense", b"\x7fELF", 0o755);
    assert!(matches!(spawn(&launch(&empty, &[])), Err(Error::NotStarted { .. })));
}

#[test]
fn the_runtime_is_injected_by_the_environment() {
    let injection = Injection {
        runtime: "/does/not/exist/runtime.so".into(),
        session: "strobe-test".into(),
        follow: true,
        no_op: false,
        filters: 0,
    };
    let mut launch = launch(Path::new("/bin/sh"), &["-c", "echo $LD_PRELOAD; echo $STROBE_SESSION"]);
    launch.injection = Some(injection.clone());
    let output = attach::command(&launch).unwrap().output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("/does/not/exist/runtime.so"));
    assert_eq!(lines[1], "strobe-test;/does/not/exist/runtime.so;f;0");
    for path in ["/a b/r.so", "/a:b/r.so", "/a;b/r.so"] {
        launch.injection = Some(Injection { runtime: path.into(), ..injection.clone() });
        assert!(matches!(attach::command(&launch), Err(Error::RuntimePath { .. })));
    }
}

#[test]
fn programs_are_found_as_a_shell_finds_them() {
    let programs = Programs::new();
    let tool = programs.file("tool", b"#!/bin/sh\n", 0o755);
    programs.file("data", b"", 0o644);
    let path = OsString::from(format!("/does/not/exist:{}", programs.0.path().display()));
    assert_eq!(find_program(OsStr::new("tool"), &path), Some(tool));
    assert_eq!(find_program(OsStr::new("data"), &path), None);
    assert_eq!(find_program(OsStr::new("./tool"), &path), Some(PathBuf::from("./tool")));
}
