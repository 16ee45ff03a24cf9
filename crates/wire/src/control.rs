//! Settings, counters and modules of one process: the first pages of its control file.
//!
//! The agent writes settings at any time; the runtime reads them at each tick. The runtime counts;
//! the agent reads. After [`Control`] come [`MAX_MODULES`] [`ModuleSlot`]s, at [`MODULES_OFFSET`];
//! the table of system calls that leave copies is at [`SYSTEM_CALLS_OFFSET`], that of places whose
//! values are known at [`KNOWN_PLACES_OFFSET`]. The file is [`FILE_BYTES`] long and is not
//! inherited over `fork`.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::events::MAX_EXPRESSION;
use crate::parts::in_parts;

/// Most modules that a process can have copies of.
pub const MAX_MODULES: usize = 1024;
/// Where the modules are in the file.
pub const MODULES_OFFSET: u64 = 4096;
/// Where the table of system calls is in the file.
pub const SYSTEM_CALLS_OFFSET: u64 = MODULES_OFFSET + (MAX_MODULES * size_of::<ModuleSlot>()) as u64;
/// Bytes of the table of system calls.
pub const SYSTEM_CALLS_BYTES: u64 = 65536;
/// Where the table of known places is in the file: [`crate::events::N_KNOWN_PLACES`] words.
pub const KNOWN_PLACES_OFFSET: u64 = SYSTEM_CALLS_OFFSET + SYSTEM_CALLS_BYTES;
/// Bytes of the file.
pub const FILE_BYTES: u64 = KNOWN_PLACES_OFFSET + 8 * crate::events::N_KNOWN_PLACES as u64;

/// Numbers of system calls that a copy must not make: they make, replace or end control flow, or
/// change what the runtime relies on. `rt_sigreturn`, `clone`, `fork`, `vfork`, `execve`, `exit`,
/// `munmap`, `mremap`, `arch_prctl`, `exit_group`, `execveat`, `rseq`, `clone3`.
pub const SYSTEM_CALLS_THAT_LEAVE: [u16; 13] = [15, 56, 57, 58, 59, 60, 11, 25, 158, 231, 322, 334, 435];

/// Numbers of system calls that a copy must not make in exact mode, besides: `rt_sigaction`,
/// because the kernel must not call a handler in the middle of a copy; `prctl` and `seccomp`,
/// because they install filters that the gate might not pass.
pub const SYSTEM_CALLS_THAT_LEAVE_EXACT: [u16; 3] = [13, 157, 317];

