//! Builds small programs with gcc, and translates programs.

use std::process::Command;

use emit::{Events, ModuleCopy, Options, Probe};
use flow::{ModuleFlow, Sequential};
use image::Image;

/// Compiles or assembles, by the file's extension, and links. Returns the file.
pub fn build(extension: &str, source: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join(format!("fixture.{extension}"));
    let output = folder.path().join("fixture");
    std::fs::write(&input, source).expect("source written");
    let run = Command::new("gcc").args(flags).arg(&input).arg("-o").arg(&output).output();
    let run = run.unwrap_or_else(|error| panic!("gcc is needed for this test: {error}"));
    assert!(run.status.success(), "gcc: {}", String::from_utf8_lossy(&run.stderr));
    std::fs::read(&output).expect("output read")
}

/// Assembles a program at fixed addresses, text at 0x401000.
pub fn assemble(source: &str) -> Vec<u8> {
    build("S", source, &["-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"])
}

pub fn parse(file: &[u8]) -> Image<'_> {
    Image::parse(file).expect("gcc makes ELF files")
}

pub fn translate(image: &Image<'_>, probe: Probe) -> (ModuleFlow, ModuleCopy) {
    translate_with(image, probe, Events::default())
}

pub fn translate_with(image: &Image<'_>, probe: Probe, events: Events) -> (ModuleFlow, ModuleCopy) {
    let flow = flow::analyze(image, &Sequential);
    let copy = emit::translate(image, &flow, Options { cluster: 1, probe, events }, &Sequential);
    (flow, copy)
}

/// Translates and verifies.
#[track_caller]
pub fn check(image: &Image<'_>, name: &str, probe: Probe) -> ModuleCopy {
    check_with(image, name, probe, Events::default())
}

#[track_caller]
pub fn check_with(image: &Image<'_>, name: &str, probe: Probe, events: Events) -> ModuleCopy {
    let (flow, copy) = translate_with(image, probe, events);
    emit_verify::verify(image, &flow, &copy).unwrap_or_else(|fault| panic!("{name}, {probe:?}: {fault}"));
    copy
}
