//! The rules of recovery, on tables: every kind of run, before and after each save.
//!
//! The source is included: the runtime is a `no_std` library for the dynamic loader, which no test
//! can link.

#[path = "../../src/bursts/recover.rs"]
mod recover;

use recover::{Machine, Place, Scratch, recover, settled};
use wire::recovery::{Run, kind, saves};

const COPY: u64 = 0x10_0000;
const BASE: u64 = 0x40_0000;
const PLACE: Place = Place { copy: COPY, base: BASE };
const SCRATCH: Scratch = Scratch { rax: 0xa, rcx: 0xc, rdx: 0xd, flags: 0xd501, target: 0x7777 };
const ARITHMETIC: u64 = 0x8d5;

fn machine(offset: u64) -> Machine {
    Machine { rip: COPY + offset, rax: 1, rcx: 2, rdx: 3, flags: 0x202 }
}

fn run(copy: u32, original: u32, kind: u8) -> Run {
    Run { copy, original, kind, ..Run::default() }
}

#[track_caller]
fn check(runs: &[Run], offset: u64, expected: Option<Machine>) {
    assert_eq!(recover(&machine(offset), &SCRATCH, PLACE, runs), expected, "at offset {offset}");
}

#[test]
fn straight_runs_keep_everything_but_the_address() {
    let runs = [run(0x10, 0x500, kind::STRAIGHT), run(0x20, 0x900, kind::STRAIGHT)];
    check(&runs, 0x0f, None);
    check(&runs, 0x10, Some(Machine { rip: BASE + 0x500, ..machine(0x10) }));
    check(&runs, 0x1f, Some(Machine { rip: BASE + 0x50f, ..machine(0x1f) }));
    check(&runs, 0x20, Some(Machine { rip: BASE + 0x900, ..machine(0x20) }));
}

#[test]
fn probes_give_back_what_they_have_saved_so_far() {
    let saved = saves::RAX | saves::RDX | saves::FLAGS;
    let runs = [Run { saves: saved, save_end: [4, 8, 12, 0], ..run(0, 0x30, kind::PROBE) }];
    let before = Machine { rip: BASE + 0x30, ..machine(0) };
    check(&runs, 0, Some(before));
    check(&runs, 3, Some(before));
    check(&runs, 4, Some(Machine { rax: 0xa, ..before }));
    check(&runs, 8, Some(Machine { rax: 0xa, rdx: 0xd, ..before }));
    // `lahf; seto al` left SF, ZF, AF, PF and CF in the upper byte and OF in the lower one.
    check(&runs, 12, Some(Machine { rax: 0xa, rdx: 0xd, flags: 0x202 | ARITHMETIC, ..before }));
}

#[test]
fn flags_that_were_clear_become_clear() {
    let runs = [Run { saves: saves::FLAGS, save_end: [0, 0, 0, 0], ..run(0, 0x30, kind::PROBE) }];
    let interrupted = Machine { flags: 0x202 | ARITHMETIC, ..machine(0) };
    let clear = Scratch { flags: 0x0200, ..SCRATCH };
    let state = recover(&interrupted, &clear, PLACE, &runs).expect("a rule");
    assert_eq!(state.flags, 0x202);
}

#[test]
fn transfers_go_where_they_were_going() {
    for kind in [kind::FORWARD, kind::EXIT] {
        let runs = [Run { saves: saves::RCX, save_end: [6, 10, 0, 0], ..run(0, 0, kind) }];
        check(&runs, 0, Some(Machine { rip: 1, rax: 0xa, ..machine(0) }));
        check(&runs, 6, Some(Machine { rip: 0x7777, rax: 0xa, ..machine(0) }));
        check(&runs, 10, Some(Machine { rip: 0x7777, rax: 0xa, rcx: 0xc, ..machine(0) }));
    }
}

#[test]
fn system_calls_leave_their_own_return_address_behind() {
    let at = [run(0, 0x60, kind::SYSTEM_CALL)];
    check(&at, 0, Some(Machine { rip: BASE + 0x60, ..machine(0) }));
    let restarted = Machine { rcx: COPY + 2, ..machine(0) };
    let state = recover(&restarted, &SCRATCH, PLACE, &at).expect("a rule");
    assert_eq!(state, Machine { rip: BASE + 0x60, rcx: BASE + 0x62, ..restarted });

    let after = [Run { saves: saves::RAX, save_end: [9, 0, 0, 0], ..run(0, 0x62, kind::AFTER_SYSTEM_CALL) }];
    check(&after, 0, Some(Machine { rip: BASE + 0x62, rcx: BASE + 0x62, ..machine(0) }));
    check(&after, 9, Some(Machine { rip: BASE + 0x62, rcx: BASE + 0x62, rax: 0xa, ..machine(0) }));
}

#[test]
fn calls_are_taken_back_and_returns_are_made() {
    let on_stack = COPY + 0x505;
    let called = settled(&machine(0), &SCRATCH, &run(0, 0, kind::CALLED), on_stack);
    assert_eq!(called, Machine { rip: COPY + 0x500, ..machine(0) });
    let run = Run { saves: saves::RAX, ..run(0, 8, kind::RETURNING) };
    assert_eq!(settled(&machine(3), &SCRATCH, &run, on_stack), Machine { rip: on_stack, rax: 0xa, ..machine(3) });
}

#[test]
fn where_nothing_can_be_interrupted_there_is_no_rule() {
    check(&[], 0, None);
    check(&[run(0, 0, kind::NEVER)], 4, None);
    let outside = Machine { rip: COPY - 1, ..machine(0) };
    assert_eq!(recover(&outside, &SCRATCH, PLACE, &[run(0, 0, kind::STRAIGHT)]), None);
}
