//! Where the kernel enters when it delivers a signal.
//!
//! There are two entries: one for the signals of the program, one for ticks. Both run with all
//! signals blocked and call Rust, which decides between a return from the signal and a handler of
//! the program ([`Next`]). The handler gets the stack as the kernel made it, so it cannot tell that
//! something ran before it, and a backtrace from it leads straight to the frame of the signal.
//!
//! Just before the handler its mask is set ([`run_handler`]). Another signal may be waiting for
//! that, and its handler would find this one interrupted between the two;
//! [`finish_interrupted_entry`] makes that look as if it had interrupted the handler's first
//! instruction.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;

use wire::thread::ThreadHeader;

use crate::bursts::tick;
use crate::exact::resume::Interrupted;
use crate::signals::table::{self, Wanted};
use crate::signals::{altstack, masks};
use crate::sys::abi::{SigInfo, UContext, register, sa};
use crate::sys::syscall::{self, MaskChange, number};
use crate::{mode, statics};

/// What an entry does next.
#[repr(C)]
pub struct Next {
    /// Handler to jump to; 0: return from the signal.
    target: u64,
    /// How far the signal frame was moved.
    frame_distance: u64,
    /// Signal mask of the handler.
    mask: u64,
}

impl Next {
    pub const RETURN: Next = Next { target: 0, frame_distance: 0, mask: 0 };
}

/// Address of the entry for the program's signals.
pub fn address() -> u64 {
    signal_entry as *const () as u64
}

/// Defines an entry. `rdi`, `rsi` and `rdx` are signal, information and context; the frame is at
/// `rsp`.
///
/// It first goes to the thread's own stack for signals, if the thread has one and is not on it: the
/// program's may be small, and nothing of the runtime shall stay behind there. Only registers are
/// used until then. The conditions are those of [`crate::threads::area::Area::own`].
macro_rules! entry {
    ($(#[$documentation:meta])* $name:ident calls $target:path) => {
        $(#[$documentation])*
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                "mov r10, rsp",
                "mov rax, [rip + {attached}]",
                "test rax, rax",
                "jz 2f",
                "cmp dword ptr [rax], 0",
                "je 2f",
                "cmp byte ptr [rip + {has_fsgsbase}], 0",
                "je 2f",
                "rdgsbase r8",
                "mov r9, r8",
                "sub r9, [rip + {arena}]",
                "cmp r9, [rip + {arena_bytes}]",
                "jae 2f",
                "mov ecx, [rip + {area_bits}]",
                "mov eax, 1",
                "shl rax, cl",
                "dec rax",
                "test r9, rax",
                "jnz 2f",
                "mov eax, {gettid}",
                "syscall",
                "cmp eax, [r8 + {owner_tid}]",
                "jne 2f",
                "mov ecx, [rip + {area_bits}]",
                "shr r9, cl",
                "inc r9",
                "shl r9, {stack_bits}",
                "add r9, [rip + {stacks}]",
                "lea rcx, [r9 - 1]",
                "sub rcx, rsp",
                "cmp rcx, 1 << {stack_bits}",
                "jb 2f",
                "mov r10, r9",
                "2:",
                "mov rcx, rsp",
                "mov rsp, r10",
                "and rsp, -16",
                "push rcx",
                "push rsi",
                "sub rsp, 32",
                "mov r8, rsp",
                "call {target}",
                "mov r8, [rsp]",
                "mov rcx, [rsp + 8]",
                "mov rax, [rsp + 16]",
                "mov r9, [rsp + 32]",
                "mov rsp, [rsp + 40]",
                "jmp {run_handler}",
                attached = sym statics::ATTACHED,
                has_fsgsbase = sym statics::HAS_FSGSBASE,
                arena = sym statics::ARENA,
                arena_bytes = sym statics::ARENA_BYTES,
                area_bits = sym statics::AREA_BITS,
                gettid = const number::GETTID,
                owner_tid = const offset_of!(ThreadHeader, stream.owner_tid),
                stack_bits = const altstack::STACK_BYTES.ilog2(),
                stacks = sym statics::SIGNAL_STACKS,
                target = sym $target,
                run_handler = sym run_handler,
            )
        }
    };
}

entry! {
    /// Entry for signals of the program.
    signal_entry calls on_signal
}

entry! {
    /// Entry for ticks.
    tick_entry calls tick::on_tick
}

