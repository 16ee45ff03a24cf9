//! Ticks and what they leave in the shared memory.

use std::sync::atomic::Ordering::Relaxed;

use strobe_runtime_tests::agent::{Agent, Settings};
use strobe_runtime_tests::{compare, compile, run_natively, run_under, runtime};
use wire::sample::{Outcome, RIP, RSP};

#[test]
fn ticks_leave_samples_of_code_without_copies() {
    let agent = compare(&compile("work", &[]), &[], Settings::fast());
    agent.with_processes(|processes| {
        let [process] = processes else { panic!("{} processes", processes.len()) };
        let samples = process.samples();
        assert!(samples.len() > 3, "{} samples", samples.len());
        assert_eq!(samples.len() as u64, process.ticks());
        let in_program = samples.iter().filter(|sample| sample.header.outcome == Outcome::NoCopy as u8);
        for sample in in_program.clone() {
            let header = &sample.header;
            assert!(process.cluster.contains(header.registers[RIP]));
            assert!(header.stack_bytes > 0 && header.stack_bytes.is_multiple_of(8));
            assert!(header.tick_tsc < header.resume_tsc);
            assert_eq!(header.n_records, 0);
            assert_ne!(header.registers[RSP], 0);
        }
        assert!(in_program.count() * 2 > samples.len(), "most ticks are in the program's own loop");
        let cpu: Vec<u64> = samples.iter().map(|sample| sample.header.cpu_ns).collect();
        assert!(cpu.is_sorted());
        assert_eq!(process.control().threads.started.load(Relaxed), 1);
        assert_ne!(process.control().process.r_debug.load(Relaxed), 0);
    });
}

#[test]
fn without_session_nothing_happens() {
    let program = compile("work", &[]);
    let natively = run_natively(&program, &["1000"]);
    let preloaded =
        std::process::Command::new(&program).arg("1000").env("LD_PRELOAD", runtime()).output().expect("starts");
    assert_eq!(natively, preloaded);
}

#[test]
fn without_agent_the_program_runs_natively() {
    let program = compile("work", &[]);
    let natively = run_natively(&program, &["1000"]);
    let agent = Agent::start(Settings::fast());
    agent.stop();
    assert_eq!(natively, run_under(&agent, &program, &["1000"]));
}

#[test]
fn a_refused_or_unanswered_program_runs_natively() {
    let program = compile("work", &[]);
    for settings in [Settings { refuse: true, ..Settings::fast() }, Settings { mute: true, ..Settings::fast() }] {
        let agent = compare(&program, &["1000"], settings);
        agent.with_processes(|processes| assert!(processes.is_empty()));
    }
}

#[test]
fn a_mapping_that_is_in_the_way_is_reported_and_tried_again() {
    let agent = compare(&compile("work", &[]), &[], Settings { bad_proposals: 2, ..Settings::fast() });
    let failures = agent.failures();
    assert_eq!(failures.iter().map(|ready| (ready.error, ready.failed_file)).collect::<Vec<_>>(), [(17, 0), (17, 0)]);
    agent.with_processes(|processes| assert!(processes[0].ticks() > 0));
}

#[test]
fn the_no_op_variant_counts_only() {
    let agent = compare(&compile("work", &[]), &[], Settings { no_op: true, ..Settings::fast() });
    agent.with_processes(|processes| {
        let samples = processes[0].samples();
        assert!(!samples.is_empty());
        for sample in samples {
            assert_eq!(sample.header.outcome, Outcome::Skipped as u8);
            assert_eq!(sample.header.stack_bytes, 0);
        }
    });
}
