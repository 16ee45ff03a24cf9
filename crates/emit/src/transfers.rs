//! What replaces the last instruction of a block.
//!
//! Jumps and branches to a block with a copy go there; others leave. A direct call pushes the
//! original return address and jumps. Returns, indirect jumps and indirect calls look their target
//! up in the map of the cluster:
//!
//! ```text
//!     mov gs:[saved_rax], rax
//!     mov rax, operand                            or [rsp]
//!     push [rip + literal]                        call; a return: lea rsp, [rsp + 8 + n]
//!     mov gs:[target], rax                        from here on the program has arrived at the target
//!     mov gs:[saved_rcx], rcx
//!     lahf; seto al; mov gs:[saved_flags], rax
//!     mov rax, gs:[target]
//!     mov rcx, gs:[cursor]                        return, jump
//!     cmp rcx, gs:[limit]
//!     jae full
//!     sub rax, gs:[cluster.lo]
//!     cmp rax, gs:[cluster.span]
//!     jae other
//!     mov rcx, gs:[cluster.map]
//!     mov eax, [rcx + rax * 4]
//!     test eax, eax
//!     jns miss
//!     add rax, gs:[cluster.leader_base]
//!     mov gs:[twin], rax
//!     mov rax, gs:[saved_flags]; add al, 0x7f; sahf
//!     mov rcx, gs:[saved_rcx]
//!     mov rax, gs:[saved_rax]
//!     jmp gs:[twin]
//! ```
//!
//! Calling conventions say that no flag is alive here. Hand-written code need not know them, and
//! saving flags is cheap beside the look-up.

use flow::Transfer;
use flow::cfg::EdgeKind;
use flow::graph::{BlockId, EdgeId};
use flow::liveness::LiveSet;
use iced_x86::Instruction;
use image::Svma;
use wire::recovery::{kind, saves};
use wire::sample::EndReason;
use wire::thread::offset;

use crate::asm::{Condition, Gpr};
use crate::chunk::{Destination, ExitState, Original, Stub};
use crate::classify::{self, Branch, StackChange};
use crate::exact::Code;
use crate::function::{Function, SecondProbe};
use crate::look_up;
use crate::operand;
use crate::probe;

/// Where a direct jump goes in the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To a block of the same function.
    Block(BlockId),
    /// The same, over a back edge.
    Back(BlockId),
    /// To a block of another function.
    Leader(Svma),
    /// Out of the copy, to this address.
    Leave(Svma),
    /// Out of the copy, at the jump itself, which is here.
    LeaveBefore(Svma),
}

/// Ends of the stores of target and `rcx`, and of saving flags.
const ARRIVAL_SAVE_END: [u8; 4] = [9, 18, 31, 0];

impl Function<'_, '_> {
    /// Writes what replaces the block's last instruction, which is `insn`.
    pub fn write_transfer(&mut self, block: BlockId, insn: &Instruction, bytes: &[u8]) {
        let next = Svma(insn.next_ip());
        let transfer = self.flow.cfg.block(block).transfer;
        // Jumps that do not come back do what is to be done on their own edges.
        if self.stays() && (transfer.is_call() || transfer == Transfer::Trap) {
            self.write_end_at_trap(block, insn);
        }
        match transfer {
            Transfer::Jump(target) if classify::is_plain_jump(insn) => self.go_on(block, target),
            Transfer::Branch(target) => match classify::branch(insn) {
                Some(Branch::Flags(condition)) => {
                    self.branch(block, condition, target, EdgeKind::Taken);
                    self.go_on(block, next);
                }
                Some(Branch::Counter) if self.module.is_in_reach(target) => self.count(block, bytes, target, next),
                Some(Branch::Counter) | None => self.leave_at(insn, EndReason::Instruction),
            },
            Transfer::Call(target) if classify::is_plain_call(insn) && self.stays() => {
                self.call_and_stay(block, insn, target);
            }
            Transfer::Call(target) if classify::is_plain_call(insn) => self.call(insn, target),
            Transfer::Return => match classify::returned_bytes(insn) {
                Some(n_bytes) if self.stays() => self.return_and_stay(block, insn, n_bytes),
                Some(n_bytes) => {
                    self.indirect(insn, &[0x48, 0x8b, 0x04, 0x24], None, StackChange::Drop(n_bytes));
                }
                None => self.leave_at(insn, EndReason::Instruction),
            },
            Transfer::IndirectJump => self.indirect_operand(block, insn, bytes, StackChange::None),
            Transfer::IndirectCall => self.indirect_operand(block, insn, bytes, StackChange::Push(next)),
            _ => self.leave_at(insn, EndReason::Instruction),
        }
    }

