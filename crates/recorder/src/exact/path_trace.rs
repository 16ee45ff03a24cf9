//! The full trace of a process, from words in shared memory to frames of a file
//! ([`store::path_trace`]).
//!
//! Words are packed as they arrive, area by area; a mark says when an area has a new thread, whose
//! words make chunks of their own. A chunk is written when it is full, or when the recording writes
//! what it has. With it go the blocks of paths that it has for the first time, as soon as the
//! control flow of their module is known. Counts of paths come from packing; they are what copies
//! would have counted.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use attach::Process;
use flow::callgraph::FunctionId;
use flow::graph::{BlockId, EdgeId};
use flow::{FunctionFlow, ModuleFlow, Transfer};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::path_trace::Mark;

use super::counts::{self, Decoded, Numbering, Stop};
use crate::process::{Module, Watched};
use store::path_trace::chunk::Packer;
use store::path_trace::facts::{BlockFact, End, Fact, Function, NO_NUMBER, PathFact, Start};
use store::path_trace::file::{Label, Writer};

/// Words of a full chunk.
const CHUNK_WORDS: u64 = 4 << 20;

/// The trace of a process.
#[derive(Debug)]
pub struct ProcessTrace {
    /// Its number in the recording.
    process: u32,
    areas: Vec<AreaTrace>,
    /// Chunks of each thread so far.
    n_chunks: BTreeMap<u32, u64>,
    /// How often words occurred; those of functions only.
    pub counts: FxHashMap<u64, u64>,
    /// First keys of modules that the file knows.
    described: BTreeSet<u32>,
    /// Words whose blocks the file knows, or that have none.
    explained: FxHashSet<u64>,
    /// The others.
    unexplained: FxHashSet<u64>,
    numberings: FxHashMap<u32, Option<Rc<Numbered>>>,
}

#[derive(Debug, Default)]
struct AreaTrace {
    thread: u32,
    packer: Packer,
}

/// A function whose numbers are known.
#[derive(Debug)]
struct Numbered {
    id: FunctionId,
    numbering: Numbering,
}

impl ProcessTrace {
    pub fn new(process: u32) -> ProcessTrace {
        ProcessTrace {
            process,
            areas: Vec::new(),
            n_chunks: BTreeMap::new(),
            counts: FxHashMap::default(),
            described: BTreeSet::new(),
            explained: FxHashSet::default(),
            unexplained: FxHashSet::default(),
            numberings: FxHashMap::default(),
        }
    }

    pub fn number(&self) -> u32 {
        self.process
    }

    /// Takes words of an area.
    pub fn take(&mut self, area: usize, mut words: &[u64], writer: &mut Writer) {
        if self.areas.len() <= area {
            self.areas.resize_with(area + 1, AreaTrace::default);
        }
        while !words.is_empty() {
            let new_thread = |&word: &u64| match Mark::from_word(word) {
                Some(Mark::Thread(thread)) => Some(thread),
                _ => None,
            };
            let until = words.iter().position(|word| new_thread(word).is_some()).unwrap_or(words.len());
            self.areas[area].packer.push(&words[..until]);
            if self.areas[area].packer.n_words() >= CHUNK_WORDS {
                self.close(area, writer);
            }
            words = &words[until..];
            if let Some((mark, rest)) = words.split_first() {
                self.close(area, writer);
                self.areas[area].thread = new_thread(mark).unwrap_or_default();
                words = rest;
            }
        }
    }

    /// Writes the chunk of an area.
    fn close(&mut self, area: usize, writer: &mut Writer) {
        let AreaTrace { thread, packer } = &mut self.areas[area];
        if packer.n_words() == 0 {
            return;
        }
        let sequence = self.n_chunks.entry(*thread).or_default();
        let packed = packer.close();
        writer.words(Label { process: self.process, thread: *thread, sequence: *sequence }, &packed);
        *sequence += 1;
        for (word, count) in packed.counts {
            if Mark::from_word(word).is_none() {
                *self.counts.entry(word).or_default() += count;
                if !self.explained.contains(&word) {
                    self.unexplained.insert(word);
                }
            }
        }
    }

