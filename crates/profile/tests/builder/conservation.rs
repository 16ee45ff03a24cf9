//! Any program, any run: counts of complete traces are exact, in one burst or in many.

use fixtures::program::{Chance, Program, Stmt};
use profile::builder::{Options, Taken};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::replay::{At, Piece, Replayer, callers_at, counts};
use crate::truth::Truth;

const N_FUNCTIONS: usize = 5;

fn body(depth: u32, function: usize) -> BoxedStrategy<Vec<Stmt>> {
    let work = (1u32..20, 1u32..9).prop_map(|(n_insns, ns)| Stmt::Work { n_insns, ns });
    let callee = function + 1..N_FUNCTIONS.max(function + 2);
    let call = callee
        .clone()
        .prop_filter_map("the last calls none", |function| (function < N_FUNCTIONS).then_some(Stmt::Call { function }));
    let any = vec(callee, 1..3).prop_filter_map("the last calls none", |functions| {
        functions.iter().all(|&function| function < N_FUNCTIONS).then_some(Stmt::CallAny(functions))
    });
    // Recursion, to any function, is rare enough to end.
    let again = (0..=function).prop_map(|function| Stmt::If {
        percent: 5,
        first: Vec::new(),
        second: vec![Stmt::Call { function }],
    });
    let simple = if function + 1 < N_FUNCTIONS {
        prop_oneof![3 => work, 2 => call, 1 => any, 1 => again].boxed()
    } else {
        prop_oneof![3 => work, 1 => again].boxed()
    };
    if depth == 0 {
        return vec(simple, 0..3).boxed();
    }
    let inner = body(depth - 1, function);
    let branch = (0u32..=100, inner.clone(), inner.clone()).prop_map(|(percent, first, second)| Stmt::If {
        percent,
        first,
        second,
    });
    let repeat = (10u32..80, inner.clone()).prop_map(|(percent, body)| Stmt::While { percent, body });
    let switch = vec(inner, 1..4).prop_map(Stmt::Switch);
    vec(prop_oneof![3 => simple, 2 => branch, 2 => repeat, 1 => switch], 0..4).boxed()
}

fn function(index: usize) -> impl Strategy<Value = Vec<Stmt>> {
    (body(2, index), any::<bool>()).prop_map(move |(mut body, ends_in_tail_call)| {
        if ends_in_tail_call && index + 1 < N_FUNCTIONS && index > 0 {
            body.push(Stmt::TailCall { function: index + 1 });
        }
        body
    })
}

fn program() -> impl Strategy<Value = Program> {
    (function(0), function(1), function(2), function(3), function(4))
        .prop_map(|(a, b, c, d, e)| Program::compile(&[a, b, c, d, e]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn one_burst_counts_all(program in program(), seed: u64) {
        let trace = program.run(&mut Chance(seed), 3000);
        let mut replayer = Replayer::new(&program, Options::COMPLETE);
        let piece = Piece { last: trace.len() - 1, last_ran: true, taken: Taken::ALL, native_ns: 1.0 };
        replayer.tick(&trace, &[], At { position: 0, is_mid_block: false, cpu_ns: 1 }, Some(piece));
        let profile = replayer.profile();
        let found = counts(&program, &profile);
        prop_assert_eq!(&found, &Truth::of(&program, &trace));
        prop_assert_eq!(profile.unobserved_flow.value, 0.0);
        check_recursions(&profile)?;
        check_loops(&profile)?;
    }

    #[test]
    fn many_bursts_count_all(program in program(), seed: u64, cuts in vec(1usize..200, 1..100)) {
        let trace = program.run(&mut Chance(seed), 3000);
        let mut ends: Vec<usize> = cuts
            .iter()
            .scan(0, |end, length| {
                *end += length;
                Some(*end)
            })
            .take_while(|&end| end < trace.len() - 1)
            .collect();
        ends.push(trace.len() - 1);
        let starts: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).take(ends.len()).collect();
        let callers = callers_at(&program, &trace, &starts);
        let mut replayer = Replayer::new(&program, Options::COMPLETE);
        for ((&start, &end), callers) in starts.iter().zip(&ends).zip(&callers) {
            let piece = Piece { last: end, last_ran: end == trace.len() - 1, taken: Taken::ALL, native_ns: 1.0 };
            replayer.tick(&trace, callers, At { position: start, is_mid_block: false, cpu_ns: 1 }, Some(piece));
        }
        let profile = replayer.profile();
        let mut found = counts(&program, &profile);
        let mut truth = Truth::of(&program, &trace);
        for (path, &count) in &found.paths {
            prop_assert!(truth.paths.get(path).is_some_and(|&exact| count <= exact), "{:?}", path);
        }
        found.paths.clear();
        truth.paths.clear();
        prop_assert_eq!(&found, &truth);
        check_recursions(&profile)?;
    }
}

/// Entries of contexts and recursions add up to the entries of functions.
fn check_recursions(profile: &profile::Profile) -> Result<(), TestCaseError> {
    let mut entries = vec![0.0; profile.functions.len()];
    for context in &profile.contexts {
        entries[context.function.index()] += context.entries.value;
    }
    for recursion in &profile.recursions {
        entries[profile.contexts[recursion.to.index()].function.index()] += recursion.count.value;
    }
    let of_functions: Vec<f64> = profile.functions.iter().map(|function| function.entries.value).collect();
    prop_assert_eq!(entries, of_functions);
    Ok(())
}

/// Each visit is in the histogram or was cut off by the end of the trace, and its iterations fit
/// the bin.
fn check_loops(profile: &profile::Profile) -> Result<(), TestCaseError> {
    for each in &profile.loops {
        let n_visits: u64 = each.trips.iter().sum::<u64>() + each.n_partial_visits;
        prop_assert_eq!(n_visits as f64, each.entries.value);
        let bound = |power: usize, count: &u64| (*count << power) as f64;
        let at_least: f64 = each.trips.iter().enumerate().map(|(power, count)| bound(power, count)).sum();
        prop_assert!(at_least <= each.iterations.value);
        if each.n_partial_visits == 0 {
            prop_assert!(each.iterations.value <= 2.0 * at_least);
        }
    }
    Ok(())
}
