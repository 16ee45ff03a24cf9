//! Calling contexts: a function that is entered becomes the child of the context that it is called from.
//!
//! The table of contexts and what it means are described in [`wire::exact`]. A copy does four things with the thread's context:
//!
//! * **Descent**, where control arrives at an entry of a function. The function's number and the present context are the key of an entry, in which
//!   the call is counted and which says what the context is from now on. If there is none, the gate makes it, and the search starts once more.
//! * **Frames.** A call leaves the context with the path register, and takes it back when it has returned ([`super::transfers`]).
//! * **Retaking**, where control arrives at a return site or landing pad by its address: after `longjmp`, or an exception. What the last call left
//!   that had the same stack pointer is the context of this function. If there is nothing, the context is the root.
//! * **Ascent**, before a tail call: the callee takes the place of the function, as on the stack.
//!
//! ```text
//!         mov ecx, gs:[context]
//!         mov eax, function; shl rax, 32; or rcx, rax         the key
//!         mov rax, FACTOR; imul rax, rcx; shr rax, 42; shl rax, 5
//! look:   cmp rcx, gs:[rax + CONTEXTS]
//!         jne other
//!         inc qword gs:[rax + CONTEXTS + 8]
//!         mov eax, gs:[rax + CONTEXTS + 16]
//!         mov gs:[context], eax
//!         ...
//! other:  cmp qword gs:[rax + CONTEXTS], 0                    behind the function
//!         je new
//!         add eax, 32; and eax, mask
//!         jmp look
//! new:    mov gs:[wanted_context], rcx                        and to the gate, which comes back to the start
//! ```
//!
//! Where a metric is counted, what its counter has gone up by since the last change of context is charged to the context that ends, before each of these:
//!
//! ```text
//!         rdtsc; shl rdx, 32; or rax, rdx                     or mov rax, gs:[misses]
//!         mov rcx, gs:[charged]; mov gs:[charged], rax
//!         sub rax, rcx
//!         mov ecx, gs:[context]
//!         add gs:[rcx + CONTEXTS + 24], rax
//! ```
//!
//! **Call sites.** Where these are told apart, a call descends, too, by a number of its own, after the caller's context has been left in the frame. So the
//! callee's context is a child of the call's, and callees need not know.
//!
//! Stubs of the linkage table are no functions of their own: they leave the context alone.

use std::mem::offset_of;

use flow::cfg::{EdgeKind, EntryKind};
use flow::graph::{BlockId, EdgeId};
use flow::liveness::LiveSet;
use wire::exact::{CONTEXT_BYTES, CONTEXT_HASH_FACTOR, CONTEXTS, ContextEntry, FRAME_MASK, N_CONTEXT_ENTRIES};
use wire::recovery::{kind, saves};
use wire::sample::EndReason;
use wire::thread::offset;

use super::code::with_register;
use super::path_metric::with_metric;
use super::saving::{begin_saving, saved, write_restore};
use super::transfers::CallEnd;
use super::{Cell, CellKind};
use crate::asm::{Condition, Gpr, Label};
use crate::chunk::{Chunk, Original};
use crate::exits;
use crate::function::Function;

const KEY: u32 = CONTEXTS + offset_of!(ContextEntry, key) as u32;
const COUNT: u32 = CONTEXTS + offset_of!(ContextEntry, count) as u32;
const CONTEXT: u32 = CONTEXTS + offset_of!(ContextEntry, context) as u32;
const METRIC: u32 = CONTEXTS + offset_of!(ContextEntry, metric) as u32;

