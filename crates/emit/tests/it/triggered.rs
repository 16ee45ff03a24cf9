//! Copies whose checks lead from one version to the other.

use emit::{Counting, Events, Options, Probe, Trigger};
use emit_verify::Fault;
use flow::callgraph::{CallGraph, FunctionFacts};
use flow::checks::CheckPolicy;
use flow::graph::{BlockId, Digraph};
use flow::loops::Loops;
use flow::order::Order;
use flow::{ModuleFlow, Sequential};
use wire::clusters::{N_CLUSTERS, Version};
use wire::sample::EndReason;

use crate::events::NOTED;
use crate::fixture::{assemble, check, check_with, parse};
use crate::mutation::{
    every_bit_of_code_matters, every_fix_up_of_a_copy_matters, every_run_of_a_copy_matters,
    every_twin_of_a_copy_matters,
};
use crate::sample::sampled;
use crate::shapes::{COUNTED, SHAPES};

const CHECKED: &str = include_str!("../checked.S");

pub fn triggered(name: &str, version: Version, logs: bool) -> Probe {
    let policy: CheckPolicy = name.parse().expect("a policy");
    Probe::Exact(Counting::Triggered(Trigger { version, policy, logs }))
}

/// Versions with and without records; there is nothing else that they differ by in checking ones.
const KINDS: [(Version, bool); 4] = [
    (Version::Checking, false),
    (Version::Checking, true),
    (Version::Instrumented, false),
    (Version::Instrumented, true),
];

fn source() -> String {
    [SHAPES, COUNTED, CHECKED].concat()
}

#[test]
fn all_shapes_verify() {
    let file = assemble(&source());
    for name in CheckPolicy::PAPER_NAMES {
        for (version, logs) in KINDS {
            let copy = check(&parse(&file), "shapes", triggered(name, version, logs));
            let has_records = copy.statistics().leaving_for(EndReason::EventsFull) > 0;
            assert_eq!(has_records, logs && version == Version::Instrumented, "{name}, {version:?}");
        }
    }
}

#[test]
fn copies_verify_in_every_cluster() {
    let file = assemble(&source());
    let image = parse(&file);
    let flow = flow::analyze(&image, &Sequential);
    for cluster in 0..N_CLUSTERS {
        for (version, logs) in KINDS {
            let options = Options { cluster, probe: triggered("EC+L4", version, logs), events: Events::NONE };
            let copy = emit::translate(&image, &flow, options, &Sequential);
            assert_eq!(emit_verify::verify(&image, &flow, &copy), Ok(()), "{version:?} in cluster {cluster}");
        }
    }
}

/// Who goes on in the other version with one check more makes the same check there.
#[test]
fn both_versions_have_the_same_checks() {
    let file = assemble(&source());
    let n_checks = |name: &str, logs: bool| {
        let [checking, instrumented] = [Version::Checking, Version::Instrumented].map(|version| {
            let copy = check(&parse(&file), "shapes", triggered(name, version, logs));
            copy.statistics().checks
        });
        assert_eq!(checking, instrumented, "{name}");
        checking
    };
    for logs in [false, true] {
        let all = n_checks("orig", logs);
        for name in &CheckPolicy::PAPER_NAMES[1..] {
            assert!(n_checks(name, logs) < all, "{name}");
        }
        assert!(n_checks("EN+LN", logs) == 0 && n_checks("EC", logs) < n_checks("EL", logs));
    }
    assert!(n_checks("L4", true) > n_checks("L10", true) && n_checks("L4", false) > n_checks("L10", false));
}

#[test]
fn instrumented_copies_note_values() {
    let file = assemble(&[SHAPES, COUNTED, NOTED].concat());
    for name in CheckPolicy::PAPER_NAMES {
        check_with(&parse(&file), "noted", triggered(name, Version::Instrumented, false), Events::ALL);
    }
}