/// Sets the mask and jumps to the handler, or returns from the signal. The frame is at `rsp`, the
/// information at `r9`; `r8`, `rcx` and `rax` are the parts of [`Next`]. The mask is passed in the
/// red zone, where the kernel reads it before it makes another frame.
#[unsafe(naked)]
unsafe extern "C" fn run_handler() {
    naked_asm!(
        "test r8, r8",
        "jz 2f",
        "add rsp, rcx",
        "add r9, rcx",
        "mov [rsp - 8], rax",
        "lea rsi, [rsp - 8]",
        "mov edi, {replace}",
        "xor edx, edx",
        "mov r10d, {set_bytes}",
        "mov eax, {rt_sigprocmask}",
        "syscall",
        ".globl strobe_handler_unmasked",
        ".hidden strobe_handler_unmasked",
        "strobe_handler_unmasked:",
        "mov edi, [r9]",
        "mov rsi, r9",
        "lea rdx, [rsp + 8]",
        "xor eax, eax",
        "xor ecx, ecx",
        ".globl strobe_handler_jump",
        ".hidden strobe_handler_jump",
        "strobe_handler_jump:",
        "jmp r8",
        "2:",
        "ret",
        replace = const MaskChange::Replace as usize,
        set_bytes = const syscall::SET_BYTES,
        rt_sigprocmask = const number::RT_SIGPROCMASK,
    )
}

/// Return from a signal handler, in exactly the bytes by which unwinders and debuggers know it.
#[unsafe(naked)]
unsafe extern "C" fn restore() {
    naked_asm!(".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00", "syscall")
}

/// Address of the return from a signal handler.
pub fn restorer() -> u64 {
    restore as *const () as u64
}

/// If the signal interrupted the last instructions of [`run_handler`], does what they would do.
fn finish_interrupted_entry(context: &mut UContext) {
    let (first, last): (u64, u64);
    // SAFETY: takes two addresses.
    unsafe {
        asm!("lea {}, [rip + strobe_handler_unmasked]", "lea {}, [rip + strobe_handler_jump]", out(reg) first, out(reg) last,
             options(nomem, nostack, preserves_flags));
    }
    let registers = &mut context.registers;
    if !(first..=last).contains(&registers[register::RIP]) {
        return;
    }
    let info = registers[register::R9];
    // SAFETY: `r9` points to the information of the signal whose handler was to run.
    let signal = unsafe { (*(info as *const SigInfo)).signal };
    registers[register::RDI] = signal as u64;
    registers[register::RSI] = info;
    registers[register::RDX] = registers[register::RSP] + 8;
    registers[register::RAX] = 0;
    registers[register::RCX] = 0;
    registers[register::RIP] = registers[register::R8];
}

/// Before a handler of the program: no handler sees a copy, or a stack of the runtime.
unsafe extern "C" fn on_signal(signal: i32, info: &mut SigInfo, context: *mut UContext, frame: u64, next: &mut Next) {
    // SAFETY: the kernel made the frame; it belongs to this delivery alone. This function runs on a
    // stack of the runtime, or below it.
    *next = unsafe { run_action(signal, info, context, frame) };
}

/// Runs the program's own action for a signal that is also the runtime's.
///
/// # Safety
/// The arguments must be those of a delivery that [`tick_entry`] received.
pub unsafe fn deliver_to_program(signal: i32, info: &mut SigInfo, context: *mut UContext, frame: u64) -> Next {
    // SAFETY: the kernel made the frame; it belongs to this delivery alone.
    if masks::forward(signal, info) || masks::postpone(signal, info, unsafe { &mut *context }) {
        return Next::RETURN;
    }
    // SAFETY: as above; this function runs on a stack of the runtime, or below the frame.
    unsafe { run_action(signal, info, context, frame) }
}

/// Makes the interrupted code that of the program, and has the program's handler run, if there is
/// one.
///
/// # Safety
/// The arguments must be those of a delivery; the caller must not be running below the frame on the
/// same stack.
unsafe fn run_action(signal: i32, info: &mut SigInfo, context: *mut UContext, frame: u64) -> Next {
    let wanted = table::for_delivery(signal);
    if !wanted.has_handler() {
        return Next::RETURN;
    }
    // SAFETY: the caller's promise.
    unsafe {
        finish_interrupted_entry(&mut *context);
        let interrupted = mode::leave_runtime(info, &mut *context);
        enter_handler(signal, context, frame, &wanted, interrupted.as_ref())
    }
}

/// Puts the frame where the handler expects it and finds out the mask.
///
/// # Safety
/// As for [`altstack::move_frame`].
unsafe fn enter_handler(
    signal: i32,
    context: *mut UContext,
    frame: u64,
    wanted: &Wanted,
    interrupted: Option<&Interrupted>,
) -> Next {
    // SAFETY: the caller's promise.
    unsafe {
        let may_stay = wanted.flags & sa::ONSTACK != 0 && !altstack::is_ours((*context).stack.sp);
        let must_move = altstack::was_switched(frame, &*context) && !may_stay;
        let frame_distance = if must_move { altstack::move_frame(frame, context) } else { 0 };
        let context = (context as u64).wrapping_add(frame_distance) as *mut UContext;
        let mask = masks::enter_handler(signal, &mut *context, frame.wrapping_add(frame_distance), wanted);
        let target = mode::enter_handler(wanted.handler, context as u64, interrupted);
        Next { target, frame_distance, mask }
    }
}