    /// Writes what has arrived so far, and what is known about it.
    pub fn write(&mut self, modules: &[&Module], first_key: &dyn Fn(&Module) -> Option<u32>, writer: &mut Writer) {
        for area in 0..self.areas.len() {
            self.close(area, writer);
        }
        let mut keyed: Vec<(u32, &Module)> =
            modules.iter().filter_map(|module| Some((first_key(module)?, *module))).collect();
        keyed.sort_by_key(|&(first, _)| first);
        for &(first, module) in &keyed {
            self.describe(first, module, writer);
        }
        let mut words: Vec<u64> = self.unexplained.iter().copied().collect();
        words.sort_unstable();
        let paths: Vec<PathFact> = words.into_iter().filter_map(|word| self.explain(word, &keyed)).collect();
        for path in &paths {
            self.unexplained.remove(&path.word);
            self.explained.insert(path.word);
        }
        if !paths.is_empty() {
            writer.fact(&Fact::Paths { process: self.process, paths });
        }
    }

    /// Says which functions the keys of a module stand for.
    fn describe(&mut self, first_key: u32, module: &Module, writer: &mut Writer) {
        let Some(translation) = &module.translation else { return };
        if !self.described.insert(first_key) {
            return;
        }
        let base = translation.copy.base();
        let function = |cell: &emit::Cell| Function { key: cell.to, entry: base.offset(u64::from(cell.at)).0 };
        let functions = keyed_cells(module).map(function).collect();
        let path = module.mapped.path.display().to_string();
        writer.fact(&Fact::Module { process: self.process, first_key, path, functions });
    }

    /// The blocks of a path; nothing if they are not known yet.
    fn explain(&mut self, word: u64, keyed: &[(u32, &Module)]) -> Option<PathFact> {
        let key = (word >> 32) as u32;
        let index = keyed.partition_point(|&(first, _)| first <= key).checked_sub(1)?;
        let (first, module) = keyed[index];
        // Of a module that is still to come, its neighbour knows nothing.
        let translation = module.translation.as_ref().filter(|known| key - first < known.copy.n_keys())?;
        let flow = translation.blocks.get()?.flow();
        let numbered = self.numberings.entry(key).or_insert_with(|| {
            let cell = keyed_cells(module).find(|cell| cell.to == key - first)?;
            let id = counts::function_entered_at(flow, translation.copy.base().offset(u64::from(cell.at)))?;
            Some(Rc::new(Numbered { id, numbering: numbering(&flow.functions[id.index()]) }))
        });
        let numbered = Rc::clone(numbered.as_ref()?);
        let (path, is_whole) = match numbered.numbering.decode(word & 0xffff_ffff)? {
            Decoded::Whole(path) => (path, true),
            Decoded::Rest(path) => (path, false),
        };
        Some(path_fact(word, flow, numbered.id, &path.blocks, Some(path.end), is_whole))
    }

    /// Writes what was under way when threads ended.
    pub fn write_underway(
        &self,
        stops: &[(u32, &Module, Stop)],
        first_key: &dyn Fn(&Module) -> Option<u32>,
        writer: &mut Writer,
    ) {
        let mut threads: BTreeMap<u32, Vec<PathFact>> = BTreeMap::new();
        for &(thread, module, stop) in stops {
            let path = first_key(module).and_then(|first| underway_path(module, first, stop));
            threads.entry(thread).or_default().extend(path);
        }
        for (thread, paths) in threads {
            writer.fact(&Fact::Underway { process: self.process, thread, paths });
        }
    }
}

/// Cells of a module that say which key a function has.
fn keyed_cells(module: &Module) -> impl Iterator<Item = &emit::Cell> {
    let cells = module.translation.iter().flat_map(|translation| translation.copy.cells());
    cells.filter(|cell| cell.kind == emit::CellKind::HashedPaths)
}