/// Translates by wrong facts, with every policy, and returns those whose copies the verifier
/// refuses for a cycle without a check. It believes the same facts, but walks through the copy.
fn policies_with_cycles(lie: impl Fn(&mut ModuleFlow)) -> Vec<&'static str> {
    let file = assemble(&source());
    let image = parse(&file);
    let mut flow = flow::analyze(&image, &Sequential);
    lie(&mut flow);
    let has_cycle = |name: &&str| {
        let options = Options { cluster: 1, probe: triggered(name, Version::Checking, true), events: Events::NONE };
        let copy = emit::translate(&image, &flow, options, &Sequential);
        match emit_verify::verify(&image, &flow, &copy).map_err(|error| error.fault) {
            Ok(()) => false,
            Err(Fault::Cycle) => true,
            Err(fault) => panic!("{name}: {fault}"),
        }
    };
    CheckPolicy::PAPER_NAMES.into_iter().filter(has_cycle).collect()
}

#[test]
fn loops_without_checks_are_noticed() {
    let no_loops = |flow: &mut ModuleFlow| {
        for function in &mut flow.functions {
            let blocks = Digraph::new(function.cfg.blocks.len(), Vec::new(), vec![BlockId(0)]);
            function.loops = Loops::new(&blocks, &Order::new(&blocks));
        }
    };
    assert_eq!(policies_with_cycles(|_| {}), [""; 0]);
    assert_eq!(policies_with_cycles(no_loops), ["orig", "EL", "EC", "EN", "L4", "L10", "EC+L4"]);
}

#[test]
fn recursion_without_checks_is_noticed() {
    let no_calls = |flow: &mut ModuleFlow| {
        let facts = FunctionFacts { address_taken: false, called_from_outside: false, calls_unknown: false };
        flow.calls = CallGraph::new(Vec::new(), vec![facts; flow.functions.len()]);
    };
    assert_eq!(policies_with_cycles(no_calls), ["EL", "EC", "EC+L4"]);
}

#[test]
fn naming_an_address_is_no_access() {
    let source = ".globl _start
        _start: nop
        1:      nopw 0(%rax,%rax,1)
                lea (%rdi,%rax), %rdi
                mov (%rdi), %rax
                dec %ecx
                jnz 1b
                ret";
    let file = assemble(source);
    let n_checks = |name| {
        let copy = check(&parse(&file), "a loop with one access", triggered(name, Version::Checking, false));
        copy.statistics().checks
    };
    assert_eq!(["EN+L0", "EN+L1"].map(n_checks), [1, 0]);
}

#[test]
fn nothing_is_noted_where_nothing_is_checked() {
    let source = ".globl _start
        _start: mov (%rsi), %rdx
        1:      mov (%rdi), %rax
                mov (%rdi,%rax), %rbx
                dec %ecx
                jnz 1b
                ret";
    let file = assemble(source);
    let n_events = |name| {
        let probe = triggered(name, Version::Instrumented, false);
        check_with(&parse(&file), "a boring loop", probe, Events::LOADS).statistics().events
    };
    // The return loads, too.
    assert_eq!(["orig", "L1", "L2", "LN"].map(n_events), [4, 4, 2, 4]);
}

/// All checks and the fewest, in every kind of copy; a run tries two of them.
fn subjects() -> impl Iterator<Item = Probe> {
    let policies = ["orig", "EC+L4"].into_iter();
    sampled(policies.flat_map(|name| KINDS.map(|(version, logs)| triggered(name, version, logs))), 4)
}

#[test]
fn every_bit_matters() {
    for probe in subjects() {
        every_bit_of_code_matters(&source(), probe, Events::NONE);
    }
}

#[test]
fn every_fix_up_and_every_run_matters() {
    let file = assemble(&source());
    for probe in subjects() {
        every_run_of_a_copy_matters(&file, probe, Events::NONE);
    }
    every_fix_up_of_a_copy_matters(&file, triggered("orig", Version::Instrumented, true), Events::NONE);
}

#[test]
fn every_twin_matters() {
    let file = assemble(&source());
    for version in [Version::Checking, Version::Instrumented] {
        every_twin_of_a_copy_matters(&file, triggered("EC+L4", version, true));
    }
}
