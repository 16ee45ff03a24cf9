//! The part of strobe that lives inside the profiled program.
//!
//! A preloaded library that imports nothing, allocates nothing of the program's memory, locks nothing and prints nothing. Between ticks it does not
//! run. Its parts:
//!
//! * [`start`] joins the session ([`join`], [`environment`]) and sets up the first thread ([`thread`], [`area`], [`timer`]);
//!   [`create`] does that for others.
//! * [`tick`] is the handler of ticks: it writes samples ([`stream`]) and sends threads into copies.
//! * [`signals`], [`masks`], [`altstack`] and [`entry`] keep the runtime's signals and the program's apart, and [`burst`] sees
//!   to it that no handler of the program finds itself called from a copy; [`recover`] has the rules for that.
//! * [`exact`] is the mode in which threads never leave the copies: [`gate`], [`gate_calls`], [`come_back`], [`hook`], [`interrupt`].
//! * [`events`] takes what probes have noted to the agent.
//! * [`status`], [`guests`] and [`filters`] recognise programs that would not survive that; [`withdrawal`] leaves them alone.
//! * [`unload`], [`fork`] and the rest deal with what else a program can do to the ground that it stands on.
//!
//! Functions of the C library are interposed by symbols of the same name and call the real ones, which [`link_map`] finds.
#![no_std]
#![deny(clippy::undocumented_unsafe_blocks)]

extern crate alloc;

mod abi;
mod actions;
mod altstack;
mod area;
mod auxv;
mod burst;
mod cancel;
mod code;
mod come_back;
mod contexts;
mod create;
mod entry;
mod environment;
mod events;
mod exact;
mod exec;
mod exec_lists;
mod exports;
mod farewell;
mod filters;
mod fork;
mod gate;
mod gate_calls;
mod gate_stack;
mod guests;
mod hook;
mod interrupt;
mod join;
mod link_map;
mod masks;
mod memory;
mod misses;
mod patience;
mod places;
mod program_file;
mod raw;
mod real;
mod recover;
mod resume;
mod session;
mod signals;
mod start;
mod status;
mod stream;
mod syscall;
mod thread;
mod tick;
mod timer;
mod trace;
mod twins;
mod unload;
mod waits;
mod withdrawal;
mod words;

/// Nothing here panics on purpose; if it does, the thread stops in a way that a debugger shows.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: an illegal instruction.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}