    /// Control goes on to `target`, by a jump unless it is what comes next.
    pub fn go_on(&mut self, block: BlockId, target: Svma) {
        let way = self.way(block, target);
        if self.stays() {
            return self.go_on_and_stay(block, target, way);
        }
        if !self.runs_into(block, way) {
            self.begin_way(target);
            let hole = self.chunk.asm.jump();
            self.set_way(hole, way);
        }
    }

    fn stays(&self) -> bool {
        self.module.options.probe.stays()
    }

    /// The same, in a copy that is never left.
    fn go_on_and_stay(&mut self, block: BlockId, target: Svma, way: Way) {
        let edge = self.edge_to(block, target, EdgeKind::FallThrough);
        if let Way::Block(to) | Way::Back(to) = way {
            if let Some(edge) = edge {
                self.write_edge_code(edge, to);
            }
            // What is before the next block is what arrivals pass.
            let passes_nothing = !self.plan_of_probes().edges_arrive;
            if to == BlockId(block.0 + 1) && (passes_nothing || self.plan_of_probes().arrives(edge)) {
                return;
            }
            self.begin_way(target);
            let label = self.label_behind(edge, to);
            return self.chunk.asm.jump_to(label);
        }
        if let Some(edge) = edge {
            let live = self.needed_behind(block);
            let (at, live) = if self.module.is_in_reach(target) {
                (target, live)
            } else {
                // The original will make the jump, and may need flags to decide.
                (self.flow.cfg.block(block).last(), live | LiveSet::ALL_FLAGS)
            };
            let code = self.plan_of_probes().edge(edge);
            let at = self.original(at);
            code.write(self.chunk, at, live);
            self.write_context_departure(edge, at, live);
        }
        self.begin_way(target);
        let hole = self.chunk.asm.jump();
        self.set_way(hole, way);
    }

    /// The edge from a block to an address; if there are several, the one of this kind.
    fn edge_to(&self, block: BlockId, target: Svma, kind: EdgeKind) -> Option<EdgeId> {
        let cfg = &self.flow.cfg;
        let leads_there = |&edge: &EdgeId| match cfg.graph.edge(edge).to {
            Some(to) => cfg.block(to).range.start == target,
            None => cfg.edge_facts(edge).target == Some(target),
        };
        let edges = || cfg.graph.out_range(block).map(EdgeId).filter(leads_there);
        edges().find(|&edge| cfg.edge_facts(edge).kind == kind).or_else(|| edges().next())
    }

    /// Whether what comes after the block is where control goes; a second probe can be put there.
    fn runs_into(&mut self, block: BlockId, way: Way) -> bool {
        let next = BlockId(block.0 + 1);
        let Some(plan) = self.plans.get_mut(next.index()) else { return false };
        let is_back = way == Way::Back(next);
        if is_back && plan.checked != plan.record {
            plan.second_probe = SecondProbe::Before;
        }
        is_back || way == Way::Block(next)
    }

    /// The rule of recovery for a jump to `target`. Only the first instruction in place of an
    /// original one can jump out of reach, and there the run of the original instructions still
    /// holds.
    fn begin_way(&mut self, target: Svma) {
        if self.module.is_in_reach(target) {
            let target = self.original(target);
            self.chunk.begin_clean_probe(target);
        }
    }

