//! Names and source lines, from the program itself and from files beside it.

use std::fs;

use crate::fixture::{Workshop, run, stdout};

/// The source lines of `collatz` that some path through it shows, ascending.
fn lines_of_collatz(program: &str, option: &[&str]) -> Vec<u32> {
    let mut lines = Vec::new();
    for id in 0..3 {
        let id = id.to_string();
        let text = stdout(&[&["inspect", program, "-f", "collatz", "--path", &id][..], option].concat());
        let places = text.lines().filter_map(|line| line.split_once("lines.c:"));
        lines.extend(places.filter_map(|(_, rest)| rest.split(' ').next()?.parse::<u32>().ok()));
    }
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Moves symbols and line tables of `program` to `debug_file` and leaves a link to it.
fn split(program: &str, debug_file: &str) {
    run("objcopy", &["--only-keep-debug", program, debug_file]);
    run("strip", &["--strip-all", program]);
    run("objcopy", &[&format!("--add-gnu-debuglink={debug_file}"), program]);
}

#[test]
fn paths_show_source_lines() {
    let workshop = Workshop::new();
    let lines = lines_of_collatz(&workshop.lines(), &[]);
    for expected in [5, 6, 8] {
        assert!(lines.contains(&expected), "{lines:?}");
    }
}

#[test]
fn a_debug_file_beside_the_program_is_used() {
    let workshop = Workshop::new();
    let program = workshop.lines();
    let lines = lines_of_collatz(&program, &[]);
    split(&program, &workshop.name("lines.debug"));
    assert_eq!(lines_of_collatz(&program, &[]), lines);
    let table = stdout(&["inspect", &program]);
    assert!(table.lines().any(|line| line.starts_with("debug file") && line.ends_with("/lines.debug")), "{table}");
}

#[test]
fn a_debug_file_in_the_debug_folder_is_used() {
    let workshop = Workshop::new();
    let program = workshop.lines();
    split(&program, &workshop.name("lines.debug"));
    fs::create_dir(workshop.path(".debug")).expect("a writable folder");
    fs::rename(workshop.path("lines.debug"), workshop.path(".debug/lines.debug")).expect("a writable folder");
    assert!(!lines_of_collatz(&program, &[]).is_empty());
}

#[test]
fn without_debug_files_names_are_gone() {
    let workshop = Workshop::new();
    let program = workshop.lines();
    split(&program, &workshop.name("lines.debug"));
    let output = crate::fixture::strobe(&["inspect", &program, "-f", "collatz", "--no-debug-files"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_debug_file_of_another_build_is_not_used() {
    let workshop = Workshop::new();
    let program = workshop.lines();
    split(&program, &workshop.name("lines.debug"));
    let other = workshop.write("other.c", crate::fixture::LINES.replace("3 * n + 1", "5 * n + 3"));
    let other_program = workshop.name("other");
    run("gcc", &["-g", "-O1", "-Wl,--build-id=sha1", "-o", &other_program, &other]);
    run("objcopy", &["--only-keep-debug", &other_program, &workshop.name("lines.debug")]);
    let table = stdout(&["inspect", &program]);
    assert!(!table.contains("debug file"), "{table}");
}
