//! Bursts in a copy made by hand.
//!
//! The copy of the loop in `spin.c` records each round and counts it as a check:
//!
//! ```text
//!      0  mov gs:[SAVED_RAX], rax       9 bytes    probe of the loop, reached by the tick or over the back edge
//!      9  mov rax, gs:[CURSOR]          9
//!     18  mov dword [rax], record       6
//!     24  add rax, 4                    4          flags are dead here
//!     28  mov gs:[CURSOR], rax          9
//!     37  mov rax, gs:[SAVED_RAX]       9
//!     46  dec dword gs:[CHECKS]         8
//!     54  jz exit                       6
//!     60  imul rax, rax, 31; add rax, rdi; dec rdi     10     straight
//!     70  jnz 0                         6
//!     76  ret, for which the burst ends: leave by `exit` with the address of the original's
//! ```
//!
//! This is not how the emitter does it (flags, limits, times), but it is all that the runtime sees
//! of it.

use strobe_runtime_tests::agent::{Copies, Settings};
use strobe_runtime_tests::copy::{Code, Symbols};
use strobe_runtime_tests::{compare, compile};
use wire::recovery::{Run, kind, saves};
use wire::sample::{EndReason, Outcome, RIP};
use wire::thread::{offset, thread_state};

const EXIT_FULL: usize = 128;
const EXIT_RETURN: usize = 256;

/// The end of a burst at `original`, as an exit stub does it.
fn exit(code: &mut Code, reason: EndReason, original: u64) {
    code.at_area(&[0xc7], 0x04, offset::END_REASON, &(reason as u32).to_le_bytes());
    code.store_rax(offset::SAVED_RAX);
    code.bytes(&[0x48, 0xb8]).bytes(&original.to_le_bytes());
    code.store_rax(offset::TARGET);
    code.load_rax(offset::SAVED_RAX);
    code.at_area(&[0xc7], 0x04, offset::STATE, &thread_state::ENDED.to_le_bytes());
    code.at_area(&[0xff], 0x24, offset::TARGET, &[]);
}

fn fill(copies: &mut Copies<'_>) {
    let program = std::fs::read_link(format!("/proc/{}/exe", copies.pid)).expect("the process lives");
    let spin = Symbols::of(&program).address("spin");
    let loop_start = copies.cluster.lo + spin + 2;
    let record = (loop_start - copies.cluster.lo) as u32;
    let mut code = Code::default();
    code.store_rax(offset::SAVED_RAX).load_rax(offset::CURSOR);
    code.bytes(&[0xc7, 0x00]).bytes(&record.to_le_bytes()).bytes(&[0x48, 0x83, 0xc0, 0x04]);
    code.store_rax(offset::CURSOR).load_rax(offset::SAVED_RAX);
    code.at_area(&[0xff], 0x0c, offset::CHECKS, &[]).jump(&[0x0f, 0x84], EXIT_FULL);
    assert_eq!(code.0.len(), 60);
    code.bytes(&[0x48, 0x6b, 0xc0, 0x1f, 0x48, 0x01, 0xf8, 0x48, 0xff, 0xcf]).jump(&[0x0f, 0x85], 0);
    code.jump(&[0xe9], EXIT_RETURN);
    code.0.resize(EXIT_FULL, 0xcc);
    exit(&mut code, EndReason::Full, loop_start);
    code.0.resize(EXIT_RETURN, 0xcc);
    exit(&mut code, EndReason::Instruction, loop_start + 12);
    copies.write(0, &code.0);

    let at_loop = record;
    let run = |copy: usize, original: u32, kind: u8| Run { copy: copy as u32, original, kind, ..Run::default() };
    let exit_runs = |start: usize, original: u32| {
        // Up to the load of the target, the thread is still at `original`; rax is saved after 21
        // bytes. Then the target is in rax, then stored.
        [
            Run { saves: saves::RAX, save_end: [21, 0, 0, 0], ..run(start, original, kind::PROBE) },
            Run { save_end: [9, 0, 0, 0], ..run(start + 31, 0, kind::EXIT) },
        ]
    };
    let mut runs = vec![
        Run { saves: saves::RAX, save_end: [9, 0, 0, 0], ..run(0, at_loop, kind::PROBE) },
        // The registers are as in the original; so is rax in `saved_rax`.
        run(60, at_loop, kind::STRAIGHT),
        // In the copy the branch is longer.
        run(70, at_loop + 10, kind::PROBE),
        run(76, at_loop + 12, kind::PROBE),
    ];
    runs.extend(exit_runs(EXIT_FULL, at_loop));
    runs.extend(exit_runs(EXIT_RETURN, at_loop + 12));
    copies.module(copies.cluster.lo, code.0.len() as u64, &runs);

    copies.map(loop_start, 0, true);
    for within in [4, 7] {
        copies.map(loop_start + within, 60 + within as u32, false);
    }
}

#[test]
fn bursts_run_are_recorded_and_leave_no_trace_in_the_program() {
    let program = compile("spin", &[]);
    let settings = Settings { burst_checks: 2_000, copies: Some(fill), ..Settings::fast() };
    let agent = compare(&program, &[], settings);
    agent.with_processes(|processes| {
        let process = &processes[0];
        let samples = process.samples();
        let bursts: Vec<_> = samples.iter().filter(|sample| sample.header.outcome == Outcome::Burst as u8).collect();
        assert!(bursts.len() > 5, "{} bursts of {} samples", bursts.len(), samples.len());
        let record = (Symbols::of(&program).address("spin") + 2) as u32;
        let mut full = 0;
        for burst in &bursts {
            let header = &burst.header;
            assert!(burst.records.iter().all(|&each| each == record));
            assert_eq!(header.checks_planned, 2_000);
            assert!(process.cluster.contains(header.registers[RIP]));
            match EndReason::from_u8(header.end_reason) {
                Some(EndReason::Full) => {
                    full += 1;
                    assert_eq!((header.checks_left, header.n_records), (0, 2_000));
                    assert_eq!(header.end_pc, process.cluster.lo + u64::from(record));
                }
                Some(EndReason::Signal) => {
                    let done = header.checks_planned - header.checks_left;
                    assert!(header.n_records.abs_diff(done) <= 1, "{} records, {done} checks", header.n_records);
                    let end = header.end_pc - process.cluster.lo;
                    assert!((u64::from(record)..=u64::from(record) + 12).contains(&end), "ended at {end:x}");
                }
                reason => assert_eq!(reason, Some(EndReason::Instruction)),
            }
        }
        assert!(full > 0, "no burst of full length");
    });
}

#[test]
fn signals_end_bursts() {
    // Long enough for signals to come, and not too long for a segment: the copy does not look at
    // the limit.
    let settings = Settings { burst_checks: 60_000, copies: Some(fill), ..Settings::fast() };
    let agent = compare(&compile("spin", &[]), &[], settings);
    agent.with_processes(|processes| {
        let ended = processes[0].control().process.bursts_ended_by_signals.load(std::sync::atomic::Ordering::Relaxed);
        assert!(ended > 0);
    });
}
