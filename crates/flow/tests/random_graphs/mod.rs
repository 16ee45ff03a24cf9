//! Control-flow graphs for property tests: arbitrary ones (irreducible, several entries, several
//! exits) and those of structured programs (reducible). All of them satisfy the invariants of
//! `Digraph`.

// Each test file uses its own part of this module.
#![allow(dead_code)]

use flow::graph::{BlockId, Digraph, Edge};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The same cases on every run.
pub fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(0x5740_be00),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Graphs of up to `max_blocks` blocks of any shape.
pub fn any_graph(max_blocks: usize) -> impl Strategy<Value = Digraph> {
    (1..=max_blocks, 0.8..2.2f64).prop_flat_map(|(n_blocks, density)| {
        let block = 0..n_blocks as u32;
        let n_pairs = (n_blocks as f64 * density) as usize;
        let pairs = prop::collection::vec((block.clone(), block), n_pairs);
        let exits = prop::collection::vec(prop_oneof![5 => Just(0u8), 2 => Just(1), 1 => Just(2)], n_blocks);
        let connections = prop::collection::vec((0.0..1.0f64, 0..4u8), n_blocks);
        (pairs, exits, connections).prop_map(|(pairs, exits, connections)| connected(pairs, &exits, &connections))
    })
}

/// Arbitrary and structured graphs.
pub fn mixed_graph(max_blocks: usize) -> impl Strategy<Value = Digraph> {
    prop_oneof![2 => any_graph(max_blocks), 1 => structured_graph()]
}

/// One weight per edge; zeros and ties are frequent.
pub fn weights_for(graph: &Digraph) -> impl Strategy<Value = Vec<u64>> + use<> {
    let weight = prop_oneof![1 => Just(0u64), 2 => 0..4u64, 2 => 0..1_000_000u64];
    prop::collection::vec(weight, graph.n_edges())
}

/// Builds a graph from edges given as pairs; `None` leaves the function. Edges of one block keep
/// their order.
pub fn graph(n_blocks: usize, edges: &[(u32, Option<u32>)], entries: &[u32]) -> Digraph {
    let mut edges: Vec<Edge> =
        edges.iter().map(|&(from, to)| Edge { from: BlockId(from), to: to.map(BlockId) }).collect();
    edges.sort_by_key(|edge| edge.from);
    let graph = Digraph::new(n_blocks, edges, entries.iter().copied().map(BlockId).collect());
    assert_eq!(graph.check(), Ok(()));
    graph
}

/// Makes every block reachable: what is not gets an edge from a block before it, or becomes an
/// entry.
fn connected(mut pairs: Vec<(u32, u32)>, exits: &[u8], connections: &[(f64, u8)]) -> Digraph {
    let n_blocks = exits.len();
    let mut entries = vec![0];
    let mut reached = vec![false; n_blocks];
    reach(&pairs, 0, &mut reached);
    for block in 1..n_blocks as u32 {
        if reached[block as usize] {
            continue;
        }
        let (position, kind) = connections[block as usize];
        if kind == 0 {
            entries.push(block);
        } else {
            pairs.push(((position * f64::from(block)) as u32, block));
        }
        reach(&pairs, block, &mut reached);
    }
    pairs.sort_unstable();
    pairs.dedup();
    let has_successor = |block: u32| pairs.binary_search_by_key(&block, |pair| pair.0).is_ok();
    let mut edges: Vec<(u32, Option<u32>)> = pairs.iter().map(|&(from, to)| (from, Some(to))).collect();
    for block in 0..n_blocks as u32 {
        let n_exits = exits[block as usize].max(u8::from(!has_successor(block)));
        edges.extend((0..n_exits).map(|_| (block, None)));
    }
    graph(n_blocks, &edges, &entries)
}

fn reach(pairs: &[(u32, u32)], from: u32, reached: &mut [bool]) {
    let mut pending = vec![from];
    reached[from as usize] = true;
    while let Some(block) = pending.pop() {
        for &(_, to) in pairs.iter().filter(|pair| pair.0 == block) {
            if !std::mem::replace(&mut reached[to as usize], true) {
                pending.push(to);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Statement {
    Simple,
    Return,
    Continue,
    Sequence(Vec<Statement>),
    If(Box<Statement>, Box<Statement>),
    Switch(Vec<Statement>),
    While(Box<Statement>),
    DoWhile(Box<Statement>),
}

/// Graphs of programs made of `if`, `switch`, `while`, `do`, `continue` and `return`.
pub fn structured_graph() -> impl Strategy<Value = Digraph> {
    let leaf = prop_oneof![6 => Just(Statement::Simple), 1 => Just(Statement::Return), 1 => Just(Statement::Continue)];
    let statement = leaf.prop_recursive(5, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(Statement::Sequence),
            3 => (boxed.clone(), boxed.clone()).prop_map(|(then, other)| Statement::If(then, other)),
            1 => prop::collection::vec(inner, 2..5).prop_map(Statement::Switch),
            2 => boxed.clone().prop_map(Statement::While),
            2 => boxed.prop_map(Statement::DoWhile),
        ]
    });
    statement.prop_map(|body| {
        let mut lowering = Lowering { edges: Vec::new(), n_blocks: 1 };
        if let Some(last) = lowering.lower(&body, 0, None) {
            lowering.edges.push((last, None));
        }
        lowering.into_graph()
    })
}

struct Lowering {
    edges: Vec<(u32, Option<u32>)>,
    n_blocks: u32,
}

impl Lowering {
    fn block_after(&mut self, before: u32) -> u32 {
        let block = self.n_blocks;
        self.n_blocks += 1;
        self.edges.push((before, Some(block)));
        block
    }

    /// Appends the statement to block `at`; gives the block where execution goes on, if it does.
    fn lower(&mut self, statement: &Statement, at: u32, header: Option<u32>) -> Option<u32> {
        match statement {
            Statement::Simple => Some(self.block_after(at)),
            Statement::Return => {
                self.edges.push((at, None));
                None
            }
            Statement::Continue => {
                self.edges.push((at, header));
                None
            }
            Statement::Sequence(parts) => parts.iter().try_fold(at, |at, part| self.lower(part, at, header)),
            Statement::If(then, other) => self.branches(at, [&**then, &**other].into_iter(), header),
            Statement::Switch(arms) => self.branches(at, arms.iter(), header),
            Statement::While(body) => {
                let top = self.block_after(at);
                let first = self.block_after(top);
                if let Some(last) = self.lower(body, first, Some(top)) {
                    self.edges.push((last, Some(top)));
                }
                Some(self.block_after(top))
            }
            Statement::DoWhile(body) => {
                let top = self.block_after(at);
                let last = self.lower(body, top, Some(top))?;
                self.edges.push((last, Some(top)));
                Some(self.block_after(last))
            }
        }
    }

    fn branches<'s>(&mut self, at: u32, arms: impl Iterator<Item = &'s Statement>, header: Option<u32>) -> Option<u32> {
        let mut join = None;
        for arm in arms {
            let first = self.block_after(at);
            let Some(last) = self.lower(arm, first, header) else { continue };
            match join {
                None => join = Some(self.block_after(last)),
                Some(join) => self.edges.push((last, Some(join))),
            }
        }
        join
    }

    fn into_graph(mut self) -> Digraph {
        self.edges.sort_by_key(|edge| edge.0);
        let mut seen = std::collections::HashSet::new();
        self.edges.retain(|edge| edge.1.is_none() || seen.insert(*edge));
        graph(self.n_blocks as usize, &self.edges, &[0])
    }
}
