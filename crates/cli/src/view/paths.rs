//! `strobe paths`: hot paths, each as the list of its blocks.
//!
//! A block is shown by the source lines of its instructions, where they are known; an
//! instruction-by-instruction look at the lines needs the file that ran. Without it, the lines of
//! the block's first and last instruction have to do.

use iced_x86::Instruction;
use profile::model::{BlockEnd, BlockId, ContextPath, EdgeKind, FunctionId, Path, PathId};
use profile::query::{self, PathRank, PathRow};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::figures::Figure;
use crate::report::Address;
use crate::view::code::{InstructionLine, targets};
use crate::view::contexts;
use crate::view::props::{CodeStyle, PathOrder};
use crate::view::subject::{FunctionLabel, Place, SourceLine, Subject};

#[derive(Debug, Serialize)]
pub struct PathsView {
    /// What the paths are ordered by: `time`, `flow` or `count`.
    pub by: &'static str,
    pub n_paths: usize,
    pub paths: Vec<PathLine>,
    #[serde(skip)]
    pub is_timeless: bool,
    #[serde(skip)]
    pub style: CodeStyle,
}

#[derive(Debug, Serialize)]
pub struct PathLine {
    pub function: FunctionLabel,
    /// Paths of the function that were seen.
    pub n_paths_of_function: usize,
    pub count: Figure,
    /// Of the function's paths, by count.
    pub share_of_function: Figure,
    pub self_ns: Figure,
    /// Of CPU time.
    pub time_share: Figure,
    /// Of the flow of all paths.
    pub flow_share: Figure,
    pub n_branches: u32,
    pub blocks: Vec<PathStep>,
    /// Where the back edge leads that the path ends with.
    pub back_to: Option<Address>,
    /// Where it ran, most often first; nothing if that was not asked for.
    pub contexts: Option<Vec<PathContext>>,
}

#[derive(Debug, Serialize)]
pub struct PathContext {
    /// Names from the root on, without parameters.
    pub stack: Vec<String>,
    pub count: Figure,
    /// Of the path's executions.
    pub share: Figure,
    pub self_ns: Figure,
    /// Of a simulated data cache.
    pub misses: u64,
}

#[derive(Debug, Serialize)]
pub struct PathStep {
    pub address: Address,
    pub instructions: u32,
    pub lines: Vec<SourceLine>,
    pub code: Vec<InstructionLine>,
    /// How the path leaves the block.
    pub exit: Exit,
}

#[derive(Debug, Serialize)]
pub struct Exit {
    /// `taken`, `fall-through`, `table`, `past call`, `non-local`; `return`, `tail call` or `end`
    /// if the path ends without a back edge.
    pub how: &'static str,
    /// Whether the way is one of several.
    pub chosen: bool,
    /// How often the block is left this way.
    pub probability: Option<Figure>,
    /// Functions that the block calls.
    pub callees: Vec<String>,
}

/// Which paths to show, and how.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    pub function: Option<FunctionId>,
    pub by: PathOrder,
    pub style: CodeStyle,
    /// Whether contexts are shown with each path.
    pub is_by_context: bool,
    pub n: usize,
}

pub fn view(subject: &mut Subject, wish: Wish) -> PathsView {
    let has_times = !query::is_timeless(&subject.profile);
    let wish = if has_times || wish.by != PathOrder::Time { wish } else { Wish { by: PathOrder::Flow, ..wish } };
    let mut rows = ranked(subject, wish);
    let n_paths = rows.len();
    rows.truncate(wish.n);
    let wordings = Wordings::new(subject, &rows);
    let mut paths: Vec<PathLine> = rows.iter().map(|row| wordings.path(subject, row)).collect();
    if wish.is_by_context {
        let contexts = contexts_of(subject, &rows);
        paths.iter_mut().zip(contexts).for_each(|(path, contexts)| path.contexts = Some(contexts));
    }
    PathsView {
        by: match wish.by {
            PathOrder::Time => "time",
            PathOrder::Flow => "flow",
            PathOrder::Count => "count",
        },
        n_paths,
        paths,
        is_timeless: query::is_timeless(&subject.profile),
        style: wish.style,
    }
}

/// The contexts of each path.
fn contexts_of(subject: &mut Subject, rows: &[PathRow]) -> Vec<Vec<PathContext>> {
    let paths: Vec<PathId> = rows.iter().map(|row| row.path).collect();
    let contexts = query::contexts_of_paths(&subject.profile, &paths);
    let contexts: Vec<Vec<ContextPath>> =
        contexts.into_iter().map(|rows| rows.into_iter().cloned().collect()).collect();
    contexts::resolve_stacks(subject, contexts.iter().flatten().map(|row| row.context));
    let line = |path: &PathRow, row: &ContextPath| PathContext {
        stack: contexts::stack_names(subject, row.context),
        count: row.count.into(),
        share: query::share(row.count, path.count).into(),
        self_ns: row.self_ns.into(),
        misses: row.misses,
    };
    let lines = rows.iter().zip(&contexts);
    lines.map(|(path, contexts)| contexts.iter().map(|row| line(path, row)).collect()).collect()
}

fn ranked(subject: &Subject, wish: Wish) -> Vec<PathRow> {
    let rank = if wish.by == PathOrder::Time { PathRank::Time } else { PathRank::Flow };
    let mut rows = query::paths(&subject.profile, wish.function, rank);
    if wish.by == PathOrder::Count {
        rows.sort_by(|a, b| b.count.value.total_cmp(&a.count.value));
    }
    rows
}

