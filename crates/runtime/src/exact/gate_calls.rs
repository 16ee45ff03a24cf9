//! System calls that copies do not make: the gate makes them, or has the original make them.
//!
//! They are made with all signals blocked, which none of them minds. Calls that make a thread, or
//! replace or end the process, are left to the original code.

use core::arch::naked_asm;
use core::mem::offset_of;

use crate::bursts::ending::{machine, restore};
use crate::events;
use crate::exact::gate_registers::{VECTOR_BYTES, saved};
use crate::exact::{self, gate_stack, scratchpad, thread_exit};
use crate::process::{filters, self_modification};
use crate::signals::actions;
use crate::statics::UNCOPIED;
use crate::sys::abi::UContext;
use crate::sys::own_memory;
use crate::sys::syscall::number::{
    ARCH_PRCTL, CLONE, CLONE3, EXIT, EXIT_GROUP, FORK, MREMAP, MUNMAP, PRCTL, RSEQ, RT_SIGACTION, RT_SIGPROCMASK,
    RT_SIGRETURN, SECCOMP, VFORK,
};
use crate::sys::syscall::{self, Errno, MaskChange, arch};
use crate::threads::area::Area;
use crate::threads::lifecycle;

const INSTRUCTION_BYTES: u64 = 2;

/// What came of a system call.
pub enum Outcome {
    /// It was made; the program goes on here.
    Made(u64),
    /// The original has to make it.
    Refused,
    /// The handler's context is prepared; what is left is the call itself.
    ReturnsFromSignal,
}

/// Makes the system call at `at`.
///
/// # Safety
/// The calling thread must be in the gate, whose area is `area`, for this system call.
pub unsafe fn make(area: &Area, at: u64) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        let registers = &(*area.raw()).gate.registers;
        let first = registers[saved::RDI];
        match registers[saved::RAX] {
            RT_SIGRETURN => {
                return_from_signal(area);
                Outcome::ReturnsFromSignal
            }
            MUNMAP | MREMAP => unmap(area, at),
            RT_SIGACTION => {
                let (new, old) = (registers[saved::RSI], registers[saved::RDX]);
                let result = call(area);
                if result == 0 {
                    actions::after_system_call(first as i32, new as *const _, old as *mut _);
                }
                made(area, at, result)
            }
            ARCH_PRCTL if first as u32 as u64 != arch::SET_GS => made(area, at, call(area)),
            RSEQ => made(area, at, call(area)),
            FORK | VFORK => fork(area, at),
            CLONE if makes_process(first, registers[saved::RSI]) => fork(area, at),
            CLONE3 if clone3_makes_process(first, registers[saved::RSI]) => fork(area, at),
            number @ (PRCTL | SECCOMP) => {
                let (second, third) = (registers[saved::RSI], registers[saved::RDX]);
                if filters::before_system_call(number, first, second, third) {
                    return Outcome::Refused;
                }
                made(area, at, call(area))
            }
            EXIT => {
                thread_exit::write_record(area, at, thread_exit::THREAD_WORDS);
                lifecycle::exit(area, first)
            }
            EXIT_GROUP => {
                events::finish_process(area);
                thread_exit::write_record(area, at, thread_exit::PROCESS_WORDS);
                Outcome::Refused
            }
            _ => Outcome::Refused,
        }
    }
}

/// Makes the system call that the program's registers stand for.
///
/// # Safety
/// As for [`make`].
unsafe fn call(area: &Area) -> u64 {
    use saved::{R8, R9, R10, RAX, RDI, RDX, RSI};
    // SAFETY: the program's call.
    unsafe {
        let registers = &(*area.raw()).gate.registers;
        let arguments = [RDI, RSI, RDX, R10, R8, R9].map(|index| registers[index] as usize);
        match syscall::any(registers[RAX], arguments) {
            Ok(value) => value as u64,
            Err(Errno(number)) => u64::from(number).wrapping_neg(),
        }
    }
}

/// Leaves the registers as the system call at `at` does.
///
/// # Safety
/// As for [`make`].
unsafe fn made(area: &Area, at: u64, result: u64) -> Outcome {
    let next = at.wrapping_add(INSTRUCTION_BYTES);
    // SAFETY: the caller's promise.
    unsafe {
        let registers = &mut (*area.raw()).gate.registers;
        registers[saved::RAX] = result;
        registers[saved::RCX] = next;
        registers[saved::R11] = registers[saved::FLAGS];
    }
    Outcome::Made(next)
}

/// Makes `munmap` and `mremap`. Where there are copies of what goes, other code may come to lie as
/// soon as it is gone. So it is first made inaccessible, which the agent takes for gone, and goes
/// when the agent has removed the copies.
///
/// # Safety
/// As for [`make`].
unsafe fn unmap(area: &Area, at: u64) -> Outcome {
    // SAFETY: the caller's promise; code that the program unmaps is not in use.
    unsafe {
        let registers = &(*area.raw()).gate.registers;
        let (start, bytes) = (registers[saved::RDI], registers[saved::RSI]);
        let end = start.saturating_add(bytes);
        let is_whole = registers[saved::RAX] == MUNMAP;
        let is_copied = self_modification::holds_copied_code(area.session, start, end);
        if is_copied && is_whole && syscall::make_inaccessible(start, bytes).is_ok() {
            exact::wait_for_unload(area.session.control);
        }
        let result = call(area);
        UNCOPIED.forget(start, end);
        if is_copied && !is_whole && !is_error(result) {
            exact::wait_for_unload(area.session.control);
        }
        made(area, at, result)
    }
}

