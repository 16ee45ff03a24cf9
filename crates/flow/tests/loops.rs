//! Order, dominators and loops against definitions and against petgraph.

mod random_graphs;

use flow::dominators::Dominators;
use flow::graph::{BlockId, Digraph, Edge, EdgeId, GraphFault};
use flow::loops::{LoopId, Loops};
use flow::order::Order;
use petgraph::algo::dominators::simple_fast;
use petgraph::algo::is_cyclic_directed;
use petgraph::graph::{DiGraph, NodeIndex};
use proptest::prelude::*;
use random_graphs::{config, graph, mixed_graph, structured_graph};
use std::collections::BTreeSet;

fn analysed(graph: &Digraph) -> (Order, Dominators, Loops) {
    let order = Order::new(graph);
    let dominators = Dominators::new(graph, &order);
    let loops = Loops::new(graph, &order);
    (order, dominators, loops)
}

/// The same graph for petgraph, without the edges for which `keep` is false; the node after all
/// blocks is a root above the entries.
fn petgraph_of(graph: &Digraph, keep: impl Fn(usize) -> bool) -> (DiGraph<(), ()>, NodeIndex) {
    let mut other = DiGraph::new();
    for _ in graph.blocks() {
        other.add_node(());
    }
    let root = other.add_node(());
    for &entry in graph.entries() {
        other.add_edge(root, NodeIndex::new(entry.index()), ());
    }
    for (id, edge) in graph.edges().iter().enumerate() {
        if let Some(to) = edge.to.filter(|_| keep(id)) {
            other.add_edge(NodeIndex::new(edge.from.index()), NodeIndex::new(to.index()), ());
        }
    }
    (other, root)
}

/// The blocks that can get back to `header` without leaving its subtree of the depth-first tree, by
/// that definition.
fn loop_by_definition(graph: &Digraph, order: &Order, header: BlockId) -> BTreeSet<BlockId> {
    let in_subtree = |block: BlockId| {
        let mut ancestors = std::iter::successors(Some(block), |&at| order.tree_parent(at));
        ancestors.any(|ancestor| ancestor == header)
    };
    let mut body = BTreeSet::from([header]);
    let mut pending = vec![header];
    while let Some(block) = pending.pop() {
        for predecessor in graph.predecessors(block).filter(|&block| in_subtree(block)) {
            if body.insert(predecessor) {
                pending.push(predecessor);
            }
        }
    }
    body
}

