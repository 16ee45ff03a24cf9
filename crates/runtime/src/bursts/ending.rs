//! Ending a burst from outside: when a signal of the program arrives while its thread is in a copy.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use wire::recovery::{Run, kind};
use wire::sample::EndReason;
use wire::thread::thread_state;

use crate::bursts::recover::{Machine, Place, Scratch, recover, run_at, settled};
use crate::bursts::stream;
use crate::process::session::{self, Session};
use crate::sys::abi::{SigInfo, UContext, register};
use crate::sys::clock;
use crate::threads::area::{self, Area};

/// If `context` is in a copy, turns it into the same point of the original and ends the burst.
pub fn leave_copy(info: &mut SigInfo, context: &mut UContext) {
    let pc = context.registers[register::RIP];
    if !session::is_in_copy(pc) {
        return;
    }
    let Some(session) = session::attached() else { return };
    let Some(area) = Area::at(session, area::gs_base()) else { return };
    let Some(state) = find_original(session, &area, context) else { return };
    restore(context, &state);
    correct_address(info, pc, state.rip);
    correct_error(info, context, pc, session);
    if area.header().burst.state.load(Relaxed) == thread_state::BURST {
        session.control.process.bursts_ended_by_signals.fetch_add(1, Relaxed);
        let end = stream::End { reason: EndReason::Signal as u8, tsc: clock::rdtsc(), pc: state.rip };
        stream::commit_burst(&area, &end);
    }
}

/// A thread that is between a call or return of a copy and its effect is taken to before or behind
/// it; see [`wire::recovery`].
pub fn settle(context: &mut UContext) {
    let pc = context.registers[register::RIP];
    if !session::is_in_copy(pc) {
        return;
    }
    let Some(session) = session::attached() else { return };
    let Some(area) = Area::at(session, area::gs_base()) else { return };
    let Some(run) = placed_runs(session, pc).and_then(|(place, runs)| run_at(pc, place, runs)) else { return };
    if run.kind != kind::CALLED && run.kind != kind::RETURNING {
        return;
    }
    let stack = context.registers[register::RSP];
    // SAFETY: the thread has just put an address there.
    let on_stack = unsafe { *(stack as *const u64) };
    let state = settled(&machine(context), &scratch(&area), run, on_stack);
    let n_bytes = if run.kind == kind::CALLED { size_of::<u64>() as u64 } else { u64::from(run.original) };
    context.registers[register::RSP] = stack.wrapping_add(n_bytes);
    restore(context, &state);
}

fn find_original(session: Session, area: &Area, context: &UContext) -> Option<Machine> {
    let (place, runs) = placed_runs(session, context.registers[register::RIP])?;
    recover(&machine(context), &scratch(area), place, runs)
}

/// Returns where the module is whose copy `pc` is in, and its rules.
fn placed_runs(session: Session, pc: u64) -> Option<(Place, &'static [Run])> {
    let module = session.modules().iter().find(|module| {
        module.n_runs.load(Acquire) != 0 && pc.wrapping_sub(module.copy.load(Relaxed)) < module.copy_len.load(Relaxed)
    })?;
    let place = Place { copy: module.copy.load(Relaxed), base: module.base.load(Relaxed) };
    // SAFETY: the agent placed the table in the area of copies, which stays mapped, before it
    // filled in the slot.
    let runs = unsafe {
        core::slice::from_raw_parts(module.runs.load(Relaxed) as *const Run, module.n_runs.load(Relaxed) as usize)
    };
    Some((place, runs))
}

fn scratch(area: &Area) -> Scratch {
    let header = area.raw();
    // SAFETY: the area is that of the interrupted thread, which is this one.
    unsafe {
        Scratch {
            rax: (*header).scratch.saved_rax,
            rcx: (*header).scratch.saved_rcx,
            rdx: (*header).scratch.saved_rdx,
            flags: (*header).scratch.saved_flags,
            target: (*header).scratch.target,
        }
    }
}

/// A probe that reads for an instruction which is about to write there faults as the instruction
/// would.
fn correct_error(info: &SigInfo, context: &mut UContext, pc: u64, session: Session) {
    const SIGBUS: i32 = 7;
    const SIGSEGV: i32 = 11;
    const PAGE_FAULT: u64 = 14;
    const OF_WRITE: u64 = 2;
    // Of other signals, the context still tells of an earlier fault.
    let is_fault = info.code > 0 && matches!(info.signal, SIGSEGV | SIGBUS);
    let writes = || {
        placed_runs(session, pc).and_then(|(place, runs)| run_at(pc, place, runs)).is_some_and(|run| run.writes != 0)
    };
    if is_fault && context.registers[register::TRAP] == PAGE_FAULT && writes() {
        context.registers[register::ERROR] |= OF_WRITE;
    }
}

/// Signals about an instruction carry its address.
fn correct_address(info: &mut SigInfo, copy: u64, original: u64) {
    // SAFETY: of a signal sent by the kernel (positive code) that is not a fault, this is some
    // other number, equal only by chance.
    unsafe {
        if info.code > 0 && info.details.fault.address == copy {
            info.details.fault.address = original;
        }
    }
}

/// Returns the registers that copies use for themselves.
pub fn machine(context: &UContext) -> Machine {
    let registers = &context.registers;
    Machine {
        rip: registers[register::RIP],
        rax: registers[register::RAX],
        rcx: registers[register::RCX],
        rdx: registers[register::RDX],
        flags: registers[register::FLAGS],
    }
}

/// Sets the registers that copies use for themselves.
pub fn restore(context: &mut UContext, state: &Machine) {
    let registers = &mut context.registers;
    registers[register::RIP] = state.rip;
    registers[register::RAX] = state.rax;
    registers[register::RCX] = state.rcx;
    registers[register::RDX] = state.rdx;
    registers[register::FLAGS] = state.flags;
}
