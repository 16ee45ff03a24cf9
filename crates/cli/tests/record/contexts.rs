//! Calling contexts of exact mode are those of the source, whatever way control came back to a function.

use std::collections::BTreeMap;

use profile::Profile;
use profile::model::ContextId;

use crate::build::Program;
use crate::exact::counted;
use crate::recorder::is_replaced;

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
    if is_replaced() {
        return;
    }
    let flags = ["-O1", "-fno-optimize-sibling-calls", "-fno-ipa-icf"];
    let executable = Program::new("contexts.cpp").flags(&flags).build();
    for what in ["--exact=contexts", "--exact=context-paths", "--metric=cycles"] {
        let profile = counted(&executable, what);
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
        assert_eq!(is_timed, what == "--metric=cycles", "{what}");
        let recursion = |row: &profile::model::Recursion| {
            let [from, to] = [row.from, row.to].map(|id| own_path(&profile, id));
            (from == "main even odd" && to == "main even").then_some(row.count.value)
        };
        assert_eq!(profile.recursions.iter().filter_map(recursion).sum::<f64>(), 6.0, "{what}");
    }
}
