//! The gate: where copies of exact mode go that cannot go on by themselves.
//!
//! A copy jumps here with all registers those of the program, the address where the program is in
//! the header's `target`, and the reason in `end_reason`. The gate goes on at an address that it
//! puts into `twin`: the twin of `target`, after it has been waited for or after a system call has
//! been made here, or `target` itself, natively. Only a probe that needs a context, or has filled
//! the buffer of events, says itself, in `twin`, where it goes on.
//!
//! **Signals.** The gate keeps registers in the header, blocks all signals while still on the
//! program's stack, and only then turns to a stack of its own; at the end it does the same in
//! reverse. So a signal finds the gate only in its first and last instructions, where [`leave`] can
//! tell the program's state: the kept registers if `is_in_gate` says so, the processor's otherwise;
//! flags and vector registers are always the processor's. A handler sees the program at `target`.
//! When it returns, the thread goes on at `twin` if the gate was done and that is in a copy;
//! otherwise it comes to the gate anew, for which `target` and `end_reason` always say what is left
//! to be done.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;

use wire::control::NativeReason;
use wire::sample::EndReason;
use wire::thread::ThreadHeader;

use crate::bursts::twins;
use crate::events;
use crate::exact::gate_calls::{self, Outcome};
use crate::exact::gate_registers::{VECTOR_BYTES, saved};
use crate::exact::{self, contexts, hook, native_code};
use crate::process::session;
use crate::signals::entry;
use crate::sys::abi::{UContext, register};
use crate::sys::own_memory;
use crate::sys::syscall::{self, MaskChange, number};
use crate::threads::area::Area;

/// Every signal, where the gate can read it: a static, because assembly needs its address.
static ALL_SIGNALS: u64 = u64::MAX;

/// What [`gate`] does after [`decide`].
#[repr(u32)]
enum Step {
    /// Goes on at `twin`.
    GoOn = 0,
    /// Makes the system call by which a signal handler returns.
    ReturnFromSignal = 1,
}

/// Returns the address of the gate, for [`wire::thread::Exact::gate`].
pub fn address() -> u64 {
    gate as *const () as u64
}

/// Prepares the calling thread, whose area is `area`, to come to the gate as if from a copy that
/// jumped to `original`.
pub fn prepare_for(area: &Area, original: u64) -> u64 {
    // SAFETY: the area is the calling thread's, which is in no copy.
    unsafe { (*area.raw()).scratch.target = original };
    area.header().burst.end_reason.store(EndReason::NoCopy as u32, Relaxed);
    address()
}

