//! Call graph facts and check placement: the paper's example, and soundness of every policy meant
//! for use.

mod random_graphs;

use flow::callgraph::{Call, CallGraph, FunctionFacts, FunctionId};
use flow::checks::{CheckPolicy, EntryChecks, LoopChecks, LoopContents, PolicyError};
use flow::graph::{BlockId, Digraph};
use flow::loops::{LoopId, Loops};
use flow::order::Order;
use petgraph::algo::{is_cyclic_directed, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};
use proptest::prelude::*;
use random_graphs::{config, graph, mixed_graph};
use std::collections::BTreeSet;

const NOTHING_ELSE: FunctionFacts =
    FunctionFacts { address_taken: false, called_from_outside: false, calls_unknown: false };

fn call_graph(calls: &[(u32, u32)], facts: Vec<FunctionFacts>) -> CallGraph {
    let call = |&(caller, callee): &(u32, u32)| Call { caller: FunctionId(caller), callee: FunctionId(callee) };
    CallGraph::new(calls.iter().map(call).collect(), facts)
}

fn policy(name: &str) -> CheckPolicy {
    name.parse().expect("a policy name")
}

fn any_call_graph() -> impl Strategy<Value = CallGraph> {
    (1..30usize).prop_flat_map(|n| {
        let function = 0..n as u32;
        let calls = prop::collection::vec((function.clone(), function), 0..3 * n);
        let fact = (prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.2));
        let facts = prop::collection::vec(fact, n);
        (calls, facts).prop_map(|(calls, facts)| {
            let fact = |(address_taken, called_from_outside, calls_unknown)| FunctionFacts {
                address_taken,
                called_from_outside,
                calls_unknown,
            };
            call_graph(&calls, facts.into_iter().map(fact).collect())
        })
    })
}