in_parts! {
    /// The head of the control file.
    pub struct Control {
        /// Which layout this is, and of which process.
        identity: Identity at 0 {
            /// [`crate::VERSION`].
            version: u32,
            /// Process id, as the agent sees it.
            pid: u32,
        }

        /// Settings of bursts and ticks, written by the agent.
        settings: Settings at 8 {
            /// CPU time between ticks of a thread.
            tick_interval_ns: AtomicU64,
            /// Seed of random first phases.
            seed: AtomicU64,
            /// Not zero: ticks start bursts.
            enabled: AtomicU32,
            /// Where ticks come from: a [`TickSource`].
            tick_source: AtomicU32,
            /// Length of a burst in checks.
            burst_checks: AtomicU32,
            /// Most bytes of stack in a sample, a multiple of 8.
            stack_bytes: AtomicU32,
            /// A [`Policy`].
            policy: AtomicU32,
            /// The policy's number of samples.
            samples: AtomicU32,
            /// The policy's stride.
            stride: AtomicU32,
            /// Not zero: the agent wants the runtime to stop its timers for good.
            stopped: AtomicU32,
        }

        /// Modules with copies, and libraries that are unloaded.
        modules: Modules at 56 {
            /// Number of used [`ModuleSlot`]s; written by the agent, after the slot.
            n_modules: AtomicU32,
            /// Unloads that the agent has dealt with; see `unloads`.
            unloads_cleared: AtomicU32,
            /// Times that the program closed a library and something was unmapped; written by the
            /// runtime.
            unloads: AtomicU32,
            /// Not zero while `unloads` is ahead of `unloads_cleared`: no burst may start, and
            /// bursts end at system calls. Written by the runtime.
            unloads_pending: AtomicU32,
        }

        /// Threads of the process, counted by the runtime.
        threads: Threads at 72 {
            /// Thread areas used so far, at most [`crate::thread::MAX_THREADS`].
            n_areas: AtomicU32,
            /// Threads that were given an area.
            started: AtomicU32,
            /// Threads that ended in order.
            ended: AtomicU32,
            /// Threads that found no free area or timer and run unprofiled.
            unprofiled: AtomicU32,
            /// CPU nanoseconds of threads that have ended.
            cpu_ns_of_ended: AtomicU64,
        }

        /// What the runtime has found out about the process, and what happened there.
        process: Process at 96 {
            /// Signals whose handlers go through the runtime, bit `n - 1` for signal `n`.
            wrapped_signals: AtomicU64,
            /// Address of the dynamic linker's `r_debug`; 0 if it was not found.
            r_debug: AtomicU64,
            /// CPU nanoseconds that joining took.
            join_cpu_ns: AtomicU64,
            /// Bursts that the program's signal handlers ended.
            bursts_ended_by_signals: AtomicU32,
            /// Ticks in threads that have no area, or whose `gs` is not the runtime's.
            foreign_ticks: AtomicU32,
            /// Not zero: the runtime has withdrawn from the process, for this reason
            /// ([`crate::hello::LeftAlone`]).
            left_alone: AtomicU32,
            /// Children of `vfork` that had filters of their own, and whose programs are not
            /// followed.
            children_left_alone: AtomicU32,
        }

        /// Exact mode; see [`crate::exact`].
        exact: Exact at 136 {
            /// Not zero: threads never leave the copies. [`ENTERS_ANYWHERE`]: if they have, they
            /// may come back at any twin. Written by the agent before the process joins.
            is_on: AtomicU32,
            /// Times that a thread asked for copies of everything that is mapped; written by the
            /// runtime.
            requests: AtomicU32,
            /// The value of `requests` before the agent last looked at what is mapped: all of that
            /// has its copies now, or never will. Written by the agent.
            answered: AtomicU32,
            /// Counts up while the agent lives; written by it.
            heartbeat: AtomicU32,
            /// Not zero: the metric is the misses of a simulated data cache, not cycles. Written by
            /// the agent before the process joins.
            counts_misses: AtomicU32,
            /// Counts up while the agent gets on with translating; written by it.
            progress: AtomicU32,
            /// Times that a thread went on natively, by [`NativeReason`]; written by the runtime.
            native: [AtomicU64; NativeReason::COUNT],
            /// Cycles between going on natively and being back, of threads that came back.
            native_cycles: AtomicU64,
            /// Times that a thread came back into copies.
            entries: AtomicU64,
            /// Time stamp counter when the wait for the agent was given up; 0: it never was.
            abandoned_tsc: AtomicU64,
            /// Ticks of CPU time, by [`TickPlace`].
            ticks: [AtomicU64; TickPlace::COUNT],
        }

        /// How events go to the agent; see [`crate::events`]. Written by the agent.
        events: Events at 280 {
            /// What copies fill the buffer of events with: one of [`crate::events::filling`].
            /// Written before the process joins, as is the compressor.
            filling: AtomicU32,
            /// Bytes of the compressor's expression; 0: events go as they are.
            expression_len: AtomicU32,
            /// Seed of the compressor.
            seed: AtomicU64,
            /// The expression, in words.
            expression: [AtomicU64; MAX_EXPRESSION / 8],
            /// Not zero: the profile is known, and events are thrown away. Written at any time.
            is_enough: AtomicU32,
            /// Places in the table of known places. Written at any time.
            n_known: AtomicU32,
        }

        /// The counted trigger; see [`crate::exact`]. Written by the agent before the process
        /// joins.
        trigger: Trigger at 432 {
            /// Checks that the checking version runs for; 0: there is no counted trigger.
            n_check: AtomicU32,
            /// Checks that the instrumented version runs for.
            n_instr: AtomicU32,
        }
    }
}

