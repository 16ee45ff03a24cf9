//! Computed calls and jumps of copies that are never left.
//!
//! One remembers its first target and that one's twin in two cells, and searches for others. The
//! first cell is taken by `cmpxchg`, and written again after the second, so that a signal handler
//! finds both or none.
//!
//! ```text
//!         mov gs:[saved_rax], rax
//!         mov rax, operand
//!         mov gs:[target], rax; mov gs:[saved_rcx], rcx
//!         cmp rax, gs:[cell]
//!         jne search                                      behind the function
//!         mov rax, gs:[cell + 8]; mov gs:[twin], rax
//! found:  mov rcx, gs:[saved_rcx]; mov rax, gs:[saved_rax]
//!         jmp gs:[twin]                                   or as calls do
//! ```
//!
//! A jump has been made when its operand has been read; a call, when the return address is on the
//! stack.
//!
//! Before a call, the target is counted in the path table ([`super::hashed`]), under the number of
//! the call: it is read once more for that.

use flow::cfg::EdgeKind;
use flow::graph::{BlockId, EdgeId};
use flow::liveness::LiveSet;
use iced_x86::Instruction;
use image::Svma;
use wire::clusters::{LIBRARIES, PROGRAM};
use wire::exact::{CALLEE, CELLS};
use wire::recovery::{kind, saves};
use wire::thread::offset;

use super::contexts::new_key;
use super::hashed;
use super::transfers::{ARRIVAL_SAVE_END, CallEnd, Callee};
use crate::asm::{Condition, Gpr, Label};
use crate::cell::{Cell, CellKind};
use crate::chunk::{Chunk, Destination, Ended, Original, Owner, Stub};
use crate::classify::StackChange;
use crate::function::Function;
use crate::look_up;
use crate::probe;
use crate::saving::write_restore;

/// Ends of saving `rcx` and flags, where `rax` is saved before and the target is stored first.
const CALL_SAVE_END: [u8; 4] = [0, 18, 31, 0];

/// The search for a computed target.
#[derive(Debug)]
pub(crate) struct Search {
    label: Label,
    /// Where to go on when the twin has been found.
    found: Label,
    cell: u32,
    saved: u8,
    /// The call, and its return address; a jump has been made already.
    call: Option<(Original, Original)>,
}

impl Function<'_, '_> {
    /// A computed call or jump; `load` loads its target into `rax`.
    pub fn go_and_stay(
        &mut self,
        block: BlockId,
        insn: &Instruction,
        load: &[u8],
        address: Option<(u32, i64)>,
        stack: StackChange,
    ) {
        let at = self.original(Svma(insn.ip()));
        let is_table = self.edge_of_kind(block, EdgeKind::JumpTable).is_some();
        let scratch = if is_table { self.scratch_of_table_jump(block) } else { None };
        let keeps_flags = self.keeps_flags_at(block, stack);
        if !is_table && matches!(stack, StackChange::None) {
            let end = self.flow.cfg.graph.out_range(block).map(EdgeId).next();
            if let Some(edge) = end {
                let live = self.needed_behind(block);
                self.plan_of_probes().edge(edge).write(self.chunk, at, live);
                self.write_context_departure(edge, at, live);
            }
        }
        if let StackChange::Push(next) = stack {
            let live = self.needed_at_call(block, keeps_flags);
            if self.return_site(block).is_some() {
                self.leave_frame(at, self.original(next), live);
            }
            self.descend_to_call(at, live);
            self.count_callee(at, live, load, address);
        }
        if scratch.is_none() {
            self.chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
            self.chunk.begin_run(kind::PROBE, at, saves::RAX, [0; 4]);
        }
        self.load_target(load, address);
        match (scratch, stack) {
            (Some(scratch), _) => self.write_quick_table_arrival(block, scratch),
            (None, _) if is_table => self.write_table_arrival(block),
            (None, StackChange::Push(next)) => self.call_computed(block, at, next, keeps_flags),
            (None, _) => self.jump_computed(at, keeps_flags),
        }
    }

    /// Loads the target of a computed call or jump into `rax`.
    fn load_target(&mut self, load: &[u8], address: Option<(u32, i64)>) {
        let start = self.chunk.position();
        self.chunk.asm.bytes(load);
        if let Some((hole, target)) = address {
            self.chunk.set_address(start + hole, self.chunk.position(), target);
        }
    }

    /// Counts whom the call at `at` calls.
    fn count_callee(&mut self, at: Original, live: LiveSet, load: &[u8], address: Option<(u32, i64)>) {
        if !self.module.options.probe.has_callees() {
            return;
        }
        let key = new_key(self.chunk, CellKind::Callees, at);
        self.chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
        self.chunk.begin_run(kind::PROBE, at, saves::RAX, [0; 4]);
        self.load_target(load, address);
        self.chunk.asm.store(offset::TARGET, Gpr::RAX);
        self.chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
        self.chunk.begin_clean_probe(at);
        let owner = Owner::Call(CALLEE | key);
        hashed::write_end(self.chunk, Ended { owner, id_offset: 0, original: at, live }, None);
        self.chunk.begin_clean_probe(at);
    }

    fn keeps_flags_at(&self, block: BlockId, stack: StackChange) -> bool {
        let live = self.module.liveness(self.id).live_out(&self.flow.cfg, block);
        let is_jump_with_flags = matches!(stack, StackChange::None) && !(live & LiveSet::ARITHMETIC_FLAGS).is_empty();
        self.module.passes_flags_unseen || is_jump_with_flags
    }

