//! Simulated runs: what is derived and decoded must be what the run did.

mod graphs;
mod program;

use std::collections::BTreeMap;

use flow::cfg::{Cfg, EdgeKind};
use flow::graph::{BlockId, EdgeId};
use flow::loops::Loops;
use flow::order::Order;
use flow::paths::{EdgeAction, Truncation, estimate_weights};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use self::graphs::{Calls, Choices, any_cfg, block_facts, counted_edges};
use super::derive::{BlockFacts, Derived, Known, derive};
use super::numbering::{Decoded, Numbering};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(0x5740_be02),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// What runs did.
#[derive(Clone, Debug)]
struct Truth {
    blocks: Vec<u64>,
    edges: Vec<u64>,
    arrivals: Vec<u64>,
}

/// Most choices of one run.
const MAX_CHOICES: u32 = 200;

impl Truth {
    fn new(cfg: &Cfg) -> Truth {
        let n_blocks = cfg.blocks.len();
        Truth { blocks: vec![0; n_blocks], edges: vec![0; cfg.edges.len()], arrivals: vec![0; n_blocks] }
    }

    /// Adds a run from an entry until control leaves the function; one that takes too long did not
    /// happen.
    fn run(&mut self, cfg: &Cfg, choices: &mut Choices, calls: Calls) {
        let mut longer = self.clone();
        if longer.run_to_exit(cfg, choices, calls) {
            *self = longer;
        }
    }

    fn run_to_exit(&mut self, cfg: &Cfg, choices: &mut Choices, calls: Calls) -> bool {
        let entries = cfg.graph.entries();
        let mut at = entries[choices.below(entries.len())];
        let mut returned_to: Option<BlockId> = None;
        self.arrivals[at.index()] += 1;
        while choices.n_left > 0 {
            self.blocks[at.index()] += 1;
            let edges: Vec<EdgeId> = cfg.graph.out_edges(at).collect();
            let edge = edges[choices.below(edges.len())];
            let is_call = cfg.edge_facts(edge).kind == EdgeKind::Call;
            if is_call && calls == Calls::MayNotReturn && choices.below(4) == 0 {
                return true;
            }
            if !block_facts(cfg, at).goes_on && cfg.graph.edge(edge).to.is_none() {
                return true;
            }
            self.edges[edge.index()] += 1;
            returned_to = cfg.graph.edge(edge).to.filter(|_| is_call).or(returned_to);
            match (cfg.graph.edge(edge).to, returned_to) {
                (Some(to), _) => at = to,
                (None, Some(site)) if calls == Calls::MayReturnTwice && choices.below(2) == 0 => {
                    self.arrivals[site.index()] += 1;
                    at = site;
                }
                (None, _) => return true,
            }
        }
        false
    }

    fn derive(&self, cfg: &Cfg) -> Derived {
        let facts = cfg.graph.blocks().zip(&self.blocks);
        let facts = facts.map(|(block, &count)| BlockFacts { count: Some(count), ..block_facts(cfg, block) });
        let is_counted = counted_edges(cfg);
        let edge = |id: EdgeId| {
            let edge = cfg.graph.edge(id);
            match edge.to {
                None if !block_facts(cfg, edge.from).goes_on => Some(0),
                _ => is_counted[id.index()].then_some(self.edges[id.index()]),
            }
        };
        let edges = cfg.graph.edge_ids().map(edge).collect();
        derive(&Known { graph: &cfg.graph, blocks: facts.collect(), edges })
    }
}

fn has_table(cfg: &Cfg) -> bool {
    cfg.edges.iter().any(|edge| edge.kind == EdgeKind::JumpTable)
}

