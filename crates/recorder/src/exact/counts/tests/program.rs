//! Runs through all functions of a real program, counted in the cells that its copy has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use emit::{CellKind, Counting, Probe};
use flow::cfg::EdgeKind;
use flow::graph::{BlockId, Edge, EdgeId};
use flow::paths::{EdgeAction, Truncation};
use flow::{FunctionFlow, ModuleFlow};
use image::{Image, Svma};
use profile::exact::ExactBuilder;
use profile::model::{BlockId as Row, Profile};
use profile::{Estimate, ModuleCode};
use rustc_hash::FxHashMap;

use super::Choices;
use crate::exact::counts::numbering::Numbering;
use crate::exact::counts::{Counted, Gaps, Module, Unfinished, add};
use crate::translation::code::module_code;

const RUNS_PER_FUNCTION: u64 = 3;
const MAX_CHOICES: u32 = 60;

/// A program, its copy's cells, and what was counted in them.
struct Simulation<'a> {
    flow: &'a ModuleFlow,
    base: Svma,
    cells: Vec<emit::Cell>,
    /// Number of the first counter, by what it counts.
    places: FxHashMap<(CellKind, u32, u32), usize>,
    counters: Vec<u64>,
    hashed: HashMap<(u32, u32), u64>,
    unfinished: Vec<Unfinished>,
    blocks: BTreeMap<u64, u64>,
    edges: BTreeMap<(u64, u64), u64>,
    entries: BTreeMap<u64, u64>,
    n_path_ends: u64,
}