/// The search for a context goes on behind the function.
#[derive(Debug)]
pub(crate) struct FindContext {
    label: Label,
    look: Label,
    /// Where everything starts.
    start: Label,
    at: Original,
    saved: u8,
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
        let saved = saved(live);
        let chunk = &mut *self.chunk;
        let [start, look, other] = [(); 3].map(|()| chunk.asm.new_label());
        chunk.asm.bind(start);
        begin_saving(chunk, at, saved);
        let asm = &mut chunk.asm;
        asm.load_dword(Gpr::RCX, offset::CONTEXT);
        let place = asm.load_constant(Gpr::RAX, key);
        asm.bytes(&[0x48, 0xc1, 0xe0, 0x20]); // shl rax, 32
        asm.bytes(&[0x48, 0x09, 0xc1]); // or rcx, rax
        asm.bytes(&[0x48, 0xb8]); // mov rax, CONTEXT_HASH_FACTOR
        asm.bytes(&CONTEXT_HASH_FACTOR.to_le_bytes());
        asm.bytes(&[0x48, 0x0f, 0xaf, 0xc1]); // imul rax, rcx
        asm.bytes(&[0x48, 0xc1, 0xe8, (64 - N_CONTEXT_ENTRIES.ilog2()) as u8]); // shr rax, 64 - bits
        asm.bytes(&[0x48, 0xc1, 0xe0, CONTEXT_BYTES.ilog2() as u8]); // shl rax, 5
        asm.bind(look);
        asm.bytes(&[0x65, 0x48, 0x3b, 0x88]); // cmp rcx, gs:[rax + KEY]
        asm.bytes(&KEY.to_le_bytes());
        asm.jump_to_if(Condition::NZ, other);
        asm.bytes(&[0x65, 0x48, 0xff, 0x80]); // inc qword gs:[rax + COUNT]
        asm.bytes(&COUNT.to_le_bytes());
        asm.gs_based_dword(0x8b, Gpr::RAX, Gpr::RAX, CONTEXT);
        asm.store_dword(offset::CONTEXT, Gpr::RAX);
        write_restore(chunk, saved);
        chunk.keys.push(place);
        self.call_ends.push(CallEnd::FindContext(FindContext { label: other, look, start, at, saved }));
    }

    pub(super) fn write_find_context(&mut self, find: &FindContext) {
        let chunk = &mut *self.chunk;
        let new = chunk.asm.new_label();
        chunk.asm.bind(find.label);
        chunk.begin_run(kind::PROBE, find.at, find.saved, [0; 4]);
        chunk.asm.bytes(&[0x65, 0x48, 0x83, 0xb8]); // cmp qword gs:[rax + KEY], 0
        chunk.asm.bytes(&KEY.to_le_bytes());
        chunk.asm.bytes(&[0]);
        chunk.asm.jump_to_if(Condition::Z, new);
        chunk.asm.bytes(&[0x83, 0xc0, CONTEXT_BYTES as u8]); // add eax, CONTEXT_BYTES
        chunk.asm.bytes(&[0x25]); // and eax, mask
        chunk.asm.bytes(&(N_CONTEXT_ENTRIES * CONTEXT_BYTES - 1).to_le_bytes());
        chunk.asm.jump_to(find.look);
        chunk.asm.bind(new);
        chunk.asm.store(offset::WANTED_CONTEXT, Gpr::RCX);
        write_restore(chunk, find.saved);
        exits::write_detour(chunk, find.at, EndReason::NewContext, find.start);
    }

    fn retake_context(&mut self, at: Original, live: LiveSet) {
        self.charge(at, live);
        let saved = saved(live) & !saves::RCX;
        let chunk = &mut *self.chunk;
        let [missing, behind] = [(); 2].map(|()| chunk.asm.new_label());
        begin_saving(chunk, at, saved);
        chunk.asm.frame_index(Gpr::RAX, FRAME_MASK);
        chunk.asm.entry(super::transfers::COMPARE, Gpr::RSP, Gpr::RAX, super::transfers::FRAME_KEY);
        chunk.asm.jump_to_if(Condition::NZ, missing);
        chunk.asm.entry_dword(super::transfers::LOAD, Gpr::RAX, Gpr::RAX, super::transfers::FRAME_CONTEXT);
        chunk.asm.store_dword(offset::CONTEXT, Gpr::RAX);
        chunk.asm.jump_to(behind);
        chunk.asm.bind(missing);
        chunk.asm.store_constant(offset::CONTEXT, wire::exact::ROOT_CONTEXT);
        chunk.asm.bind(behind);
        write_restore(chunk, saved);
    }
}
