//! The copy of one function.
//!
//! Blocks follow each other by address. Each has a probe, then its instructions, byte for byte,
//! then what replaces its last one ([`crate::transfers`]). Displacements relative to the
//! instruction pointer are the only bytes that differ inside, and no instruction changes its length
//! there; an instruction that is replaced ends a *stretch*, and the next one begins another.

use flow::callgraph::FunctionId;
use flow::graph::BlockId;
use flow::liveness::LiveSet;
use iced_x86::{Decoder, DecoderOptions, Instruction, Register};
use image::Svma;
use wire::recovery::kind;
use wire::sample::{EndReason, RECORD_ADDRESS_BITS};

use crate::chunk::{Chunk, Original, Stretch};
use crate::classify::{self, Body};
use crate::exact;
use crate::function::{Function, Plan, SecondProbe};
use crate::module::Module;
use crate::probe::{self, Depth, Site};
use crate::{cache, events, exits, system_call};

/// Functions start at multiples of this.
pub(crate) const ALIGNMENT: u32 = 16;

/// Appends the copy of a function.
pub(crate) fn write(module: &Module<'_, '_>, id: FunctionId, chunk: &mut Chunk) {
    chunk.align(ALIGNMENT);
    let mut function = Function::new(module, id, chunk);
    for block in function.flow.cfg.graph.blocks().filter(|&block| module.is_owned(id, block)) {
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

impl Function<'_, '_> {
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
