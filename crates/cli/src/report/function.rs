//! Everything about one function.

use std::collections::BTreeMap;

use flow::cfg::EntryKind;
use flow::graph::{BlockId, EdgeId};
use flow::indirect::{IndirectJump, Resolution};
use flow::loops::LoopId;
use flow::paths::PathPlan;
use flow::{CallSite, Callee, FunctionFlow};
use image::{LineTable, Svma};
use serde::Serialize;

use crate::listing::Listing;
use crate::module::Module;
use crate::props::Syntax;
use crate::report::{Address, Numbering, PathReport, PathsReport, Range, SCHEMA, SourcePlace};

#[derive(Debug, Serialize)]
pub struct FunctionReport {
    pub schema: u32,
    pub kind: &'static str,
    pub file: String,
    pub name: String,
    /// The name as the file has it.
    pub raw_name: String,
    pub entry: Address,
    pub parts: Vec<Range>,
    pub sources: Vec<&'static str>,
    pub called: bool,
    pub address_taken: bool,
    pub returns: bool,
    /// Whether every indirect jump is resolved.
    pub complete: bool,
    pub instructions: u32,
    pub blocks: Vec<BlockReport>,
    pub edges: Vec<EdgeReport>,
    pub loops: Vec<LoopReport>,
    pub indirect_jumps: Vec<IndirectJumpReport>,
    pub calls: Vec<CallReport>,
    pub paths: PathsReport,
    /// The path that was asked for.
    pub path: Option<PathReport>,
}

#[derive(Debug, Serialize)]
pub struct BlockReport {
    pub id: u32,
    pub start: Address,
    pub end: Address,
    /// Why control can enter the function here.
    pub entry: Option<String>,
    /// The innermost loop that contains it.
    #[serde(rename = "loop")]
    pub innermost_loop: Option<u32>,
    pub live_in: Vec<&'static str>,
    /// Paths that start or continue here.
    pub paths_from: u64,
    pub instructions: Vec<InstructionReport>,
}

#[derive(Debug, Serialize)]
pub struct InstructionReport {
    pub address: Address,
    pub bytes: String,
    pub text: String,
}

#[derive(Debug, Serialize)]
pub struct EdgeReport {
    pub id: u32,
    pub from: u32,
    /// `None`: the function is left.
    pub to: Option<u32>,
    pub kind: String,
    pub target: Option<Address>,
    /// What is at the target, if that is another function.
    pub target_name: Option<String>,
    /// Whether it leads back into a loop.
    pub back: bool,
    /// Whether it stays in the function but ends a path.
    pub cut: bool,
    /// What it contributes to the path id.
    pub value: u64,
    /// What it adds to the path register; `None` if a path ends.
    pub add: Option<i64>,
}

#[derive(Debug, Serialize)]
pub struct LoopReport {
    pub id: u32,
    pub header: u32,
    pub parent: Option<u32>,
    pub depth: u32,
    pub irreducible: bool,
    pub back_edges: Vec<u32>,
    /// Blocks other than the header where control can enter it.
    pub extra_entries: Vec<u32>,
    pub blocks: Vec<u32>,
}

#[derive(Debug, Serialize)]
pub struct IndirectJumpReport {
    pub at: Address,
    /// `jump-table`, `tail-call` or `unresolved`.
    pub resolution: &'static str,
    /// Why it is unresolved.
    pub reason: Option<String>,
    pub targets: Vec<Address>,
    pub table_entries: Option<u32>,
}

#[derive(Debug, Serialize)]
pub struct CallReport {
    pub at: Address,
    /// `direct`, `slot` (through a pointer at a constant address) or `computed`.
    pub kind: &'static str,
    /// The function or the slot.
    pub target: Option<Address>,
    pub target_name: Option<String>,
}

impl FunctionReport {
    pub fn new(module: &Module<'_>, function: &FunctionFlow, numbering: &Numbering, syntax: Syntax) -> FunctionReport {
        let graph = &function.cfg.graph;
        let entries = graph.entries().iter().copied().zip(function.cfg.entry_kinds.iter().copied()).collect();
        let subject = Subject { module, function, numbering, entries };
        let name = module.image.name_of(function.entry);
        let mut listing = Listing::new(syntax, |at| subject.name_at(at));
        FunctionReport {
            schema: SCHEMA,
            kind: "function",
            file: module.files.path.display().to_string(),
            name: name.demangled(),
            raw_name: name.raw,
            entry: Address(function.entry),
            parts: function.parts.iter().map(|&part| part.into()).collect(),
            sources: function.sources.iter().map(|(_, name)| name).collect(),
            called: function.called,
            address_taken: function.address_taken,
            returns: function.returns,
            complete: function.is_complete(),
            instructions: function.n_insns,
            blocks: graph.blocks().map(|block| subject.block(block, &mut listing)).collect(),
            edges: graph.edge_ids().map(|edge| subject.edge(edge)).collect(),
            loops: function.loops.ids().map(|id| subject.natural_loop(id)).collect(),
            indirect_jumps: function.indirect_jumps.iter().map(IndirectJumpReport::new).collect(),
            calls: function.calls.iter().map(|call| CallReport::new(module, call)).collect(),
            paths: PathsReport::new(numbering),
            path: None,
        }
    }

