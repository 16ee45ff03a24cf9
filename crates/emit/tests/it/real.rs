//! Programs and libraries as they are installed: every copy must verify. A run tries a third of the
//! kinds of copies of each (`sample`).

use std::process::Command;

use emit::{Counting, Events, Options, Probe};
use flow::Sequential;
use image::Image;
use wire::clusters::Version;

use crate::sample::sampled;
use crate::triggered::triggered;

const BURSTS: [Probe; 2] = [Probe::Trace, Probe::None];
/// All that exact mode counts; calling contexts are always with something else.
const EXACT: [Probe; 4] = [
    Probe::Exact(Counting::Blocks),
    Probe::Exact(Counting::Paths),
    Probe::Exact(Counting::CONTEXT_PATHS),
    Probe::Exact(Counting::CONTEXT_CYCLES),
];

#[track_caller]
fn verify(path: &str, min_functions: u64) {
    let noting = [Probe::Exact(Counting::Blocks), Probe::Trace].map(|probe| (probe, Events::ALL));
    let triggered = [
        triggered("EC", Version::Checking, true),
        triggered("orig", Version::Instrumented, true),
        triggered("EC+L4", Version::Instrumented, true),
    ];
    let plain = BURSTS.into_iter().chain(EXACT).chain(triggered).map(|probe| (probe, Events::NONE));
    verify_with(path, min_functions, plain.chain(noting), 3);
}

/// One of so many kinds is tried.
#[track_caller]
fn verify_with(path: &str, min_functions: u64, kinds: impl IntoIterator<Item = (Probe, Events)>, one_in: usize) {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let image = Image::parse(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let flow = flow::analyze(&image, &Sequential);
    for (probe, events) in sampled(kinds.into_iter(), one_in) {
        let copy = emit::translate(&image, &flow, Options { cluster: 1, probe, events }, &Sequential);
        emit_verify::verify(&image, &flow, &copy).unwrap_or_else(|fault| panic!("{path}, {probe:?}: {fault}"));
        let statistics = copy.statistics();
        assert!(statistics.functions >= min_functions, "{path}: {statistics:?}");
        assert_eq!(copy.entries().count() as u64, statistics.instructions, "{path}");
    }
}

#[test]
fn a_compressor() {
    verify("/usr/bin/gzip", 100);
}

#[test]
fn a_shell() {
    verify("/usr/bin/bash", 1000);
}

#[test]
fn interpreters() {
    verify("/usr/bin/perl", 1000);
    verify("/usr/bin/python3.11", 1000);
}

#[test]
fn the_c_library_and_its_loader() {
    verify("/lib/x86_64-linux-gnu/libc.so.6", 1000);
    verify("/lib64/ld-linux-x86-64.so.2", 100);
}

#[test]
fn hand_written_assembly() {
    verify("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 1000);
}

#[test]
fn exceptions() {
    verify("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 1000);
}

#[test]
fn a_compiler() {
    let run = Command::new("gcc").arg("-print-prog-name=cc1").output().expect("gcc is needed for this test");
    let kinds = [Probe::Trace, Probe::Exact(Counting::Paths)].map(|probe| (probe, Events::NONE));
    verify_with(String::from_utf8_lossy(&run.stdout).trim(), 10_000, kinds, 2);
}