/// Direct calls among the functions that `keep` selects.
fn calls_among(calls: &CallGraph, keep: impl Fn(FunctionId) -> bool) -> DiGraph<(), ()> {
    let mut graph = DiGraph::new();
    for _ in calls.functions() {
        graph.add_node(());
    }
    for caller in calls.functions().filter(|&id| keep(id)) {
        for &callee in calls.callees(caller).iter().filter(|&&id| keep(id)) {
            graph.add_edge(NodeIndex::new(caller.index()), NodeIndex::new(callee.index()), ());
        }
    }
    graph
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn every_call_cycle_has_a_checked_entry(calls in any_call_graph()) {
        for name in ["orig", "EL", "EC", "L4", "EC+L4"] {
            let unchecked = calls_among(&calls, |id| !policy(name).checks_entry(&calls, id));
            prop_assert!(!is_cyclic_directed(&unchecked), "{}", name);
        }
    }

    /// A recursion through a pointer enters a function whose address is taken.
    #[test]
    fn address_taken_functions_that_can_recurse_are_checked(calls in any_call_graph()) {
        for id in calls.functions().filter(|&id| calls.facts(id).address_taken && !calls.is_leaf(id)) {
            prop_assert!(policy("EC").checks_entry(&calls, id));
        }
    }

    #[test]
    fn policies_only_remove_checks(calls in any_call_graph()) {
        for id in calls.functions() {
            let checked = ["EN", "EC", "EL", "orig"].map(|name| policy(name).checks_entry(&calls, id));
            prop_assert!(checked.is_sorted());
            prop_assert!(checked[3] && !checked[0]);
        }
    }

    #[test]
    fn components_agree_with_petgraph(calls in any_call_graph()) {
        let expected = tarjan_scc(&calls_among(&calls, |_| true));
        prop_assert_eq!(calls.n_components(), expected.len());
        for members in expected {
            let component = |node: &NodeIndex| calls.component(FunctionId(node.index() as u32));
            prop_assert_eq!(members.iter().map(component).collect::<BTreeSet<_>>().len(), 1);
        }
        for caller in calls.functions() {
            for &callee in calls.callees(caller) {
                prop_assert!(calls.component(callee) <= calls.component(caller));
            }
        }
    }

    #[test]
    fn distances_are_shortest(calls in any_call_graph()) {
        let is_source = |&id: &FunctionId| calls.is_root(id) || calls.facts(id).address_taken;
        let mut reached: BTreeSet<FunctionId> = BTreeSet::new();
        let mut frontier: BTreeSet<FunctionId> = calls.functions().filter(is_source).collect();
        let mut distance = 0;
        while !frontier.is_empty() {
            prop_assert!(frontier.iter().all(|&id| calls.distance(id) == distance));
            reached.extend(&frontier);
            let callees = frontier.iter().flat_map(|&id| calls.callees(id)).copied();
            frontier = callees.filter(|id| !reached.contains(id)).collect();
            distance += 1;
        }
    }

    #[test]
    fn every_cycle_worth_seeing_has_a_checked_back_edge(
        (graph, events, has_call) in mixed_graph(40).prop_flat_map(|graph| {
            let n = graph.n_blocks();
            (Just(graph), prop::collection::vec(0..4u32, n), prop::collection::vec(prop::bool::weighted(0.1), n))
        }),
    ) {
        let loops = Loops::new(&graph, &Order::new(&graph));
        let contents = LoopContents { graph: &graph, loops: &loops, events: &events, has_call: &has_call };
        for name in ["orig", "EC", "L0", "L4", "L10", "EC+L4"] {
            let policy = policy(name);
            let checked: BTreeSet<_> = policy.checked_back_edges(&contents).into_iter().collect();
            let mut unchecked: DiGraph<(), ()> = DiGraph::new();
            graph.blocks().for_each(|_| { unchecked.add_node(()); });
            for id in graph.edge_ids().filter(|id| !checked.contains(id)) {
                if let Some(to) = graph.edge(id).to {
                    unchecked.add_edge(NodeIndex::new(graph.edge(id).from.index()), NodeIndex::new(to.index()), ());
                }
            }
            let max_events = match policy.loops {
                LoopChecks::NotBoring { max_boring_events } => Some(max_boring_events),
                _ => None,
            };
            for component in tarjan_scc(&unchecked) {
                let first = component[0];
                if component.len() == 1 && !unchecked.contains_edge(first, first) {
                    continue;
                }
                let n_events: u32 = component.iter().map(|node| events[node.index()]).sum();
                prop_assert!(max_events.is_some_and(|max| n_events <= max), "{}", name);
                prop_assert!(component.iter().all(|node| !has_call[node.index()]));
            }
        }
    }
}

/// Figure 5 of the paper: main calls check, and check, match and substitute call each other in a
/// ring.
#[test]
fn sequitur_example() {
    let [main, check, match_digram, substitute, delete_digram] = [0, 1, 2, 3, 4];
    let calls = [
        (main, check),
        (check, match_digram),
        (match_digram, substitute),
        (substitute, check),
        (substitute, delete_digram),
        (match_digram, delete_digram),
    ];
    let calls = call_graph(&calls, vec![NOTHING_ELSE; 5]);
    let checked: Vec<u32> =
        calls.functions().filter(|&id| policy("EC").checks_entry(&calls, id)).map(|id| id.0).collect();
    assert_eq!(checked, [main, check]);
    let distances: Vec<u32> = calls.functions().map(|id| calls.distance(id)).collect();
    assert_eq!(distances, [0, 1, 2, 3, 3]);
    let leaves: Vec<u32> = calls.functions().filter(|&id| calls.is_leaf(id)).map(|id| id.0).collect();
    assert_eq!(leaves, [delete_digram]);
    assert_eq!(calls.component(FunctionId(check)), calls.component(FunctionId(substitute)));
    assert_eq!(calls.n_components(), 3);
}

#[test]
fn a_function_that_only_calls_itself_is_a_root() {
    let calls = call_graph(&[(0, 0)], vec![NOTHING_ELSE]);
    assert!(calls.is_root(FunctionId(0)));
    assert!(calls.recursion_from_below(FunctionId(0)));
}

