//! The copy of one function.
//!
//! Blocks follow each other by address. Each has a probe, then its instructions, byte for byte,
//! then what replaces its last one ([`crate::transfers`]). Displacements relative to the
//! instruction pointer are the only bytes that differ inside, and no instruction changes its length
//! there; an instruction that is replaced ends a *stretch*, and the next one begins another.
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
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};
use image::Svma;
use wire::recovery::kind;
use wire::sample::{EndReason, RECORD_ADDRESS_BITS};
use wire::thread::MAX_UNCHECKED_RECORDS;

use crate::asm::Label;
use crate::chunk::{Chunk, Original, Stretch};
use crate::classify::{self, Body};
use crate::exact::{self, CellKind};
use crate::module::Module;
use crate::probe::{self, Depth, Site};
use crate::{Probe, cache, events, exits, system_call};

/// Functions start at multiples of this.
pub(crate) const ALIGNMENT: u32 = 16;

/// Appends the copy of a function.
pub(crate) fn write(module: &Module<'_, '_>, id: FunctionId, chunk: &mut Chunk) {
    chunk.align(ALIGNMENT);
    let flow = module.function(id);
    let plans = plan(module, flow, chunk);
    let has_key = module.options.probe.has_contexts() && !module.is_stub(id);
    let context_key = has_key.then(|| exact::contexts::new_key(chunk, CellKind::Context, module.original(flow.entry)));
    let exact = match module.options.probe {
        Probe::Exact(counting) => Some(exact::Plan::new(module, id, counting, context_key.is_some(), chunk)),
        Probe::Trace | Probe::None => None,
    };
    let mut function = Function {
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
    };
    for block in flow.cfg.graph.blocks().filter(|&block| module.is_owned(id, block)) {
        function.write_block(block);
    }
    function.write_second_probes();
    function.write_exit_codes();
    function.write_edge_codes();
    function.write_arrivals();
    function.write_call_ends();
    events::write_full(function.chunk, module.options.probe);
    cache::write_others(function.chunk);
    exact::write_missed_ends(function.chunk);
    exact::hashed::write_other_ends(function.chunk);
    exact::trigger::write_switches(function.chunk);
    exits::write(function.chunk);
    function.write_rows();
    function.chunk.asm.resolve_labels();
    function.chunk.statistics.functions += 1;
}

/// Where the parts of a block are, and which it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The block's probe.
    pub record: Label,
    /// What is behind it.
    body: Label,
    /// Where back edges go; the same as `record` if that checks.
    pub checked: Label,
    depth: Depth,
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
    open_stretch: bool,
    /// Where the probe of a block is whose first instruction is next.
    record: Option<u32>,
    /// What is counted, in copies that are never left.
    exact: Option<exact::Plan>,
    /// The function's number in the table of contexts, if it has contexts of its own.
    pub context_key: Option<u32>,
    /// What is to be done on edges and is written behind the function: where it starts, and on
    /// which edge.
    edge_codes: Vec<(Label, EdgeId)>,
    /// The same for conditional jumps that leave the function, from a block to an address.
    pub exit_codes: Vec<(Label, BlockId, Svma)>,
    /// Where rows of jumps through tables go.
    pub rows: Vec<(Label, BlockId)>,
    /// What is behind calls, returns and computed jumps, and written behind the function.
    pub call_ends: Vec<exact::transfers::CallEnd>,
    /// Blocks whose code for arrivals is written behind the function, with the stretch that starts
    /// there.
    arrivals: Vec<(BlockId, usize)>,
}

