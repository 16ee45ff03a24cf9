//! What the walk through a replaced instruction must find: the parts of a transfer, each once and
//! in order.

use emit::Original;
use iced_x86::{Instruction, OpKind, Register};
use image::Svma;

use super::index::loaded;
use super::state::{Needs, Point, RAX, State, Value};

/// The original instruction that the copy is executing in parts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    /// None: a probe between instructions.
    Nothing,
    /// A direct call: pushes `next`, and is then at `target`.
    Call { next: Original, target: Original },
    /// A call of the next instruction: pushes `next`, and is then there.
    PushNext { next: Original },
    /// A jump, call (pushes `next`) or return (drops bytes) to a computed address; in copies that
    /// are never left, the first of the two cells that may remember it.
    Indirect { insn: Instruction, base: Svma, change: Change, cell: Option<u32> },
    /// `syscall`; what is live behind it.
    SystemCall { next: Original, live: Needs },
}

/// What an indirect transfer does to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Push(Original),
    Drop(u64),
}

impl Change {
    /// Whether the target is in an operand, not on the stack.
    pub fn has_operand(self) -> bool {
        !matches!(self, Change::Drop(_))
    }
}

impl Pending {
    /// A literal is pushed.
    pub fn push(&self, state: &mut State, literal: Original) -> Option<()> {
        let (expected, point) = match *self {
            Pending::Call { next, target } => (next, Point::At(target)),
            Pending::PushNext { next } => (next, Point::At(next)),
            Pending::Indirect { change: Change::Push(next), .. }
                if [state.registers[RAX], state.fields.target].contains(&Value::Target) =>
            {
                (next, Point::Target)
            }
            _ => return None,
        };
        state.exact.has_moved = true;
        self.go(state, literal == expected, point)
    }

    /// The stack pointer moves up.
    pub fn drop(&self, state: &mut State, n_bytes: u64) -> Option<()> {
        let Pending::Indirect { change: Change::Drop(expected), .. } = *self else { return None };
        state.exact.has_moved = true;
        self.go(state, n_bytes == expected && state.registers[RAX] == Value::Target, Point::Target)
    }

    /// `rax` is loaded from something that is no field.
    pub fn load(&self, state: &mut State, load: &Instruction) -> Option<()> {
        let Pending::Indirect { insn, base, change, .. } = self else { return None };
        let is_ready = load.op0_register() == Register::RAX
            && state.is_right(RAX, state.fields.saved_rax)
            && matches!(state.point, Point::At(_));
        let is_operand = match change {
            Change::Drop(_) => is_top_of_stack(load),
            _ => is_same_operand(insn, *base, load),
        };
        let reads_program = [load.op1_register(), load.memory_base(), load.memory_index()]
            .into_iter()
            .filter(|register| register.is_gpr64())
            .all(|register| state.registers[register.number()] == Value::Program);
        (is_ready && is_operand && reads_program).then_some(())?;
        state.registers[RAX] = Value::Target;
        if *change == Change::None {
            state.point = Point::Target;
        }
        Some(())
    }

    pub fn next_of_system_call(&self) -> Option<(Original, Needs)> {
        match *self {
            Pending::SystemCall { next, live } => Some((next, live)),
            _ => None,
        }
    }

    /// Whether it pushes a return address.
    pub fn is_call(&self) -> bool {
        matches!(self, Pending::Call { .. } | Pending::Indirect { change: Change::Push(_), .. })
    }

    /// Bytes that a return takes off the stack.
    pub fn dropped(&self) -> Option<u64> {
        match *self {
            Pending::Indirect { change: Change::Drop(n_bytes), .. } => Some(n_bytes),
            _ => None,
        }
    }

    /// The cell that may remember the target.
    pub fn remembering(&self) -> Option<u32> {
        match *self {
            Pending::Indirect { cell, .. } => cell,
            _ => None,
        }
    }

    /// Whether the program must arrive by an indirect transfer that looks at the limit, in copies
    /// that are left.
    pub fn must_look_at_limit(&self) -> bool {
        matches!(self, Pending::Indirect { change: Change::None | Change::Drop(_), .. })
    }

    /// The program has made the transfer, if it has not made it before.
    fn go(&self, state: &mut State, is_right: bool, point: Point) -> Option<()> {
        let is_first = state.point != point && matches!(state.point, Point::At(_));
        (is_right && is_first).then(|| state.point = point)
    }
}

fn is_top_of_stack(load: &Instruction) -> bool {
    load.op1_kind() == OpKind::Memory
        && load.memory_base() == Register::RSP
        && load.memory_index() == Register::None
        && load.memory_displacement64() == 0
        && load.segment_prefix() == Register::None
}

fn is_same_operand(insn: &Instruction, base: Svma, load: &Instruction) -> bool {
    if insn.op0_kind() != load.op1_kind() {
        return false;
    }
    if insn.op0_kind() != OpKind::Memory {
        return insn.op0_register() == load.op1_register();
    }
    let is_same_place = if insn.memory_base() == Register::RIP {
        loaded(base, Svma(insn.memory_displacement64())) == load.memory_displacement64()
    } else {
        insn.memory_displacement64() == load.memory_displacement64()
    };
    is_same_place
        && insn.memory_base() == load.memory_base()
        && insn.memory_index() == load.memory_index()
        && insn.memory_index_scale() == load.memory_index_scale()
        && (insn.memory_segment() == Register::FS) == (load.memory_segment() == Register::FS)
}
