//! A profile goes to another machine and keeps its files, or goes public and keeps its secrets.

use std::fs;

use fixtures::run;

use crate::fixture::{Fixture, SECRET};

#[test]
fn an_archive_brings_the_binary_along() {
    let fixture = Fixture::new();
    let bytes = fs::read(&fixture.program).unwrap();
    fixture.printed(&["archive", "-o", "a.tar.zst"]);
    fs::remove_file(&fixture.program).unwrap();
    fixture.printed(&["archive", "--extract", "-o", "restored", "a.tar.zst"]);
    let profile = store::open(&fixture.path("restored/profile.strobe")).unwrap();
    assert_eq!(profile, store::open(&fixture.profile).unwrap());
    let archived = fixture.path("restored/files").join(&profile.modules[0].build_id);
    assert_eq!(fs::read(archived).unwrap(), bytes);
    // The names of local symbols are in the binary alone.
    let exported = fixture.printed(&["export", "-f", "bolt-fdata", "-o", "-", "restored/profile.strobe"]);
    assert!(exported.contains("1 step/1 0"), "{exported}");
    assert!(fixture.complaint(&["export", "-f", "bolt-fdata", "-o", "-"]).contains("no such file"));
}

#[test]
fn a_separate_debug_file_goes_along() {
    let fixture = Fixture::new();
    let program = fixture.program.to_str().unwrap();
    let debug_file = fixture.path("program.debug").to_str().unwrap().to_owned();
    run("objcopy", &["--only-keep-debug", program, &debug_file]);
    run("objcopy", &["--strip-debug", &format!("--add-gnu-debuglink={debug_file}"), program]);
    fixture.printed(&["archive", "-o", "a.tar.zst"]);
    fixture.printed(&["archive", "--extract", "-o", "restored", "a.tar.zst"]);
    let build_id = store::open(&fixture.profile).unwrap().modules[0].build_id.clone();
    let archived = fs::read(fixture.path(&format!("restored/files/{build_id}.debug"))).unwrap();
    assert_eq!(archived, fs::read(&debug_file).unwrap());
    fs::remove_file(&fixture.program).unwrap();
    fs::remove_file(&debug_file).unwrap();
    let annotated = fixture.printed(&["annotate", "step", "restored/profile.strobe"]);
    assert!(annotated.contains("program.c:1") && annotated.contains("ret"), "{annotated}");
}

#[test]
fn a_scrubbed_archive_tells_nothing() {
    let fixture = Fixture::new();
    fixture.printed(&["archive", "--scrub", "-o", "a.tar.zst"]);
    fixture.printed(&["archive", "--extract", "-o", "public", "a.tar.zst"]);
    let bytes = fs::read(fixture.path("public/profile.strobe")).unwrap();
    let folder = fixture.folder.path().to_str().unwrap();
    let text = String::from_utf8_lossy(&bytes);
    // The program's own file name stays; it is what was profiled.
    let without_program = text.replace(&format!("program-{SECRET}"), "");
    assert!(!without_program.contains(SECRET) && !text.contains(folder));
    assert_eq!(fs::read_dir(fixture.path("public/files")).unwrap().count(), 0);
    assert_eq!(store::open(&fixture.path("public/profile.strobe")).unwrap().functions[1].name, "step");
}

#[test]
fn binaries_that_changed_are_left_out_and_named() {
    let fixture = Fixture::new();
    fs::write(&fixture.program, "rebuilt").unwrap();
    let output = fixture.strobe(&["archive", "-o", "a.tar.zst"]);
    assert!(output.status.success());
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("rebuilt since the recording"), "{warning}");
}
