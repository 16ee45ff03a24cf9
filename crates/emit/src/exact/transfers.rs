//! Calls and returns of copies that are never left.
//!
//! The processor predicts a return from the call that it belongs to. So copies call and return by
//! `call` and `ret`, and have the original return address on the stack all the same: who is called
//! replaces the address in the copy by the original one, and the return does the reverse, by the
//! return table ([`wire::exact`]). The two are as far from each other as the copy says, and no
//! register is needed on the way in.
//!
//! ```text
//!             call 1f
//! landing:    ...                                     where the return leads
//! 1:          add qword [rsp], original - landing     behind the function
//!             jmp callee
//!
//! return:     mov gs:[saved_rcx], rcx                 rcx, because nobody waits for it
//!             mov rcx, [rsp]
//!             shr rcx, RETURN_SHIFT
//!             xor ecx, [rsp]
//!             and ecx, RETURN_MASK
//!             mov rcx, gs:[rcx * 2 + RETURNS]
//!             cmp ecx, [rsp]
//!             jne look up                             by the map; makes the entry, too
//!             sar rcx, 32
//!             add [rsp], rcx
//!             mov rcx, gs:[saved_rcx]
//!             ret
//! ```
//!
//! **Flags** are dead at both, by the calling convention. Where direct calls show that it is not
//! kept ([`flow::liveness::FlagConventions`]), and everywhere in a module that expects flags at a
//! place which is reached by its address only ([`Module::passes_flags_unseen`]), calls push and
//! jump, and returns look up, with flags saved.
//!
//! **The path register** is left in the frames before a call, and taken from there at the landing.
//! If there is another call's, the path is that of an arrival by address.
//!
//! [`Module::passes_flags_unseen`]: crate::module::Module::passes_flags_unseen

use std::mem::offset_of;

use flow::cfg::EdgeKind;
use flow::graph::{BlockId, EdgeId};
use flow::liveness::LiveSet;
use iced_x86::Instruction;
use image::Svma;
use wire::clusters::{Cluster, LANDING, N_CLUSTERS, Version};
use wire::exact::{
    CHECKING_RETURNS, CallerFrame, FRAME_MASK, FRAME_METRIC, FRAME_SITES, FRAMES, RETURN_MASK, RETURN_SHIFT, RETURNS,
};
use wire::recovery::{kind, saves};
use wire::sample::{EndReason, RECORD_ADDRESS_BITS};
use wire::thread::offset;

use super::Metric;
use super::code::{Code, Paths, write_end};
use super::computed::Search;
use super::contexts::FindContext;
use crate::asm::{Condition, Gpr, Label};
use crate::chunk::{Chunk, Destination, ExitState, Original, Stub};
use crate::function::Function;
use crate::look_up::map_field;
use crate::probe;
use crate::saving::{begin_saving, keeps_flags, saved, with_two_registers, write_restore};

pub(super) const LOAD: u8 = 0x8b;
const STORE: u8 = 0x89;
pub(super) const COMPARE: u8 = 0x3b;
pub(super) const FRAME_KEY: u32 = FRAMES + offset_of!(CallerFrame, key) as u32;
const FRAME_PATH: u32 = FRAMES + offset_of!(CallerFrame, frame) as u32;
pub(super) const FRAME_CONTEXT: u32 = FRAME_PATH + 4;

/// Ends of the stores of target or `rax`, and of `rcx`, and of saving flags.
pub(super) const ARRIVAL_SAVE_END: [u8; 4] = [9, 18, 31, 0];

/// What is written behind the function.
#[derive(Debug)]
pub(crate) enum CallEnd {
    /// Where a call leads that returns to `landing`, the copy of `next`.
    Called { label: Label, landing: u32, next: Original, to: Callee },
    /// A return whose address is not in the return table.
    Return { label: Label, at: Original, n_bytes: i32, saved: u8 },
    /// A landing at the block has not found its frame; these are saved.
    LostFrame { label: Label, block: BlockId, saved: u8 },
    /// The search for a computed target that its cells do not remember.
    Search(Search),
    /// The search for a context that is not in its first place.
    FindContext(FindContext),
}

/// The callee.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee {
    At(Svma),
    /// The target, whose twin is known.
    Twin,
}