    /// The same with one path in it; `None` if there are not so many paths.
    pub fn with_path(self, plan: &PathPlan, id: u64, lines: Option<&LineTable<'_>>) -> Option<FunctionReport> {
        let places = |block: BlockId| lines.map_or_else(Vec::new, |lines| self.places(block, lines));
        let path = PathReport::new(plan, id, places)?;
        Some(FunctionReport { path: Some(path), ..self })
    }

    /// Edges out of a block; edges are sorted by where they come from.
    pub fn edges_of(&self, block: u32) -> &[EdgeReport] {
        let start = self.edges.partition_point(|edge| edge.from < block);
        let end = self.edges.partition_point(|edge| edge.from <= block);
        &self.edges[start..end]
    }

    /// Where the instructions of a block come from, without repetition of neighbours.
    fn places(&self, block: BlockId, lines: &LineTable<'_>) -> Vec<SourcePlace> {
        let instructions = &self.blocks[block.index()].instructions;
        let innermost = instructions.iter().filter_map(|insn| lines.frames_at(insn.address.0).into_iter().next());
        let mut places: Vec<SourcePlace> = innermost.map(SourcePlace::from).collect();
        places.dedup();
        places
    }
}

impl IndirectJumpReport {
    fn new(jump: &IndirectJump) -> IndirectJumpReport {
        let at = Address(jump.at);
        let bare =
            |resolution| IndirectJumpReport { at, resolution, reason: None, targets: Vec::new(), table_entries: None };
        match &jump.resolution {
            Resolution::Table(table) => IndirectJumpReport {
                targets: table.targets.iter().map(|&target| Address(target)).collect(),
                table_entries: Some(table.n_entries),
                ..bare("jump-table")
            },
            Resolution::TailCall { .. } => bare("tail-call"),
            Resolution::Unresolved(reason) => {
                IndirectJumpReport { reason: Some(reason.to_string()), ..bare("unresolved") }
            }
        }
    }
}

impl CallReport {
    fn new(module: &Module<'_>, call: &CallSite) -> CallReport {
        let (kind, target) = match call.callee {
            Callee::Direct(at) => ("direct", Some(at)),
            Callee::Slot(at) => ("slot", Some(at)),
            Callee::Computed => ("computed", None),
        };
        let target_name = target.and_then(|at| module.describe(at));
        CallReport { at: Address(call.at), kind, target: target.map(Address), target_name }
    }
}

/// What the parts of a report are made from.
struct Subject<'a> {
    module: &'a Module<'a>,
    function: &'a FunctionFlow,
    numbering: &'a Numbering,
    entries: BTreeMap<BlockId, EntryKind>,
}

impl Subject<'_> {
    fn block(&self, id: BlockId, listing: &mut Listing<'_>) -> BlockReport {
        let cfg = &self.function.cfg;
        let range = cfg.block(id).range;
        let instructions = cfg.instructions(&self.module.image, id).map(|insn| InstructionReport {
            address: Address(Svma(insn.ip())),
            bytes: hex(self.module.image.read(Svma(insn.ip()), insn.len()).unwrap_or_default()),
            text: listing.line(&insn),
        });
        BlockReport {
            id: id.0,
            start: Address(range.start),
            end: Address(range.end),
            entry: self.entries.get(&id).map(EntryKind::to_string),
            innermost_loop: self.function.loops.innermost(id).map(|id| id.0),
            live_in: self.function.liveness.live_in(id).names().collect(),
            paths_from: self.numbering.plan.paths_from(id),
            instructions: instructions.collect(),
        }
    }

    fn edge(&self, id: EdgeId) -> EdgeReport {
        let graph = &self.function.cfg.graph;
        let edge = graph.edge(id);
        let facts = self.function.cfg.edge_facts(id);
        let leaves_to = facts.target.filter(|_| edge.to.is_none());
        EdgeReport {
            id: id.0,
            from: edge.from.0,
            to: edge.to.map(|block| block.0),
            kind: facts.kind.to_string(),
            target: facts.target.map(Address),
            target_name: leaves_to.and_then(|at| self.module.describe(at)),
            back: self.numbering.order.is_retreating(graph, id),
            cut: self.numbering.plan.is_cut(id),
            value: self.numbering.plan.value(id),
            add: self.numbering.addition(id),
        }
    }

    fn natural_loop(&self, id: LoopId) -> LoopReport {
        let loops = &self.function.loops;
        let found = loops.get(id);
        let numbers = |blocks: &[BlockId]| -> Vec<u32> { blocks.iter().map(|block| block.0).collect() };
        LoopReport {
            id: id.0,
            header: found.header.0,
            parent: found.parent.map(|parent| parent.0),
            depth: found.depth,
            irreducible: found.irreducible,
            back_edges: found.back_edges.iter().map(|edge| edge.0).collect(),
            extra_entries: numbers(&loops.extra_entries(&self.function.cfg.graph, id)),
            blocks: numbers(loops.blocks(id)),
        }
    }

    /// Blocks of this function by number, anything else by name.
    fn name_at(&self, at: Svma) -> Option<String> {
        match self.function.cfg.block_at(at) {
            Some(block) if at != self.function.entry => Some(format!("block {}", block.0)),
            _ => self.module.describe(at),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
