//! Exact mode, with copies made by hand (see `exact.c`): what threads count in them is exact,
//! whatever signals come.

use std::sync::atomic::Ordering::Relaxed;

use strobe_runtime_tests::agent::{Agent, Copies, Process, Settings};
use strobe_runtime_tests::copy::{ExactCopy, Symbols};
use strobe_runtime_tests::{compare, compile, run_natively, run_under};
use wire::clusters::LANDING;
use wire::control::NativeReason;

/// Cells of the copies.
const ROUNDS: u32 = 0;
const HANDLED: u32 = 1;
const CALLS: u32 = 2;
const FORKS: u32 = 3;
const UNMAPS: u32 = 4;
const PATHS: u32 = 5;
/// Bytes of a landing, a jump, and the start of a path.
const LAND_BYTES: usize = 43;
const JUMP_BYTES: usize = 5;
const START_BYTES: usize = 12;
/// What a path register holds over calls.
const PATH: u32 = 7;

fn fill(copies: &mut Copies<'_>) {
    let program = std::fs::read_link(format!("/proc/{}/exe", copies.pid)).expect("the process lives");
    if program.file_name().is_none_or(|name| name != "exact") {
        return;
    }
    let symbols = Symbols::of(&program);
    let address = |symbol: &str| symbols.address(symbol) as u32;
    let mut copy = ExactCopy { base: copies.cluster.lo, ..ExactCopy::default() };

    let rounds = address("rounds");
    copy.twin(rounds, true);
    copy.straight(rounds, &[0x31, 0xc0]);
    let again = copy.twin(rounds + 2, true);
    copy.count(rounds + 2, ROUNDS);
    copy.straight(rounds + 2, &[0x48, 0x6b, 0xc0, 0x1f, 0x48, 0x01, 0xf8, 0x48, 0xff, 0xcf]);
    copy.jump_if_not_zero(rounds + 12, again);
    copy.give_back(rounds + 14);

    let handler = address("handler");
    copy.twin(handler, true);
    copy.count(handler, HANDLED);
    let increment_end = copies.cluster.copy_base + copy.code.0.len() as u64 + 8;
    let distance = (copies.cluster.lo + u64::from(address("handled"))).wrapping_sub(increment_end) as u32;
    let mut increment = vec![0xf0, 0x48, 0xff, 0x05];
    increment.extend_from_slice(&distance.to_le_bytes());
    copy.straight(handler, &increment);
    copy.give_back(handler + 8);

    let caller = address("caller");
    copy.twin(caller, true);
    copy.straight(caller, &[0x53, 0x48, 0x89, 0xfb]);
    let again = copy.twin(caller + 4, true);
    copy.start_path(caller + 4, PATH);
    copy.straight(caller + 4, &[0x48, 0x8b, 0x7b, 0x08, 0x48, 0x8b, 0x73, 0x10, 0x48, 0x8b, 0x53, 0x18]);
    copy.call_at_rbx(caller + 16);
    let behind = copy.code.0.len() + LAND_BYTES + JUMP_BYTES + START_BYTES;
    copy.land(caller + 18);
    copy.jump(caller + 18, behind);
    // What does not return comes by the map, and then the path is lost.
    copy.twin(caller + 18, true);
    copy.start_path(caller + 18, 0);
    assert_eq!(copy.code.0.len(), behind);
    copy.add_path(caller + 18, PATHS);
    copy.count(caller + 18, CALLS);
    copy.straight(caller + 18, &[0x48, 0x89, 0x43, 0x28, 0x48, 0xff, 0x4b, 0x20]);
    copy.jump_if_not_zero(caller + 26, again);
    copy.straight(caller + 28, &[0x5b]);
    copy.give_back(caller + 29);

    let forks = address("forks");
    copy.twin(forks, true);
    copy.straight(forks, &[0x53, 0x48, 0x89, 0xfb]);
    let again = copy.twin(forks + 4, true);
    copy.straight(forks + 4, &[0x89, 0xd8, 0x83, 0xe0, 0x01, 0x83, 0xc0, 0x39]);
    copy.system_call(forks + 12);
    // The child never comes here: it goes on natively.
    copy.twin(forks + 14, false);
    copy.count(forks + 14, FORKS);
    copy.straight(forks + 14, &[0x85, 0xc0]);
    let parent = copy.code.0.len() + 6;
    copy.jump_if_not_zero(forks + 16, parent);
    copy.straight(forks + 27, &[0x48, 0xff, 0xcb]);
    copy.jump_if_not_zero(forks + 30, again);
    copy.straight(forks + 32, &[0x5b]);
    copy.give_back(forks + 33);

    let unmaps = address("unmaps");
    copy.twin(unmaps, true);
    copy.straight(unmaps, &[0x31, 0xf6, 0xb8, 11, 0, 0, 0]);
    copy.system_call(unmaps + 7);
    copy.twin(unmaps + 9, true);
    copy.count(unmaps + 9, UNMAPS);
    copy.give_back(unmaps + 9);

    let ends = address("ends");
    copy.twin(ends, true);
    copy.straight(ends, &[0x31, 0xff, 0xb8, 60, 0, 0, 0]);
    copy.system_call(ends + 7);

    copies.write(0, &copy.code.0);
    copies.module(copies.cluster.lo, copy.code.0.len() as u64, &copy.runs);
    for &(last_byte, place) in &copy.landings {
        copies.map(copies.cluster.lo + u64::from(last_byte), place | LANDING, false);
    }
    for &(original, twin, is_leader) in &copy.twins {
        copies.map(copies.cluster.lo + u64::from(original), twin, is_leader);
    }
}

