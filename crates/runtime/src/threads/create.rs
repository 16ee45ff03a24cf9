//! New threads.
//!
//! `pthread_create` and `thrd_create` start threads in [`trampoline`], which sets the thread up and
//! then jumps to the program's start routine with the stack as it was: a backtrace ends where it
//! would without strobe.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};

use crate::exact;
use crate::process::session::{self, Session};
use crate::process::{fork, withdrawal};
use crate::signals::masks;
use crate::statics::{BIRTHS, MAX_BIRTHS, NEXT_BIRTH};
use crate::sys::real;
use crate::threads::area;
use crate::threads::lifecycle::{self, Inheritance};

/// How many are looked at for a free one.
const MAX_PROBES: usize = 256;

/// A thread between its creation and its first instruction: how it is to start.
pub struct Birth {
    is_taken: AtomicBool,
    start: AtomicU64,
    argument: AtomicU64,
    blocked_by_program: AtomicU64,
}

impl Birth {
    /// Nobody's.
    pub const fn new() -> Birth {
        Birth {
            is_taken: AtomicBool::new(false),
            start: AtomicU64::new(0),
            argument: AtomicU64::new(0),
            blocked_by_program: AtomicU64::new(0),
        }
    }
}

/// Start routine and argument, in the registers of a returned pair.
#[repr(C)]
struct Start {
    routine: u64,
    argument: u64,
}

/// `pthread_create` for the program.
///
/// # Safety
/// As for `pthread_create`.
pub unsafe extern "C" fn pthread_create(thread: *mut u64, attributes: *const u8, start: u64, argument: u64) -> i32 {
    const EAGAIN: i32 = 11;
    let Some(real) = real::PTHREAD_CREATE.get() else { return EAGAIN };
    // SAFETY: the program's arguments; start routine and argument are passed on by the trampoline.
    through_trampoline(start, argument, |start, argument| unsafe { real(thread, attributes, start, argument) })
}

/// `thrd_create` for the program.
///
/// # Safety
/// As for `thrd_create`.
pub unsafe extern "C" fn thrd_create(thread: *mut u64, start: u64, argument: u64) -> i32 {
    const THRD_ERROR: i32 = 2;
    let Some(real) = real::THRD_CREATE.get() else { return THRD_ERROR };
    // SAFETY: the program's arguments; start routine and argument are passed on by the trampoline.
    through_trampoline(start, argument, |start, argument| unsafe { real(thread, start, argument) })
}

/// Lets `create` make a thread that starts in the trampoline, or directly if that is not possible.
fn through_trampoline(start: u64, argument: u64, create: impl Fn(u64, u64) -> i32) -> i32 {
    if session::is_active() && session::attached().is_none() {
        fork::join_at_tick();
    }
    let Some(session) = session::attached() else { return create(start, argument) };
    let Some(birth) = take_birth(session) else { return create(start, argument) };
    // A thread that began now would not be waited for.
    if withdrawal::has_begun() {
        birth.is_taken.store(false, Release);
        return create(start, argument);
    }
    birth.start.store(start, Relaxed);
    birth.argument.store(argument, Relaxed);
    let blocked = area::own_private().map_or(0, |private| private.blocked_by_program.load(Relaxed));
    birth.blocked_by_program.store(blocked, Release);
    let result = create(trampoline as *const () as u64, core::ptr::from_ref(birth) as u64);
    if result != 0 {
        birth.is_taken.store(false, Release);
    }
    result
}

/// Returns whether no thread is between its creation and its first instruction.
pub fn nobody_begins() -> bool {
    BIRTHS.iter().all(|birth| !birth.is_taken.load(SeqCst))
}

fn take_birth(session: Session) -> Option<&'static Birth> {
    let first = NEXT_BIRTH.fetch_add(1, Relaxed);
    let free = (first..first + MAX_PROBES)
        .map(|index| &BIRTHS[index % MAX_BIRTHS])
        .find(|birth| birth.is_taken.compare_exchange(false, true, SeqCst, Relaxed).is_ok());
    if free.is_none() {
        session.control.threads.unprofiled.fetch_add(1, Relaxed);
    }
    free
}

/// Leaves nothing of the runtime in the registers.
#[unsafe(naked)]
unsafe extern "C" fn trampoline() {
    naked_asm!(
        "mov rsi, rsp",
        "push rdi",
        "call {begin}",
        "add rsp, 8",
        "mov rdi, rdx",
        "xor esi, esi",
        "xor edx, edx",
        "xor ecx, ecx",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r11d, r11d",
        "jmp rax",
        begin = sym begin,
    )
}

/// Sets the thread up. The return address from the start routine is at `stack_end`.
extern "C" fn begin(birth: &'static Birth, stack_end: u64) -> Start {
    let start = Start { routine: birth.start.load(Relaxed), argument: birth.argument.load(Relaxed) };
    let inherited = birth.blocked_by_program.load(Relaxed);
    if let Some(session) = session::attached() {
        let blocked_by_program = inherited | masks::claim();
        lifecycle::begin(session, Inheritance { blocked_by_program, preferred_area: 0, stack_end });
        birth.is_taken.store(false, Release);
        withdrawal::withdraw_if_displaced(session.control);
    } else {
        birth.is_taken.store(false, Release);
    }
    Start { routine: exact::destination(start.routine), ..start }
}