/// What the lines of paths are made from.
struct Wordings {
    instructions: FxHashMap<BlockId, Vec<Instruction>>,
    /// By the ends of an edge.
    steps: FxHashMap<(BlockId, BlockId), Step>,
    callees: FxHashMap<BlockId, Vec<FunctionId>>,
    n_paths: FxHashMap<FunctionId, usize>,
}

#[derive(Clone, Copy)]
struct Step {
    kind: EdgeKind,
    probability: Figure,
}

impl Wordings {
    /// Reads the code of all blocks on the paths and looks everything up that they name.
    fn new(subject: &mut Subject, rows: &[PathRow]) -> Wordings {
        let profile = &subject.profile;
        let mut instructions = FxHashMap::default();
        for row in rows {
            for &block in &profile.paths[row.path.index()].blocks {
                instructions.entry(block).or_insert_with(|| subject.instructions(block));
            }
        }
        let mut callees: FxHashMap<BlockId, Vec<FunctionId>> = FxHashMap::default();
        for call in profile.calls.iter().filter(|call| instructions.contains_key(&call.site)) {
            callees.entry(call.site).or_default().push(call.callee);
        }
        let mut n_paths: FxHashMap<FunctionId, usize> = FxHashMap::default();
        profile.paths.iter().for_each(|path| *n_paths.entry(path.function).or_default() += 1);
        let steps = steps(subject, &instructions);
        let mut places: Vec<Place> = Vec::new();
        for (&block, insns) in &instructions {
            places.extend(targets(subject.module_of(block), insns));
            places.extend([subject.start_of(block), subject.end_of(block)]);
        }
        let functions = rows.iter().map(|row| row.function).chain(callees.values().flatten().copied());
        subject.resolve(functions.collect::<Vec<_>>(), places);
        Wordings { instructions, steps, callees, n_paths }
    }

    fn path(&self, subject: &Subject, row: &PathRow) -> PathLine {
        let path = &subject.profile.paths[row.path.index()];
        PathLine {
            function: subject.label(row.function),
            n_paths_of_function: self.n_paths.get(&row.function).copied().unwrap_or(0),
            count: row.count.into(),
            share_of_function: row.share_of_function.into(),
            self_ns: row.self_ns.into(),
            time_share: row.time_share.into(),
            flow_share: row.flow_share.into(),
            n_branches: path.n_branches,
            blocks: (0..path.blocks.len()).map(|at| self.step(subject, path, at)).collect(),
            back_to: path.back_to.map(|block| subject.spot(subject.start_of(block)).address),
            contexts: None,
        }
    }

    fn step(&self, subject: &Subject, path: &Path, at: usize) -> PathStep {
        let block = path.blocks[at];
        let insns = self.instructions.get(&block).map_or(&[][..], Vec::as_slice);
        let next = path.blocks.get(at + 1).copied().or(path.back_to);
        PathStep {
            address: subject.spot(subject.start_of(block)).address,
            instructions: subject.block(block).n_insns,
            lines: lines(subject, block, insns),
            code: subject.listing(block, insns),
            exit: self.exit(subject, block, next),
        }
    }

    fn exit(&self, subject: &Subject, block: BlockId, next: Option<BlockId>) -> Exit {
        let callees = self.callees.get(&block).map_or(&[][..], Vec::as_slice);
        let end = subject.block(block).end;
        let step = next.and_then(|next| self.steps.get(&(block, next)).copied());
        let how = match (step, end) {
            (Some(step), _) => super::edges::kind_name(step.kind),
            (None, BlockEnd::Return) => "return",
            (None, BlockEnd::Jump | BlockEnd::Branch | BlockEnd::IndirectJump) => "tail call",
            (None, _) => "end",
        };
        Exit {
            how,
            chosen: matches!(end, BlockEnd::Branch | BlockEnd::IndirectJump),
            probability: step.map(|step| step.probability),
            callees: callees.iter().map(|&id| subject.label(id).short()).collect(),
        }
    }
}

/// The edges out of the blocks. Of two between the same blocks the likelier one counts.
fn steps<T>(subject: &Subject, blocks: &FxHashMap<BlockId, T>) -> FxHashMap<(BlockId, BlockId), Step> {
    let mut steps = FxHashMap::default();
    for row in query::edges(&subject.profile, None) {
        let edge = &subject.profile.edges[row.edge.index()];
        if blocks.contains_key(&edge.from) {
            let step = Step { kind: edge.kind, probability: row.probability.into() };
            steps.entry((edge.from, edge.to)).or_insert(step);
        }
    }
    steps
}

/// Source lines of a block in order, neighbours once.
pub fn lines(subject: &Subject, block: BlockId, insns: &[Instruction]) -> Vec<SourceLine> {
    let module = subject.module_of(block);
    let mut places: Vec<Place> = insns.iter().map(|insn| (module, insn.ip())).collect();
    if places.is_empty() {
        places.extend([subject.start_of(block), subject.end_of(block)]);
    }
    let mut lines: Vec<SourceLine> = places.into_iter().filter_map(|place| subject.source_line(place)).collect();
    lines.dedup();
    lines
}

/// The places of a path's first and last block, for an overview.
pub fn extent(subject: &Subject, path: PathId) -> Vec<Place> {
    let blocks = &subject.profile.paths[path.index()].blocks;
    let first = blocks.first().map(|&block| subject.start_of(block));
    let last = blocks.last().map(|&block| subject.end_of(block));
    first.into_iter().chain(last).collect()
}
