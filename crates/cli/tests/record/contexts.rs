//! Calling contexts are those of the source, whatever way control came back to a function.

use std::collections::BTreeMap;

use profile::Profile;
use profile::model::{ContextId, ContextPath, FunctionId};

use crate::build::Program;
use crate::exact::counted_with;
use crate::process::Ended;
use crate::recorder::{finish, run_native, start_recorded};

/// Calls of `contexts.cpp`, by the functions of the program that are active.
const CALLS: [(&str, f64); 22] = [
    ("main", 1.0),
    ("main jumped", 10.0),
    ("main jumped outer", 10.0),
    ("main jumped outer inner", 10.0),
    ("main jumped outer inner leaf", 10.0),
    ("main jumped after_jump", 10.0),
    ("main caught", 20.0),
    ("main caught outer", 20.0),
    ("main caught outer inner", 20.0),
    ("main caught outer inner leaf", 20.0),
    ("main caught after_catch", 20.0),
    ("main caught leaf", 20.0),
    ("handler", 5.0),
    ("handler in_handler", 5.0),
    ("main even", 3.0),
    ("main even odd", 6.0),
    ("main even leaf", 9.0),
    ("main even odd leaf", 6.0),
    ("worker", 4.0),
    ("worker outer", 4.0),
    ("worker outer inner leaf", 8.0),
    ("worker outer leaf", 4.0),
];

/// The names of the program's own functions that are active in a context.
fn own_path(profile: &Profile, context: ContextId) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut at = Some(context);
    while let Some(id) = at {
        let row = &profile.contexts[id.index()];
        let function = &profile.functions[row.function.index()];
        if profile.modules[function.module.index()].path.ends_with("/program") {
            names.push(&function.name);
        }
        at = row.parent;
    }
    names.retain(|&name| name != "_start");
    names.reverse();
    names.join(" ")
}

#[test]
fn contexts_are_those_of_the_source() {
    let flags = ["-O1", "-fno-optimize-sibling-calls", "-fno-ipa-icf"];
    let executable = Program::new("contexts.cpp").flags(&flags).build();
    let all_at_once = ["--exact=context-paths", "--metric=cycles", "--per-call-site"].as_slice();
    for what in [["--exact=contexts"].as_slice(), &["--exact=context-paths"], &["--metric=cycles"], all_at_once] {
        let profile = counted_with(&executable, what);
        let what = what.join(" ");
        let mut calls: BTreeMap<String, f64> = BTreeMap::new();
        for (row, id) in profile.contexts.iter().zip((0..).map(ContextId)) {
            let function = &profile.functions[row.function.index()];
            if profile.modules[function.module.index()].path.ends_with("/program") {
                *calls.entry(own_path(&profile, id)).or_default() += row.entries.value;
            }
        }
        for (path, expected) in CALLS {
            assert_eq!(calls.get(path), Some(&expected), "{what}: {path}; of {calls:#?}");
        }
        let is_timed = profile.contexts.iter().any(|row| row.self_ns.value > 0.0);
        assert_eq!(is_timed, what.contains("--metric=cycles"), "{what}");
        let recursion = |row: &profile::model::Recursion| {
            let [from, to] = [row.from, row.to].map(|id| own_path(&profile, id));
            (from == "main even odd" && to == "main even").then_some(row.count.value)
        };
        assert_eq!(profile.recursions.iter().filter_map(recursion).sum::<f64>(), 6.0, "{what}");
        assert_eq!(profile.context_paths.is_empty(), !what.contains("--exact=context-paths"), "{what}");
        if what == "--exact=context-paths" {
            check_paths_by_context(&profile);
        }
    }
}

/// Every path is in its contexts as often as at all, and those of the program are where the source
/// has them.
fn check_paths_by_context(profile: &Profile) {
    let mut sums = vec![0.0; profile.paths.len()];
    let mut by_context: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in &profile.context_paths {
        sums[row.path.index()] += row.count.value;
        by_context.entry(own_path(profile, row.context)).or_default().push(row.count.value);
    }
    let counts: Vec<f64> = profile.paths.iter().map(|row| row.count.value).collect();
    assert_eq!(sums, counts);
    // `even` is called with 4, 2 and 0 each time.
    for (path, expected) in [
        ("main jumped outer inner leaf", vec![10.0]),
        ("main caught outer inner leaf", vec![20.0]),
        ("worker outer inner leaf", vec![8.0]),
        ("main even", vec![3.0, 6.0]),
        ("main even odd", vec![6.0]),
    ] {
        let mut counts = by_context.get(path).cloned().unwrap_or_default();
        counts.sort_by(f64::total_cmp);
        assert_eq!(counts, expected, "{path}; of {by_context:#?}");
    }
}