impl Function<'_, '_> {
    /// What calls leave for when they have returned: where it is in the thread's header, and in a
    /// frame.
    fn kept_fields(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let has_path = self.module.options.probe.has_paths() && !self.plan_of_probes().edges_arrive;
        let path = has_path.then_some((offset::FRAME, FRAME_PATH));
        let context = self.has_contexts().then_some((offset::CONTEXT, FRAME_CONTEXT));
        path.into_iter().chain(context)
    }

    fn has_frame(&self) -> bool {
        self.kept_fields().next().is_some()
    }

    pub(super) fn edge_of_kind(&self, block: BlockId, kind: EdgeKind) -> Option<EdgeId> {
        let cfg = &self.flow.cfg;
        cfg.graph.out_range(block).map(EdgeId).find(|&edge| cfg.edge_facts(edge).kind == kind)
    }

    /// The block behind the call at the end of a block, if it is copied with the function and the
    /// call returns there.
    pub(super) fn return_site(&self, block: BlockId) -> Option<BlockId> {
        let edge = self.edge_of_kind(block, EdgeKind::Call)?;
        self.flow.cfg.graph.edge(edge).to.filter(|&to| self.module.is_owned(self.id, to))
    }

    /// A path ends before an instruction from which control does not come back: a fault, or a call
    /// that does not return.
    pub fn write_end_at_trap(&mut self, block: BlockId, insn: &Instruction) {
        if let Some(edge) = self.edge_of_kind(block, EdgeKind::Trap) {
            let code = self.plan_of_probes().edge(edge);
            let at = self.original(Svma(insn.ip()));
            code.write(self.chunk, at, LiveSet::ALL_REGISTERS | LiveSet::ALL_FLAGS);
        }
    }

    /// A direct call.
    pub fn call_and_stay(&mut self, block: BlockId, insn: &Instruction, target: Svma) {
        if !self.module.is_in_reach(target) {
            return self.leave_at(insn, EndReason::Instruction);
        }
        let next = Svma(insn.next_ip());
        let at = self.original(Svma(insn.ip()));
        let keeps_flags = self.module.passes_flags_unseen || self.passes_flags(target);
        let returns = self.return_site(block).is_some();
        let live = self.needed_at_call(block, keeps_flags);
        if returns {
            self.leave_frame(at, self.original(next), live);
        }
        self.descend_to_call(at, live);
        if returns && !keeps_flags {
            self.call_and_land(next, Callee::At(target));
        } else {
            let next = self.original(next);
            self.chunk.push_original(next);
            self.jump_to_callee(target);
        }
        self.land(block, next);
    }

    /// What is alive before the call at the end of a block.
    pub(super) fn needed_at_call(&self, block: BlockId, keeps_flags: bool) -> LiveSet {
        let Function { module, flow, .. } = self;
        let live = module.liveness(self.id).live_before_call(module.image, &flow.cfg, block);
        live.registers() | if keeps_flags { LiveSet::ARITHMETIC_FLAGS } else { LiveSet::NONE }
    }

    fn passes_flags(&self, target: Svma) -> bool {
        self.module.liveness(self.id).conventions().at_calls.contains_key(&target)
    }

    /// Calls in such a way that control comes back to the landing, which is to follow.
    pub(super) fn call_and_land(&mut self, next: Svma, to: Callee) {
        let label = self.chunk.asm.new_label();
        self.chunk.asm.call(label);
        let (landing, next) = (self.chunk.position(), self.original(next));
        self.call_ends.push(CallEnd::Called { label, landing, next, to });
    }

    fn jump_to_callee(&mut self, target: Svma) {
        let original = self.original(target);
        self.chunk.begin_clean_probe(original);
        let hole = self.chunk.asm.jump();
        if self.module.has_leader(target) {
            self.chunk.refer(hole, Destination::Leader(original));
        } else {
            let label = self.chunk.exit(original, EndReason::NoCopy, ExitState::Clean);
            self.chunk.asm.use_label(hole, label);
        }
    }

    /// What is done when the call at the end of a block has returned.
    pub(super) fn land(&mut self, block: BlockId, next: Svma) {
        let Some(to) = self.return_site(block) else { return };
        let Original(next_offset) = self.original(next);
        self.chunk.landings.push((Original(next_offset.wrapping_sub(1)), self.chunk.position()));
        self.charge(Original(next_offset), self.needed_at(to));
        if self.has_frame() {
            self.take_frame(to, Original(next_offset));
        }
        self.go_on(block, next);
    }

