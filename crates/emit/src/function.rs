//! A function while its copy is written: what is known about its blocks and edges, and what is
//! still to be written behind it.
//!
//! **Where checks are.** A burst ends at a check, and every cycle must contain one:
//! * The probe of a block checks if control can come from outside: entries of the function, targets
//!   of calls and of jumps from other functions. Also if a back edge comes through a jump table or
//!   a return, which find the block by its address only.
//! * Any other back edge goes to a second probe of its target, which checks and then goes on behind
//!   the first one. It is right before the first one if the back edge is the way from the block
//!   before, else behind the function.
//! * Every cycle of the graph contains a back edge ([`flow::loops`]). Other cycles pass a call, a
//!   jump between functions, or an indirect jump or return, which looks at the limit.
//!
//! Between two checks a function writes at most one record for each of its blocks; in a function
//! with very many of them every probe looks at the limit.

use flow::FunctionFlow;
use flow::callgraph::FunctionId;
use flow::cfg::{EdgeKind, EntryKind};
use flow::graph::{BlockId, EdgeId};
use flow::liveness::{Effect, Effects, LiveSet};
use iced_x86::Code;
use image::Svma;
use wire::thread::MAX_UNCHECKED_RECORDS;

use crate::Probe;
use crate::asm::Label;
use crate::cell::CellKind;
use crate::chunk::{Chunk, Original};
use crate::exact;
use crate::module::Module;
use crate::probe::Depth;

/// Where the parts of a block are, and which it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The block's probe.
    pub record: Label,
    /// What is behind it.
    pub body: Label,
    /// Where back edges go; the same as `record` if that checks.
    pub checked: Label,
    pub depth: Depth,
    pub second_probe: SecondProbe,
}

/// Whether a block has a second probe, for back edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondProbe {
    /// No back edge has needed it.
    Unused,
    /// Right before the first one, because the code before runs into it.
    Before,
    /// Behind the function.
    Behind,
}

fn plan(module: &Module<'_, '_>, flow: &FunctionFlow, chunk: &mut Chunk) -> Vec<Plan> {
    let cfg = &flow.cfg;
    let stays = module.options.probe.stays();
    let plain = if cfg.blocks.len() > MAX_UNCHECKED_RECORDS / 2 { Depth::Limit } else { Depth::Record };
    let asm = &mut chunk.asm;
    let plan = |block: &flow::cfg::Block| {
        let (record, body) = (asm.new_label(), asm.new_label());
        let depth = if !stays && module.is_reached(block.range.start) { Depth::Check } else { plain };
        Plan { record, body, checked: record, depth, second_probe: SecondProbe::Unused }
    };
    let mut plans: Vec<Plan> = cfg.blocks.iter().map(plan).collect();
    if stays {
        return plans;
    }
    for (entry, kind) in cfg.graph.entries().iter().zip(&cfg.entry_kinds) {
        if matches!(kind, EntryKind::Primary | EntryKind::Secondary) {
            plans[entry.index()].depth = Depth::Check;
        }
    }
    for each in flow.loops.all() {
        let plan = &mut plans[each.header.index()];
        let is_direct = |edge| matches!(cfg.edge_facts(edge).kind, EdgeKind::FallThrough | EdgeKind::Taken);
        if !each.back_edges.iter().copied().all(is_direct) {
            plan.depth = Depth::Check;
        }
        if plan.depth != Depth::Check {
            plan.checked = chunk.asm.new_label();
        }
    }
    plans
}

/// A function while its copy is written.
pub(crate) struct Function<'a, 'data> {
    pub module: &'a Module<'a, 'data>,
    pub id: FunctionId,
    pub flow: &'a FunctionFlow,
    pub chunk: &'a mut Chunk,
    pub plans: Vec<Plan>,
    /// Whether the last stretch can go on.
    pub open_stretch: bool,
    /// Where the probe of a block is whose first instruction is next.
    pub record: Option<u32>,
    /// What is counted, in copies that are never left.
    pub exact: Option<exact::Plan>,
    /// The function's number in the table of contexts, if it has contexts of its own.
    pub context_key: Option<u32>,
    /// What is to be done on edges and is written behind the function: where it starts, and on
    /// which edge.
    pub edge_codes: Vec<(Label, EdgeId)>,
    /// The same for conditional jumps that leave the function, from a block to an address.
    pub exit_codes: Vec<(Label, BlockId, Svma)>,
    /// Where rows of jumps through tables go.
    pub rows: Vec<(Label, BlockId)>,
    /// What is behind calls, returns and computed jumps, and written behind the function.
    pub call_ends: Vec<exact::transfers::CallEnd>,
    /// Blocks whose code for arrivals is written behind the function, with the stretch that starts
    /// there.
    pub arrivals: Vec<(BlockId, usize)>,
}

