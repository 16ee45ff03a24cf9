//! Programs that would not survive being recorded are left alone: they do what they do without
//! strobe, and the user is told why nothing was recorded.

use std::fmt::Write as _;
use std::fs;

use crate::build::{Executable, Library, Program};
use crate::compare::expect_same;
use crate::process::Outcome;
use crate::recorder::{SETTINGS, finish, run_native, start_recorded};

const EXACT: &[&str] = &["--exact"];
const FAST: &[&str] = SETTINGS[2];
const GO: &str = "contains Go's runtime";
const FILTER: &str = "installs a seccomp filter";

/// The same as alone at these settings, with a reason.
#[track_caller]
fn expect_left_alone(executable: &Executable, all_settings: &[&[&str]], reason: &str) {
    let native = run_native(executable);
    for settings in all_settings {
        let recorded = record(executable, &native, settings);
        assert!(recorded.stderr.contains("is left alone") && recorded.stderr.contains(reason), "{}", recorded.stderr);
        assert!(!recorded.stderr.contains("complete: no thread"), "{}", recorded.stderr);
    }
}

#[track_caller]
fn record(executable: &Executable, native: &Outcome, settings: &[&str]) -> Outcome {
    let what = format!("strobe record {}", settings.join(" "));
    let recorded = finish(&what, start_recorded(executable, settings));
    expect_same(&what, native, &recorded);
    recorded
}

fn all_settings() -> Vec<&'static [&'static str]> {
    SETTINGS.into_iter().chain([EXACT]).collect()
}

#[test]
fn hugo() {
    let executable = Executable::installed("/usr/bin/hugo", &[]);
    let site = executable.beside("site");
    let write = |name: &str, text: &str| {
        let file = site.join(name);
        fs::create_dir_all(file.parent().expect("a folder above")).expect("a writable folder");
        fs::write(file, text).expect("a writable folder");
    };
    write("config.toml", "baseURL = \"https://example.org/\"\ntitle = \"t\"\nuglyURLs = true\n");
    write("layouts/_default/single.html", "<h1>{{ .Title }}</h1>{{ .Content }}");
    write("layouts/_default/list.html", "{{ range .Pages }}<a>{{ .Title }}</a>{{ end }}");
    for page in 0..100 {
        let mut text = format!("---\ntitle: Page {page}\n---\n");
        for part in 0..8 {
            // Writing to a string cannot fail.
            let _ = write!(text, "## Part {part}\n\n```go\nfunc f() int {{ return {part} + {page} }}\n```\n\n");
        }
        write(&format!("content/{page}.md"), &text);
    }
    let source = site.to_str().expect("a temporary folder with a UTF-8 name").to_owned();
    let public = executable.beside("run/files");
    let public = public.to_str().expect("a temporary folder with a UTF-8 name").to_owned();
    // Files without folders, which are what is compared.
    let executable = executable.with_arguments(&["--quiet", "--source", &source, "--destination", &public]);
    let native = run_native(&executable);
    assert!(native.files.len() > 100, "{:?}\n{}", native.files.keys(), native.stderr);
    expect_left_alone(&executable, &all_settings(), GO);
}

#[test]
fn caddy() {
    let executable = Executable::installed("/usr/bin/caddy", &[]);
    let mut text = String::new();
    for site in 0..400 {
        let _ = writeln!(text, "site{site}.example.org {{\n\treverse_proxy /b/* 127.0.0.1:{}\n}}", 9000 + site);
    }
    let file = executable.beside("Caddyfile");
    fs::write(&file, text).expect("a writable folder");
    let file = file.to_str().expect("a temporary folder with a UTF-8 name").to_owned();
    expect_left_alone(&executable.with_arguments(&["adapt", "--config", &file]), &all_settings(), GO);
}

/// With the note that Go's linker makes, and without.
#[test]
fn go_with_c() {
    let external = Program::new("cgo.go").flags(&["-ldflags=-linkmode=external"]);
    expect_left_alone(&external.build(), &all_settings(), GO);
    let stripped = Program::new("cgo.go").flags(&["-ldflags=-linkmode=external -buildid= -s -w"]);
    expect_left_alone(&stripped.build(), &[FAST], GO);
}