    fn way(&self, block: BlockId, target: Svma) -> Way {
        let cfg = &self.flow.cfg;
        if let Some(to) = self.module.owned_block_at(self.id, target) {
            let is_back = self.flow.loops.headed_by(to).is_some_and(|id| {
                // Ascending edges have ascending sources.
                let back_edges = &self.flow.loops.get(id).back_edges;
                back_edges.binary_search_by_key(&block, |&edge| cfg.graph.edge(edge).from).is_ok()
            });
            return if is_back { Way::Back(to) } else { Way::Block(to) };
        }
        if self.module.has_leader(target) {
            Way::Leader(target)
        } else if self.module.is_in_reach(target) {
            Way::Leave(target)
        } else {
            // A jump changes nothing: the original can just as well make it.
            Way::LeaveBefore(cfg.block(block).last())
        }
    }

    fn set_way(&mut self, hole: u32, way: Way) {
        match way {
            Way::Block(to) => self.chunk.asm.use_label(hole, self.plans[to.index()].record),
            Way::Back(to) => {
                let plan = &mut self.plans[to.index()];
                if plan.checked != plan.record && plan.second_probe == SecondProbe::Unused {
                    plan.second_probe = SecondProbe::Behind;
                }
                self.chunk.asm.use_label(hole, plan.checked);
            }
            Way::Leader(target) => {
                let target = self.original(target);
                self.chunk.refer(hole, Destination::Leader(target));
            }
            Way::Leave(target) => {
                let target = self.original(target);
                let label = self.chunk.exit(target, EndReason::NoCopy, ExitState::Clean);
                self.chunk.asm.use_label(hole, label);
            }
            Way::LeaveBefore(jump) => {
                let jump = self.original(jump);
                let label = self.chunk.exit(jump, EndReason::Instruction, ExitState::Clean);
                self.chunk.asm.use_label(hole, label);
            }
        }
    }

    fn branch(&mut self, block: BlockId, condition: Condition, target: Svma, kind: EdgeKind) {
        let way = self.way(block, target);
        if !self.stays() {
            let hole = self.chunk.asm.jump_if(condition);
            return self.set_way(hole, way);
        }
        let edge = self.edge_to(block, target, kind);
        match (way, edge) {
            (Way::Back(to), Some(edge)) if self.plan_of_probes().edge(edge) != Code::Nothing => {
                self.branch_back(condition, edge, to);
            }
            _ => {
                let hole = self.chunk.asm.jump_if(condition);
                self.set_way_of_edge(block, hole, target, way, kind);
            }
        }
    }

    /// A loop goes round more often than not: what is to be done on its way back comes next, and
    /// the other way jumps over it.
    fn branch_back(&mut self, condition: Condition, edge: EdgeId, to: BlockId) {
        let other = self.chunk.asm.new_label();
        self.chunk.asm.jump_to_if(condition.negated(), other);
        self.write_edge_code(edge, to);
        let label = self.label_behind(Some(edge), to);
        self.chunk.asm.jump_to(label);
        self.chunk.asm.bind(other);
    }

    /// Makes the displacement at `hole` lead over the edge to `target`.
    fn set_way_of_edge(&mut self, block: BlockId, hole: u32, target: Svma, way: Way, kind: EdgeKind) {
        let edge = self.edge_to(block, target, kind);
        match (way, edge) {
            (Way::Block(to) | Way::Back(to), Some(edge)) => {
                let label = self.label_of_edge(edge, to);
                self.chunk.asm.use_label(hole, label);
            }
            (Way::Block(to) | Way::Back(to), None) => {
                let label = self.label_behind(None, to);
                self.chunk.asm.use_label(hole, label);
            }
            (_, Some(edge)) if self.plan_of_probes().edge(edge) != Code::Nothing || self.ascends(edge) => {
                let label = self.chunk.asm.new_label();
                self.chunk.asm.use_label(hole, label);
                self.exit_codes.push((label, block, target));
            }
            _ => self.set_way(hole, way),
        }
    }

    /// A branch that has no long form jumps over a jump.
    fn count(&mut self, block: BlockId, bytes: &[u8], taken: Svma, next: Svma) {
        let Some((_, opcode)) = bytes.split_last() else { return };
        self.chunk.asm.bytes(opcode);
        self.chunk.asm.bytes(&[5]);
        for target in [next, taken] {
            self.begin_way(target);
            let way = self.way(block, target);
            let hole = self.chunk.asm.jump();
            if self.stays() {
                let kind = if target == next { EdgeKind::FallThrough } else { EdgeKind::Taken };
                self.set_way_of_edge(block, hole, target, way, kind);
            } else {
                self.set_way(hole, way);
            }
        }
    }