/// Whether the step before an entry tells nothing about it: a call need not return, and a branch
/// out of the function is not counted.
fn has_unclear_entry(cfg: &Cfg) -> bool {
    let is_unclear = |&edge: &EdgeId| {
        let from = cfg.graph.edge(edge).from;
        cfg.edge_facts(edge).kind == EdgeKind::Call
            || cfg.graph.out_edges(from).any(|other| cfg.graph.edge(other).to.is_none())
    };
    cfg.graph.entries().iter().any(|&entry| cfg.graph.in_edges(entry).iter().any(is_unclear))
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn edges_follow_from_blocks(cfg in any_cfg(14), calls in graphs::any_calls(), seeds in prop::collection::vec(any::<u64>(), 1..6)) {
        let mut truth = Truth::new(&cfg);
        for seed in seeds {
            truth.run(&cfg, &mut Choices::new(seed, MAX_CHOICES), calls);
        }
        let derived = truth.derive(&cfg);
        for (id, &count) in cfg.graph.edge_ids().zip(&derived.edges) {
            let is_trap = !block_facts(&cfg, cfg.graph.edge(id).from).goes_on && cfg.graph.edge(id).to.is_none();
            prop_assert!(is_trap || count.is_none_or(|count| count == truth.edges[id.index()]), "{id}: {count:?}");
        }
        for (block, &arrivals) in cfg.graph.blocks().zip(&derived.arrivals) {
            prop_assert!(arrivals.is_none_or(|count| count == truth.arrivals[block.index()]), "{block}: {arrivals:?}");
        }
        prop_assert_eq!(derived.n_left_midway, 0);
        if !has_table(&cfg) && !has_unclear_entry(&cfg) {
            prop_assert!(derived.edges.iter().all(Option::is_some), "only tables and entries can be unclear");
            prop_assert_eq!(derived.n_undetermined, 0);
        }
    }

    /// A run that stops inside a block.
    #[test]
    fn early_exits_take_nothing_from_what_ran(cfg in any_cfg(14), seed in any::<u64>(), n_steps in 1..20u32) {
        let mut truth = Truth::new(&cfg);
        let mut choices = Choices::new(seed, MAX_CHOICES);
        truth.run(&cfg, &mut choices, Calls::Return);
        let mut at = cfg.graph.entries()[0];
        truth.arrivals[at.index()] += 1;
        for _ in 0..n_steps {
            truth.blocks[at.index()] += 1;
            let edges: Vec<EdgeId> = cfg.graph.out_edges(at).filter(|&edge| cfg.graph.edge(edge).to.is_some()).collect();
            if edges.is_empty() {
                break;
            }
            let edge = edges[choices.below(edges.len())];
            truth.edges[edge.index()] += 1;
            let Some(to) = cfg.graph.edge(edge).to else { break };
            at = to;
        }
        truth.blocks[at.index()] += 1;
        let derived = truth.derive(&cfg);
        for (id, count) in cfg.graph.edge_ids().zip(derived.edges) {
            let edge = cfg.graph.edge(id);
            let most = edge.to.map_or(u64::MAX, |to| truth.blocks[to.index()]).min(truth.blocks[edge.from.index()]);
            prop_assert!(count.is_none_or(|count| count <= most), "{id}: {count:?} of {most}");
        }
    }

    /// The path register as copies keep it, in 32 bits.
    #[test]
    fn numbers_are_the_paths_that_ran(
        cfg in any_cfg(12),
        seeds in prop::collection::vec(any::<u64>(), 1..6),
        cuts_headers: bool,
    ) {
        let truncation = if cuts_headers { Truncation::LoopHeaders } else { Truncation::BackEdges };
        let loops = Loops::new(&cfg.graph, &Order::new(&cfg.graph));
        let numbering = Numbering::new(&cfg, &estimate_weights(&cfg.graph, &loops), truncation);
        let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
        let mut paths: BTreeMap<RanPath, u64> = BTreeMap::new();
        for seed in seeds {
            let mut run = PathRun::new(&cfg, &numbering, Choices::new(seed, MAX_CHOICES));
            while let Some((id, path)) = run.next_path() {
                *counted.entry(u64::from(id)).or_default() += 1;
                *paths.entry(path).or_default() += 1;
            }
            let unfinished = numbering.decode_unfinished(run.at, run.register);
            let expected = if run.is_whole { Decoded::Whole(run.path) } else { Decoded::Rest(run.path) };
            prop_assert_eq!(unfinished, Some(expected));
        }
        let decode = |(&id, &count): (&u64, &u64)| match numbering.decode(id) {
            Some(Decoded::Whole(path)) => ((path.blocks, path.end, true), count),
            Some(Decoded::Rest(path)) => ((path.blocks, path.end, false), count),
            None => panic!("{id} of {}", numbering.n_ids()),
        };
        prop_assert_eq!(counted.iter().map(decode).collect::<BTreeMap<_, _>>(), paths);
        prop_assert!(counted.keys().all(|&id| id < numbering.n_ids()));
    }
}

