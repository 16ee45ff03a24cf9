//! The part of strobe that lives inside the profiled program.
//!
//! A preloaded library that imports nothing, allocates nothing of the program's memory, locks
//! nothing and prints nothing. Between ticks it does not run. Its parts:
//!
//! * [`sys`]: system calls, the auxiliary vector, the dynamic linker's list of modules, the
//!   functions behind the interposed ones.
//! * [`process`] joins the session when the library is loaded, follows children, sees libraries go,
//!   and leaves a program alone that would not survive being recorded.
//! * [`threads`] gives every thread an area and a timer.
//! * [`signals`] keeps the runtime's signals and the program's apart.
//! * [`bursts`] has the handler of ticks, which writes samples and sends threads into copies, and
//!   the rules for getting out of them.
//! * [`exact`] is the mode in which threads never leave the copies.
//! * [`events`] takes to the agent what probes have noted.
//!
//! Functions of the C library are interposed by symbols of the same name and call the real ones,
//! which [`sys::link_map`] finds.
#![no_std]
#![deny(clippy::undocumented_unsafe_blocks)]

extern crate alloc;

mod bursts;
mod events;
mod exact;
mod exports;
mod mode;
mod process;
mod signals;
mod statics;
mod sys;
mod threads;

/// Nothing here panics on purpose; if it does, the thread stops in a way that a debugger shows.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: an illegal instruction.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}