impl Function<'_, '_> {
    /// The flags, unless the block overwrites them all: that flags are dead at calls and returns is
    /// a convention, which hand-written code need not keep.
    fn flags_kept_by(&self, id: BlockId) -> LiveSet {
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

    fn write_block(&mut self, id: BlockId) {
        let block = *self.flow.cfg.block(id);
        let plan = self.plans[id.index()];
        if plan.second_probe == SecondProbe::Before {
            self.write_second_probe(id, &plan);
        }
        if self.exact.is_some() {
            self.write_arrival_before(id);
        } else {
            self.chunk.asm.bind(plan.record);
            self.record = Some(self.chunk.position());
            probe::write(self.chunk, &self.site(id, plan.depth), plan.depth);
        }
        self.chunk.asm.bind(plan.body);

        let bytes = self.module.image.read(block.range.start, block.range.len() as usize).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, bytes, block.range.start.0, DecoderOptions::NONE);
        let mut insn = Instruction::default();
        let n_body = block.n_insns - u32::from(block.transfer.ends_block());
        let mut goes_on = true;
        let alive = self.alive_in(id);
        for index in 0..n_body {
            let start = decoder.position();
            decoder.decode_out(&mut insn);
            let bytes = bytes.get(start..decoder.position()).unwrap_or_default();
            if goes_on {
                self.write_what_is_before(id, index, &insn, &alive);
            }
            self.begin_instruction(&insn);
            goes_on = self.write_body(&decoder, &insn, bytes);
            // Where a block goes on to the next one, what is alive is that one's affair.
            let live = alive.get(index as usize).copied().filter(|_| index + 1 < block.n_insns);
            if goes_on && self.notes_in(id) && self.write_event(&insn, live) {
                self.open_stretch = false;
            }
        }
        if block.transfer.ends_block() {
            let start = decoder.position();
            decoder.decode_out(&mut insn);
            let bytes = bytes.get(start..decoder.position()).unwrap_or_default();
            if goes_on {
                self.write_what_is_before(id, n_body, &insn, &alive);
            }
            self.begin_instruction(&insn);
            self.write_transfer(id, &insn, bytes);
        } else if goes_on {
            self.go_on(id, block.range.end);
        }
        self.open_stretch = false;
        let statistics = &mut self.chunk.statistics;
        statistics.blocks += 1;
        statistics.instructions += u64::from(block.n_insns);
        statistics.original_bytes += block.range.len();
    }

    /// Notes what is to be noted before an instruction, with what is alive behind each one of the
    /// block.
    fn write_what_is_before(&mut self, id: BlockId, index: u32, insn: &Instruction, alive: &[LiveSet]) {
        let before = index.checked_sub(1).and_then(|before| alive.get(before as usize).copied());
        let live = before.unwrap_or_else(|| self.needed_at(id));
        let has_events = self.notes_in(id) && self.write_events_before(id, insn, live);
        if self.write_accesses(id, insn, live) || has_events {
            self.open_stretch = false;
        }
    }

    /// Whether values are noted in a block.
    fn notes_in(&self, id: BlockId) -> bool {
        self.exact.as_ref().is_none_or(|plan| plan.notes(id))
    }

    fn site(&self, id: BlockId, depth: Depth) -> Site {
        let options = self.module.options;
        let kept = if depth == Depth::Record { LiveSet::NONE } else { self.flags_kept_by(id) };
        Site {
            block: self.module.original(self.flow.cfg.block(id).range.start),
            live: self.module.liveness(self.id).live_in(id) | kept,
            cluster: (options.cluster as u32) << RECORD_ADDRESS_BITS,
            probe: options.probe,
        }
    }

    fn write_second_probes(&mut self) {
        for id in self.flow.cfg.graph.blocks() {
            let plan = self.plans[id.index()];
            if plan.second_probe == SecondProbe::Behind {
                self.write_second_probe(id, &plan);
            }
        }
    }

    fn write_second_probe(&mut self, id: BlockId, plan: &Plan) {
        let site = self.site(id, Depth::Check);
        self.chunk.asm.bind(plan.checked);
        probe::write(self.chunk, &site, Depth::Check);
        self.chunk.asm.jump_to(plan.body);
    }

    /// An original instruction begins here.
    fn begin_instruction(&mut self, insn: &Instruction) {
        let original = self.original(Svma(insn.ip()));
        let copy = self.chunk.position();
        let record = self.record.take();
        if !self.open_stretch {
            self.open_stretch = true;
            self.chunk.begin_run(kind::STRAIGHT, original, 0, [0; 4]);
            let is_leader = record.is_some();
            let record = record.unwrap_or(copy);
            self.chunk.stretches.push(Stretch { original, copy, record, n_insns: 0, is_leader });
        }
        if let Some(stretch) = self.chunk.stretches.last_mut() {
            stretch.n_insns += 1;
        }
        self.chunk.lengths.push(insn.len() as u8);
    }