    /// What tells the frame of the call that returns to `next` from those of other calls, where it
    /// has a path: that of another function is none of this one's.
    fn frame_site(&self, next: Original) -> Option<u32> {
        let has_path = self.kept_fields().any(|(field, _)| field == offset::FRAME);
        has_path.then_some((self.module.options.cluster as u32) << RECORD_ADDRESS_BITS | next.0)
    }

    /// Leaves path register and context for when the call at `at` has returned to `next`; `live` is
    /// needed.
    pub(super) fn leave_frame(&mut self, at: Original, next: Original, live: LiveSet) {
        if !self.has_frame() {
            return;
        }
        let metric = self.path_metric();
        if metric == Some(Metric::Cycles) {
            self.leave_cycles(at, live);
        }
        let fields = self.kept_fields();
        let site = self.frame_site(next);
        let chunk = &mut *self.chunk;
        with_two_registers(chunk, at, live, |chunk, [slot, value]| {
            chunk.asm.frame_index(slot, FRAME_MASK);
            // In the width in which it was stored: the processor could not pass it on otherwise.
            for (field, in_frame) in fields {
                chunk.asm.load_dword(value, field);
                chunk.asm.entry_dword(STORE, value, slot, in_frame);
            }
            if let Some(Metric::Misses(_)) = metric {
                chunk.asm.load(value, offset::MISSES);
                chunk.asm.subtract(value, offset::CHARGED);
                chunk.asm.gs_based(STORE, value, slot, FRAME_METRIC);
            }
            let place = site.map(|site| chunk.asm.gs_based_constant(slot, FRAME_SITES, site));
            chunk.records.extend(place);
            // The key comes last: what was left in part only is not found.
            chunk.asm.entry(STORE, Gpr::RSP, slot, FRAME_KEY);
        });
        chunk.begin_clean_probe(at);
    }

    /// Takes path register and context back, at the start of the block `to`, which is at `next`.
    fn take_frame(&mut self, to: BlockId, next: Original) {
        let live = self.needed_at(to);
        let dead = probe::dead_register(live).filter(|_| !keeps_flags(live));
        let register = dead.unwrap_or(Gpr::RAX);
        let record = self.plans[to.index()].record;
        let metric = self.path_metric();
        let fields = self.kept_fields();
        let site = self.frame_site(next);
        let chunk = &mut *self.chunk;
        let saved = if dead.is_some() { 0 } else { saved(live) & !saves::RCX };
        let lost = if saved == 0 {
            chunk.begin_clean_probe(next);
            record
        } else {
            begin_saving(chunk, next, saved);
            let label = chunk.asm.new_label();
            self.call_ends.push(CallEnd::LostFrame { label, block: to, saved });
            label
        };
        chunk.asm.frame_index(register, FRAME_MASK);
        chunk.asm.entry(COMPARE, Gpr::RSP, register, FRAME_KEY);
        chunk.asm.jump_to_if(Condition::NZ, lost);
        if let Some(site) = site {
            let place = chunk.asm.gs_based_compare(register, FRAME_SITES, site);
            chunk.records.push(place);
            chunk.asm.jump_to_if(Condition::NZ, lost);
        }
        for (index, (field, in_frame)) in fields.enumerate() {
            if index > 0 {
                chunk.asm.frame_index(register, FRAME_MASK);
            }
            chunk.asm.entry_dword(LOAD, register, register, in_frame);
            chunk.asm.store_dword(field, register);
        }
        if let Some(metric) = metric {
            chunk.asm.frame_index(register, FRAME_MASK);
            chunk.asm.gs_based(LOAD, register, register, FRAME_METRIC);
            chunk.asm.negate(register);
            chunk.asm.add(register, if metric == Metric::Cycles { offset::CHARGED } else { offset::MISSES });
            chunk.asm.store(offset::CHARGED, register);
        }
        write_restore(chunk, saved);
    }