/// Opened after some ticks, while other threads run; or linked.
#[test]
fn go_library() {
    const LIBRARY: Library =
        Library { source: "go_library.go", file: "libgo.so", flags: &["-buildmode=c-shared"], is_linked: false };
    let opening = Program::new("opens_go.c").libraries(&[LIBRARY]);
    expect_left_alone(&opening.build(), &all_settings(), GO);
    let linked = Program::new("opens_go.c").flags(&["-DLINKED"]).libraries(&[Library { is_linked: true, ..LIBRARY }]);
    expect_left_alone(&linked.build(), &[FAST], GO);
}

#[test]
fn sbcl() {
    const WORK: &str = "(progn (defun f (n) (if (< n 2) n (+ (f (- n 1)) (f (- n 2)))))
        (print (f 30))
        (dotimes (i 30) (gc :full (zerop (mod i 5))) (print (length (loop for i below 100000 collect (list i))))))";
    let executable = Executable::installed("/usr/bin/sbcl", &["--noinform", "--no-userinit", "--eval", WORK, "--quit"]);
    expect_left_alone(&executable, &all_settings(), "SBCL");
}

/// A filter that allows what the program does and nothing else, for every answer to the rest and
/// both ways to install it.
#[track_caller]
fn expect_filter(arguments: [&'static str; 4], all_settings: &[&[&str]]) {
    expect_left_alone(&Program::new("filters.c").arguments(&arguments).build(), all_settings, FILTER);
}

#[test]
fn filter_that_kills() {
    expect_filter(["kill", "prctl", "late", "alone"], &all_settings());
    expect_filter(["kill", "syscall", "late", "alone"], &[FAST]);
    expect_filter(["kill", "syscall", "early", "alone"], &[&[], FAST]);
}

#[test]
fn filter_that_traps() {
    expect_filter(["trap", "prctl", "late", "alone"], &[&[], FAST]);
    expect_filter(["trap", "syscall", "late", "alone"], &[FAST]);
}

#[test]
fn filter_that_denies() {
    expect_filter(["errno", "prctl", "late", "alone"], &[&[], FAST]);
    expect_filter(["errno", "syscall", "late", "alone"], &[FAST]);
}

#[test]
fn strict_mode() {
    expect_filter(["strict", "prctl", "late", "alone"], &[&[], FAST, EXACT]);
    expect_filter(["strict", "syscall", "late", "alone"], &[FAST]);
}

/// The filter is for all threads, which are in the middle of their work.
#[test]
fn filter_for_all_threads() {
    expect_filter(["kill", "syscall", "late", "threads"], &all_settings());
}

/// The kernel calls the program's handler again, not the runtime.
#[test]
fn filter_and_handler() {
    expect_filter(["kill", "syscall", "late", "handler"], &all_settings());
}

/// The child has the filter, and the runtime, which must do nothing in it.
#[test]
fn filter_and_fork() {
    expect_filter(["kill", "syscall", "late", "fork"], &all_settings());
}

/// A program that is started under a filter, by the one that installed it or by a child of `vfork`,
/// is not followed.
#[test]
fn filter_and_exec() {
    expect_filter(["kill", "syscall", "late", "exec"], &all_settings());
    let in_child = Program::new("filters.c").arguments(&["kill", "syscall", "late", "exec", "vfork"]);
    expect_left_alone(&in_child.build(), &all_settings(), FILTER);
}

/// A filter that is installed by an instruction of the program's own is not noticed, except in
/// exact mode. A program that is then started finds it before it does anything that the dynamic
/// linker has not done.
#[test]
fn filter_behind_the_back() {
    let alone = Program::new("filters.c").arguments(&["kill", "raw", "late", "alone"]).build();
    expect_left_alone(&alone, &[EXACT], FILTER);
    let starting = Program::new("filters.c").arguments(&["kill", "raw", "early", "exec"]).build();
    record(&starting, &run_native(&starting), &["--tick-source", "off"]);
}