    /// The target is in `rax`, which is saved.
    fn jump_computed(&mut self, at: Original, keeps_flags: bool) {
        let saved = all_saved(keeps_flags);
        self.chunk.begin_run(kind::FORWARD, Original(0), saved, ARRIVAL_SAVE_END);
        self.write_remembered(at, saved, None);
        self.chunk.asm.jump_through(offset::TWIN);
    }

    fn call_computed(&mut self, block: BlockId, at: Original, next: Svma, keeps_flags: bool) {
        let saved = all_saved(keeps_flags);
        let return_address = self.original(next);
        self.chunk.begin_run(kind::PROBE, at, saved, CALL_SAVE_END);
        self.write_remembered(at, saved, Some((at, return_address)));
        self.chunk.begin_clean_probe(at);
        if self.return_site(block).is_some() && !keeps_flags {
            self.call_and_land(next, Callee::Twin);
        } else {
            self.chunk.push_original(return_address);
            self.chunk.begin_run(kind::FORWARD, Original(0), 0, [0; 4]);
            self.chunk.asm.jump_through(offset::TWIN);
        }
        self.land(block, next);
    }

    /// Stores target and twin, and restores everything.
    fn write_remembered(&mut self, at: Original, saved: u8, call: Option<(Original, Original)>) {
        let cell = self.chunk.new_cells(Cell { kind: CellKind::Target, at: at.0, to: 0 });
        let chunk = &mut *self.chunk;
        let [label, found] = [(); 2].map(|()| chunk.asm.new_label());
        chunk.asm.store(offset::TARGET, Gpr::RAX);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        if saved & saves::FLAGS != 0 {
            probe::save_flags(&mut chunk.asm);
            chunk.asm.load(Gpr::RAX, offset::TARGET);
        }
        chunk.asm.compare(Gpr::RAX, CELLS);
        set_cell(chunk, cell);
        chunk.asm.jump_to_if(Condition::NZ, label);
        chunk.asm.load(Gpr::RAX, CELLS + 8);
        set_cell(chunk, cell);
        chunk.asm.store(offset::TWIN, Gpr::RAX);
        chunk.asm.bind(found);
        write_restore(chunk, saved);
        self.call_ends.push(CallEnd::Search(Search { label, found, cell, saved, call }));
    }

    /// The target is in `rax` and stored, everything is saved.
    pub(super) fn write_search(&mut self, search: &Search) {
        let own = self.module.options.cluster;
        let other = if own == LIBRARIES { PROGRAM } else { LIBRARIES };
        let version = self.module.options.probe.version();
        let chunk = &mut *self.chunk;
        let [has_twin, not_found, taken] = [(); 3].map(|()| chunk.asm.new_label());
        chunk.asm.bind(search.label);
        match search.call {
            Some((at, _)) => chunk.begin_run(kind::PROBE, at, search.saved, [0; 4]),
            None => chunk.begin_run(kind::FORWARD, Original(0), search.saved, [0; 4]),
        }
        let [not_here, unknown] = look_up::write_find_twin(chunk, version, own);
        chunk.asm.use_label(unknown, not_found);
        chunk.asm.jump_to(has_twin);
        let elsewhere = chunk.position();
        chunk.asm.set_displacement(not_here, elsewhere);
        chunk.asm.load(Gpr::RAX, offset::TARGET);
        let holes = look_up::write_find_twin(chunk, version, other);
        holes.into_iter().for_each(|hole| chunk.asm.use_label(hole, not_found));
        chunk.asm.bind(has_twin);
        chunk.asm.store(offset::TWIN, Gpr::RAX);
        // Where targets change all the time, this is cheaper than to try.
        chunk.asm.bytes(&[0x65, 0x48, 0x83, 0x3c, 0x25]); // cmp qword gs:[cell], 0
        let hole = chunk.position();
        chunk.asm.bytes(&CELLS.to_le_bytes());
        chunk.asm.bytes(&[0]);
        chunk.set_cell(hole, search.cell);
        chunk.asm.jump_to_if(Condition::NZ, taken);
        chunk.asm.bytes(&[0x31, 0xc0]); // xor eax, eax
        chunk.asm.bytes(&[0x8d, 0x48, 0x01]); // lea ecx, [rax + 1]
        chunk.asm.bytes(&[0x65, 0x48, 0x0f, 0xb1, 0x0c, 0x25]); // cmpxchg gs:[cell], rcx
        chunk.asm.bytes(&CELLS.to_le_bytes());
        set_cell(chunk, search.cell);
        chunk.asm.jump_to_if(Condition::NZ, taken);
        chunk.asm.load(Gpr::RAX, offset::TWIN);
        chunk.asm.store(CELLS + 8, Gpr::RAX);
        set_cell(chunk, search.cell);
        chunk.asm.load(Gpr::RAX, offset::TARGET);
        chunk.asm.store(CELLS, Gpr::RAX);
        set_cell(chunk, search.cell);
        chunk.asm.bind(taken);
        chunk.asm.jump_to(search.found);
        chunk.asm.bind(not_found);
        if let Some((_, return_address)) = search.call {
            chunk.push_original(return_address);
            chunk.begin_run(kind::FORWARD, Original(0), search.saved, [0; 4]);
        }
        let hole = chunk.asm.jump();
        chunk.refer(hole, Destination::Stub(Stub::LookUp));
    }
}

/// What is saved on the way.
fn all_saved(keeps_flags: bool) -> u8 {
    saves::RAX | saves::RCX | if keeps_flags { saves::FLAGS } else { 0 }
}

/// Makes the offset that ends the last instruction that of the cell, which it holds as that of the
/// first one.
fn set_cell(chunk: &mut Chunk, cell: u32) {
    let hole = chunk.position() - 4;
    chunk.set_cell(hole, cell);
}