fn ways_in(graph: &Digraph, body: &BTreeSet<BlockId>) -> BTreeSet<BlockId> {
    let entered = |block: &&BlockId| {
        graph.is_entry(**block) || graph.predecessors(**block).any(|predecessor| !body.contains(&predecessor))
    };
    body.iter().filter(entered).copied().collect()
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn order_is_topological_without_retreating_edges(graph in mixed_graph(40)) {
        let order = Order::new(&graph);
        let retreating: BTreeSet<_> = order.retreating().iter().map(|id| id.index()).collect();
        let (acyclic, _) = petgraph_of(&graph, |id| !retreating.contains(&id));
        prop_assert!(!is_cyclic_directed(&acyclic));
        for id in graph.edge_ids() {
            let edge = graph.edge(id);
            let Some(to) = edge.to else { continue };
            let mut ancestors = std::iter::successors(Some(edge.from), |&at| order.tree_parent(at));
            prop_assert_eq!(order.is_retreating(&graph, id), ancestors.any(|ancestor| ancestor == to));
        }
        let all: BTreeSet<_> = graph.blocks().collect();
        prop_assert_eq!(order.reverse_post().iter().copied().collect::<BTreeSet<_>>(), all.clone());
        prop_assert_eq!(order.preorder().iter().copied().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn dominators_agree_with_petgraph(graph in mixed_graph(40)) {
        let (_, dominators, _) = analysed(&graph);
        let (other, root) = petgraph_of(&graph, |_| true);
        let expected = simple_fast(&other, root);
        for block in graph.blocks() {
            let node = NodeIndex::new(block.index());
            let idom = expected.immediate_dominator(node).filter(|&idom| idom != root);
            prop_assert_eq!(dominators.idom(block).map(BlockId::index), idom.map(NodeIndex::index));
            let above: BTreeSet<_> = expected.dominators(node).expect("reachable").map(NodeIndex::index).collect();
            for other in graph.blocks() {
                prop_assert_eq!(dominators.dominates(other, block), above.contains(&other.index()));
            }
        }
    }

    #[test]
    fn loops_are_those_of_the_definition(graph in mixed_graph(40)) {
        let (order, _, loops) = analysed(&graph);
        let headers: BTreeSet<_> = order.retreating().iter().filter_map(|&id| graph.edge(id).to).collect();
        prop_assert_eq!(loops.all().iter().map(|each| each.header).collect::<BTreeSet<_>>(), headers);
        let bodies: Vec<_> = loops.all().iter().map(|each| loop_by_definition(&graph, &order, each.header)).collect();
        for id in loops.ids() {
            let (this, body) = (loops.get(id), &bodies[id.index()]);
            prop_assert_eq!(loops.blocks(id)[0], this.header);
            prop_assert_eq!(loops.blocks(id).len(), body.len());
            prop_assert_eq!(&loops.blocks(id).iter().copied().collect::<BTreeSet<_>>(), body);
            prop_assert!(graph.blocks().all(|block| loops.contains(id, block) == body.contains(&block)));

            let around = |other: &LoopId| *other != id && bodies[other.index()].contains(&this.header);
            prop_assert_eq!(this.depth as usize, 1 + loops.ids().filter(around).count());
            let smallest = loops.ids().filter(around).min_by_key(|other| bodies[other.index()].len());
            prop_assert_eq!(this.parent, smallest);
            let into_header = order.retreating().iter().filter(|&&edge| graph.edge(edge).to == Some(this.header));
            prop_assert_eq!(&this.back_edges, &into_header.copied().collect::<Vec<_>>());

            let mut extra = ways_in(&graph, body);
            extra.remove(&this.header);
            prop_assert_eq!(this.irreducible, !extra.is_empty());
            prop_assert_eq!(loops.extra_entries(&graph, id).into_iter().collect::<BTreeSet<_>>(), extra);
        }
        for block in graph.blocks() {
            let containing = loops.ids().filter(|id| bodies[id.index()].contains(&block));
            prop_assert_eq!(loops.innermost(block), containing.min_by_key(|id| bodies[id.index()].len()));
        }
    }

    #[test]
    fn reducible_means_that_targets_of_retreating_edges_dominate(graph in mixed_graph(40)) {
        let (order, dominators, loops) = analysed(&graph);
        let dominates = |&id: &EdgeId| {
            let edge = graph.edge(id);
            edge.to.is_some_and(|to| dominators.dominates(to, edge.from))
        };
        prop_assert_eq!(loops.is_reducible(), order.retreating().iter().all(dominates));
    }

    #[test]
    fn structured_programs_are_reducible(graph in structured_graph()) {
        prop_assert!(analysed(&graph).2.is_reducible());
    }
}

#[test]
fn two_entry_loop_is_irreducible() {
    let graph = graph(4, &[(0, Some(1)), (0, Some(2)), (1, Some(2)), (2, Some(1)), (2, Some(3)), (3, None)], &[0]);
    let (_, dominators, loops) = analysed(&graph);
    assert_eq!(loops.all().len(), 1);
    assert!(!loops.is_reducible());
    assert_eq!(loops.extra_entries(&graph, LoopId(0)), [BlockId(2)]);
    assert_eq!(dominators.idom(BlockId(2)), Some(BlockId(0)));
}

#[test]
fn secondary_entry_into_a_loop_makes_it_irreducible_but_not_its_header() {
    let edges = [(0, Some(1)), (1, Some(2)), (2, Some(1)), (2, None), (3, Some(2))];
    let graph = graph(4, &edges, &[0, 3]);
    let (_, dominators, loops) = analysed(&graph);
    assert_eq!(loops.all()[0].header, BlockId(1));
    assert!(loops.all()[0].irreducible);
    assert_eq!(dominators.idom(BlockId(2)), None);
}

#[test]
fn self_loop_is_a_loop_of_one_block() {
    let graph = graph(2, &[(0, Some(1)), (1, Some(1)), (1, None)], &[0]);
    let (_, _, loops) = analysed(&graph);
    assert_eq!(loops.blocks(LoopId(0)), [BlockId(1)]);
    assert_eq!(loops.get(LoopId(0)).back_edges.len(), 1);
    assert_eq!(loops.headed_by(BlockId(1)), Some(LoopId(0)));
    assert_eq!(loops.depth(BlockId(0)), 0);
}

/// 30,000 nested loops, each also entered from the side by an edge from the first block; and a row
/// of checks with a common exit. A method that looks at an edge once per enclosing loop, or walks
/// dominator chains edge by edge, would need 10^9 steps.
#[test]
fn deep_nests_are_not_quadratic() {
    let n = 60_000;
    let half = n / 2;
    let mut nest: Vec<_> = (0..n).map(|block| (block, (block + 1 < n).then_some(block + 1))).collect();
    nest.extend((1..half).map(|header| (n - header, Some(header))));
    nest.extend((half..n).map(|inner| (0, Some(inner))));
    let nest = graph(n as usize, &nest, &[0]);
    let (_, _, loops) = analysed(&nest);
    assert_eq!(loops.all().len(), half as usize - 1);
    assert_eq!(loops.all().last().map(|each| each.depth), Some(half - 1));
    assert!(!loops.is_reducible());

    let mut checks: Vec<_> = (0..n).map(|block| (block, (block + 1 < n).then_some(block + 1))).collect();
    checks.extend((0..n - 2).rev().map(|block| (block, Some(n - 1))));
    let (_, dominators, _) = analysed(&graph(n as usize, &checks, &[0]));
    assert_eq!(dominators.idom(BlockId(n - 1)), Some(BlockId(0)));
}

#[test]
fn faulty_graphs_are_recognized() {
    let edges = |pairs: &[(u32, Option<u32>)]| -> Vec<Edge> {
        pairs.iter().map(|&(from, to)| Edge { from: BlockId(from), to: to.map(BlockId) }).collect()
    };
    let check = |pairs: &[(u32, Option<u32>)], entries: &[u32]| {
        Digraph::new(2, edges(pairs), entries.iter().copied().map(BlockId).collect()).check()
    };
    assert_eq!(check(&[(0, Some(1)), (1, None), (1, None)], &[0]), Ok(()));
    assert_eq!(check(&[(0, Some(1)), (1, None)], &[]), Err(GraphFault::NoEntry));
    assert_eq!(check(&[(0, Some(1)), (1, None)], &[0, 0]), Err(GraphFault::RepeatedEntry(BlockId(0))));
    assert_eq!(check(&[(0, None), (1, None)], &[0]), Err(GraphFault::Unreachable(BlockId(1))));
    assert_eq!(check(&[(0, Some(1))], &[0]), Err(GraphFault::DeadEnd(BlockId(1))));
    let parallel = [(0, Some(1)), (0, Some(1)), (1, None)];
    assert_eq!(check(&parallel, &[0]), Err(GraphFault::ParallelEdge(EdgeId(1))));
}
