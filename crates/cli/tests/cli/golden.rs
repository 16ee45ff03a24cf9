//! Exact output for a small program at fixed addresses.

use crate::fixture::{Workshop, stdout};

#[track_caller]
fn check(golden: &str, arguments: &[&str]) {
    let workshop = Workshop::new();
    let program = workshop.walk();
    let arguments: Vec<&str> = arguments.iter().map(|&word| if word == "WALK" { &program } else { word }).collect();
    let actual = stdout(&arguments).replace(&program, "WALK");
    fixtures::golden::expect(env!("CARGO_MANIFEST_DIR"), golden, &actual);
}

#[test]
fn function() {
    check("collatz.txt", &["inspect", "WALK", "-f", "collatz"]);
}

#[test]
fn function_with_other_options() {
    let options = ["--att", "--truncation", "headers", "--order", "smart"];
    check("collatz-att-headers-smart.txt", &[&["inspect", "WALK", "-f", "0x401025"][..], &options].concat());
}

#[test]
fn function_with_jump_table() {
    check("choose.txt", &["inspect", "WALK", "-f", "choose"]);
}

#[test]
fn path() {
    check("collatz-path.txt", &["inspect", "WALK", "-f", "collatz", "--path", "1"]);
}

#[test]
fn graphviz() {
    check("choose.dot", &["inspect", "WALK", "-f", "choose", "--dot"]);
}

#[test]
fn dump_cfg() {
    check("dump-cfg.txt", &["dump", "cfg", "WALK"]);
}

#[test]
fn dump_paths() {
    check("dump-paths.txt", &["dump", "paths", "WALK", "-f", "collatz"]);
}

#[test]
fn module_table_without_times() {
    let workshop = Workshop::new();
    let table = stdout(&["inspect", &workshop.walk(), "--threads", "1"]);
    let row = |label: &str| table.lines().find_map(|line| line.strip_prefix(label)).map(str::trim);
    assert_eq!(row("kind "), Some("executable, static"));
    assert_eq!(row("functions "), Some("3"));
    assert_eq!(row("  complete "), Some("3 (100.00 %)"));
    assert_eq!(row("loops "), Some("1, 0 irreducible, at most 1 deep"));
    assert_eq!(row("indirect jumps "), Some("1: 1 jump tables (4 entries), 0 tail calls, 0 unresolved"));
    assert!(row("time ").is_some_and(|times| times.ends_with("(1 thread)")), "{table}");
}

#[test]
fn every_graph_and_numbering_is_sound() {
    let workshop = Workshop::new();
    for numbering in [["back-edges", "classic"], ["headers", "smart"]] {
        let options = ["--verify", "--truncation", numbering[0], "--order", numbering[1]];
        let table = stdout(&[&["inspect", &workshop.large()][..], &options].concat());
        let verified = table.lines().find(|line| line.starts_with("verified "));
        assert_eq!(verified, Some("verified        all functions, 0 with faults"));
    }
}

#[test]
fn dump_image_names_what_the_file_has() {
    let workshop = Workshop::new();
    let dump = stdout(&["dump", "image", &workshop.walk()]);
    assert!(dump.starts_with("image Executable static=true build-id=none\n"), "{dump}");
    assert!(dump.contains("\nfunction 0x401000 "), "{dump}");
    assert!(dump.lines().any(|line| line.starts_with("symbol ") && line.ends_with(" collatz")), "{dump}");
    assert!(dump.lines().any(|line| line.starts_with("code-pointer 0x402008 -> ")), "{dump}");
}

#[test]
fn dump_image_of_one_function_has_its_unwind_rows() {
    let workshop = Workshop::new();
    let dump = stdout(&["dump", "image", &workshop.lines(), "-f", "collatz"]);
    assert!(dump.lines().any(|line| line.starts_with("unwind ") && line.contains("cfa=rsp+8")), "{dump}");
    assert!(!dump.contains(" main"), "{dump}");
}

#[test]
fn colour_only_where_it_is_wanted() {
    let workshop = Workshop::new();
    let program = workshop.walk();
    assert!(!stdout(&["inspect", &program]).contains('\x1b'), "a pipe is not a terminal");
    assert!(stdout(&["inspect", &program, "--color", "always"]).contains('\x1b'));
}
