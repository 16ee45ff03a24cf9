//! Calling contexts: a function that is entered becomes the child of the context that it is called
//! from.
//!
//! The table of contexts and what it means are described in [`wire::exact`]. A copy does four
//! things with the thread's context:
//!
//! * **Descent**, where control arrives at an entry of a function. The function's number and the
//!   present context are the key of an entry, in which the call is counted and which says what the
//!   context is from now on. If there is none, the gate makes it, and the search starts once more.
//! * **Frames.** A call leaves the context with the path register, and takes it back when it has
//!   returned ([`super::transfers`]).
//! * **Retaking**, where control arrives at a return site or landing pad by its address: after
//!   `longjmp`, or an exception. What the last call left that had the same stack pointer is the
//!   context of this function. If there is nothing, the context is the root.
//! * **Ascent**, before a tail call: the callee takes the place of the function, as on the stack.
//!
//! ```text
//!         mov k, gs:[context]                                 k and i are dead, or rcx and rax, saved
//!         mov i, function << 32; or k, i                      the key
//!         imul i, k, FRONT_FACTOR; shr i, 27; and i, mask     its place in the front
//!         cmp k, gs:[i + FRONT]
//!         jne other
//!         inc qword gs:[i + FRONT + 8]
//!         mov i, gs:[i + FRONT + 16]
//!         mov gs:[context], i
//!         ...
//! other:  cmp qword gs:[i + FRONT], 0                         behind the function
//!         je new
//!         mov i, FACTOR; imul i, k; shr i, 37; and i, mask
//! look:   cmp k, gs:[i + CONTEXTS]
//!         je found                                            the same with CONTEXTS in place of FRONT
//!         cmp qword gs:[i + CONTEXTS], 0
//!         je new
//!         add i, 32; and i, mask
//!         jmp look
//! new:    mov gs:[wanted_context], k                          and to the gate, which comes back to the start
//! ```
//!
//! Where a metric is counted, what its counter has gone up by since the last change of context is
//! charged to the context that ends, before each of these:
//!
//! ```text
//!         rdtsc; shl rdx, 32; or rax, rdx                     or mov rax, gs:[misses]
//!         mov rcx, gs:[charged]; mov gs:[charged], rax
//!         sub rax, rcx
//!         mov ecx, gs:[context]
//!         add gs:[rcx + CONTEXTS + 24], rax
//! ```
//!
//! **Call sites.** Where these are told apart, a call descends, too, by a number of its own, after
//! the caller's context has been left in the frame. So the callee's context is a child of the
//! call's, and callees need not know.
//!
//! Stubs of the linkage table are no functions of their own: they leave the context alone.

use std::mem::offset_of;

use flow::cfg::{EdgeKind, EntryKind};
use flow::graph::{BlockId, EdgeId};
use flow::liveness::LiveSet;
use wire::exact::{
    CONTEXT_BYTES, CONTEXT_FRONT_FACTOR, CONTEXT_HASH_FACTOR, CONTEXTS, ContextEntry, FRAME_MASK, FRONT_CONTEXTS,
    N_CONTEXT_ENTRIES, N_FRONT_CONTEXTS,
};
use wire::recovery::{kind, saves};
use wire::sample::EndReason;
use wire::thread::offset;

use super::code::with_register;
use super::hashed::INCREMENT;
use super::path_metric::with_metric;
use super::transfers::{COMPARE, CallEnd, FRAME_CONTEXT, FRAME_KEY, LOAD};
use crate::asm::{Asm, Condition, Gpr, Label};
use crate::cell::{Cell, CellKind};
use crate::chunk::{Chunk, Original};
use crate::exits;
use crate::function::Function;
use crate::saving::{begin_saving, saved, with_two_registers, write_restore};

const KEY: u32 = CONTEXTS + offset_of!(ContextEntry, key) as u32;
const COUNT: u32 = CONTEXTS + offset_of!(ContextEntry, count) as u32;
const CONTEXT: u32 = CONTEXTS + offset_of!(ContextEntry, context) as u32;
const PLACE_MASK: u32 = (N_CONTEXT_ENTRIES - 1) * CONTEXT_BYTES;
const FRONT_MASK: u32 = (N_FRONT_CONTEXTS - 1) * CONTEXT_BYTES;
const FRONT_SHIFT: u8 = 32 - CONTEXT_BYTES.ilog2() as u8;
const HASH_SHIFT: u8 = (64 - N_CONTEXT_ENTRIES.ilog2() - CONTEXT_BYTES.ilog2()) as u8;
const METRIC: u32 = CONTEXTS + offset_of!(ContextEntry, metric) as u32;