#[test]
fn unknown_calls_make_no_leaf() {
    let calls = call_graph(&[], vec![FunctionFacts { calls_unknown: true, ..NOTHING_ELSE }, NOTHING_ELSE]);
    assert!(!calls.is_leaf(FunctionId(0)));
    assert!(calls.is_leaf(FunctionId(1)));
    let checked = |name: &str| [0, 1].map(|id| policy(name).checks_entry(&calls, FunctionId(id)));
    assert_eq!(checked("orig"), [true, true]);
    assert_eq!(checked("EL"), [true, false]);
    assert_eq!(checked("EN+L4"), [false, false]);
}

#[test]
fn long_call_chains_do_not_overflow_the_stack() {
    let n = 200_000;
    let mut calls: Vec<_> = (0..n - 1).map(|caller| (caller, caller + 1)).collect();
    calls.push((n - 1, 1));
    let calls = call_graph(&calls, vec![NOTHING_ELSE; n as usize]);
    assert_eq!(calls.n_components(), 2);
    let checked: Vec<_> = calls.functions().filter(|&id| policy("EC").checks_entry(&calls, id)).collect();
    assert_eq!(checked, [FunctionId(0), FunctionId(1)]);
}

/// An outer loop 1..=4 with six events around an inner loop 2..=3 with four.
fn nested_loops() -> (Digraph, Vec<u32>) {
    let edges =
        [(0, Some(1)), (1, Some(2)), (2, Some(3)), (3, Some(2)), (3, Some(4)), (4, Some(1)), (4, Some(5)), (5, None)];
    (graph(6, &edges, &[0]), vec![9, 1, 3, 1, 1, 9])
}

#[test]
fn boring_loops_lose_their_checks() {
    let (graph, events) = nested_loops();
    let loops = Loops::new(&graph, &Order::new(&graph));
    let targets = |name: &str, has_call: &[bool]| -> Vec<BlockId> {
        let contents = LoopContents { graph: &graph, loops: &loops, events: &events, has_call };
        policy(name).checked_back_edges(&contents).iter().filter_map(|&id| graph.edge(id).to).collect()
    };
    let (outer, inner) = (BlockId(1), BlockId(2));
    let no_calls = [false; 6];
    assert_eq!(targets("orig", &no_calls), [inner, outer]);
    assert_eq!(targets("L3", &no_calls), [inner, outer]);
    assert_eq!(targets("L4", &no_calls), [outer]);
    assert_eq!(targets("EC+L4", &no_calls), [outer]);
    assert_eq!(targets("L10", &no_calls), []);
    assert_eq!(targets("LN", &no_calls), []);
    let call_in_inner = [false, false, true, false, false, false];
    assert_eq!(targets("L10", &call_in_inner), [inner, outer]);
    let call_in_outer = [false, false, false, false, true, false];
    assert_eq!(targets("L10", &call_in_outer), [outer]);

    let contents = LoopContents { graph: &graph, loops: &loops, events: &events, has_call: &no_calls };
    assert_eq!(policy("L4").boring_loops(&contents), [LoopId(1)]);
    assert_eq!(policy("LN").boring_loops(&contents), []);
}

#[test]
fn policy_names_round_trip() {
    for name in CheckPolicy::PAPER_NAMES.into_iter().chain(["L0", "EL+L7", "EN+LN"]) {
        assert_eq!(policy(name).to_string(), name);
    }
    let preferred =
        CheckPolicy { entries: EntryChecks::CallCycles, loops: LoopChecks::NotBoring { max_boring_events: 4 } };
    assert_eq!(policy("EC+L4"), preferred);
    assert_eq!(policy("L4+EC"), preferred);
    for unknown in ["", "E", "L", "Lx", "L+4", "L-4", "L99999999999", "ec", "EC+", "orig+EC"] {
        assert!(matches!(unknown.parse::<CheckPolicy>(), Err(PolicyError::UnknownPart(_))), "{unknown:?}");
    }
    for conflict in ["EC+EL", "L4+LN", "L4+L4"] {
        assert!(matches!(conflict.parse::<CheckPolicy>(), Err(PolicyError::Conflict(_))), "{conflict:?}");
    }
}