/// The gate, where copies jump to. The runtime's code uses vector registers of 128 bits, so these
/// are kept, too; wider ones keep their upper parts.
#[unsafe(naked)]
unsafe extern "C" fn gate() {
    naked_asm!(
        ".globl strobe_gate_start",
        ".hidden strobe_gate_start",
        "strobe_gate_start:",
        "mov gs:[{registers}], rax",
        "mov gs:[{registers} + 8], rcx",
        "mov gs:[{registers} + 16], rdx",
        "mov gs:[{registers} + 24], rbx",
        "mov gs:[{registers} + 32], rsp",
        "mov gs:[{registers} + 40], rbp",
        "mov gs:[{registers} + 48], rsi",
        "mov gs:[{registers} + 56], rdi",
        "mov gs:[{registers} + 64], r8",
        "mov gs:[{registers} + 72], r9",
        "mov gs:[{registers} + 80], r10",
        "mov gs:[{registers} + 88], r11",
        "mov gs:[{registers} + 96], r12",
        "mov gs:[{registers} + 104], r13",
        "mov gs:[{registers} + 112], r14",
        "mov gs:[{registers} + 120], r15",
        "mov qword ptr gs:[{is_in_gate}], 1",
        "mov rdx, gs:[{self_address}]",
        "lea rdx, [rdx + {mask}]",
        "lea rsi, [rip + {all_signals}]",
        "mov edi, {replace}",
        "mov r10d, {set_bytes}",
        "mov eax, {rt_sigprocmask}",
        "syscall",
        // Not zero: refused.
        "mov esi, eax",
        "mov rsp, gs:[{stack}]",
        "pushfq",
        "pop qword ptr gs:[{registers} + 128]",
        "sub rsp, {vector_bytes}",
        "movups [rsp], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "movups [rsp + 128], xmm8",
        "movups [rsp + 144], xmm9",
        "movups [rsp + 160], xmm10",
        "movups [rsp + 176], xmm11",
        "movups [rsp + 192], xmm12",
        "movups [rsp + 208], xmm13",
        "movups [rsp + 224], xmm14",
        "movups [rsp + 240], xmm15",
        "cld",
        "mov rdi, gs:[{self_address}]",
        "call {decide}",
        "test eax, eax",
        "jnz 2f",
        "movups xmm0, [rsp]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "movups xmm8, [rsp + 128]",
        "movups xmm9, [rsp + 144]",
        "movups xmm10, [rsp + 160]",
        "movups xmm11, [rsp + 176]",
        "movups xmm12, [rsp + 192]",
        "movups xmm13, [rsp + 208]",
        "movups xmm14, [rsp + 224]",
        "movups xmm15, [rsp + 240]",
        "push qword ptr gs:[{registers} + 128]",
        "popfq",
        // From here on flags are the program's: no instruction that changes them.
        "mov rsp, gs:[{registers} + 32]",
        "mov rsi, gs:[{self_address}]",
        "lea rsi, [rsi + {mask}]",
        "mov edi, {replace}",
        "mov edx, 0",
        "mov r10d, {set_bytes}",
        "mov eax, {rt_sigprocmask}",
        "syscall",
        ".globl strobe_gate_leaving",
        ".hidden strobe_gate_leaving",
        "strobe_gate_leaving:",
        "mov rax, gs:[{registers}]",
        "mov rcx, gs:[{registers} + 8]",
        "mov rdx, gs:[{registers} + 16]",
        "mov rbx, gs:[{registers} + 24]",
        "mov rbp, gs:[{registers} + 40]",
        "mov rsi, gs:[{registers} + 48]",
        "mov rdi, gs:[{registers} + 56]",
        "mov r8, gs:[{registers} + 64]",
        "mov r9, gs:[{registers} + 72]",
        "mov r10, gs:[{registers} + 80]",
        "mov r11, gs:[{registers} + 88]",
        "mov r12, gs:[{registers} + 96]",
        "mov r13, gs:[{registers} + 104]",
        "mov r14, gs:[{registers} + 112]",
        "mov r15, gs:[{registers} + 120]",
        "mov qword ptr gs:[{is_in_gate}], 0",
        "jmp qword ptr gs:[{twin}]",
        ".globl strobe_gate_end",
        ".hidden strobe_gate_end",
        "strobe_gate_end:",
        "2:",
        "mov rsp, gs:[{registers} + 32]",
        "mov qword ptr gs:[{is_in_gate}], 0",
        "mov eax, {rt_sigreturn}",
        "syscall",
        "ud2",
        registers = const offset_of!(ThreadHeader, gate.registers),
        is_in_gate = const offset_of!(ThreadHeader, gate.is_inside),
        self_address = const offset_of!(ThreadHeader, identity.self_address),
        mask = const offset_of!(ThreadHeader, gate.mask),
        stack = const offset_of!(ThreadHeader, gate.stack),
        twin = const offset_of!(ThreadHeader, scratch.twin),
        all_signals = sym ALL_SIGNALS,
        vector_bytes = const VECTOR_BYTES,
        replace = const MaskChange::Replace as usize,
        set_bytes = const syscall::SET_BYTES,
        rt_sigprocmask = const number::RT_SIGPROCMASK,
        rt_sigreturn = const number::RT_SIGRETURN,
        decide = sym decide,
    )
}

/// If the signal of `context` interrupted the gate, makes that the program's state at `target`.
/// Returns where the thread has to go on.
pub fn leave(area: &Area, context: &mut UContext) -> Option<u64> {
    const ORDER: [usize; 16] = {
        use register::{R8, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP};
        [RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R8 + 1, R8 + 2, R8 + 3, R8 + 4, R8 + 5, R8 + 6, R8 + 7]
    };
    let (start, leaving, end): (u64, u64, u64);
    // SAFETY: takes three addresses.
    unsafe {
        asm!("lea {}, [rip + strobe_gate_start]", "lea {}, [rip + strobe_gate_leaving]", "lea {}, [rip + strobe_gate_end]",
             out(reg) start, out(reg) leaving, out(reg) end, options(nomem, nostack, preserves_flags));
    }
    let registers = &mut context.registers;
    let pc = registers[register::RIP];
    if !(start..end).contains(&pc) {
        return None;
    }
    let header = area.raw();
    // SAFETY: the area is that of the interrupted thread, which is this one.
    unsafe {
        if (*header).gate.is_inside != 0 {
            for (&to, &value) in ORDER.iter().zip(&(*header).gate.registers) {
                registers[to] = value;
            }
            (*header).gate.is_inside = 0;
        }
        registers[register::RIP] = (*header).scratch.target;
        let is_done = pc >= leaving && session::is_in_copy((*header).scratch.twin);
        Some(if is_done { (*header).scratch.twin } else { address() })
    }
}