/// The search for a context goes on behind the function.
#[derive(Debug)]
pub(crate) struct FindContext {
    label: Label,
    /// Where it goes on when the entry was found.
    back: Label,
    /// Where everything starts.
    start: Label,
    at: Original,
    saved: u8,
    /// With the key, and with the place.
    registers: [Gpr; 2],
}

/// The number of a function among those of the chunk that have one, for its contexts; or of a call.
pub(crate) fn new_key(chunk: &mut Chunk, kind: CellKind, at: Original) -> u32 {
    let key = chunk.n_keys;
    chunk.n_keys += 1;
    chunk.new_cells(Cell { kind, at: at.0, to: key });
    key
}

impl Function<'_, '_> {
    /// Whether the thread's context is kept.
    pub(super) fn has_contexts(&self) -> bool {
        self.module.options.probe.has_contexts()
    }

    /// What arriving at a block by its address does to the context.
    pub fn write_context_arrival(&mut self, id: BlockId, at: Original, live: LiveSet) {
        if !self.has_contexts() {
            return;
        }
        let cfg = &self.flow.cfg;
        let entries = cfg.graph.entries().iter().zip(&cfg.entry_kinds);
        let entry = entries.into_iter().find(|(entry, _)| **entry == id).map(|(_, &kind)| kind);
        let is_return_site = || {
            let edges = cfg.graph.in_edges(id).iter();
            edges.into_iter().any(|&edge| cfg.edge_facts(edge).kind == EdgeKind::Call)
        };
        match (entry, self.context_key) {
            (Some(EntryKind::Primary | EntryKind::Secondary), Some(key)) => {
                self.charge(at, live);
                self.descend(at, live, key);
            }
            (Some(EntryKind::Primary | EntryKind::Secondary), None) => {}
            (Some(EntryKind::LandingPad), _) => self.retake_context(at, live),
            _ if is_return_site() => self.retake_context(at, live),
            _ => {}
        }
    }

    /// Whether an edge is a tail call of a function that has a context.
    pub fn ascends(&self, edge: EdgeId) -> bool {
        self.context_key.is_some() && self.flow.cfg.edge_facts(edge).kind == EdgeKind::TailCall
    }

    /// What an edge out of the function does to the context, behind what it does to paths.
    pub fn write_context_departure(&mut self, edge: EdgeId, at: Original, live: LiveSet) {
        if self.ascends(edge) {
            self.charge(at, live);
            with_register(self.chunk, at, live, |chunk, register| {
                chunk.asm.load_dword(register, offset::CONTEXT);
                chunk.asm.gs_based_dword(0x8b, register, register, KEY);
                chunk.asm.store_dword(offset::CONTEXT, register);
            });
        }
    }

    /// Charges the metric since the last change to the present context, if there is one.
    pub(super) fn charge(&mut self, at: Original, live: LiveSet) {
        let probe = self.module.options.probe;
        let Some(metric) = probe.metric().filter(|_| probe.has_context_metric()) else { return };
        with_metric(self.chunk, metric, at, live, |chunk| {
            chunk.asm.load(Gpr::RCX, offset::CHARGED);
            chunk.asm.store(offset::CHARGED, Gpr::RAX);
            chunk.asm.bytes(&[0x48, 0x29, 0xc8]); // sub rax, rcx
            chunk.asm.load_dword(Gpr::RCX, offset::CONTEXT);
            chunk.asm.bytes(&[0x65, 0x48, 0x01, 0x81]); // add gs:[rcx + METRIC], rax
            chunk.asm.bytes(&METRIC.to_le_bytes());
        });
    }

    /// Before the call at `at`, when its frame has been left.
    pub(super) fn descend_to_call(&mut self, at: Original, live: LiveSet) {
        if self.module.options.probe.has_call_sites() && self.context_key.is_some() {
            let key = new_key(self.chunk, CellKind::CallSite, at);
            self.descend(at, live, key);
            self.chunk.begin_clean_probe(at);
        }
    }

