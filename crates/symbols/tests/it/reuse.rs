//! What outlives a run.

use std::fs;

use crate::fixture::*;
use symbols::Status;

#[test]
fn the_second_use_needs_no_binary() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let (outer, main) = (addresses_of(&program, "outer"), addresses_of(&program, "main"));
    let profile = profile(&program, BUILD_ID, &[(&main, "")]);
    let first = resolved(&profile, &workshop.offline(), outer.clone());
    assert!(shows_inlining(&first, outer.clone()));
    assert_eq!(first.status(MODULE), Status::Ok);

    fs::remove_file(&program).unwrap();
    let mut second = resolved(&profile, &workshop.offline(), outer.clone());
    assert_eq!(all_frames(&second, outer.clone()), all_frames(&first, outer));
    assert_eq!(second.status(MODULE), Status::Missing);
    resolve(&mut second, main.clone());
    assert_eq!(second.function_name(MODULE, main.start + 1).raw, format!("fn_{:x}", main.start));
}

#[test]
fn a_moved_program_is_known_by_its_build() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let outer = addresses_of(&program, "outer");
    resolved(&profile(&program, BUILD_ID, &[]), &workshop.offline(), outer.clone());
    let elsewhere = profile("/no/such/program", &BUILD_ID.to_uppercase(), &[]);
    assert!(shows_inlining(&resolved(&elsewhere, &workshop.offline(), outer.clone()), outer));
}

#[test]
fn new_addresses_join_those_known_before() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let (outer, main) = (addresses_of(&program, "outer"), addresses_of(&program, "main"));
    let profile = profile(&program, BUILD_ID, &[]);
    resolved(&profile, &workshop.offline(), outer.clone());
    resolved(&profile, &workshop.offline(), main.clone());
    fs::remove_file(&program).unwrap();
    let mut third = resolved(&profile, &workshop.offline(), outer.clone());
    resolve(&mut third, main.clone());
    assert!(shows_inlining(&third, outer));
    assert!(all_frames(&third, main).iter().all(|frames| summary(frames) == "main:7"));
    assert_eq!(workshop.kept("symbols").len(), 1);
}

#[test]
fn a_damaged_cache_is_ignored_and_rewritten() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let outer = addresses_of(&program, "outer");
    let profile = profile(&program, BUILD_ID, &[]);
    let first = resolved(&profile, &workshop.offline(), outer.clone());
    let [table] = &workshop.kept("symbols")[..] else { panic!("one table") };
    let intact = fs::read(table).unwrap();
    let damages: [Vec<u8>; 3] = [
        Vec::new(),
        intact[..intact.len() / 2].to_vec(),
        intact.iter().enumerate().map(|(at, byte)| if at == 60 { byte ^ 4 } else { *byte }).collect(),
    ];
    for damaged in damages {
        fs::write(table, damaged).unwrap();
        let second = resolved(&profile, &workshop.offline(), outer.clone());
        assert_eq!(all_frames(&second, outer.clone()), all_frames(&first, outer.clone()));
        assert_eq!(fs::read(table).unwrap(), intact);
    }
}

#[test]
fn a_folder_that_cannot_be_written_costs_only_time() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let outer = addresses_of(&program, "outer");
    fs::write(workshop.path("cache"), "a file, not a folder").unwrap();
    let symbolizer = resolved(&profile(&program, BUILD_ID, &[]), &workshop.offline(), outer.clone());
    assert!(shows_inlining(&symbolizer, outer));
}

#[test]
fn a_file_without_build_id_is_known_until_it_changes() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&["-Wl,--build-id=none"]);
    let outer = addresses_of(&program, "outer");
    let profile = profile(&program, "", &[]);
    resolved(&profile, &workshop.offline(), outer.clone());
    assert!(shows_inlining(&resolved(&profile, &workshop.offline(), outer.clone()), outer.clone()));
    assert_eq!(workshop.kept("symbols").len(), 1);
    fs::write(workshop.path("longer"), [fs::read(&program).unwrap(), vec![0]].concat()).unwrap();
    fs::rename(workshop.path("longer"), &program).unwrap();
    resolved(&profile, &workshop.offline(), outer);
    assert_eq!(workshop.kept("symbols").len(), 2);
}