/// A path of `context_metric.c` in a context: what each run had of the metric.
fn each_run(profile: &Profile, context: &str, of: impl Fn(&ContextPath) -> f64) -> f64 {
    let own = profile.context_paths.iter().filter(|row| own_path(profile, row.context) == context);
    let most = own.max_by(|a, b| a.count.value.total_cmp(&b.count.value)).unwrap_or_else(|| panic!("{context}"));
    of(most) / most.count.value
}

#[test]
fn a_path_has_a_metric_in_each_context() {
    let flags = ["-O1", "-fno-optimize-sibling-calls", "-fno-ipa-icf"];
    let executable = Program::new("context_metric.c").flags(&flags).build();
    for metric in ["cycles", "l1d:16k:1:64"] {
        let profile = counted_with(&executable, &["--exact=context-paths", "--metric", metric]);
        // Both contexts have the same path of each function.
        for function in ["fill", "walk"] {
            let paths = ["dear", "cheap"].map(|caller| {
                let context = format!("main {caller} {function}");
                let own = profile.context_paths.iter().filter(|row| own_path(&profile, row.context) == context);
                own.map(|row| (row.path, row.count.value as u64)).collect::<Vec<_>>()
            });
            assert_eq!(paths[0], paths[1], "{function}");
            assert!(!paths[0].is_empty(), "{function}");
        }
        let mut sums = vec![(0.0, 0); profile.paths.len()];
        for row in &profile.context_paths {
            let sum = &mut sums[row.path.index()];
            *sum = (sum.0 + row.self_ns.value, sum.1 + row.misses);
        }
        for (path, (ns, misses)) in profile.paths.iter().zip(sums) {
            assert_eq!(path.misses, misses);
            assert!((path.self_ns.value - ns).abs() <= 1e-9 * ns, "{} {ns}", path.self_ns.value);
        }
        if metric == "cycles" {
            let [dear, cheap] =
                ["main dear fill", "main cheap fill"].map(|at| each_run(&profile, at, |row| row.self_ns.value));
            assert!(0.0 < cheap && 2.0 * cheap < dear, "{cheap} {dear}");
        } else {
            let [dear, cheap] =
                ["main dear walk", "main cheap walk"].map(|at| each_run(&profile, at, |row| row.misses as f64));
            assert!(dear > 0.99 && cheap < 0.01, "{dear} {cheap}");
        }
    }
}

/// `run` of `wide.c` has too many jumps through tables for its paths to be counted. Its calls are,
/// and what it calls.
#[test]
fn functions_without_paths_have_contexts() {
    const N_RUNS: f64 = 40.0;
    // One of the jumps has its table in a register that the call before it keeps (`-fipa-ra`), and
    // is no tail call.
    let flags = ["-O2", "-fno-gcse", "-fno-crossjumping"];
    let executable = Program::new("wide.c").flags(&flags).build();
    let alone = run_native(&executable);
    for options in [["--exact=context-paths"].as_slice(), &["--exact=context-paths", "--metric=cycles"]] {
        let recorded = finish("too many rows", start_recorded(&executable, options));
        assert_eq!((recorded.ended, &recorded.stdout), (alone.ended, &alone.stdout), "{}", recorded.stderr);
        let profile = store::open(&executable.beside("profile")).expect("a profile");
        assert!(profile.verify().is_empty(), "{:?}", profile.verify());
        assert_eq!(profile.facts["calls_without_paths"], N_RUNS.to_string(), "{:?}", profile.facts);
        assert!(recorded.stderr.contains("the paths of 40 calls"), "{}", recorded.stderr);
        let called = |context: &str| -> f64 {
            let rows = profile.contexts.iter().zip((0..).map(ContextId));
            rows.filter(|&(_, id)| own_path(&profile, id) == context).map(|(row, _)| row.entries.value).sum()
        };
        // A third of the code calls, if all others do not.
        assert_eq!(called("main run"), N_RUNS);
        assert!(called("main run callee") >= N_RUNS * 333.0, "{}", called("main run callee"));
        let entries = |name: &str| -> f64 {
            profile.functions.iter().filter(|row| row.name == name).map(|row| row.entries.value).sum()
        };
        assert_eq!((entries("run"), entries("callee")), (N_RUNS, called("main run callee")));
    }
}

