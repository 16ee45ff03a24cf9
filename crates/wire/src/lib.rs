//! The contract between the two sides of a recording: layouts in shared memory and messages on the
//! socket.
//!
//! The *agent* (the `strobe` process) and the *runtime* (a small library inside the target) never
//! call each other. They share memory, and everything that either of them, or the code that the
//! agent generates, reads or writes there is laid out here, once.
//!
//! | module | what it lays out | written by | read by |
//! |---|---|---|---|
//! | [`hello`] | messages on the socket when a process joins | both | both |
//! | [`clusters`] | ranges whose code can have copies, their maps | agent | copies, runtime |
//! | [`control`] | settings, counters and modules of one process | both | both |
//! | [`thread`] | what `gs:` points to, and the stream of samples | copies, runtime | agent |
//! | [`sample`] | what a tick leaves behind | copies, runtime | agent |
//! | [`exact`] | counters and tables of exact mode | copies, runtime | agent |
//! | [`events`] | noted values, and the ring that they cross in | copies, runtime | agent |
//! | [`path_trace`] | every path that ends, in order | copies, runtime | agent |
//! | [`recovery`] | from any address in a copy back to the original | agent | runtime |
//!
//! All values are little-endian and naturally aligned. Fields that one side writes while the other
//! reads are atomics. Every layout has its size asserted at compile time, and [`VERSION`] changes
//! with any of them: two sides with different versions part at once.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod clusters;
pub mod control;
pub mod events;
pub mod exact;
pub mod hello;
mod parts;
pub mod path_trace;
pub mod recovery;
pub mod sample;
pub mod thread;

/// Version of everything in this crate.
pub const VERSION: u32 = 18;

/// Size of a page; all mappings are multiples of it.
pub const PAGE: u64 = 4096;
