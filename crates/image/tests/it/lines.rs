//! Source lines and inlined functions, against `addr2line`.

use crate::fixtures::{Fixture, compile, execute};
use image::{Error, LineSections, SourceFrame, Svma};
use std::process::Command;

/// Function, file name and line of each frame, innermost first, as `addr2line` prints them.
fn listed(fixture: &Fixture, at: Svma) -> Vec<(String, String, Option<u32>)> {
    let mut command = Command::new("addr2line");
    let printed = execute(command.arg("-Cife").arg(&fixture.path).arg(at.to_string()));
    let lines: Vec<&str> = printed.lines().collect();
    let frames = lines.chunks(2).map(|pair| {
        let (file, line) = pair[1].rsplit_once(':').expect("a place");
        let line = line.split(' ').next().and_then(|line| line.parse().ok());
        (pair[0].to_owned(), file_name(file), line)
    });
    frames.collect()
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

fn found(frame: &SourceFrame) -> (String, String, Option<u32>) {
    let function = frame.function.clone().unwrap_or_default();
    (function, frame.file.as_deref().map(file_name).unwrap_or_default(), frame.line)
}

fn lines_agree(fixture: &Fixture, function: &str) -> usize {
    let image = fixture.image();
    let sections = LineSections::read(&fixture.data, None).expect("a line table");
    let table = sections.table().expect("a line table");
    let start = image.lookup(function)[0];
    let size = image.functions().iter().find(|seed| seed.start == start).and_then(|seed| seed.size).expect("a size");
    let mut deepest = 0;
    for at in (0..size).map(|offset| start.offset(offset)) {
        let frames = table.frames_at(at);
        assert_eq!(frames.iter().map(found).collect::<Vec<_>>(), listed(fixture, at), "{function} at {at}");
        deepest = deepest.max(frames.len());
    }
    deepest
}

#[test]
fn inlined_frames_are_those_that_addr2line_prints() {
    for flags in [&["-O2", "-g"][..], &["-O2", "-gdwarf-4"], &["-O2", "-g", "-no-pie"]] {
        assert_eq!(lines_agree(&compile("inlined.c", flags), "outer"), 3, "{flags:?}");
    }
}

#[test]
fn compressed_sections_give_the_same_lines() {
    let plain = compile("inlined.c", &["-O2", "-g"]);
    for compression in ["zlib", "zlib-gnu", "zstd"] {
        let compressed = plain.changed_by("objcopy", &[&format!("--compress-debug-sections={compression}")]);
        assert_ne!(compressed.data.len(), plain.data.len(), "{compression} changes something");
        assert_eq!(lines_agree(&compressed, "outer"), 3, "{compression}");
    }
}

#[test]
fn lines_of_cpp_have_readable_function_names() {
    let fixture = compile("exceptions.cpp", &["-O1", "-g"]);
    let image = fixture.image();
    let sections = LineSections::read(&fixture.data, None).expect("a line table");
    let table = sections.table().expect("a line table");
    let caught = image.lookup("shapes::caught")[0];
    let frames: Vec<_> = table.frames_at(caught).iter().map(found).collect();
    assert_eq!(frames, listed(&fixture, caught));
    assert_eq!(frames[0].0, "shapes::caught(int)");
}

#[test]
fn a_split_debug_file_has_the_lines() {
    let full = compile("inlined.c", &["-O2", "-g"]);
    let debug = full.changed_by("objcopy", &["--only-keep-debug"]);
    let outer = full.image().lookup("outer")[0];
    let frames = |data: &[u8]| {
        let sections = LineSections::read(data, None).expect("a line table");
        sections.table().expect("a line table").frames_at(outer)
    };
    assert_eq!(frames(&debug.data), frames(&full.data));
    let stripped = full.changed_by("strip", &[]);
    assert_eq!(LineSections::read(&stripped.data, None).expect_err("no lines"), Error::NoLines);
}

#[test]
fn an_address_without_lines_has_no_frames() {
    let fixture = compile("inlined.c", &["-O2", "-g"]);
    let sections = LineSections::read(&fixture.data, None).expect("a line table");
    let table = sections.table().expect("a line table");
    assert_eq!(table.frames_at(Svma(0)), []);
    assert_eq!(table.frames_at(Svma(u64::MAX)), []);
}

#[test]
fn a_section_that_claims_to_be_huge_is_refused() {
    let plain = compile("inlined.c", &["-O2", "-g"]);
    let mut compressed = plain.changed_by("objcopy", &["--compress-debug-sections=zlib"]);
    let header = [1u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
    for at in 0..compressed.data.len() - 24 {
        if compressed.data[at..].starts_with(&header) && compressed.data[at + 24] == 0x78 {
            compressed.data[at + 8..at + 16].copy_from_slice(&(1u64 << 50).to_le_bytes());
        }
    }
    let error = LineSections::read(&compressed.data, None).expect_err("a section too large");
    assert!(matches!(error, Error::Compressed { .. }), "{error}");
}