fn is_error(result: u64) -> bool {
    const LAST_ERROR: u64 = 4095;
    result.wrapping_neg().wrapping_sub(1) < LAST_ERROR
}

/// Returns whether `clone` makes a process that goes on like this one, on the same stack: with
/// memory of its own, or while this one waits.
fn makes_process(flags: u64, stack: u64) -> bool {
    const VM: u64 = 0x100;
    const VFORK: u64 = 0x4000;
    (flags & VM == 0 || flags & VFORK != 0) && stack == 0
}

/// Returns whether `clone3` makes such a process. It gets a structure: the flags come first, the
/// stack sixth.
fn clone3_makes_process(arguments: u64, size: u64) -> bool {
    let mut bytes = [0u8; 48];
    if size < bytes.len() as u64 || own_memory::copy(arguments, &mut bytes) != bytes.len() {
        return false;
    }
    let word = |index: usize| u64::from_le_bytes(bytes.as_chunks().0[index]);
    makes_process(word(0), word(5))
}

/// What the child of a fork needs to go on. It lies on the gate's stack, which the child has, while
/// it has no thread area.
#[repr(C)]
struct Child {
    registers: [u64; 17],
    mask: u64,
    next: u64,
    vectors: u64,
}

/// Forks. The child goes on natively. One that shares the memory only reads what is on the gate's
/// stack, which its parent, who waits, still needs.
///
/// # Safety
/// As for [`make`].
unsafe fn fork(area: &Area, at: u64) -> Outcome {
    let header = area.raw();
    // SAFETY: the caller's promise.
    unsafe {
        let child = Child {
            registers: (*header).gate.registers,
            mask: (*header).gate.mask,
            next: at.wrapping_add(INSTRUCTION_BYTES),
            vectors: (*header).gate.stack - VECTOR_BYTES,
        };
        let result = call(area);
        if result == 0 {
            go_on_as_child(&child);
        }
        made(area, at, result)
    }
}

/// Leaves the gate in a child: like the gate's own end, but with everything in private memory. The
/// system call leaves `rcx` free.
#[unsafe(naked)]
unsafe extern "C" fn go_on_as_child(child: &Child) -> ! {
    naked_asm!(
        "mov rbx, rdi",
        "mov rax, [rbx + {vectors}]",
        "movups xmm0, [rax]",
        "movups xmm1, [rax + 16]",
        "movups xmm2, [rax + 32]",
        "movups xmm3, [rax + 48]",
        "movups xmm4, [rax + 64]",
        "movups xmm5, [rax + 80]",
        "movups xmm6, [rax + 96]",
        "movups xmm7, [rax + 112]",
        "movups xmm8, [rax + 128]",
        "movups xmm9, [rax + 144]",
        "movups xmm10, [rax + 160]",
        "movups xmm11, [rax + 176]",
        "movups xmm12, [rax + 192]",
        "movups xmm13, [rax + 208]",
        "movups xmm14, [rax + 224]",
        "movups xmm15, [rax + 240]",
        "push qword ptr [rbx + 128]",
        "popfq",
        "mov rsp, [rbx + 32]",
        "lea rsi, [rbx + {mask}]",
        "mov edi, {replace}",
        "mov edx, 0",
        "mov r10d, {set_bytes}",
        "mov eax, {rt_sigprocmask}",
        "syscall",
        "mov eax, 0",
        "mov rcx, [rbx + {next}]",
        "mov rdx, [rbx + 16]",
        "mov rbp, [rbx + 40]",
        "mov rsi, [rbx + 48]",
        "mov rdi, [rbx + 56]",
        "mov r8, [rbx + 64]",
        "mov r9, [rbx + 72]",
        "mov r10, [rbx + 80]",
        "mov r11, [rbx + 128]",
        "mov r12, [rbx + 96]",
        "mov r13, [rbx + 104]",
        "mov r14, [rbx + 112]",
        "mov r15, [rbx + 120]",
        "mov rbx, [rbx + 24]",
        "jmp rcx",
        mask = const offset_of!(Child, mask),
        next = const offset_of!(Child, next),
        vectors = const offset_of!(Child, vectors),
        replace = const MaskChange::Replace as usize,
        set_bytes = const syscall::SET_BYTES,
        rt_sigprocmask = const RT_SIGPROCMASK,
    )
}

/// Returns whether the code at `at` is the return from a signal handler, in the bytes that
/// everybody uses.
pub fn is_signal_return(at: u64) -> bool {
    const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    let mut found = [0; 9];
    own_memory::copy(at, &mut found) == found.len() && found == CODE
}

/// Prepares the context that the thread in the gate returns to from a signal handler: what the
/// handler interrupted, if it is unchanged; otherwise the twin of where it wants to go.
///
/// # Safety
/// The thread's stack pointer must point to the context, as the kernel wants it.
pub unsafe fn return_from_signal(area: &Area) {
    // SAFETY: the caller's promise; all signals are blocked.
    unsafe {
        let context = (*area.raw()).gate.registers[saved::RSP] as *mut UContext;
        let presented = machine(&*context);
        let interrupted = gate_stack::records(area.index).take(context as u64, &presented);
        if let Some(interrupted) = &interrupted {
            scratchpad::show_copies(&mut *context, interrupted);
        }
        restore(&mut *context, &scratchpad::state_to_return_to(area, &presented, interrupted.as_ref()));
    }
}
