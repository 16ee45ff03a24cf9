//! Calls, returns and computed jumps of copies that are never left.
//!
//! A call notes in the return table where its return leads, and the return goes there. Flags are dead at both, by the calling convention. They
//! are saved where direct calls show that it is not kept ([`flow::liveness::FlagConventions`]), and everywhere in a module that expects flags at
//! a place which is reached by its address only ([`Module::passes_flags_unseen`]).
//!
//! [`Module::passes_flags_unseen`]: crate::module::Module::passes_flags_unseen
//!
//! ```text
//! call:   push [rip + literal]
//!         mov gs:[saved_rax], rax; mov gs:[saved_rcx], rcx
//!         mov ecx, esp; and ecx, SLOT_MASK
//!         lea rax, [rip + return site]; mov gs:[rcx * 4 + RETURNS + 8], rax                   twin
//!         mov eax, gs:[frame]; mov gs:[rcx * 4 + RETURNS + 16], eax                           frame, if there is one
//!         mov rax, [rip + literal]; add rax, rsp; mov gs:[rcx * 4 + RETURNS], rax             key
//!         mov rcx, gs:[saved_rcx]; mov rax, gs:[saved_rax]
//!         jmp callee
//! return: mov gs:[saved_rax], rax
//!         mov rax, [rsp]
//!         lea rsp, [rsp + 8 + n]                                                              the program has returned
//!         mov gs:[target], rax
//!         mov gs:[saved_rcx], rcx
//!         lea ecx, [rsp - 8 - n]; and ecx, SLOT_MASK
//!         lea rax, [rax + rsp - 8 - n]
//!         cmp rax, gs:[rcx * 4 + RETURNS]
//!         jne look up
//!         mov eax, gs:[rcx * 4 + RETURNS + 16]; mov gs:[frame], eax
//!         mov rax, gs:[rcx * 4 + RETURNS + 8]; mov gs:[twin], rax
//!         mov rcx, gs:[saved_rcx]; mov rax, gs:[saved_rax]
//!         jmp gs:[twin]
//! ```
//!
//! A computed call, or jump to another function, remembers its first target and that one's twin in two cells, and looks others up. The first
//! of them is taken by `cmpxchg`, and written again after the second, so that a signal handler finds both or none.

use flow::cfg::EdgeKind;
use flow::graph::{BlockId, EdgeId};
use flow::liveness::LiveSet;
use iced_x86::Instruction;
use image::Svma;
use wire::exact::{CELLS, RETURNS, ReturnEntry, SLOT_MASK};
use wire::recovery::{kind, saves};
use wire::sample::EndReason;
use wire::thread::offset;

use super::code::{Code, Paths, write_end};
use super::{Cell, CellKind, Counting};
use crate::Probe;
use crate::asm::{Condition, Gpr, Label};
use crate::chunk::{Chunk, Destination, ExitState, Original};
use crate::function::Function;
use crate::probe;
use crate::stubs::{self, Stub};
use crate::transfers::StackChange;

const LOAD: u8 = 0x8b;
const STORE: u8 = 0x89;
const COMPARE: u8 = 0x3b;
const KEY: u32 = RETURNS + std::mem::offset_of!(ReturnEntry, key) as u32;
const TWIN: u32 = RETURNS + std::mem::offset_of!(ReturnEntry, twin) as u32;
const FRAME: u32 = RETURNS + std::mem::offset_of!(ReturnEntry, frame) as u32;

/// Ends of the stores of target or `rax`, and of `rcx`, and of saving flags.
const ARRIVAL_SAVE_END: [u8; 4] = [9, 18, 31, 0];
/// How far before the code for arrivals that for jumps through tables is: a jump.
pub(crate) const TABLE_ENTRY_BYTES: u32 = 5;

impl Function<'_, '_> {
    /// Whether probes keep something in `frame`.
    fn has_frame(&self) -> bool {
        self.module.options.probe == Probe::Exact(Counting::Paths)
    }

    /// The edge over which a call returns.
    fn return_edge(&self, block: BlockId) -> Option<EdgeId> {
        self.edge_of_kind(block, EdgeKind::Call)
    }

