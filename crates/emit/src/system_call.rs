//! System calls inside a burst.
//!
//! `syscall` overwrites `rcx` and `r11`, so the probe before it may use both; whatever a signal
//! handler sees in them there is as good as the original. Flags are not touched before nor after,
//! because `syscall` keeps them.
//!
//! ```text
//!     movzx ecx, ax
//!     mov r11, gs:[system_calls_that_leave]
//!     movzx ecx, byte [r11 + rcx]
//!     jrcxz go
//!     jmp leave                                   with SystemCall, at the syscall
//! go: mov gs:[saved_rax], rax
//!     mov gs:[saved_rdx], rdx
//!     mov gs:[system_call_number], rax
//!     rdtsc; mov gs:[system_call_start], edx:eax
//!     mov rdx, gs:[saved_rdx]
//!     mov rax, gs:[saved_rax]
//!     syscall
//!     mov gs:[saved_rax], rax
//!     mov gs:[saved_rdx], rdx
//!     rdtsc; mov gs:[system_call_end], edx:eax
//!     system_call_cycles += end - start           by mov, not and lea
//!     n_system_calls += 1                         by mov and lea
//!     mov rdx, gs:[saved_rdx]
//!     mov rax, gs:[saved_rax]
//!     mov rcx, gs:[unloads_pending]
//!     mov ecx, [rcx]
//!     jrcxz ok
//!     jmp leave                                   with Unloading, behind the syscall
//! ok: lea rcx, [rip + original]                   what the original syscall leaves there
//! ```

use wire::recovery::{kind, saves};
use wire::sample::EndReason;
use wire::thread::offset;

use crate::asm::{Asm, Gpr};
use crate::chunk::{Chunk, ExitState, Original};

/// Bytes of `jmp rel32`.
const JUMP_LEN: u8 = 5;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const RDTSC: [u8; 2] = [0x0f, 0x31];

/// Writes the system call at `at` with what goes around it. The first instruction written belongs
/// to the run before.
pub(crate) fn write(chunk: &mut Chunk, at: Original, next: Original) {
    write_decision(chunk, at);
    write_start(chunk, at);
    chunk.begin_run(kind::SYSTEM_CALL, at, 0, [0; 4]);
    chunk.asm.bytes(&SYSCALL);
    write_end(chunk, next);
}

/// The same in a copy that is never left, where nothing is stamped and modules are unloaded only
/// when the agent has been asked.
pub(crate) fn write_without_stamps(chunk: &mut Chunk, at: Original, next: Original) {
    write_decision(chunk, at);
    chunk.begin_run(kind::SYSTEM_CALL, at, 0, [0; 4]);
    chunk.asm.bytes(&SYSCALL);
    chunk.begin_run(kind::AFTER_SYSTEM_CALL, next, 0, [0; 4]);
    chunk.load_original(Gpr::RCX, next);
}

/// Leaves if this is a system call that copies must not make.
fn write_decision(chunk: &mut Chunk, at: Original) {
    chunk.asm.bytes(&[0x0f, 0xb7, 0xc8]); // movzx ecx, ax
    chunk.begin_clean_probe(at);
    chunk.asm.load(Gpr::R11, offset::SYSTEM_CALLS_THAT_LEAVE);
    chunk.asm.bytes(&[0x41, 0x0f, 0xb6, 0x0c, 0x0b]); // movzx ecx, byte [r11 + rcx]
    chunk.asm.jump_over_if_rcx_is_zero(JUMP_LEN);
    chunk.leave(at, EndReason::SystemCall);
}

fn write_start(chunk: &mut Chunk, at: Original) {
    chunk.begin_run(kind::PROBE, at, saves::RAX | saves::RDX, [9, 18, 0, 0]);
    let asm = &mut chunk.asm;
    asm.store(offset::SAVED_RAX, Gpr::RAX);
    asm.store(offset::SAVED_RDX, Gpr::RDX);
    asm.store(offset::SYSTEM_CALL_NUMBER, Gpr::RAX);
    store_time(asm, offset::SYSTEM_CALL_START);
    asm.load(Gpr::RDX, offset::SAVED_RDX);
    asm.load(Gpr::RAX, offset::SAVED_RAX);
}

fn write_end(chunk: &mut Chunk, next: Original) {
    chunk.begin_run(kind::AFTER_SYSTEM_CALL, next, saves::RAX | saves::RDX, [9, 18, 0, 0]);
    let asm = &mut chunk.asm;
    asm.store(offset::SAVED_RAX, Gpr::RAX);
    asm.store(offset::SAVED_RDX, Gpr::RDX);
    store_time(asm, offset::SYSTEM_CALL_END);
    count(asm);
    asm.load(Gpr::RDX, offset::SAVED_RDX);
    asm.load(Gpr::RAX, offset::SAVED_RAX);
    asm.load(Gpr::RCX, offset::UNLOADS_PENDING);
    asm.bytes(&[0x8b, 0x09]); // mov ecx, [rcx]
    asm.jump_over_if_rcx_is_zero(JUMP_LEN);
    let leave = chunk.exit(next, EndReason::Unloading, ExitState::AfterSystemCall);
    chunk.asm.jump_to(leave);
    chunk.load_original(Gpr::RCX, next);
}

/// Changes `rax` and `rdx`.
fn store_time(asm: &mut Asm, at: u32) {
    asm.bytes(&RDTSC);
    asm.store_low(at, Gpr::RAX);
    asm.store_low(at + 4, Gpr::RDX);
}

/// Adds the cycles of this system call, and the call itself, to those of the burst. Changes `rax`
/// and `rdx`.
fn count(asm: &mut Asm) {
    asm.load(Gpr::RAX, offset::SYSTEM_CALL_END);
    asm.load(Gpr::RDX, offset::SYSTEM_CALL_START);
    asm.bytes(&[0x48, 0xf7, 0xd2]); // not rdx
    asm.bytes(&[0x48, 0x8d, 0x44, 0x10, 0x01]); // lea rax, [rax + rdx + 1]
    asm.load(Gpr::RDX, offset::SYSTEM_CALL_CYCLES);
    asm.bytes(&[0x48, 0x8d, 0x04, 0x10]); // lea rax, [rax + rdx]
    asm.store(offset::SYSTEM_CALL_CYCLES, Gpr::RAX);
    asm.load_low(Gpr::RAX, offset::N_SYSTEM_CALLS);
    asm.bytes(&[0x8d, 0x40, 0x01]); // lea eax, [rax + 1]
    asm.store_low(offset::N_SYSTEM_CALLS, Gpr::RAX);
}