impl<'a, 'data> Function<'a, 'data> {
    /// Before anything of it is written.
    pub fn new(module: &'a Module<'a, 'data>, id: FunctionId, chunk: &'a mut Chunk) -> Function<'a, 'data> {
        let flow = module.function(id);
        let plans = plan(module, flow, chunk);
        let has_key = module.options.probe.has_contexts() && !module.is_stub(id);
        let context_key =
            has_key.then(|| exact::contexts::new_key(chunk, CellKind::Context, module.original(flow.entry)));
        let exact = match module.options.probe {
            Probe::Exact(counting) => Some(exact::Plan::new(module, id, counting, context_key.is_some(), chunk)),
            Probe::Trace | Probe::None => None,
        };
        Function {
            module,
            id,
            flow,
            chunk,
            plans,
            open_stretch: false,
            record: None,
            exact,
            context_key,
            edge_codes: Vec::new(),
            exit_codes: Vec::new(),
            rows: Vec::new(),
            call_ends: Vec::new(),
            arrivals: Vec::new(),
        }
    }

    /// The flags, unless the block overwrites them all: that flags are dead at calls and returns is
    /// a convention, which hand-written code need not keep.
    pub fn flags_kept_by(&self, id: BlockId) -> LiveSet {
        let mut effects = Effects::default();
        let mut so_far = Effect::default();
        for insn in self.flow.cfg.instructions(self.module.image, id).take_while(|insn| insn.code() != Code::Syscall) {
            so_far = so_far.then(effects.of(&insn));
            if so_far.kills & LiveSet::ARITHMETIC_FLAGS == LiveSet::ARITHMETIC_FLAGS {
                return LiveSet::NONE;
            }
        }
        LiveSet::ARITHMETIC_FLAGS
    }

    pub fn original(&self, at: Svma) -> Original {
        self.module.original(at)
    }

    /// What is counted, in copies that are never left.
    pub fn plan_of_probes(&self) -> &exact::Plan {
        self.exact.as_ref().expect("only called for copies that are never left")
    }

    /// Where control goes that comes to the block over an edge, when it has done what is to be done
    /// there.
    pub fn label_behind(&self, edge: Option<EdgeId>, to: BlockId) -> Label {
        let plan = &self.plans[to.index()];
        if self.plan_of_probes().arrives(edge) { plan.record } else { plan.body }
    }

    /// Where to jump to take an edge to the block: to its code, which is written later, or straight
    /// to the block.
    pub fn label_of_edge(&mut self, edge: EdgeId, to: BlockId) -> Label {
        if self.plan_of_probes().edge(edge) == exact::Code::Nothing {
            return self.label_behind(Some(edge), to);
        }
        let label = self.chunk.asm.new_label();
        self.edge_codes.push((label, edge));
        label
    }

    /// Writes what is to be done on an edge to a block.
    pub fn write_edge_code(&mut self, edge: EdgeId, to: BlockId) {
        let code = self.plan_of_probes().edge(edge);
        let original = self.original(self.flow.cfg.block(to).range.start);
        code.write(self.chunk, original, self.needed_at(to));
    }

    /// What is needed at the start of a block; in a module that passes flags in ways that do not
    /// show, those that the block does not overwrite.
    pub fn needed_at(&self, block: BlockId) -> LiveSet {
        let kept = if self.module.passes_flags_unseen { self.flags_kept_by(block) } else { LiveSet::NONE };
        self.module.liveness(self.id).live_in(block) | kept
    }

    /// What is needed where control leaves the function at the end of a block.
    pub fn needed_behind(&self, block: BlockId) -> LiveSet {
        let kept = if self.module.passes_flags_unseen { LiveSet::ALL_FLAGS } else { LiveSet::NONE };
        self.module.liveness(self.id).live_out(&self.flow.cfg, block) | kept
    }
}