    /// A return that takes `n_bytes` off the stack.
    pub fn return_and_stay(&mut self, block: BlockId, insn: &Instruction, n_bytes: i32) {
        let at = self.original(Svma(insn.ip()));
        let end = self.edge_of_kind(block, EdgeKind::Return).map(|edge| self.plan_of_probes().edge(edge));
        let end = end.unwrap_or(Code::Nothing);
        let keeps_flags =
            self.module.passes_flags_unseen || !self.module.liveness(self.id).conventions().at_return.is_empty();
        let live = self.needed_behind(block);
        let inline_end = match end {
            Code::End { paths: Paths::Cells(cell), id_offset, .. } if !keeps_flags => Some((cell, id_offset)),
            _ => {
                end.write(self.chunk, at, live);
                None
            }
        };
        let version = self.module.options.probe.version();
        let chunk = &mut *self.chunk;
        if keeps_flags {
            return write_slow_return(chunk, at, n_bytes, true);
        }
        let saved = if live.has_register(Gpr::RCX.0) { saves::RCX } else { 0 };
        if saved != 0 {
            chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        }
        chunk.begin_run(kind::PROBE, at, saved, [0; 4]);
        if let Some((cell, id_offset)) = inline_end {
            write_end(chunk, Gpr::RCX, cell, id_offset);
        }
        let slow = chunk.asm.new_label();
        chunk.asm.bytes(&[0x48, 0x8b, 0x0c, 0x24]); // mov rcx, [rsp]
        chunk.asm.bytes(&[0x48, 0xc1, 0xe9, RETURN_SHIFT as u8]); // shr rcx, RETURN_SHIFT
        chunk.asm.bytes(&[0x33, 0x0c, 0x24]); // xor ecx, [rsp]
        chunk.asm.bytes(&[0x81, 0xe1]); // and ecx, RETURN_MASK
        chunk.asm.bytes(&RETURN_MASK.to_le_bytes());
        chunk.asm.bytes(&[0x65, 0x48, 0x8b, 0x0c, 0x4d]); // mov rcx, gs:[rcx * 2 + RETURNS]
        chunk.asm.bytes(&returns(version).to_le_bytes());
        chunk.asm.bytes(&[0x3b, 0x0c, 0x24]); // cmp ecx, [rsp]
        chunk.asm.jump_to_if(Condition::NZ, slow);
        chunk.asm.bytes(&[0x48, 0xc1, 0xf9, 0x20]); // sar rcx, 32
        chunk.asm.bytes(&[0x48, 0x01, 0x0c, 0x24]); // add [rsp], rcx
        chunk.begin_run(kind::RETURNING, Original(n_bytes as u32), saved, [0; 4]);
        write_restore(chunk, saved);
        match u16::try_from(n_bytes - 8) {
            Ok(0) | Err(_) => chunk.asm.bytes(&[0xc3]),
            Ok(extra) => {
                chunk.asm.bytes(&[0xc2]);
                chunk.asm.bytes(&extra.to_le_bytes());
            }
        }
        self.call_ends.push(CallEnd::Return { label: slow, at, n_bytes, saved });
    }

    /// Behind the function: what is behind calls and returns.
    pub fn write_call_ends(&mut self) {
        for end in std::mem::take(&mut self.call_ends) {
            match end {
                CallEnd::Called { label, landing, next, to } => {
                    self.chunk.asm.bind(label);
                    self.chunk.begin_run(kind::CALLED, Original(0), 0, [0; 4]);
                    let hole = self.chunk.asm.add_to_top_of_stack();
                    self.chunk.set_address(hole, landing, i64::from(next.0));
                    match to {
                        Callee::At(target) => self.jump_to_callee(target),
                        Callee::Twin => {
                            self.chunk.begin_run(kind::FORWARD, Original(0), 0, [0; 4]);
                            self.chunk.asm.jump_through(offset::TWIN);
                        }
                    }
                }
                CallEnd::Return { label, at, n_bytes, saved } => {
                    self.chunk.asm.bind(label);
                    self.chunk.begin_run(kind::PROBE, at, saved, [0; 4]);
                    write_restore(self.chunk, saved);
                    self.chunk.begin_clean_probe(at);
                    write_slow_return(self.chunk, at, n_bytes, false);
                }
                CallEnd::LostFrame { label, block, saved } => {
                    self.chunk.asm.bind(label);
                    let original = self.original(self.flow.cfg.block(block).range.start);
                    self.chunk.begin_run(kind::PROBE, original, saved, [0; 4]);
                    write_restore(self.chunk, saved);
                    self.chunk.begin_clean_probe(original);
                    self.chunk.asm.jump_to(self.plans[block.index()].record);
                }
                CallEnd::Search(search) => self.write_search(&search),
                CallEnd::FindContext(find) => self.write_find_context(&find),
            }
        }
    }
}

/// Offset of the return table of a version.
fn returns(version: Version) -> u32 {
    match version {
        Version::Instrumented => RETURNS,
        Version::Checking => CHECKING_RETURNS,
    }
}