/// In [`Exact::is_on`]: copies keep no path register, so that a thread which comes from elsewhere
/// may enter them in the middle of a block.
pub const ENTERS_ANYWHERE: u32 = 2;

/// Where a tick finds a thread in exact mode.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TickPlace {
    /// In a copy.
    Copy = 0,
    /// Behind a system call, in a copy or not: the time is the kernel's.
    SystemCall = 1,
    /// In the runtime.
    Runtime = 2,
    /// In original code of a file.
    File = 3,
    /// In code of no file, or of the kernel in user space.
    NoFile = 4,
}

impl TickPlace {
    /// Number of places.
    pub const COUNT: usize = 5;
    /// All places.
    pub const ALL: [TickPlace; TickPlace::COUNT] =
        [TickPlace::Copy, TickPlace::SystemCall, TickPlace::Runtime, TickPlace::File, TickPlace::NoFile];
}

/// Why a thread in exact mode runs natively.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NativeReason {
    /// A function of the runtime, which comes back by itself.
    Runtime = 0,
    /// Code of the kernel in user space (vDSO).
    Kernel = 1,
    /// Code outside all clusters: not of a file, or out of reach.
    Outside = 2,
    /// Code in a cluster that has no copy, or an address that starts no known block.
    NoCopy = 3,
    /// An instruction that copies do not execute.
    Instruction = 4,
    /// A system call that makes, replaces or ends a thread or process.
    SystemCall = 5,
    /// The agent did not answer.
    Abandoned = 6,
}

impl NativeReason {
    /// Number of reasons.
    pub const COUNT: usize = 7;
    /// All reasons.
    pub const ALL: [NativeReason; NativeReason::COUNT] = [
        NativeReason::Runtime,
        NativeReason::Kernel,
        NativeReason::Outside,
        NativeReason::NoCopy,
        NativeReason::Instruction,
        NativeReason::SystemCall,
        NativeReason::Abandoned,
    ];
}

/// Copies of one module, for recovery.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ModuleSlot {
    /// Address of the module's copy.
    pub copy: AtomicU64,
    /// Bytes of code in it.
    pub copy_len: AtomicU64,
    /// Address of its table of [`crate::recovery::Run`]s.
    pub runs: AtomicU64,
    /// Number of runs; 0: the slot is void.
    pub n_runs: AtomicU64,
    /// Load address: what `Run::original` is relative to.
    pub base: AtomicU64,
    /// First address of the module's original code.
    pub code_start: AtomicU64,
    /// End of it.
    pub code_end: AtomicU64,
    /// Zero.
    pub reserved: u64,
}

/// Which path ends of a burst count (Arnold and Grove; PEP, section 4.4). Numbers are those of
/// checks.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Every one: the burst runs for `burst_checks`.
    Plain = 0,
    /// Skip 0 to `stride - 1` (one more at each tick, starting over), then take `samples` in a row.
    Simplified = 1,
    /// Skip 0 to `stride - 1`, then take one in `stride`, `samples` times.
    Full = 2,
}

/// Where ticks come from.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickSource {
    /// A POSIX timer on each thread's CPU clock, made by the runtime; sends [`TIMER_SIGNAL`].
    PosixTimer = 0,
    /// Perf events on each thread's CPU time in user mode, made by the agent; they send
    /// [`TIMER_SIGNAL`] with code [`PERF_CODE`].
    Perf = 1,
    /// Nothing ticks.
    Off = 2,
}

/// The signal of ticks: `SIGURG`, which is ignored by default, so that a late one cannot hurt, and
/// which debuggers pass on.
pub const TIMER_SIGNAL: i32 = 23;
/// `si_code` of ticks from perf events: `POLL_IN`. The kernel's own `SIGURG` has another.
pub const PERF_CODE: i32 = 1;
/// `si_value` of the runtime's timers.
pub const TICK_COOKIE: u64 = 0x7374_726f_6265_2121;

const _: () = assert!(size_of::<Control>() == 440);
const _: () = assert!(size_of::<ModuleSlot>() == 64);
const _: () = assert!(FILE_BYTES.is_multiple_of(crate::PAGE));
