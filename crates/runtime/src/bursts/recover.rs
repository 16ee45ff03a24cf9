//! From an interrupted state in a copy to the state of the original: the rules of
//! [`wire::recovery`], as a function of values.

use wire::recovery::{CALL_BYTES, Run, kind, saves};

/// The registers that copies use for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Machine {
    pub rip: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub flags: u64,
}

/// What a thread's area says about the registers of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Scratch {
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    /// As `lahf; seto al` leave them in `ax`.
    pub flags: u64,
    pub target: u64,
}

/// Where a module and its copy are.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub copy: u64,
    pub base: u64,
}

/// Arithmetic flags: CF, PF, AF, ZF, SF, OF.
const ARITHMETIC_FLAGS: u64 = 0x8d5;
const SYSTEM_CALL_BYTES: u64 = 2;

/// Returns the state of the original that `machine`, which is in a copy, stands for. `None`: `runs`
/// do not say.
pub fn recover(machine: &Machine, scratch: &Scratch, place: Place, runs: &[Run]) -> Option<Machine> {
    let run = run_at(machine.rip, place, runs)?;
    let into = (machine.rip - place.copy) as u32 - run.copy;
    let original = place.base.wrapping_add(u64::from(run.original));
    let mut state = *machine;
    match run.kind {
        kind::STRAIGHT => state.rip = original.wrapping_add(u64::from(into)),
        kind::PROBE => {
            state.rip = original;
            undo_saves(&mut state, scratch, run.saves, &run.save_end, into);
        }
        kind::FORWARD | kind::EXIT => {
            state.rip = if into < u32::from(run.save_end[0]) { machine.rax } else { scratch.target };
            state.rax = scratch.rax;
            undo_saves(&mut state, scratch, run.saves & !saves::RAX, &run.save_end[1..], into);
        }
        kind::AFTER_SYSTEM_CALL => {
            state.rip = original;
            undo_saves(&mut state, scratch, run.saves, &run.save_end, into);
            state.rcx = original;
        }
        kind::SYSTEM_CALL => {
            state.rip = original;
            if machine.rcx == machine.rip.wrapping_add(SYSTEM_CALL_BYTES) {
                state.rcx = original.wrapping_add(SYSTEM_CALL_BYTES);
            }
        }
        _ => return None,
    }
    Some(state)
}

/// Returns the rule for `pc`, which is in a copy.
pub fn run_at(pc: u64, place: Place, runs: &[Run]) -> Option<&Run> {
    let offset = u32::try_from(pc.checked_sub(place.copy)?).ok()?;
    runs.get(runs.partition_point(|run| run.copy <= offset).checked_sub(1)?)
}

/// Returns the state, still in copies, of a thread in a [`kind::CALLED`] or [`kind::RETURNING`] run
/// with this address on its stack.
pub fn settled(machine: &Machine, scratch: &Scratch, run: &Run, on_stack: u64) -> Machine {
    let mut state = *machine;
    if run.kind == kind::CALLED {
        state.rip = on_stack.wrapping_sub(CALL_BYTES);
    } else {
        undo_saves(&mut state, scratch, run.saves, &[0; 4], 0);
        state.rip = on_stack;
    }
    state
}

/// Takes back the registers whose saves have been executed.
fn undo_saves(state: &mut Machine, scratch: &Scratch, saved: u8, save_end: &[u8], into: u32) {
    let in_order = [saves::RAX, saves::RCX, saves::RDX, saves::FLAGS];
    let present = in_order.into_iter().filter(|bit| saved & bit != 0);
    for (bit, &end) in present.zip(save_end) {
        if into < u32::from(end) {
            break;
        }
        match bit {
            saves::RAX => state.rax = scratch.rax,
            saves::RCX => state.rcx = scratch.rcx,
            saves::RDX => state.rdx = scratch.rdx,
            _ => state.flags = state.flags & !ARITHMETIC_FLAGS | unpack_flags(scratch.flags),
        }
    }
}

/// Flags from `ax` after `lahf; seto al`.
fn unpack_flags(ax: u64) -> u64 {
    const OVERFLOW: u64 = 1 << 11;
    let low = (ax >> 8) & 0xd5;
    low | if ax & 0xff != 0 { OVERFLOW } else { 0 }
}
