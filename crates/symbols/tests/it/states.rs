//! Files that are stripped, split, gone, rebuilt, or no programs at all.

use std::fs;

use crate::fixture::*;
use profile::Symbols as _;
use symbols::{ArchivedFiles, BuildIdText, Status};

#[test]
fn a_debug_file_gives_lines_to_a_stripped_program_as_soon_as_it_is_there() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let outer = addresses_of(&program, "outer");
    let debug_file = workshop.name("program.debug");
    run("objcopy", &["--only-keep-debug", &program, &debug_file]);
    run("objcopy", &["--strip-all", &format!("--add-gnu-debuglink={debug_file}"), &program]);
    fs::rename(&debug_file, workshop.path("away")).unwrap();
    let profile = profile(&program, BUILD_ID, &[(&outer, "outer")]);

    let without = resolved(&profile, &workshop.offline(), outer.clone());
    assert_eq!(without.status(MODULE), Status::NoDebugInfo);
    assert_eq!(summary(&without.frames(MODULE, outer.start)), "outer:0");

    fs::rename(workshop.path("away"), &debug_file).unwrap();
    let with = resolved(&profile, &workshop.offline(), outer.clone());
    assert_eq!(with.status(MODULE), Status::Ok);
    assert!(shows_inlining(&with, outer.clone()));

    fs::remove_file(&debug_file).unwrap();
    assert!(shows_inlining(&resolved(&profile, &workshop.offline(), outer.clone()), outer));
}

#[test]
fn without_symbols_the_profile_names_functions() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let (outer, main) = (addresses_of(&program, "outer"), addresses_of(&program, "main"));
    run("strip", &[&program]);
    let profile = profile(&program, BUILD_ID, &[(&outer, "_Z5outeri"), (&main, "")]);
    let symbolizer = resolved(&profile, &workshop.offline(), outer.start..main.end);
    let frames = symbolizer.frames(MODULE, outer.start + 2);
    assert_eq!((frames.len(), frames[0].function.as_str()), (1, "outer(int)"));
    assert_eq!(symbolizer.function_name(MODULE, outer.start + 2).raw, "_Z5outeri");
    assert_eq!(symbolizer.frames(MODULE, main.start + 2), []);
    assert_eq!(symbolizer.function_name(MODULE, main.start + 2).raw, format!("fn_{:x}", main.start));
}

#[test]
fn names_of_a_library_come_from_its_dynamic_symbols() {
    let workshop = Workshop::new();
    let library = workshop.compile_inlining(&["-shared", "-fPIC"]);
    let outer = addresses_of(&library, "outer");
    run("strip", &[&library]);
    let symbolizer = resolved(&profile(&library, BUILD_ID, &[]), &workshop.offline(), outer.clone());
    assert_eq!(summary(&symbolizer.frames(MODULE, outer.start + 1)), "outer:0");
    assert_eq!(symbolizer.status(MODULE), Status::NoDebugInfo);
}

#[test]
fn another_build_is_reported_and_not_believed() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let outer = addresses_of(&program, "outer");
    let recorded = "ffff".repeat(10);
    let symbolizer = resolved(&profile(&program, &recorded, &[(&outer, "old")]), &workshop.offline(), outer.clone());
    let expected = Status::BuildIdMismatch { expected: recorded, found: Some(BUILD_ID.to_owned()) };
    assert_eq!(symbolizer.status(MODULE), expected);
    assert!(all_frames(&symbolizer, outer).iter().all(|frames| summary(frames) == "old:0"));
    assert_eq!(workshop.kept("symbols"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_is_no_program_is_reported() {
    let workshop = Workshop::new();
    fs::write(workshop.path("text"), "not a program").unwrap();
    run("mkfifo", &[&workshop.name("pipe")]);
    for name in ["text", "pipe", "."] {
        let symbolizer = resolved(&profile(&workshop.name(name), "", &[]), &workshop.offline(), 0..1);
        assert!(matches!(symbolizer.status(MODULE), Status::Unreadable { .. }), "{name}");
        assert_eq!(symbolizer.frames(MODULE, 0), []);
    }
    let gone = resolved(&profile("/no/such/program", "", &[]), &workshop.offline(), 0..1);
    assert_eq!(gone.status(MODULE), Status::Missing);
    let kernel = resolved(&profile("[vdso]", BUILD_ID, &[(&(16..32), "clock")]), &workshop.offline(), 16..17);
    assert_eq!(kernel.status(MODULE), Status::NoDebugInfo);
    assert_eq!(kernel.function_name(MODULE, 20).raw, "clock");
}

#[test]
fn archived_files_go_by_the_build_id_that_they_have() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let files = workshop.path("files");
    fs::create_dir(&files).unwrap();
    let [own, foreign] = [BUILD_ID, "ffee"].map(|text| BuildIdText::new(text).unwrap());
    for name in [BUILD_ID, "ffee"] {
        fs::copy(&program, files.join(name)).unwrap();
    }
    let archived = ArchivedFiles::beside(&workshop.path("profile.strobe")).unwrap();
    assert_eq!(archived.binary(&own), Some(files.join(BUILD_ID)));
    assert_eq!(archived.binary(&foreign), None);
    assert_eq!(archived.debug_path(&own), None);
    assert_eq!(ArchivedFiles::beside(&workshop.path("elsewhere/profile.strobe")), None);
}