/// Decides how the program goes on. All signals are blocked, unless a filter of system calls has
/// refused that (`refusal` is not zero). The program's handlers could then come here while the
/// thread is here; if it has any, exact mode is given up.
unsafe extern "C" fn decide(header: *mut ThreadHeader, refusal: i32) -> Step {
    // SAFETY: the header is the calling thread's.
    let Some(area) = session::attached().and_then(|session| Area::at(session, header as u64)) else {
        // SAFETY: as above.
        unsafe { (*header).scratch.twin = (*header).scratch.target };
        return Step::GoOn;
    };
    if refusal != 0 && area.session.control.process.wrapped_signals.load(Relaxed) != 0 {
        exact::abandon(area.session.control);
    }
    let reason = area.header().burst.end_reason.load(Relaxed) as u8;
    // SAFETY: as above.
    let target = unsafe { (*header).scratch.target };
    match EndReason::from_u8(reason) {
        // SAFETY: the thread is at this system call.
        Some(EndReason::SystemCall) => match unsafe { gate_calls::make(&area, target) } {
            Outcome::Made(next) => go_on_behind(&area, next),
            Outcome::Refused => go_natively(&area, target, NativeReason::SystemCall),
            Outcome::ReturnsFromSignal => Step::ReturnFromSignal,
        },
        Some(EndReason::Instruction) => go_natively(&area, target, NativeReason::Instruction),
        Some(EndReason::NewContext) => {
            contexts::make_wanted(&area);
            go_back_to_probe(&area, target)
        }
        Some(EndReason::EventsFull) => {
            // SAFETY: the area is the calling thread's, which is here.
            unsafe { events::deliver(&area) };
            go_back_to_probe(&area, target)
        }
        Some(EndReason::BufferFull) => {
            // SAFETY: as above. A burst has just ended, and the mark of that has filled the buffer.
            unsafe { events::deliver(&area) };
            go_on_at(&area, target)
        }
        Some(hook::RETURNED) => go_back_to(&area, target),
        _ => go_on_at(&area, target),
    }
}

/// Lets a probe before `target` go on, which has what it came for; `twin` is where, and stays.
fn go_back_to_probe(area: &Area, target: u64) -> Step {
    if exact::may_enter(area.session.control) {
        // SAFETY: the area is the calling thread's.
        let twin = unsafe { (*area.raw()).scratch.twin };
        return leave_at(area, target, twin);
    }
    go_natively(area, target, NativeReason::Abandoned)
}

/// Decides for a program that has just returned to `target`.
fn go_back_to(area: &Area, target: u64) -> Step {
    if exact::may_enter(area.session.control)
        && let Some(twin) = twins::behind_call(target)
    {
        exact::note_entry(area);
        return leave_at(area, target, twin);
    }
    go_on_at(area, target)
}

/// Decides for a program whose system call before `next` has been made: the path goes on, so that
/// the twin need not start a block.
fn go_on_behind(area: &Area, next: u64) -> Step {
    if exact::may_enter(area.session.control)
        && let Some(twin) = twins::of(next)
    {
        return leave_at(area, next, twin);
    }
    go_on_at(area, next)
}

/// Decides for a program that has jumped, called or returned to `target`.
fn go_on_at(area: &Area, target: u64) -> Step {
    let control = area.session.control;
    let may_enter = exact::may_enter(control);
    if target == entry::restorer() {
        return return_from_signal(area);
    }
    if native_code::is_runtime(target) || native_code::is_kernel(target) {
        if is_after_return(area, target) {
            exact::note_return(area);
        }
        if may_enter {
            hook::set_at_call(area, target);
        }
        return go_natively(area, target, native_code::reason_at(target));
    }
    if !may_enter {
        return go_natively(area, target, NativeReason::Abandoned);
    }
    if let Some(twin) = exact::wait_for_twin(control, target) {
        if exact::is_native(area) {
            // SAFETY: the area is the calling thread's.
            contexts::retake(area, unsafe { (*area.raw()).gate.registers[saved::RSP] });
        }
        exact::note_entry(area);
        return leave_at(area, target, twin);
    }
    if gate_calls::is_signal_return(target) {
        return return_from_signal(area);
    }
    let reason = if exact::may_enter(control) { native_code::reason_at(target) } else { NativeReason::Abandoned };
    go_natively(area, target, reason)
}

/// Returns whether the program has come to `target` by a return: then its address is still where it
/// was taken from.
fn is_after_return(area: &Area, target: u64) -> bool {
    // SAFETY: the area is the calling thread's.
    let slot = unsafe { (*area.raw()).gate.registers[saved::RSP] }.wrapping_sub(size_of::<u64>() as u64);
    let mut found = [0; 8];
    own_memory::copy(slot, &mut found) == found.len() && u64::from_le_bytes(found) == target
}

/// Prepares the return of a program that is at the end of a signal handler, where only the system
/// call is left to be made.
fn return_from_signal(area: &Area) -> Step {
    // SAFETY: so the stack pointer points to the context.
    unsafe { gate_calls::return_from_signal(area) };
    Step::ReturnFromSignal
}

fn go_natively(area: &Area, target: u64, reason: NativeReason) -> Step {
    exact::note_native(area, reason);
    leave_at(area, target, target)
}

fn leave_at(area: &Area, target: u64, twin: u64) -> Step {
    prepare_for(area, target);
    // SAFETY: the area is the calling thread's.
    unsafe { (*area.raw()).scratch.twin = twin };
    Step::GoOn
}