impl<'a> Simulation<'a> {
    fn new(image: &Image<'_>, flow: &'a ModuleFlow, counting: Counting) -> Simulation<'a> {
        let options = emit::Options { cluster: 0, probe: Probe::Exact(counting), events: emit::Events::default() };
        let copy = emit::translate(image, flow, options, &flow::Sequential);
        let cells = copy.cells().to_vec();
        let mut places = FxHashMap::default();
        let mut n_counters = 0;
        for cell in &cells {
            let to = if cell.kind.is_edge() { cell.to } else { 0 };
            places.insert((cell.kind, cell.at, to), n_counters);
            n_counters += cell.n_cells() as usize;
        }
        Simulation {
            flow,
            base: emit::image_base(image),
            cells,
            places,
            counters: vec![0; n_counters],
            hashed: HashMap::new(),
            unfinished: Vec::new(),
            blocks: BTreeMap::new(),
            edges: BTreeMap::new(),
            entries: BTreeMap::new(),
            n_path_ends: 0,
        }
    }

    fn offset(&self, at: Svma) -> u32 {
        (at - self.base) as u32
    }

    fn count(&mut self, kind: CellKind, at: Svma, to: Option<Svma>) -> bool {
        let key = (kind, self.offset(at), to.map_or(0, |to| self.offset(to)));
        let place = self.places.get(&key).copied();
        place.map(|place| self.counters[place] += 1).is_some()
    }

    fn run_all(&mut self) {
        for (id, function) in (0..).map(flow::callgraph::FunctionId).zip(&self.flow.functions) {
            let owns =
                |block: BlockId| self.flow.function_containing(function.cfg.block(block).range.start) == Some(id);
            if function.cfg.graph.blocks().all(owns) {
                self.run_function(function, id.0.into());
            }
        }
    }

    fn run_function(&mut self, function: &FunctionFlow, seed: u64) {
        let offset = self.offset(function.entry);
        let paths = self
            .cells
            .iter()
            .find(|cell| cell.at == offset && matches!(cell.kind, CellKind::Paths | CellKind::HashedPaths));
        let paths = paths.copied();
        let is_counted = self.places.contains_key(&(CellKind::Block, offset, 0));
        if paths.is_none() && !is_counted {
            return;
        }
        let numbering = paths.map(|_| Numbering::new(&function.cfg, &function.path_weights(), Truncation::BackEdges));
        if let (Some(numbering), Some(cell)) = (&numbering, paths.filter(|cell| cell.kind == CellKind::Paths)) {
            assert_eq!(numbering.n_ids(), u64::from(cell.to), "the numbering of {}", function.entry);
        }
        for run in 0..RUNS_PER_FUNCTION {
            let choices =
                Choices::new((seed * RUNS_PER_FUNCTION + run + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15), MAX_CHOICES);
            self.run(function, paths.zip(numbering.as_ref()), choices);
        }
    }

    /// A run from the entry; all calls return. By blocks, it goes on until it leaves the function,
    /// and runs that take long did not happen.
    fn run(&mut self, function: &FunctionFlow, paths: Option<(emit::Cell, &Numbering)>, mut choices: Choices) {
        let cfg = &function.cfg;
        let mut at = cfg.graph.entries()[0];
        let mut steps: Vec<(BlockId, Option<EdgeId>)> = Vec::new();
        let mut has_left = false;
        while choices.n_left > 0 && !has_left {
            let edges: Vec<EdgeId> = cfg.graph.out_edges(at).collect();
            let edge = edges[choices.below(edges.len())];
            let goes_nowhere = cfg.edge_facts(edge).kind == EdgeKind::Trap;
            steps.push((at, (!goes_nowhere).then_some(edge)));
            match cfg.graph.edge(edge).to {
                Some(to) => at = to,
                None => has_left = true,
            }
        }
        if !has_left {
            if paths.is_none() {
                return;
            }
            steps.push((at, None));
        }
        *self.entries.entry(function.entry.0).or_default() += 1;
        self.count_steps(function, &steps);
        if let Some((cell, numbering)) = paths {
            self.count_paths(function, &steps, cell, numbering);
        }
    }

    fn count_steps(&mut self, function: &FunctionFlow, steps: &[(BlockId, Option<EdgeId>)]) {
        let cfg = &function.cfg;
        let start = |block: BlockId| cfg.block(block).range.start;
        let mut is_counted = false;
        for &(block, edge) in steps {
            *self.blocks.entry(start(block).0).or_default() += 1;
            if !is_counted {
                self.count(CellKind::Block, start(block), None);
            }
            is_counted = false;
            if let Some(Edge { from, to: Some(to) }) = edge.map(|edge| cfg.graph.edge(edge)) {
                *self.edges.entry((start(from).0, start(to).0)).or_default() += 1;
                self.count(CellKind::Edge, start(from), Some(start(to)));
                is_counted = self.count(CellKind::InnerEdge, start(from), Some(start(to)));
            }
        }
    }

    fn count_paths(
        &mut self,
        function: &FunctionFlow,
        steps: &[(BlockId, Option<EdgeId>)],
        cell: emit::Cell,
        numbering: &Numbering,
    ) {
        let first = numbering.plan.starts().iter().position(|start| start.block == steps[0].0);
        let first = first.expect("a path starts at the entry");
        let mut register = numbering.placement.start_registers()[first] as i32;
        for &(block, edge) in steps {
            let Some(edge) = edge else {
                let at = self.offset(function.cfg.block(block).range.start);
                self.unfinished.push(Unfinished { function: cell.at, at, register });
                return;
            };
            match numbering.placement.action(edge) {
                EdgeAction::Pass => {}
                EdgeAction::Add(amount) => register = register.wrapping_add(amount as i32),
                EdgeAction::End { id_offset, restart } => {
                    let id = register.wrapping_add(id_offset as i32) as u32;
                    self.n_path_ends += 1;
                    match cell.kind {
                        CellKind::Paths => self.counters[self.places[&(cell.kind, cell.at, 0)] + id as usize] += 1,
                        _ => *self.hashed.entry((cell.to, id)).or_default() += 1,
                    }
                    register = restart.map_or(register, |register| register as i32);
                }
            }
        }
    }

    fn profile(&self, code: &Arc<ModuleCode>) -> (Profile, Gaps) {
        let mut builder = ExactBuilder::new();
        let id = builder.module("program", "", Arc::clone(code)).expect("sound code");
        let module = Module { id, flow: self.flow, base: self.base, code, truncation: Truncation::BackEdges };
        let Simulation { cells, counters, hashed, unfinished, .. } = self;
        let added = add(&mut builder, &module, &Counted { cells, counters, hashed, unfinished }).expect("own counters");
        let profile = builder.profile();
        assert_eq!(profile.verify(), []);
        (profile, added.gaps)
    }

    /// The same with all paths in the path table.
    fn hash_all(&mut self) {
        let mut counters = Vec::new();
        let mut rest = &self.counters[..];
        for (key, cell) in (1 << 20..).zip(&mut self.cells) {
            let (own, behind) = rest.split_at(cell.n_cells() as usize);
            rest = behind;
            if cell.kind == CellKind::Paths {
                let counted = (0..).zip(own.iter().copied()).filter(|&(_, count)| count != 0);
                self.hashed.extend(counted.map(|(id, count)| ((key, id), count)));
                (cell.kind, cell.to) = (CellKind::HashedPaths, key);
            } else {
                counters.extend(own);
            }
        }
        self.counters = counters;
    }
}

