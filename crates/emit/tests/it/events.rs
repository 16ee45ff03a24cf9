//! Copies that note what instructions load.

use emit::{Counting, Events, Probe};
use wire::sample::EndReason;

use crate::fixture::{assemble, check_with, parse};
use crate::mutation::{every_bit_of_code_matters, every_fix_up_of_a_copy_matters, every_run_of_a_copy_matters};
use crate::shapes::{COUNTED, SHAPES};

const LOADS: &str = include_str!("../loads.S");
const EVENTS: Events = Events { loads: true };
const COUNTINGS: [Counting; 4] = [Counting::Nothing, Counting::Blocks, Counting::Paths, Counting::ContextPaths];

#[test]
fn all_shapes_verify() {
    let file = assemble(&[SHAPES, COUNTED, LOADS].concat());
    for counting in COUNTINGS {
        let copy = check_with(&parse(&file), "shapes", Probe::Exact(counting), EVENTS);
        let statistics = copy.statistics();
        assert_eq!(statistics.leaving_for(EndReason::EventsFull), statistics.events);
        assert!(statistics.probes_dead_register > 0 && statistics.probes_spilled > 0, "{statistics:?}");
    }
}

#[test]
fn every_move_to_a_whole_register_is_noted_and_other_loads_are_counted() {
    let file = assemble(&format!(".globl _start\n_start: call flags_dead\ncall ends_block\ncall not_noted\n{LOADS}"));
    let copy = check_with(&parse(&file), "loads", Probe::Exact(Counting::Nothing), EVENTS);
    assert_eq!((copy.statistics().events, copy.statistics().loads_not_noted), (13, 4));
    let without = check_with(&parse(&file), "loads", Probe::Exact(Counting::Nothing), Events::default());
    assert_eq!((without.statistics().events, without.statistics().loads_not_noted), (0, 0));
}

#[test]
fn every_bit_matters() {
    let source = format!(".globl _start\n_start: call flags_dead\ncall ends_block\n{LOADS}");
    every_bit_of_code_matters(&source, Probe::Exact(Counting::Blocks), EVENTS);
}

#[test]
fn every_fix_up_and_every_run_matters() {
    let file = assemble(&format!(".globl _start\n_start: call flags_dead\ncall ends_block\n{LOADS}"));
    every_fix_up_of_a_copy_matters(&file, Probe::Exact(Counting::Nothing), EVENTS);
    every_run_of_a_copy_matters(&file, Probe::Exact(Counting::Blocks), EVENTS);
}