    fn call(&mut self, insn: &Instruction, target: Svma) {
        if !self.module.has_leader(target) {
            return self.leave_at(insn, EndReason::NoCopy);
        }
        let next = self.original(Svma(insn.next_ip()));
        let target = self.original(target);
        self.chunk.push_original(next);
        self.chunk.begin_clean_probe(target);
        let hole = self.chunk.asm.jump();
        self.chunk.refer(hole, Destination::Leader(target));
    }

    pub fn leave_at(&mut self, insn: &Instruction, reason: EndReason) {
        let at = self.original(Svma(insn.ip()));
        self.chunk.leave(at, reason);
    }

    fn indirect_operand(&mut self, block: BlockId, insn: &Instruction, bytes: &[u8], stack: StackChange) {
        let load = Some(bytes).filter(|_| classify::is_plain_indirect(insn)).and_then(operand::load);
        let Some(load) = load else { return self.leave_at(insn, EndReason::Instruction) };
        let address = match load.displacement_at {
            Some(at) => match self.module.distance(Svma(insn.memory_displacement64())) {
                Some(target) => Some((at, target)),
                None => return self.leave_at(insn, EndReason::Instruction),
            },
            None => None,
        };
        if self.stays() {
            self.go_and_stay(block, insn, load.bytes(), address, stack);
        } else {
            self.indirect(insn, load.bytes(), address, stack);
        }
    }

    /// `load` is an instruction that loads the target into `rax`; `address` says where in it a
    /// displacement is, and where it leads.
    fn indirect(&mut self, insn: &Instruction, load: &[u8], address: Option<(u32, i64)>, stack: StackChange) {
        let at = self.original(Svma(insn.ip()));
        self.chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
        self.chunk.begin_run(kind::PROBE, at, saves::RAX, [0; 4]);
        let start = self.chunk.position();
        self.chunk.asm.bytes(load);
        if let Some((hole, target)) = address {
            self.chunk.set_address(start + hole, self.chunk.position(), target);
        }
        match stack {
            StackChange::Push(next) => {
                let next = self.original(next);
                self.chunk.push_original(next);
            }
            StackChange::Drop(n_bytes) => self.chunk.asm.advance(Gpr::RSP, n_bytes),
            StackChange::None => {}
        }
        self.write_arrival(!matches!(stack, StackChange::Push(_)));
    }

    /// Behind the function: the ends of conditional jumps that leave it and have something to do.
    pub fn write_exit_codes(&mut self) {
        for (label, block, target) in std::mem::take(&mut self.exit_codes) {
            self.chunk.asm.bind(label);
            let way = self.way(block, target);
            self.go_on_and_stay(block, target, way);
        }
    }

    fn write_arrival(&mut self, looks_at_limit: bool) {
        let cluster = self.module.options.cluster;
        let chunk = &mut *self.chunk;
        chunk.begin_run(kind::FORWARD, Original(0), saves::RAX | saves::RCX | saves::FLAGS, ARRIVAL_SAVE_END);
        chunk.asm.store(offset::TARGET, Gpr::RAX);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        probe::save_flags(&mut chunk.asm);
        chunk.asm.load(Gpr::RAX, offset::TARGET);
        if looks_at_limit {
            chunk.asm.load(Gpr::RCX, offset::CURSOR);
            chunk.asm.compare(Gpr::RCX, offset::LIMIT);
            let full = chunk.asm.jump_if(Condition::AE);
            chunk.refer(full, Destination::Stub(Stub::Full));
        }
        let [not_here, unknown] = look_up::write_look_up(chunk, self.module.options.probe.version(), cluster);
        chunk.refer(not_here, Destination::Stub(Stub::Other));
        chunk.refer(unknown, Destination::Stub(Stub::Miss));
    }
}
