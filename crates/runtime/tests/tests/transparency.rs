//! Programs that would notice: same output and same exit status with and without the runtime, at
//! the highest rate that the machine's timers give.

use std::sync::atomic::Ordering::Relaxed;

use strobe_runtime_tests::agent::{Agent, Settings};
use strobe_runtime_tests::{compare, compile};

#[track_caller]
fn check(program: &str) -> Agent {
    let agent = compare(&compile(program, &[]), &[], Settings::fast());
    agent.with_processes(|processes| {
        assert!(processes.first().is_some_and(|process| process.ticks() > 0), "the program was not profiled");
    });
    agent
}

#[test]
fn actions() {
    check("actions");
}

#[test]
fn masks() {
    check("masks");
}

#[test]
fn stacks() {
    check("stacks");
}

#[test]
fn jumps() {
    check("jumps");
}

#[test]
fn threads() {
    let agent = check("threads");
    agent.with_processes(|processes| {
        let control = processes[0].control();
        assert_eq!(control.threads.unprofiled.load(Relaxed), 0);
        assert!(control.threads.started.load(Relaxed) > 3000);
        assert!(control.threads.ended.load(Relaxed) > 3000);
        assert!(control.threads.n_areas.load(Relaxed) < 400, "areas are used again");
    });
}

#[test]
fn children_that_are_followed() {
    let agent = check("children");
    agent.with_processes(|processes| {
        let forked = processes.iter().filter(|process| process.hello.is_fork != 0);
        assert!(forked.clone().count() > 0);
        for child in forked {
            assert!(processes.iter().any(|process| process.hello.pid == child.hello.parent_pid));
        }
        assert!(processes.len() > 12, "{}", processes.len());
    });
}

#[test]
fn children_that_are_not_followed() {
    let agent = compare(&compile("children", &[]), &[], Settings { follow: false, ..Settings::fast() });
    agent.with_processes(|processes| {
        // The program replaces itself by itself at the end.
        assert_eq!(processes.len(), 1);
    });
}

#[test]
fn libraries() {
    let library = |factor: &str| compile("library", &["-shared", "-fPIC", &format!("-DFACTOR={factor}")]);
    let (one, other) = (library("3"), library("5"));
    let arguments = [one.to_str().expect("text"), other.to_str().expect("text")];
    let agent = compare(&compile("libraries", &[]), &arguments, Settings::fast());
    agent.with_processes(|processes| {
        let control = processes[0].control();
        assert_eq!(control.modules.unloads.load(Relaxed), 200);
        assert_ne!(control.modules.unloads_pending.load(Relaxed), 0, "the agent has not cleared any");
    });
}

#[test]
fn coroutines() {
    check("coroutines");
}