fn with_shell(check: impl FnOnce(&Image<'_>, &ModuleFlow, &Arc<ModuleCode>)) {
    let program = std::fs::read("/bin/sh").expect("every system has a shell");
    let image = Image::parse(&program).expect("an ELF file");
    let flow = flow::analyze(&image, &flow::Sequential);
    let code = Arc::new(module_code(&image, &flow, &flow::Sequential));
    check(&image, &flow, &code);
}

fn assert_blocks(simulation: &Simulation<'_>, profile: &Profile) {
    let ran = profile.blocks.iter().filter(|block| block.count.value > 0.0);
    let counts: BTreeMap<u64, u64> = ran.map(|block| (block.address, block.count.seen)).collect();
    assert!(counts == simulation.blocks, "blocks differ");
    assert!(counts.len() > 1000);
}

fn seen_edges(profile: &Profile) -> BTreeMap<(u64, u64), u64> {
    let address = |row: Row| profile.blocks[row.index()].address;
    let ran = profile.edges.iter().filter(|edge| edge.count.value > 0.0);
    ran.map(|edge| ((address(edge.from), address(edge.to)), edge.count.seen)).collect()
}

fn seen_entries(profile: &Profile) -> BTreeMap<u64, u64> {
    let entered = profile.functions.iter().filter(|function| function.entries.value > 0.0);
    entered.map(|function| (function.address, function.entries.seen)).collect()
}

#[test]
fn counted_blocks_give_all_edges_but_those_that_are_listed() {
    with_shell(|image, flow, code| {
        let mut simulation = Simulation::new(image, flow, Counting::Blocks);
        simulation.run_all();
        let (profile, gaps) = simulation.profile(code);
        assert_blocks(&simulation, &profile);
        assert_eq!((gaps.n_left_midway, gaps.n_stray_arrivals), (0, 0));
        let edges = seen_edges(&profile);
        let wrong = edges.iter().find(|&(edge, count)| simulation.edges.get(edge) != Some(count));
        assert_eq!(wrong, None);
        let unclear = |at: u64| {
            gaps.undetermined
                .iter()
                .any(|gap| flow.function_at(Svma(at)).is_some_and(|function| function.entry == gap.function))
        };
        let missing = simulation.edges.keys().find(|&edge| !edges.contains_key(edge) && !unclear(edge.0));
        assert_eq!(missing, None);
        assert!(gaps.undetermined.len() * 20 < flow.functions.len(), "{} functions", gaps.undetermined.len());
        let entries = seen_entries(&profile);
        let wrong = simulation.entries.iter().find(|&(at, count)| entries.get(at) != Some(count) && !unclear(*at));
        assert_eq!(wrong, None);
    });
}

#[test]
fn counted_paths_give_everything() {
    with_shell(|image, flow, code| {
        let mut simulation = Simulation::new(image, flow, Counting::Paths);
        simulation.run_all();
        let (profile, gaps) = simulation.profile(code);
        assert_eq!((&gaps.lost_paths[..], &gaps.unknown_paths[..]), (&[][..], &[][..]));
        assert_blocks(&simulation, &profile);
        assert!(gaps.undetermined.is_empty() && seen_edges(&profile) == simulation.edges, "edges differ");
        assert_eq!(seen_entries(&profile), simulation.entries);
        let n_paths: u64 = profile.paths.iter().map(|path| path.count.seen).sum();
        assert_eq!(n_paths, simulation.n_path_ends);
        let kinds = |kind| simulation.cells.iter().filter(|cell| cell.kind == kind).count();
        assert!(kinds(CellKind::Paths) > 100 && kinds(CellKind::HashedPaths) > 10);

        simulation.hash_all();
        let (hashed, _) = simulation.profile(code);
        assert!(hashed == profile, "it does not matter where paths are counted");
        assert_eq!(hashed.unseen_at_most, 0.0);
        assert!(hashed.blocks.iter().all(|block| block.count == Estimate::exact(block.count.seen)));
    });
}

#[test]
fn counters_of_another_copy_are_refused() {
    with_shell(|image, flow, code| {
        let mut simulation = Simulation::new(image, flow, Counting::Blocks);
        simulation.counters.pop();
        let mut builder = ExactBuilder::new();
        let id = builder.module("program", "", Arc::clone(code)).expect("sound code");
        let module = Module { id, flow, base: simulation.base, code, truncation: Truncation::BackEdges };
        let Simulation { cells, counters, hashed, unfinished, .. } = &simulation;
        assert!(add(&mut builder, &module, &Counted { cells, counters, hashed, unfinished }).is_err());
    });
}
