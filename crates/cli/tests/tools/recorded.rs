//! A real recording: watched while it runs, and read where the program is not.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::Fixture;

/// For the first profile of a recording, which comes within seconds.
const PATIENCE: Duration = Duration::from_secs(100);

/// Some tenths of a second of work between two lines.
const BUSY: &str = "\
#include <stdio.h>
static __attribute__((noinline)) unsigned step(unsigned x) {
  return x * 3 + (x >> 5);
}
int main(int argc, char **argv) {
  unsigned x = argc;
  puts(\"begun\");
  for (long i = 0; i < 400000000; i++)
    x = step(x);
  puts(\"ended\");
  int input = getchar();
  return x == 0 || input != EOF;
}
";

const OPTIONS: [&str; 6] = ["record", "--rate", "1000", "--burst", "1000", "--quiet"];

fn busy() -> Fixture {
    Fixture::unrecorded(BUSY, &["gcc", "-g", "-O1"])
}

#[test]
fn an_archive_is_all_that_another_machine_needs() {
    let fixture = busy();
    let program = fixture.program.to_str().unwrap();
    fixture.printed(&[&OPTIONS[..], &["--", program]].concat());
    fixture.printed(&["archive", "-o", "a.tar.zst"]);
    for gone in [&fixture.program, &fixture.profile, &fixture.path("program.c")] {
        fs::remove_file(gone).unwrap();
    }
    fs::remove_dir_all(fixture.path("cache")).unwrap();
    fixture.printed(&["archive", "--extract", "-o", "elsewhere", "a.tar.zst"]);
    let profile = "elsewhere/profile.strobe";
    let annotated = fixture.strobe(&["annotate", "step", profile]);
    let (text, warnings) = (String::from_utf8(annotated.stdout).unwrap(), String::from_utf8(annotated.stderr).unwrap());
    assert_eq!(warnings, "");
    assert!(text.contains("program.c:3") && text.contains("shr") && text.contains("ret"), "{text}");
    let paths = fixture.printed(&["paths", "-f", "main", profile]);
    assert!(paths.contains("program.c:9"), "{paths}");
    let exported = fixture.printed(&["export", "--format", "callgrind", "-o", "-", profile]);
    assert!(exported.contains("program.c"), "{exported}");
}

/// Ends a group of processes, also if the test fails.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = Command::new("sh").args(["-c", &format!("kill -9 -{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_that_ends_while_it_is_translated_leaves_all_to_the_next_run() {
    let fixture = busy();
    fixture.printed(&["record", "--quiet", "--", "perl", "-e", "for (1..3000000) {}"]);
    let files = fs::read_dir(fixture.path("cache/strobe")).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let of_perl: Vec<_> = files.filter(|path| name(path).starts_with("perl-")).collect();
    let copies: Vec<_> = of_perl.iter().filter(|path| path.extension().is_some_and(|kind| kind == "copy")).collect();
    assert!(!copies.is_empty(), "{of_perl:?}");
    assert!(copies.iter().all(|copy| copy.with_extension("code").exists()), "{of_perl:?}");
}

#[test]
fn a_recording_that_was_killed_says_what_it_cost() {
    let fixture = busy();
    let again = format!("for i in $(seq 200); do {}; done", fixture.program.display());
    let mut strobe = Command::new(env!("CARGO_BIN_EXE_strobe"));
    strobe.args(OPTIONS).args(["--", "sh", "-c", &again]).current_dir(fixture.folder.path()).process_group(0);
    strobe.env("XDG_CACHE_HOME", fixture.path("cache")).stdin(Stdio::null()).stdout(Stdio::null());
    let group = Group(strobe.spawn().expect("strobe starts"));
    let started = Instant::now();
    let has_cost = || store::open(&fixture.profile).is_ok_and(|profile| profile.facts.contains_key("cost_percent"));
    while !has_cost() {
        assert!(started.elapsed() < PATIENCE, "no profile with its cost");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(group);
    let facts = store::open(&fixture.profile).unwrap().facts;
    assert!(facts["command"].starts_with("sh -c for"), "{facts:?}");
    assert!(!facts.contains_key("ended"), "{facts:?}");
}

/// What a terminal of a hundred columns would have been sent.
fn on_a_terminal(fixture: &Fixture, options: &str) -> String {
    let (strobe, program) = (env!("CARGO_BIN_EXE_strobe"), fixture.program.to_str().unwrap());
    let command = format!("stty rows 30 cols 100; {strobe} {} {options} -- {program}", OPTIONS.join(" "));
    let output = fixture.run("script", &["-qec", &command, "/dev/null"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_live_view_holds_back_what_the_program_prints() {
    let fixture = busy();
    let shown = on_a_terminal(&fixture, "--live");
    let (during, after) = shown.split_once("\x1b[?1049l").expect("the end of another screen");
    let (_, during) = during.split_once("\x1b[?1049h").expect("another screen");
    assert!(during.contains("program-") && during.contains("Functions") && !during.contains("begun"), "{during:?}");
    assert!(after.contains("begun\r\nended\r\n"), "{after:?}");
    assert_eq!(store::open(&fixture.profile).unwrap().facts["ended"], "exit 0");
}

#[test]
fn a_live_view_leaves_redirected_output_alone() {
    let fixture = busy();
    let shown = on_a_terminal(&fixture, "--live > printed 2>&1");
    assert!(shown.contains("\x1b[?1049h") && shown.contains("\x1b[?1049l"), "{shown:?}");
    assert_eq!(fs::read_to_string(fixture.path("printed")).unwrap(), "begun\nended\n");
}

#[test]
fn a_live_view_needs_a_terminal() {
    let fixture = Fixture::new();
    let program = fixture.program.to_str().unwrap();
    let output = fixture.run("setsid", &["--wait", env!("CARGO_BIN_EXE_strobe"), "record", "--live", "--", program]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("--live needs a terminal"), "{complaint}");
}
