//! Symbols outside the symbol table: separate debug files and `.gnu_debugdata`.

use crate::fixtures::{Fixture, compile, execute};
use image::{AlternateLink, DebugLinks, Error, Image, Sources, SymbolSource};
use std::process::Command;

/// A stripped program and the file that its debugging information went to.
fn split(flags: &[&str], strip_flags: &[&str]) -> (Fixture, Fixture) {
    let full = compile("program.c", &[&["-g", "-O1"], flags].concat());
    let debug = full.changed_by("objcopy", &["--only-keep-debug"]);
    let stripped = full.changed_by("strip", strip_flags);
    (stripped, debug)
}

#[test]
fn a_debug_file_of_the_same_build_adds_its_symbols() {
    let (stripped, debug) = split(&["-Wl,--build-id"], &[]);
    let image = stripped.image();
    assert!(image.lookup("main").is_empty());
    let build_id = image.build_id().expect("a build-id").to_string();
    let expected = format!(".build-id/{}/{}.debug", &build_id[..2], &build_id[2..]);
    assert_eq!(image.debug_links().build_id_path, Some(expected));

    let image = image.with_debug_file(&debug.data).expect("the same build");
    let main = image.lookup("main")[0];
    let function = image.functions().iter().find(|function| function.start == main).expect("main");
    assert_eq!(function.sources, Sources::FDE.union(Sources::DEBUG_FILE));
    assert_eq!(image.name_of(main).raw, "main");
    assert_eq!(image.problems(), []);
    assert!(image.symbols().iter().any(|symbol| symbol.source == SymbolSource::DebugFile && symbol.name == "table"));
}

#[test]
fn a_debug_file_of_another_build_is_refused() {
    let (stripped, _) = split(&["-Wl,--build-id"], &[]);
    let (_, other) = split(&["-Wl,--build-id", "-DOTHER", "-O3"], &[]);
    let error = stripped.image().with_debug_file(&other.data).expect_err("another build");
    assert!(matches!(error, Error::DebugFileMismatch { image: Some(_), debug: Some(_) }), "{error}");
    let error = stripped.image().with_debug_file(b"#!/bin/sh\n").expect_err("a script");
    assert!(matches!(error, Error::Script { .. }), "{error}");
}

#[test]
fn a_debug_link_names_its_file_and_checksum() {
    let full = compile("program.c", &["-g", "-Wl,--build-id=none"]);
    let debug = full.changed_by("objcopy", &["--only-keep-debug"]);
    let stripped = full.changed_by("strip", &[]);
    let link = format!("--add-gnu-debuglink={}", debug.path.display());
    let linked = stripped.changed_by("objcopy", &[&link]);
    let found = linked.image().debug_links().debug_link.expect("a debug link");
    assert_eq!(found.file_name, "changed");
    assert!(!linked.image().with_debug_file(&debug.data).expect("the checksum").lookup("main").is_empty());

    let mut damaged = debug.data.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    let error = linked.image().with_debug_file(&damaged).expect_err("another checksum");
    assert_eq!(error, Error::DebugFileMismatch { image: None, debug: None });
    let error = stripped.image().with_debug_file(&debug.data).expect_err("nothing links them");
    assert_eq!(error, Error::DebugFileMismatch { image: None, debug: None });
}

#[test]
fn an_alternate_link_is_read() {
    let fixture = compile("program.c", &[]);
    let section = fixture.beside("link");
    std::fs::write(&section, b"/usr/lib/debug/.dwz/shared.debug\0\x12\x34\x56\x78").expect("a file");
    let argument = format!(".gnu_debugaltlink={}", section.display());
    let linked = fixture.changed_by("objcopy", &["--add-section", &argument]);
    let links = DebugLinks::of_file(&linked.data).expect("an ELF file");
    let AlternateLink { path, build_id } = links.alternate.expect("an alternate link");
    assert_eq!((path.as_str(), build_id.to_string().as_str()), ("/usr/lib/debug/.dwz/shared.debug", "12345678"));
}

/// A stripped program with the symbols of its functions in `.gnu_debugdata`, as distributions make
/// it.
fn with_debug_data(contents: impl FnOnce(&Fixture) -> Vec<u8>) -> Fixture {
    let full = compile("program.c", &["-O1"]);
    let section = full.beside("debugdata");
    std::fs::write(&section, contents(&full)).expect("a file");
    let argument = format!(".gnu_debugdata={}", section.display());
    full.changed_by("strip", &[]).changed_by("objcopy", &["--add-section", &argument])
}

fn packed(full: &Fixture) -> Vec<u8> {
    let small = full.changed_by("objcopy", &["-S", "--keep-symbol=main", "--keep-symbol=add"]);
    let small = small.changed_by("objcopy", &["--only-keep-debug"]);
    execute(Command::new("xz").arg("-9").arg("--keep").arg(&small.path));
    std::fs::read(small.path.with_extension("xz")).expect("xz wrote its output")
}

#[test]
fn embedded_symbols_are_unpacked() {
    let fixture = with_debug_data(packed);
    let image = fixture.image();
    for name in ["main", "add"] {
        let start = image.lookup(name)[0];
        let function = image.functions().iter().find(|function| function.start == start).expect("a function");
        assert_eq!(function.sources, Sources::FDE.union(Sources::DEBUG_DATA), "{name}");
    }
    assert!(image.lookup("multiply").is_empty());
}

#[test]
fn damaged_embedded_symbols_are_a_problem_and_no_more() {
    let damaged = |change: fn(&mut Vec<u8>)| {
        with_debug_data(|full| {
            let mut contents = packed(full);
            change(&mut contents);
            contents
        })
    };
    for change in [
        (|bytes| bytes.truncate(40)) as fn(&mut Vec<u8>),
        |bytes| bytes.clear(),
        |bytes| bytes[40] ^= 0xff,
        |bytes| bytes[0] = 0,
    ] {
        let fixture = damaged(change);
        let image = Image::parse(&fixture.data).expect("the rest is intact");
        assert!(image.lookup("main").is_empty());
        assert_eq!(image.problems().len(), 1, "{:?}", image.problems());
        assert!(!image.functions().is_empty());
    }
}

/// 100 MB of zeros pack into a few kilobytes; unpacking stops at a multiple of what is there.
#[test]
fn a_bomb_is_not_unpacked() {
    let fixture = with_debug_data(|full| {
        let zeros = full.beside("zeros");
        std::fs::write(&zeros, vec![0; 100 << 20]).expect("a file");
        execute(Command::new("xz").arg("-1").arg(&zeros));
        std::fs::read(zeros.with_extension("xz")).expect("xz wrote its output")
    });
    let image = Image::parse(&fixture.data).expect("the rest is intact");
    assert_eq!(image.problems().len(), 1, "{:?}", image.problems());
}
