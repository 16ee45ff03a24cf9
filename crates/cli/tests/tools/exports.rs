//! Formats that need the binary get what they need from it, and only from the right one.

use std::fs;

use fixtures::run;

use crate::fixture::Fixture;

#[test]
fn bolt_gets_local_names_and_jumps_by_offset() {
    let fixture = Fixture::new();
    let exported = fixture.printed(&["export", "--format", "bolt-fdata", "-o", "-"]);
    assert!(exported.lines().any(|line| line.contains("1 step/1 0")), "{exported}");
    assert!(exported.lines().any(|line| line.starts_with("1 main ")), "{exported}");
}

#[test]
fn a_stripped_binary_has_no_names_for_bolt() {
    let fixture = Fixture::new();
    run("strip", &[fixture.program.to_str().unwrap()]);
    let complaint = fixture.complaint(&["export", "--format", "bolt-fdata", "-o", "-"]);
    assert!(complaint.contains("use bolt-preagg"), "{complaint}");
}

#[test]
fn another_build_is_refused() {
    let fixture = Fixture::new();
    let other = Fixture::compiled(&["gcc", "-O2"]);
    fs::copy(&other.program, &fixture.program).unwrap();
    let complaint = fixture.complaint(&["export", "--format", "bolt-fdata", "-o", "x.fdata"]);
    assert!(complaint.contains("rebuilt since the recording"), "{complaint}");
    assert!(!fixture.path("x.fdata").exists());
}

#[test]
fn propeller_without_block_ids_says_how_to_get_them() {
    let complaint = Fixture::new().complaint(&["export", "--format", "propeller-bb", "-o", "-"]);
    assert!(complaint.contains("-fbasic-block-address-map"), "{complaint}");
}

/// Needs a large compiler, hence the variable.
#[test]
fn propeller_gets_the_ids_of_clang() {
    if std::env::var_os("STROBE_CONSUMERS").is_none_or(|value| value != "1") {
        return;
    }
    let fixture = Fixture::compiled(&["clang-19", "-O1", "-fbasic-block-address-map"]);
    let exported = fixture.printed(&["export", "--format", "propeller-bb", "-o", "-"]);
    assert!(exported.starts_with("v1") && exported.contains("f main"), "{exported}");
}

#[test]
fn lines_are_found_for_formats_that_have_them() {
    let fixture = Fixture::new();
    fixture.printed(&["export", "--format", "callgrind"]);
    let text = fs::read_to_string(fixture.path("profile.callgrind")).unwrap();
    assert!(text.contains("program.c"), "{text}");
}

#[test]
fn unknown_modules_are_answered_with_the_known() {
    let complaint = Fixture::new().complaint(&["export", "-f", "bolt-preagg", "-m", "libfoo", "-o", "-"]);
    assert!(complaint.contains("no module named libfoo; the profile has program-"), "{complaint}");
}

#[test]
fn a_flame_graph_is_an_svg_file() {
    let fixture = Fixture::new();
    fixture.printed(&["flame", "-o", "x.svg"]);
    let svg = fs::read_to_string(fixture.path("x.svg")).unwrap();
    assert!(svg.contains("<svg") && svg.contains("step (1,000 us"), "{svg}");
}