fn settings() -> Settings {
    Settings { exact: true, copies: Some(fill), ..Settings::fast() }
}

fn native(process: &Process, reason: NativeReason) -> u64 {
    process.control().exact.native[reason as usize].load(Relaxed)
}

fn counts(process: &Process) -> [u64; 6] {
    [ROUNDS, HANDLED, CALLS, FORKS, UNMAPS, PATHS].map(|cell| process.cell(cell))
}

#[test]
fn everything_is_counted() {
    let agent = compare(&compile("exact", &[]), &[], settings());
    agent.with_processes(|processes| {
        let process = &processes[0];
        assert_eq!(counts(process), [30_000_000, 0, 40_000, 50, 1, 40_000 * u64::from(PATH)]);
        assert_eq!(native(process, NativeReason::Kernel), 20_000);
        assert!(native(process, NativeReason::Runtime) >= 20_000);
        assert_eq!(native(process, NativeReason::Abandoned), 0);
        assert_eq!(native(process, NativeReason::SystemCall), 0);
        assert_eq!(process.control().threads.started.load(Relaxed), 106);
        assert_eq!(process.control().threads.ended.load(Relaxed), 105);
        assert!(process.control().threads.n_areas.load(Relaxed) < 10, "areas are used again");
        assert_eq!(process.control().exact.abandoned_tsc.load(Relaxed), 0);
        assert!(process.control().exact.entries.load(Relaxed) > 40_000);
    });
}

#[test]
fn signals_lose_no_count_and_make_none_twice() {
    let program = compile("exact", &[]);
    let natively = run_natively(&program, &["signals"]);
    let agent = Agent::start(settings());
    let under = run_under(&agent, &program, &["signals"]);
    agent.stop();
    assert_eq!(String::from_utf8_lossy(&natively.stdout), String::from_utf8_lossy(&under.stdout));
    assert!(under.status.success());
    let handled: u64 = String::from_utf8_lossy(&under.stderr).trim().parse().expect("a number");
    assert!(handled > 100, "{handled} signals");
    agent.with_processes(|processes| {
        let [rounds, counted, calls, forks, unmaps, paths] = counts(&processes[0]);
        assert_eq!([rounds, calls, forks, unmaps], [30_000_000, 40_000, 50, 1]);
        assert_eq!(paths, 40_000 * u64::from(PATH), "no path is lost over a call");
        // In a thread that is being made, handlers run natively.
        assert!(counted <= handled && handled - counted < 100, "{counted} of {handled} signals");
    });
}

#[test]
fn an_agent_that_does_not_answer_is_given_up() {
    let agent = compare(&compile("exact", &[]), &[], Settings { silent: true, ..settings() });
    agent.with_processes(|processes| {
        let process = &processes[0];
        assert_ne!(process.control().exact.abandoned_tsc.load(Relaxed), 0);
        assert_eq!(process.control().exact.entries.load(Relaxed), 0);
        assert_eq!(counts(process), [0; 6]);
    });
}

#[track_caller]
fn check(program: &str) {
    let agent = compare(&compile(program, &[]), &[], settings());
    agent.with_processes(|processes| {
        assert!(processes.iter().all(|process| process.control().exact.requests.load(Relaxed) > 0));
        assert!(processes.iter().all(|process| process.control().exact.abandoned_tsc.load(Relaxed) == 0));
    });
}

#[test]
fn programs_without_copies_run_as_ever() {
    for program in ["actions", "masks", "stacks", "jumps", "threads", "coroutines"] {
        check(program);
    }
}

#[test]
fn libraries_come_and_go() {
    let library = |factor: &str| compile("library", &["-shared", "-fPIC", &format!("-DFACTOR={factor}")]);
    let (one, other) = (library("3"), library("5"));
    let arguments = [one.to_str().expect("text"), other.to_str().expect("text")];
    let agent = compare(&compile("libraries", &[]), &arguments, settings());
    agent.with_processes(|processes| {
        let control = processes[0].control();
        assert_eq!(control.modules.unloads.load(Relaxed), 200);
        assert_eq!(control.modules.unloads_pending.load(Relaxed), 0, "nobody has to leave");
    });
}

#[test]
fn children_join_at_once() {
    let agent = compare(&compile("children", &[]), &[], settings());
    agent.with_processes(|processes| {
        assert!(processes.iter().filter(|process| process.hello.is_fork != 0).count() > 6);
    });
}