/// Makes the return at `at` by looking its address up.
fn write_slow_return(chunk: &mut Chunk, at: Original, n_bytes: i32, keeps_flags: bool) {
    chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
    chunk.begin_run(kind::PROBE, at, saves::RAX, [0; 4]);
    chunk.asm.bytes(&[0x48, 0x8b, 0x04, 0x24]); // mov rax, [rsp]
    chunk.asm.advance(Gpr::RSP, n_bytes);
    chunk.begin_run(kind::FORWARD, Original(0), saves::RAX, [9, 0, 0, 0]);
    chunk.asm.store(offset::TARGET, Gpr::RAX);
    chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
    if keeps_flags {
        probe::save_flags(&mut chunk.asm);
    }
    let hole = chunk.asm.jump();
    chunk.refer(hole, Destination::Stub(Stub::Land));
}

/// The stub that finds where a return leads, and has the return table remember that:
///
/// ```text
///     for each cluster:
///         rax = target - cluster.lo - 1
///         if rax >= cluster.span: on to the next one
///         mov rcx, cluster.map
///         mov eax, [rcx + rax * 4]
///         mov ecx, eax
///         shr ecx, 30
///         cmp ecx, 1
///         jne look up                         not behind a call, or that has no copy
///         and eax, LANDING - 1
///         add rax, cluster.copy_base
///         mov gs:[twin], rax
///         rcx = (rax - target) << 32 | target & 0xffff_ffff
///         eax = (target >> RETURN_SHIFT ^ target) & RETURN_MASK
///         mov gs:[rax * 2 + RETURNS], rcx
///         restore all; jmp gs:[twin]
///     jmp look up
/// ```
pub(crate) fn write_land_stub(chunk: &mut Chunk, version: Version, look_up: u32) -> u32 {
    let start = chunk.position();
    chunk.begin_run(kind::FORWARD, Original(0), saves::RAX | saves::RCX | saves::FLAGS, [0; 4]);
    let asm = &mut chunk.asm;
    for cluster in 0..N_CLUSTERS {
        let field = |at: usize| offset::cluster(cluster) + at as u32;
        asm.load(Gpr::RAX, offset::TARGET);
        asm.subtract(Gpr::RAX, field(offset_of!(Cluster, lo)));
        asm.advance(Gpr::RAX, -1);
        asm.compare(Gpr::RAX, field(offset_of!(Cluster, span)));
        let not_here = asm.jump_if(Condition::AE);
        asm.load(Gpr::RCX, map_field(version, cluster));
        asm.load_map_entry(Gpr::RCX);
        asm.bytes(&[0x89, 0xc1]); // mov ecx, eax
        asm.bytes(&[0xc1, 0xe9, LANDING.ilog2() as u8]); // shr ecx, 30
        asm.bytes(&[0x83, 0xf9, 0x01]); // cmp ecx, 1
        let unknown = asm.jump_if(Condition::NZ);
        asm.set_displacement(unknown, look_up);
        asm.code.push(0x25); // and eax, LANDING - 1
        asm.bytes(&(LANDING - 1).to_le_bytes());
        asm.add(Gpr::RAX, field(offset_of!(Cluster, copy_base)));
        asm.store(offset::TWIN, Gpr::RAX);
        asm.subtract(Gpr::RAX, offset::TARGET);
        asm.bytes(&[0x48, 0xc1, 0xe0, 0x20]); // shl rax, 32
        asm.load_dword(Gpr::RCX, offset::TARGET);
        asm.bytes(&[0x48, 0x09, 0xc1]); // or rcx, rax
        asm.load(Gpr::RAX, offset::TARGET);
        asm.bytes(&[0x48, 0xc1, 0xe8, RETURN_SHIFT as u8]); // shr rax, RETURN_SHIFT
        asm.bytes(&[0x65, 0x33, 0x04, 0x25]); // xor eax, gs:[target]
        asm.bytes(&offset::TARGET.to_le_bytes());
        asm.bytes(&[0x81, 0xe0]); // and eax, RETURN_MASK
        asm.bytes(&RETURN_MASK.to_le_bytes());
        asm.bytes(&[0x65, 0x48, 0x89, 0x0c, 0x45]); // mov gs:[rax * 2 + RETURNS], rcx
        asm.bytes(&returns(version).to_le_bytes());
        probe::restore_all(asm);
        asm.jump_through(offset::TWIN);
        let next = asm.position();
        asm.set_displacement(not_here, next);
    }
    let hole = asm.jump();
    asm.set_displacement(hole, look_up);
    start
}