/// A path as the file has it; without an end if it has not ended.
fn path_fact(
    word: u64,
    flow: &ModuleFlow,
    id: FunctionId,
    blocks: &[BlockId],
    end: Option<EdgeId>,
    is_whole: bool,
) -> PathFact {
    let function = &flow.functions[id.index()];
    let start = match blocks.first() {
        Some(&block) if is_whole && is_entered_at(function, block) => Start::Entry,
        Some(&block) if is_whole && function.cfg.graph.is_entry(block) => Start::Landing,
        Some(_) if is_whole => Start::Cut,
        _ => Start::Middle,
    };
    let last = blocks.len().saturating_sub(1);
    let comes_back = end.is_some_and(|end| function.cfg.graph.edge(end).to.is_some());
    let fact = |(index, &block): (usize, &BlockId)| {
        let block = function.cfg.block(block);
        let called = match block.transfer {
            Transfer::Call(target) => Some(target.0),
            Transfer::IndirectCall => Some(0),
            _ => None,
        };
        BlockFact { at: block.range.start.0, calls: called.filter(|_| index < last || comes_back) }
    };
    let end = end.map_or(End::Stop, |end| end_fact(flow, id, blocks, end));
    PathFact { word, start, blocks: blocks.iter().enumerate().map(fact).collect(), end }
}

fn numbering(function: &FunctionFlow) -> Numbering {
    Numbering::new(&function.cfg, &function.path_weights(), emit::Counting::TracedPaths.truncation())
}

/// Whether control that enters the function starts here, rather than an exception.
fn is_entered_at(function: &FunctionFlow, block: BlockId) -> bool {
    use flow::cfg::EntryKind::{Primary, Secondary};
    let mut entries = function.cfg.graph.entries().iter().zip(&function.cfg.entry_kinds);
    entries.any(|(&entry, kind)| entry == block && matches!(kind, Primary | Secondary))
}

fn end_fact(flow: &ModuleFlow, id: FunctionId, blocks: &[BlockId], edge: EdgeId) -> End {
    let cfg = &flow.functions[id.index()].cfg;
    let is_own = |block: BlockId| flow.function_containing(cfg.block(block).range.start) == Some(id);
    let to = cfg.graph.edge(edge).to;
    if let Some(to) = to.filter(|&to| is_own(to)) {
        return End::Cut(cfg.block(to).range.start.0);
    }
    match blocks.last().map(|&last| cfg.block(last).transfer) {
        Some(Transfer::Return) => End::Return,
        Some(Transfer::Next | Transfer::Jump(_) | Transfer::Branch(_)) => {
            let target = to.map(|to| cfg.block(to).range.start).or(cfg.edge_facts(edge).target);
            End::Jump(target.map_or(0, |target| target.0))
        }
        Some(Transfer::IndirectJump) => End::Jump(0),
        Some(Transfer::Call(_) | Transfer::IndirectCall | Transfer::Trap) | None => End::Stop,
    }
}

fn underway_path(module: &Module, first_key: u32, stop: Stop) -> Option<PathFact> {
    let translation = module.translation.as_ref()?;
    let (index, code) = (translation.blocks.get()?, translation.code.get()?);
    let truncation = emit::Counting::TracedPaths.truncation();
    let (flow, base) = (index.flow(), translation.copy.base());
    let of_module = counts::Module { id: module.id, flow, base, code, truncation };
    let unfinished = *counts::unfinished(&of_module, &[stop]).first()?;
    let key = first_key + keyed_cells(module).find(|cell| cell.at == unfinished.function)?.to;
    let id = counts::function_entered_at(flow, base.offset(u64::from(unfinished.function)))?;
    let function = &flow.functions[id.index()];
    let at = function.cfg.block_at(base.offset(u64::from(unfinished.at)))?;
    let (blocks, is_whole) = match numbering(function).decode_unfinished(at, unfinished.register)? {
        Decoded::Whole(blocks) => (blocks, true),
        Decoded::Rest(blocks) => (blocks, false),
    };
    let word = u64::from(key) << 32 | u64::from(NO_NUMBER);
    Some(path_fact(word, flow, id, &blocks, None, is_whole))
}

/// Takes the words that a process has sent; if it is the last time, all that are left.
pub fn drain(trace: &mut ProcessTrace, process: &Process, writer: &mut Writer, is_last: bool) {
    let mut sink = |area: usize, words: &[u64]| trace.take(area, words, writer);
    if is_last {
        process.salvage_words(&mut sink)
    } else {
        process.drain_words(&mut sink)
    };
}

/// Writes what is known so far.
pub fn write(trace: &mut ProcessTrace, watched: &Watched, writer: &mut Writer) {
    let modules: Vec<&Module> = watched.all_modules().collect();
    let first_key = |module: &Module| Some(watched.process.first_counters(module.placed?.copy).key);
    trace.write(&modules, &first_key, writer);
}