/// Calls of `call_sites.c`: of each call in the source, in each context.
#[test]
fn call_sites_are_told_apart() {
    let flags = ["-O1", "-foptimize-sibling-calls", "-fno-ipa-icf"];
    let executable = Program::new("call_sites.c").flags(&flags).build();
    let entries = |profile: &Profile| {
        let mut entries: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (row, id) in profile.contexts.iter().zip((0..).map(ContextId)) {
            entries.entry(own_path(profile, id)).or_default().push(row.entries.value);
        }
        entries.values_mut().for_each(|counts| counts.sort_by(f64::total_cmp));
        entries
    };
    let expected = [
        ("main middle", vec![117.0], vec![7.0, 10.0, 100.0]),
        ("main middle leaf", vec![294.0], vec![7.0, 7.0, 10.0, 10.0, 10.0, 50.0, 100.0, 100.0]),
        ("main pass", vec![7.0], vec![7.0]),
        ("main down", vec![1.0], vec![1.0]),
        ("main down leaf", vec![6.0], vec![6.0]),
    ];
    let together = counted_with(&executable, &["--exact=contexts"]);
    let apart = counted_with(&executable, &["--exact=contexts", "--per-call-site"]);
    for (path, sum, each) in expected {
        assert_eq!(entries(&together).get(path), Some(&sum), "{path}");
        assert_eq!(entries(&apart).get(path), Some(&each), "{path}");
    }
    for (profile, has_sites) in [(&together, false), (&apart, true)] {
        assert_eq!(profile.contexts.iter().any(|row| row.call_site.is_some()), has_sites);
        let recursion = |row: &profile::model::Recursion| {
            let [from, to] = [row.from, row.to].map(|id| own_path(profile, id));
            (from == "main down" && to == "main down").then_some(row.count.value)
        };
        assert_eq!(profile.recursions.iter().filter_map(recursion).sum::<f64>(), 5.0);
    }
}

/// Sampled contexts reach the root over a frame that is larger than what a sample keeps of the
/// stack, over one that its function aligned, and over one of which nothing tells how to unwind it;
/// those of a thread begin at its start routine, as exact ones do.
#[test]
fn samples_find_their_callers() {
    let executable = Program::new("deep.c").flags(&["-O1", "-fno-optimize-sibling-calls"]).build();
    // Both fixed, so that no budget makes ticks rare on a busy machine.
    let outcome = finish("deep stacks", start_recorded(&executable, &["--rate", "500", "--burst", "100"]));
    assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
    let profile = store::open(&executable.beside("profile")).expect("a profile");
    let mut ticks: BTreeMap<String, u64> = BTreeMap::new();
    for (row, id) in profile.contexts.iter().zip((0..).map(ContextId)) {
        let mut root = row;
        while let Some(parent) = root.parent {
            root = &profile.contexts[parent.index()];
        }
        let root = &profile.functions[root.function.index()].name;
        *ticks.entry(format!("{root}: {}", own_path(&profile, id))).or_default() += row.self_ns.seen;
    }
    let all: u64 = ticks.values().sum();
    for root in ["_start: main", "worker: worker"] {
        for leaf in ["busy", "by_hand"] {
            let expected = format!("{root} large aligned {leaf}");
            assert!(ticks.get(&expected).is_some_and(|&found| found > all / 10), "{expected}; of {ticks:#?}");
        }
    }
}

/// Who calls whom is known of indirect calls, too, whatever is counted; of direct ones wherever
/// blocks or call sites are.
#[test]
fn calls_have_their_callees() {
    let flags = ["-O1", "-fno-ipa-icf"];
    let executable = Program::new("call_sites.c").flags(&flags).build();
    let (through_pointer, all) = ([117.0].as_slice(), [60.0, 117.0, 117.0].as_slice());
    let cases: [(&[&str], &[f64]); 5] = [
        (&["--exact=blocks"], all),
        (&["--exact=paths"], all),
        (&["--exact=contexts"], through_pointer),
        (&["--exact=contexts", "--per-call-site"], all),
        (&["--exact=context-paths", "--per-call-site"], all),
    ];
    for (options, expected) in cases {
        let profile = counted_with(&executable, options);
        let name = |function: FunctionId| profile.functions[function.index()].name.as_str();
        let of_middle = profile.calls.iter().filter(|call| {
            let caller = profile.blocks[call.site.index()].function;
            !call.is_tail && name(caller) == "middle" && name(call.callee) == "leaf"
        });
        let mut counts: Vec<f64> = of_middle.map(|call| call.count.value).collect();
        counts.sort_by(f64::total_cmp);
        assert_eq!(counts, expected, "{options:?}");
    }
}
