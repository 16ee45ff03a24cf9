//! Views of real binaries: with source lines, stripped, of C++ with inlined code, rebuilt, deleted;
//! and of a terminal.

use std::fs;
use std::process::Command;

use crate::fixture::{Workshop, of_function, program, run};

const SOURCE: &str = "\
int add(int a, int b) {
    return a * 3 + b;
}
int main(int n, char **v) {
    return add(n, 1);
}
";

const INLINED: &str = "\
#include <cstddef>
namespace ns {
static inline __attribute__((always_inline)) int twice(int a) {
    return a * 2 + 1;
}
struct Sum {
    int total(int n) const;
};
int Sum::total(int n) const {
    return twice(n);
}
}
int main(int n, char **) { return ns::Sum().total(n); }
";

fn c_program(workshop: &Workshop) -> String {
    workshop.build("gcc", "x.c", SOURCE, &["-g", "-O1", "-fno-inline"])
}

#[test]
fn source_lines_and_instructions() {
    let workshop = Workshop::new();
    let program = c_program(&workshop);
    let profile = workshop.save(&of_function(program.as_ref(), "add"));
    let (paths, warnings) = workshop.outputs(&["paths", &profile]);
    assert_eq!(warnings, "");
    assert!(paths.contains("x.c:2") && paths.contains("return a * 3 + b;"), "{paths}");
    assert!(!paths.contains("ret\n"), "{paths}");
    let annotated = workshop.stdout(&["annotate", "add", &profile]);
    assert!(annotated.contains("return a * 3 + b;"), "{annotated}");
    assert!(annotated.lines().any(|line| line.starts_with('>') && line.contains("ret")), "{annotated}");
    let source_only = workshop.stdout(&["annotate", "--source", "add", &profile]);
    assert!(source_only.contains("return a * 3 + b;") && !source_only.contains("lea "), "{source_only}");
}

#[test]
fn a_stripped_binary_has_instructions() {
    let workshop = Workshop::new();
    let program = c_program(&workshop);
    let mut unnamed = of_function(program.as_ref(), "add");
    run("strip", &[&program]);
    unnamed.functions[0].name.clear();
    let address = unnamed.functions[0].address;
    let profile = workshop.save(&unnamed);
    let (paths, warnings) = workshop.outputs(&["paths", &profile]);
    assert_eq!(warnings, "");
    assert!(paths.contains(&format!("fn_{address:x} [program]")) && paths.contains("lea eax, "), "{paths}");
    let annotated = workshop.stdout(&["annotate", &format!("{address:#x}"), &profile]);
    assert!(annotated.contains("no source lines: no debug data was found"), "{annotated}");
    assert!(annotated.contains("lea eax, "), "{annotated}");
}

#[test]
fn inlined_functions_are_named() {
    let workshop = Workshop::new();
    let program = workshop.build("g++", "x.cc", INLINED, &["-g", "-O2", "-fno-ipa-sra", "-fno-inline-functions"]);
    let profile = workshop.save(&of_function(program.as_ref(), "_ZNK2ns3Sum5totalEi"));
    let paths = workshop.stdout(&["paths", "-f", "Sum::total", &profile]);
    assert!(paths.contains("ns::Sum::total [program]"), "{paths}");
    assert!(paths.contains("x.cc:4 (") && paths.contains("twice)"), "{paths}");
}

#[test]
fn a_rebuilt_binary_is_not_read() {
    let workshop = Workshop::new();
    let program = c_program(&workshop);
    let profile = workshop.save(&of_function(program.as_ref(), "add"));
    workshop.build("gcc", "x.c", &SOURCE.replace("* 3", "* 5"), &["-O2", "-fno-inline"]);
    let (annotated, warnings) = workshop.outputs(&["annotate", "add", &profile]);
    assert_eq!(warnings.lines().count(), 1, "{warnings}");
    assert!(warnings.contains("rebuilt since the recording"), "{warnings}");
    assert!(annotated.contains("(4 instructions)") && !annotated.contains("lea "), "{annotated}");
}

#[test]
fn lines_of_a_deleted_binary_are_remembered() {
    let workshop = Workshop::new();
    let program = c_program(&workshop);
    let profile = workshop.save(&of_function(program.as_ref(), "add"));
    workshop.stdout(&["paths", &profile]);
    fs::remove_file(&program).expect("the program just built");
    let (paths, warnings) = workshop.outputs(&["paths", &profile]);
    assert!(warnings.contains("the file is gone"), "{warnings}");
    assert!(paths.contains("x.c:2"), "{paths}");
}

/// What strobe prints on a terminal, with a pager that marks each line.
fn on_a_terminal(workshop: &Workshop, command: &str) -> String {
    let pager = workshop.path("pager");
    fs::write(&pager, "#!/bin/sh\nsed 's/^/paged: /'\n").expect("a writable folder");
    run("chmod", &["+x", pager.to_str().expect("UTF-8")]);
    let mut script = Command::new("script");
    script.args(["-qec", command, "/dev/null"]).env("PAGER", &pager).env_remove("NO_COLOR").env("TERM", "xterm");
    let output = script.env("XDG_CACHE_HOME", workshop.path("cache")).output();
    let output = output.expect("script; run `cargo xtask packages`");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_terminal_gets_a_pager_and_colours() {
    let workshop = Workshop::new();
    let profile = workshop.save(&program());
    let strobe = env!("CARGO_BIN_EXE_strobe");
    let paged = on_a_terminal(&workshop, &format!("{strobe} edges {profile}"));
    assert!(paged.contains("paged: \x1b[1mHot edges"), "{paged}");
    let plain = on_a_terminal(&workshop, &format!("NO_COLOR=1 {strobe} edges --no-pager {profile}"));
    assert!(plain.contains("Hot edges") && !plain.contains("paged: ") && !plain.contains("\x1b[1m"), "{plain}");
    let json = on_a_terminal(&workshop, &format!("{strobe} edges --json {profile}"));
    assert!(json.contains("\"schema\": 2") && !json.contains("paged: "), "{json}");
    let without = on_a_terminal(&workshop, &format!("PAGER=/no/such/pager {strobe} edges {profile}"));
    assert!(without.contains("Hot edges"), "{without}");
}