    /// Writes an instruction that goes on to the next one. Returns whether the copy does, too.
    fn write_body(&mut self, decoder: &Decoder<'_>, insn: &Instruction, bytes: &[u8]) -> bool {
        let at = self.original(Svma(insn.ip()));
        let next = self.original(Svma(insn.next_ip()));
        let body = classify::body(insn);
        match body {
            Body::Copy if !insn.is_ip_rel_memory_operand() => {
                self.chunk.asm.bytes(bytes);
                return true;
            }
            Body::Copy => {
                let target = self.module.distance(Svma(insn.memory_displacement64()));
                if let Some(target) = target.filter(|_| insn.memory_base() == Register::RIP) {
                    let hole = decoder.get_constant_offsets(insn).displacement_offset();
                    let hole = self.chunk.position() + hole as u32;
                    self.chunk.asm.bytes(bytes);
                    self.chunk.set_address(hole, self.chunk.position(), target);
                    return true;
                }
                self.chunk.leave(at, EndReason::Instruction);
            }
            Body::PushNext => self.chunk.push_original(next),
            Body::SystemCall if self.exact.is_some() => system_call::write_without_stamps(self.chunk, at, next),
            Body::SystemCall => system_call::write(self.chunk, at, next),
            Body::Leave => self.chunk.leave(at, EndReason::Instruction),
        }
        self.open_stretch = false;
        matches!(body, Body::PushNext | Body::SystemCall)
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

    fn write_edge_codes(&mut self) {
        for (label, edge) in std::mem::take(&mut self.edge_codes) {
            self.chunk.asm.bind(label);
            if let Some(to) = self.flow.cfg.graph.edge(edge).to {
                self.write_edge_code(edge, to);
                let label = self.label_behind(Some(edge), to);
                self.chunk.asm.jump_to(label);
            }
        }
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

    /// Writes the code for arrivals at a block if it can be before it. If control over known edges
    /// does not pass it, only the first block of the function can have it there.
    fn write_arrival_before(&mut self, id: BlockId) {
        let is_first = self.arrivals.is_empty() && self.chunk.exits.is_empty() && id.index() == 0;
        if self.plan_of_probes().edges_arrive || is_first {
            let position = self.write_arrival_code(id);
            self.record = Some(position);
        } else {
            self.arrivals.push((id, self.chunk.stretches.len()));
            self.record = Some(self.chunk.position());
        }
    }

    /// Returns where control arrives that knows the address only.
    fn write_arrival_code(&mut self, id: BlockId) -> u32 {
        let block = self.original(self.flow.cfg.block(id).range.start);
        let live = self.needed_at(id);
        if self.module.options.probe.tells_arrivals_apart() {
            self.write_table_entry(id, block, live);
        }
        self.chunk.asm.bind(self.plans[id.index()].record);
        let position = self.chunk.position();
        self.write_context_arrival(id, block, live);
        self.plan_of_probes().arrival(id).write(self.chunk, block, live);
        self.write_metric_arrival(id, block, live);
        position
    }

    /// Where jumps through tables arrive: a jump to what they do, or to what comes next.
    fn write_table_entry(&mut self, id: BlockId, block: Original, live: LiveSet) {
        let to = match self.plan_of_probes().table_arrival(id) {
            Some(_) => self.chunk.asm.new_label(),
            None => self.plans[id.index()].record,
        };
        if let Some(code) = self.plan_of_probes().table_arrival(id) {
            self.chunk.asm.bind(to);
            code.write(self.chunk, block, live);
            let body = self.plans[id.index()].body;
            self.chunk.begin_clean_probe(block);
            self.chunk.asm.jump_to(body);
        }
        self.chunk.begin_clean_probe(block);
        self.chunk.asm.jump_to(to);
    }

    fn write_arrivals(&mut self) {
        for (id, stretch) in std::mem::take(&mut self.arrivals) {
            let position = self.write_arrival_code(id);
            if let Some(stretch) = self.chunk.stretches.get_mut(stretch) {
                stretch.record = position;
            }
            let body = self.plans[id.index()].body;
            let block = self.original(self.flow.cfg.block(id).range.start);
            self.chunk.begin_clean_probe(block);
            self.chunk.asm.jump_to(body);
        }
    }
}