    fn descend(&mut self, at: Original, live: LiveSet, key: u32) {
        let chunk = &mut *self.chunk;
        let [start, back, other] = [(); 3].map(|()| chunk.asm.new_label());
        chunk.asm.bind(start);
        let mut registers = [Gpr::RCX, Gpr::RAX];
        let saved = with_two_registers(chunk, at, live, |chunk, [wanted, place]| {
            registers = [wanted, place];
            let asm = &mut chunk.asm;
            asm.load_dword(wanted, offset::CONTEXT);
            let hole = asm.load_wide_constant(place, u64::from(key) << 32) + 4;
            asm.or(wanted, place);
            asm.multiply_by(place, wanted, CONTEXT_FRONT_FACTOR);
            asm.shift_right(place, FRONT_SHIFT);
            asm.and_dword(place, FRONT_MASK);
            asm.gs_based(COMPARE, wanted, place, KEY + FRONT_CONTEXTS);
            asm.jump_to_if(Condition::NZ, other);
            write_entry(asm, place, FRONT_CONTEXTS);
            chunk.keys.push(hole);
        });
        chunk.begin_clean_probe(at);
        chunk.asm.bind(back);
        let find = FindContext { label: other, back, start, at, saved, registers };
        self.call_ends.push(CallEnd::FindContext(find));
    }

    pub(super) fn write_find_context(&mut self, find: &FindContext) {
        let chunk = &mut *self.chunk;
        let [wanted, place] = find.registers;
        let asm = &mut chunk.asm;
        let [new, look, found] = [(); 3].map(|()| asm.new_label());
        asm.bind(find.label);
        chunk.begin_run(kind::PROBE, find.at, find.saved, [0; 4]);
        let asm = &mut chunk.asm;
        asm.compare_based_with_zero(place, KEY + FRONT_CONTEXTS);
        asm.jump_to_if(Condition::Z, new);
        asm.load_wide_constant(place, CONTEXT_HASH_FACTOR);
        asm.multiply(place, wanted);
        asm.shift_right(place, HASH_SHIFT);
        asm.and_dword(place, PLACE_MASK);
        asm.bind(look);
        asm.gs_based(COMPARE, wanted, place, KEY);
        asm.jump_to_if(Condition::Z, found);
        asm.compare_based_with_zero(place, KEY);
        asm.jump_to_if(Condition::Z, new);
        asm.add_immediate(place, CONTEXT_BYTES as i8);
        asm.and_dword(place, PLACE_MASK);
        asm.jump_to(look);
        asm.bind(new);
        asm.store(offset::WANTED_CONTEXT, wanted);
        write_restore(chunk, find.saved);
        exits::write_detour(chunk, find.at, EndReason::NewContext, find.start);
        chunk.asm.bind(found);
        chunk.begin_run(kind::PROBE, find.at, find.saved, [0; 4]);
        write_entry(&mut chunk.asm, place, 0);
        write_restore(chunk, find.saved);
        chunk.begin_clean_probe(find.at);
        chunk.asm.jump_to(find.back);
    }

    fn retake_context(&mut self, at: Original, live: LiveSet) {
        self.charge(at, live);
        let saved = saved(live) & !saves::RCX;
        let chunk = &mut *self.chunk;
        let [missing, behind] = [(); 2].map(|()| chunk.asm.new_label());
        begin_saving(chunk, at, saved);
        chunk.asm.frame_index(Gpr::RAX, FRAME_MASK);
        chunk.asm.entry(COMPARE, Gpr::RSP, Gpr::RAX, FRAME_KEY);
        chunk.asm.jump_to_if(Condition::NZ, missing);
        chunk.asm.entry_dword(LOAD, Gpr::RAX, Gpr::RAX, FRAME_CONTEXT);
        chunk.asm.store_dword(offset::CONTEXT, Gpr::RAX);
        chunk.asm.jump_to(behind);
        chunk.asm.bind(missing);
        chunk.asm.store_constant(offset::CONTEXT, wire::exact::ROOT_CONTEXT);
        chunk.asm.bind(behind);
        write_restore(chunk, saved);
    }
}

/// Counts a call in the entry at a place, which is this far behind, and takes its context. Changes
/// the register.
fn write_entry(asm: &mut Asm, place: Gpr, distance: u32) {
    asm.gs_based(INCREMENT, Gpr(0), place, COUNT + distance);
    asm.gs_based_dword(LOAD, place, place, CONTEXT + distance);
    asm.store_dword(offset::CONTEXT, place);
}