/// Blocks, the edge that ends them, and whether they are all of the path.
type RanPath = (Vec<BlockId>, EdgeId, bool);

/// A run with a path register, which stops in the middle of a path.
struct PathRun<'a> {
    cfg: &'a Cfg,
    numbering: &'a Numbering,
    choices: Choices,
    at: BlockId,
    register: i32,
    path: Vec<BlockId>,
    is_whole: bool,
}

impl<'a> PathRun<'a> {
    fn new(cfg: &'a Cfg, numbering: &'a Numbering, mut choices: Choices) -> PathRun<'a> {
        let starts: Vec<usize> = (0..numbering.plan.starts().len())
            .filter(|&start| cfg.graph.is_entry(numbering.plan.starts()[start].block))
            .collect();
        let start = starts[choices.below(starts.len())];
        let at = numbering.plan.starts()[start].block;
        let register = numbering.placement.start_registers()[start] as i32;
        PathRun { cfg, numbering, choices, at, register, path: vec![at], is_whole: true }
    }

    /// Runs to the end of a path that goes on in the function; nothing if the run is over before.
    fn next_path(&mut self) -> Option<(u32, RanPath)> {
        while self.choices.n_left > 0 {
            let edges: Vec<EdgeId> = self.cfg.graph.out_edges(self.at).collect();
            let edge = edges[self.choices.below(edges.len())];
            let to = self.cfg.graph.edge(edge).to?;
            if self.cfg.edge_facts(edge).kind == EdgeKind::Call && self.choices.below(3) == 0 {
                self.restart(to);
                continue;
            }
            self.at = to;
            match self.numbering.placement.action(edge) {
                EdgeAction::Pass => self.path.push(to),
                EdgeAction::Add(amount) => {
                    self.register = self.register.wrapping_add(amount as i32);
                    self.path.push(to);
                }
                EdgeAction::End { id_offset, restart } => {
                    let id = self.register.wrapping_add(id_offset as i32) as u32;
                    self.register = restart.expect("the edge stays in the function") as i32;
                    let path = std::mem::replace(&mut self.path, vec![to]);
                    return Some((id, (path, edge, std::mem::replace(&mut self.is_whole, true))));
                }
            }
        }
        None
    }

    /// A return that was not noted: the first of the site's numbers, in terms of the block.
    fn restart(&mut self, site: BlockId) {
        let mut first = self.numbering.plan.n_paths();
        let mut seen = Vec::new();
        for edge in self.cfg.graph.edge_ids().filter(|&edge| self.cfg.edge_facts(edge).kind == EdgeKind::Call) {
            let Some(to) = self.cfg.graph.edge(edge).to else { continue };
            if to == site {
                break;
            }
            if !seen.contains(&to) {
                first += self.numbering.plan.paths_from(to);
                seen.push(to);
            }
        }
        self.register = (first as i64).wrapping_sub(self.numbering.placement.potential(site)) as i32;
        (self.at, self.path, self.is_whole) = (site, vec![site], false);
    }
}

#[test]
fn a_block_that_is_left_midway_shows() {
    let cfg = graphs::cfg(&[graphs::End::Next, graphs::End::Next, graphs::End::Return]);
    let truth = Truth { blocks: vec![3, 3, 2], edges: vec![0; 3], arrivals: vec![3, 0, 0] };
    let derived = truth.derive(&cfg);
    assert_eq!((derived.edges, derived.n_left_midway), (vec![Some(3), Some(2), Some(2)], 1));
}

#[test]
fn tables_that_share_their_targets_are_not_determined() {
    use graphs::End::{Branch, Return, Table};
    let cfg = graphs::cfg(&[Branch(2), Table(vec![3, 4]), Table(vec![3, 4]), Return, Return]);
    let truth = Truth { blocks: vec![9, 4, 5, 6, 3], edges: vec![0; 8], arrivals: vec![9, 0, 0, 0, 0] };
    let derived = truth.derive(&cfg);
    assert_eq!(derived.n_undetermined, 9);
    assert_eq!(derived.edges.iter().filter(|count| count.is_none()).count(), 4);
    let truth = Truth { blocks: vec![9, 4, 5, 9, 0], ..truth };
    assert_eq!(truth.derive(&cfg).n_undetermined, 0, "nothing came to the last block");
}