    fn edge_of_kind(&self, block: BlockId, kind: EdgeKind) -> Option<EdgeId> {
        let cfg = &self.flow.cfg;
        cfg.graph.out_range(block).map(EdgeId).find(|&edge| cfg.edge_facts(edge).kind == kind)
    }

    /// A path ends before an instruction from which control does not come back: a fault, or a call that does not return.
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
        let returns_to = self.return_label(block);
        let keeps_flags = self.module.passes_flags_unseen || self.passes_flags(target);
        let (original, literal) = (self.original(target), self.original(next));
        self.chunk.push_original(literal);
        if let Some(label) = returns_to {
            self.chunk.begin_run(kind::PROBE, original, saved(keeps_flags), ARRIVAL_SAVE_END);
            self.chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
            self.chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
            if keeps_flags {
                probe::save_flags(&mut self.chunk.asm);
            }
            self.note_return(literal, label);
            if keeps_flags {
                probe::restore_flags(&mut self.chunk.asm);
            }
            self.chunk.asm.load(Gpr::RCX, offset::SAVED_RCX);
            self.chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
        }
        self.chunk.begin_clean_probe(original);
        let hole = self.chunk.asm.jump();
        if self.module.has_leader(target) {
            self.chunk.refer(hole, Destination::Leader(original));
        } else {
            let label = self.chunk.exit(original, EndReason::NoCopy, ExitState::Clean);
            self.chunk.asm.use_label(hole, label);
        }
        self.land(block, returns_to, next);
    }

    fn passes_flags(&self, target: Svma) -> bool {
        self.flow.liveness.conventions().at_calls.contains_key(&target)
    }

    /// Where the return of the call at the end of the block leads; a label of its own if something is to be done there.
    fn return_label(&mut self, block: BlockId) -> Option<Label> {
        let edge = self.return_edge(block)?;
        let to = self.flow.cfg.graph.edge(edge).to.filter(|&to| self.module.is_owned(self.id, to))?;
        Some(match self.plan_of_probes().edge(edge) {
            Code::Nothing => self.label_of(to),
            _ => self.chunk.asm.new_label(),
        })
    }

    /// What is done when a call has returned.
    fn land(&mut self, block: BlockId, label: Option<Label>, next: Svma) {
        let Some((edge, label)) = self.return_edge(block).zip(label) else { return };
        if self.plan_of_probes().edge(edge) != Code::Nothing {
            self.chunk.asm.bind(label);
            self.go_on(block, next);
        }
    }

    /// Notes where the return leads; changes `rax`, `rcx` and flags.
    fn note_return(&mut self, next: Original, label: Label) {
        let has_frame = self.has_frame();
        let chunk = &mut *self.chunk;
        chunk.asm.bytes(&[0x89, 0xe1]); // mov ecx, esp
        write_slot(chunk);
        let hole = chunk.asm.address_of(Gpr::RAX);
        chunk.asm.use_label(hole, label);
        chunk.asm.entry(STORE, Gpr::RAX, Gpr::RCX, TWIN);
        if has_frame {
            // In the width in which it was stored: the processor could not pass it on otherwise.
            chunk.asm.load_low(Gpr::RAX, offset::FRAME);
            chunk.asm.entry_low(STORE, Gpr::RAX, Gpr::RCX, FRAME);
        }
        // The key comes last: what was noted in part only is not found.
        let hole = chunk.asm.load_literal(Gpr::RAX);
        chunk.refer(hole, Destination::Literal(next));
        chunk.asm.bytes(&[0x48, 0x01, 0xe0]); // add rax, rsp
        chunk.asm.entry(STORE, Gpr::RAX, Gpr::RCX, KEY);
    }

    /// A return that takes `n_bytes` off the stack.
    pub fn return_and_stay(&mut self, block: BlockId, insn: &Instruction, n_bytes: i32) {
        let at = self.original(Svma(insn.ip()));
        let end = self.edge_of_kind(block, EdgeKind::Return).map(|edge| self.plan_of_probes().edge(edge));
        let end = end.unwrap_or(Code::Nothing);
        let inline_end = match end {
            Code::End { paths: Paths::Cells(cell), id_offset, .. } => Some((cell, id_offset)),
            _ => {
                end.write(self.chunk, at, self.needed_behind(block));
                None
            }
        };
        let has_frame = self.has_frame();
        let keeps_flags = self.module.passes_flags_unseen || !self.flow.liveness.conventions().at_return.is_empty();
        let chunk = &mut *self.chunk;
        chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
        chunk.begin_run(kind::PROBE, at, saves::RAX, [0; 4]);
        chunk.asm.bytes(&[0x48, 0x8b, 0x04, 0x24]); // mov rax, [rsp]
        chunk.asm.advance(Gpr::RSP, n_bytes);
        chunk.begin_run(kind::FORWARD, Original(0), saved(keeps_flags), ARRIVAL_SAVE_END);
        chunk.asm.store(offset::TARGET, Gpr::RAX);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        if keeps_flags {
            probe::save_flags(&mut chunk.asm);
            chunk.asm.load(Gpr::RAX, offset::TARGET);
        }
        if let Some((cell, id_offset)) = inline_end {
            write_end(chunk, Gpr::RCX, cell, id_offset);
        }
        chunk.asm.bytes(&[0x8d, 0x8c, 0x24]); // lea ecx, [rsp - n_bytes]
        chunk.asm.bytes(&n_bytes.wrapping_neg().to_le_bytes());
        write_slot(chunk);
        chunk.asm.bytes(&[0x48, 0x8d, 0x84, 0x04]); // lea rax, [rsp + rax - n_bytes]
        chunk.asm.bytes(&n_bytes.wrapping_neg().to_le_bytes());
        chunk.asm.entry(COMPARE, Gpr::RAX, Gpr::RCX, KEY);
        let hole = chunk.asm.jump_if(Condition::NZ);
        chunk.refer(hole, Destination::Stub(Stub::LookUp));
        if has_frame {
            chunk.asm.entry_low(LOAD, Gpr::RAX, Gpr::RCX, FRAME);
            chunk.asm.store_low(offset::FRAME, Gpr::RAX);
        }
        chunk.asm.entry(LOAD, Gpr::RAX, Gpr::RCX, TWIN);
        chunk.asm.store(offset::TWIN, Gpr::RAX);
        if keeps_flags {
            probe::restore_flags(&mut chunk.asm);
        }
        chunk.asm.load(Gpr::RCX, offset::SAVED_RCX);
        chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
        chunk.asm.jump_through(offset::TWIN);
    }

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
        let returns_to = if matches!(stack, StackChange::Push(_)) { self.return_label(block) } else { None };
        if !is_table && matches!(stack, StackChange::None) {
            let end = self.flow.cfg.graph.out_range(block).map(EdgeId).next();
            let end = end.map_or(Code::Nothing, |edge| self.plan_of_probes().edge(edge));
            end.write(self.chunk, at, self.needed_behind(block));
        }
        let scratch = if is_table { self.scratch_of_table_jump(block) } else { None };
        if scratch.is_none() {
            self.chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
            self.chunk.begin_run(kind::PROBE, at, saves::RAX, [0; 4]);
        }
        let start = self.chunk.position();
        self.chunk.asm.bytes(load);
        if let Some((hole, target)) = address {
            self.chunk.set_address(start + hole, self.chunk.position(), target);
        }
        if let StackChange::Push(next) = stack {
            let next = self.original(next);
            self.chunk.push_original(next);
        }
        match scratch {
            Some(scratch) => return self.write_quick_table_arrival(block, scratch),
            None if is_table => return self.write_table_arrival(block),
            None => {}
        }
        let live = self.flow.liveness.live_out(&self.flow.cfg, block);
        let is_jump_with_flags = matches!(stack, StackChange::None) && !(live & LiveSet::ARITHMETIC_FLAGS).is_empty();
        let keeps_flags = self.module.passes_flags_unseen || is_jump_with_flags;
        self.chunk.begin_run(kind::FORWARD, Original(0), saved(keeps_flags), ARRIVAL_SAVE_END);
        self.chunk.asm.store(offset::TARGET, Gpr::RAX);
        self.chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        if keeps_flags {
            probe::save_flags(&mut self.chunk.asm);
            self.chunk.asm.load(Gpr::RAX, offset::TARGET);
        }
        if let (StackChange::Push(next), Some(label)) = (stack, returns_to) {
            let next = self.original(next);
            self.note_return(next, label);
            self.chunk.asm.load(Gpr::RAX, offset::TARGET);
        }
        let cell = self.chunk.new_cells(Cell { kind: CellKind::Target, at: at.0, to: 0 });
        self.write_remembered(cell, keeps_flags);
        if let StackChange::Push(next) = stack {
            self.land(block, returns_to, next);
        }
    }

    /// Goes to the twin of the target, which is in `rax` and `target`, by the two cells.
    fn write_remembered(&mut self, cell: u32, keeps_flags: bool) {
        let cluster = self.module.options.cluster;
        let chunk = &mut *self.chunk;
        let cells = [CELLS, CELLS + 8];
        let [slow, taken] = [(); 2].map(|()| chunk.asm.new_label());
        chunk.asm.compare(Gpr::RAX, cells[0]);
        let hole = chunk.position() - 4;
        chunk.set_cell(hole, cell);
        chunk.asm.jump_to_if(Condition::NZ, slow);
        if keeps_flags {
            probe::restore_flags(&mut chunk.asm);
        }
        chunk.asm.load(Gpr::RCX, offset::SAVED_RCX);
        chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
        chunk.asm.jump_through(cells[1]);
        let hole = chunk.position() - 4;
        chunk.set_cell(hole, cell);
        chunk.asm.bind(slow);
        let [not_here, unknown] = stubs::write_find_twin(chunk, cluster);
        chunk.refer(not_here, Destination::Stub(Stub::LookUp));
        chunk.refer(unknown, Destination::Stub(Stub::LookUp));
        chunk.asm.store(offset::TWIN, Gpr::RAX);
        chunk.asm.bytes(&[0x31, 0xc0]); // xor eax, eax
        chunk.asm.bytes(&[0x8d, 0x48, 0x01]); // lea ecx, [rax + 1]
        chunk.asm.bytes(&[0x65, 0x48, 0x0f, 0xb1, 0x0c, 0x25]); // cmpxchg gs:[cell], rcx
        chunk.asm.bytes(&cells[0].to_le_bytes());
        let hole = chunk.position() - 4;
        chunk.set_cell(hole, cell);
        chunk.asm.jump_to_if(Condition::NZ, taken);
        chunk.asm.load(Gpr::RAX, offset::TWIN);
        chunk.asm.store(cells[1], Gpr::RAX);
        let hole = chunk.position() - 4;
        chunk.set_cell(hole, cell);
        chunk.asm.load(Gpr::RAX, offset::TARGET);
        chunk.asm.store(cells[0], Gpr::RAX);
        let hole = chunk.position() - 4;
        chunk.set_cell(hole, cell);
        chunk.asm.bind(taken);
        if keeps_flags {
            probe::restore_flags(&mut chunk.asm);
        }
        chunk.asm.load(Gpr::RCX, offset::SAVED_RCX);
        chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
        chunk.asm.jump_through(offset::TWIN);
    }

    /// Where the row of a jump through a table will be, if it has one.
    fn row_label(&mut self, block: BlockId) -> Option<Label> {
        self.plan_of_probes().row(block)?;
        let label = self.chunk.asm.new_label();
        self.rows.push((label, block));
        Some(label)
    }

    /// Behind the function: the rows of its jumps through tables.
    pub fn write_rows(&mut self) {
        for (label, block) in std::mem::take(&mut self.rows) {
            self.chunk.begin_run(kind::NEVER, Original(0), 0, [0; 4]);
            self.chunk.asm.bind(label);
            let bytes: Vec<u8> =
                self.plan_of_probes().row(block).unwrap_or_default().iter().flat_map(|entry| entry.bytes()).collect();
            self.chunk.asm.bytes(&bytes);
        }
    }

    /// A register that nobody needs behind a jump through a table, if that is true of flags and `rax`, too.
    fn scratch_of_table_jump(&self, block: BlockId) -> Option<Gpr> {
        let live = self.flow.liveness.live_out(&self.flow.cfg, block);
        let flags_are_dead = (live & LiveSet::ARITHMETIC_FLAGS).is_empty() && !self.module.passes_flags_unseen;
        let mut dead = probe::dead_registers(live).filter(|_| flags_are_dead);
        dead.find(|&register| register == Gpr::RAX)?;
        probe::dead_registers(live).find(|&register| register != Gpr::RAX)
    }

    /// Goes to a block of the function by its address, which is in `rax`; `rax`, `scratch` and flags are dead.
    fn write_quick_table_arrival(&mut self, block: BlockId, scratch: Gpr) {
        let row = self.row_label(block);
        let cluster = self.module.options.cluster;
        let is_before = self.module.options.probe == Probe::Exact(Counting::Paths);
        let chunk = &mut *self.chunk;
        chunk.begin_run(kind::FORWARD, Original(0), saves::RAX, [9, 0, 0, 0]);
        chunk.asm.store(offset::TARGET, Gpr::RAX);
        if let Some(row) = row {
            write_row_address(chunk, row, scratch);
        }
        let holes = stubs::write_find_twin_with(chunk, cluster, scratch);
        if is_before {
            chunk.asm.advance(Gpr::RAX, -(TABLE_ENTRY_BYTES as i32));
        }
        chunk.asm.bytes(&[0xff, 0xe0]); // jmp rax
        let slow = chunk.position();
        holes.into_iter().for_each(|hole| chunk.asm.set_displacement(hole, slow));
        chunk.begin_run(kind::FORWARD, Original(0), saves::RAX | saves::RCX, [0, 9, 0, 0]);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        let hole = chunk.asm.jump();
        chunk.refer(hole, Destination::Stub(Stub::LookUp));
    }

    /// The same where registers or flags are needed.
    fn write_table_arrival(&mut self, block: BlockId) {
        let row = self.row_label(block);
        let cluster = self.module.options.cluster;
        let live = self.flow.liveness.live_out(&self.flow.cfg, block);
        let keeps_flags = !(live & LiveSet::ARITHMETIC_FLAGS).is_empty() || self.module.passes_flags_unseen;
        let is_before = self.module.options.probe == Probe::Exact(Counting::Paths);
        let chunk = &mut *self.chunk;
        let (saved, ends) = if keeps_flags {
            (saves::RAX | saves::RCX | saves::FLAGS, [9, 18, 31, 0])
        } else {
            (saves::RAX | saves::RCX, ARRIVAL_SAVE_END)
        };
        chunk.begin_run(kind::FORWARD, Original(0), saved, ends);
        chunk.asm.store(offset::TARGET, Gpr::RAX);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        if keeps_flags {
            probe::save_flags(&mut chunk.asm);
            chunk.asm.load(Gpr::RAX, offset::TARGET);
        }
        if let Some(row) = row {
            write_row_address(chunk, row, Gpr::RCX);
        }
        let [not_here, unknown] = stubs::write_find_twin(chunk, cluster);
        let stub = if keeps_flags { [Stub::Other, Stub::Miss] } else { [Stub::LookUp; 2] };
        chunk.refer(not_here, Destination::Stub(stub[0]));
        chunk.refer(unknown, Destination::Stub(stub[1]));
        if is_before {
            chunk.asm.advance(Gpr::RAX, -(TABLE_ENTRY_BYTES as i32));
        }
        chunk.asm.store(offset::TWIN, Gpr::RAX);
        if keeps_flags {
            probe::restore_flags(&mut chunk.asm);
        }
        chunk.asm.load(Gpr::RCX, offset::SAVED_RCX);
        chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
        chunk.asm.jump_through(offset::TWIN);
    }
}

/// What is saved on the way.
fn saved(keeps_flags: bool) -> u8 {
    saves::RAX | saves::RCX | if keeps_flags { saves::FLAGS } else { 0 }
}

/// Leaves the address of a row.
fn write_row_address(chunk: &mut Chunk, row: Label, scratch: Gpr) {
    let hole = chunk.asm.address_of(scratch);
    chunk.asm.use_label(hole, row);
    chunk.asm.store(offset::SAVED_RDX, scratch);
}

/// `and ecx, SLOT_MASK`
fn write_slot(chunk: &mut Chunk) {
    chunk.asm.bytes(&[0x81, 0xe1]);
    chunk.asm.bytes(&SLOT_MASK.to_le_bytes());
}
