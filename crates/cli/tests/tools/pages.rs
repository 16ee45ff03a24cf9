//! The manual, the completions, and a live view without a terminal.

use std::fs;
use std::process::Command;

use crate::fixture::Fixture;

#[test]
fn manual_pages_can_be_formatted() {
    let fixture = Fixture::new();
    fixture.printed(&["man", "-o", "pages"]);
    let page = fs::read_to_string(fixture.path("pages/strobe-diff.1")).unwrap();
    assert!(page.contains(".SH EXAMPLES") && page.contains("fail\\-above"), "{page}");
    assert!(fixture.path("pages/strobe.1").exists());
}

#[test]
fn bash_understands_its_completions() {
    let fixture = Fixture::new();
    fs::write(fixture.path("completions"), fixture.printed(&["completions", "bash"])).unwrap();
    let status = Command::new("bash").arg("-n").arg(fixture.path("completions")).status();
    assert!(status.expect("bash is needed").success());
}

#[test]
fn top_needs_a_terminal() {
    let complaint = Fixture::new().complaint(&["top"]);
    assert!(complaint.contains("needs a terminal"), "{complaint}");
}
