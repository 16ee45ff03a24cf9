//! The area of a thread that can enter copies, to which its `gs` points, and the stream of samples
//! that it writes.
//!
//! A process has an *arena* of [`MAX_THREADS`] thread areas in one memory file, each of
//! [`AREA_BYTES`]: a [`ThreadHeader`], then [`N_SEGMENTS`] segments of [`SEGMENT_BYTES`]. Pages
//! that nobody touched cost nothing. The arena is not inherited over `fork`.
//!
//! **Scratch.** Generated code keeps application registers in the `saved_*` fields while it uses
//! them, and only between two twin points. Nothing there survives a burst.
//!
//! **Stream.** Samples are appended to the current segment. Everything below `committed` is final
//! and belongs to the agent. A sample that starts a burst lies at `committed` while the burst runs:
//! header and stack are written by the tick handler, records by the copy through `cursor`; the next
//! tick of the thread, its end, or a signal handler that ends the burst fills in the end of the
//! header and commits it. When less than [`MIN_ROOM`] is left, the producer closes the segment and
//! takes the next one if it is free; if it is not, the tick is counted in [`Ticks::lost`] and
//! leaves nothing else. The agent frees closed segments that it has read to the end. If the process
//! dies, the agent can salvage the uncommitted sample from `cursor`.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::clusters::{Cluster, N_CLUSTERS};
use crate::parts::in_parts;

/// Thread areas in an arena.
pub const MAX_THREADS: usize = 1024;
/// Bytes of one thread area; areas are aligned to it within the arena.
pub const AREA_BYTES: u64 = 8 << 20;
/// Segments of a thread area.
pub const N_SEGMENTS: usize = 4;
/// Bytes of a segment.
pub const SEGMENT_BYTES: u64 = 1 << 20;
/// Offset of the first segment in the thread area.
pub const FIRST_SEGMENT: u64 = 64 << 10;
/// Bytes that must be left in a segment for a tick to use it.
pub const MIN_ROOM: u64 = 384 << 10;
/// Bytes at the end of a segment that `limit` keeps free, for the records between two looks at
/// `limit`.
pub const LIMIT_SLACK: u64 = 64 << 10;
/// Records that generated code may write between two looks at `limit`; a function with more blocks
/// must look more often.
pub const MAX_UNCHECKED_RECORDS: usize = 16_000;
/// Marks an initialized [`ThreadHeader`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"strobeTH");

/// States of a segment.
pub mod segment_state {
    /// The producer may take it.
    pub const FREE: u32 = 0;
    /// The producer appends to it.
    pub const ACTIVE: u32 = 1;
    /// Complete; the agent frees it when it has read it.
    pub const CLOSED: u32 = 2;
}

/// States of a thread.
pub mod thread_state {
    /// Runs original code, and nothing waits to be committed.
    pub const NATIVE: u32 = 0;
    /// In a burst.
    pub const BURST: u32 = 1;
    /// Runs original code; its last burst has ended and waits to be committed.
    pub const ENDED: u32 = 2;
}

/// A segment of the stream.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Segment {
    /// One of [`segment_state`].
    pub state: AtomicU32,
    /// Bytes of final samples.
    pub committed: AtomicU32,
}

/// The clusters of a process.
pub type Clusters = [Cluster; N_CLUSTERS];

in_parts! {
    /// The first page of a thread area.
    pub struct ThreadHeader {
        /// What tells an area.
        identity: Identity at 0 {
            /// Address of this header in the target.
            self_address: u64,
            /// [`MAGIC`].
            magic: u64,
        }

        /// Scratch of probes and transfers: valid between two twin points only.
        scratch: Scratch at 16 {
            /// Application `rax` inside probes.
            saved_rax: u64 = SAVED_RAX,
            /// Application `rcx` inside probes.
            saved_rcx: u64 = SAVED_RCX,
            /// Application `rdx` inside probes.
            saved_rdx: u64 = SAVED_RDX,
            /// Application flags inside probes, as `lahf; seto al` leave them in `ax`.
            saved_flags: u64 = SAVED_FLAGS,
            /// Original address that a call, jump, return or exit goes to.
            target: u64 = TARGET,
            /// Address of its twin.
            twin: u64 = TWIN,
        }

        /// The burst under way.
        burst: Burst at 64 {
            /// Address of the next block record.
            cursor: AtomicU64 = CURSOR,
            /// When `cursor` has reached this, the burst must end.
            limit: u64 = LIMIT,
            /// Checks left; the burst ends when it becomes 0. With the counted trigger: checks that
            /// are left in the present version.
            checks: AtomicU32 = CHECKS,
            /// Why the burst ended: an [`crate::sample::EndReason`], written before `state`. In
            /// exact mode, why the copy has come to the gate.
            end_reason: AtomicU32 = END_REASON,
            /// One of [`thread_state`].
            state: AtomicU32 = STATE,
            /// System calls made in the burst.
            n_system_calls: u32 = N_SYSTEM_CALLS,
            /// Time stamp counter before the current system call.
            system_call_start: u64 = SYSTEM_CALL_START,
            /// Time stamp counter after it.
            system_call_end: u64 = SYSTEM_CALL_END,
            /// Cycles in system calls of the burst.
            system_call_cycles: u64 = SYSTEM_CALL_CYCLES,
            /// Time stamp counter at the end of the burst.
            end_tsc: u64 = END_TSC,
        }

        /// What a copy needs to decide about a system call.
        system_calls: SystemCalls at 128 {
            /// Address of a table of 65536 bytes, indexed by the low 16 bits of a system call's
            /// number. Not zero: leave the copy to make it.
            leaving: u64 = SYSTEM_CALLS_THAT_LEAVE,
            /// Address of [`crate::control::Modules::unloads_pending`].
            unloads_pending: u64 = UNLOADS_PENDING,
            /// Number of the current system call.
            number: u64 = SYSTEM_CALL_NUMBER,
        }

        /// What copies of exact mode keep between blocks; see [`crate::exact`].
        exact: Exact at 152 {
            /// What belongs to the present activation of a function: the path register in the low
            /// half, the calling context (its offset in the table) in the high half.
            frame: AtomicU64 = FRAME,
            /// Address of the runtime's gate.
            gate: u64 = GATE,
            /// Time stamp counter when the thread went on natively; 0: it is in copies.
            native_since: u64,
            /// Key of the context that a copy has not found, for the gate to make.
            wanted_context: u64 = WANTED_CONTEXT,
            /// What the metric's counter was when it was last charged to a context. Where paths
            /// have a metric: what it would have been at the start of the present path if nothing
            /// else had run since.
            charged: u64 = CHARGED,
        }

        /// The clusters of the process.
        clusters: Clusters at 192

        /// The stream of samples.
        stream: Stream at 360 {
            /// The thread that owns the area and writes the stream; 0: nobody.
            owner_tid: AtomicU32,
            /// Index of the current segment.
            current_segment: AtomicU32,
            /// The segments.
            segments: [Segment; N_SEGMENTS],
        }

        /// Ticks and the timer that makes them.
        ticks: Ticks at 400 {
            /// Ticks delivered to threads of this area.
            delivered: AtomicU64,
            /// Ticks that arrived while the thread was in a burst.
            in_burst: AtomicU64,
            /// Ticks that found no free segment.
            lost: AtomicU64,
            /// Cycles spent in tick handlers, entry to return.
            handler_cycles: AtomicU64,
            /// CPU time of the thread when it was last seen, in nanoseconds.
            last_cpu_ns: AtomicU64,
            /// State of the generator of random first phases.
            random: u64,
            /// Tick interval that the thread's timer is set to.
            armed_interval_ns: u64,
            /// Kernel's number of the thread's timer; negative: none.
            timer_id: i64,
        }

        /// The runtime's gate in exact mode, and the hook by which code of the kernel comes back to
        /// it.
        gate: Gate at 464 {
            /// Not zero: `registers` holds the program's registers, and the processor's are the
            /// gate's own.
            is_inside: u64,
            /// General registers in hardware order, then the flags as `pushfq` stores them.
            registers: [u64; 17],
            /// The program's signal mask while the gate blocks all signals.
            mask: u64,
            /// Top of the stack that the gate runs on.
            stack: u64,
            /// Where the return address lies that the hook has replaced while the thread is in code
            /// of the kernel; 0: nowhere.
            hook_slot: u64,
            /// That return address.
            hook_return: u64,
        }

        /// How full the tables of exact mode are.
        tables: Tables at 640 {
            /// Used entries of the path table.
            n_path_entries: AtomicU64 = N_PATH_ENTRIES,
            /// Path ends that found the path table full.
            lost_paths: AtomicU64 = LOST_PATHS,
            /// Used entries of the table of contexts.
            n_context_entries: AtomicU64,
            /// Metric of the path that is being counted, if paths have one.
            ended_metric: u64 = ENDED_METRIC,
        }

        /// The simulated data cache; see [`crate::exact`].
        cache: DataCache at 672 {
            /// Misses so far.
            misses: u64 = MISSES,
            /// The line that is being looked for.
            line: u64 = LINE,
            /// The last line of the same access.
            last_line: u64 = LAST_LINE,
            /// 1 if the access has missed.
            has_missed: u64 = HAS_MISSED,
        }

        /// Sampling of paths; see [`crate::exact`].
        path_sampling: PathSampling at 704 {
            /// Paths still to be sampled; 0 until the next tick.
            samples_wanted: AtomicU32 = SAMPLES_WANTED,
            /// Path ends to pass over before the next sample.
            ends_to_skip: AtomicU32 = ENDS_TO_SKIP,
            /// Path ends to pass over between two samples.
            ends_between: AtomicU32 = ENDS_BETWEEN,
            /// Zero.
            reserved: u32,
            /// Number of the last tick that wanted samples in the upper half, 1 in the lower one.
            sampling_tick: AtomicU64 = SAMPLING_TICK,
        }

        /// Noted values and words of the path trace on their way to the agent; see
        /// [`crate::events`].
        events: Events at 728 {
            /// Where the next event goes, in words from the end of the buffer, so negative.
            next: AtomicU64 = NEXT_EVENT,
            /// Events taken from the buffer so far.
            taken: AtomicU64,
            /// Events taken from the buffer and thrown away, because their values are known.
            passed_over: AtomicU64,
            /// Messages written to the ring so far.
            sent: AtomicU64,
            /// Messages that the agent has read; written by it.
            read: AtomicU64,
            /// Times that a full ring had to be waited for.
            waits: AtomicU64,
            /// Messages that found the ring full for too long.
            lost: AtomicU64,
            /// Bytes of the compressor's memory that are in use; 0: there is no compressor yet.
            compressor_bytes: AtomicU64,
            /// Who uses the compressor: [`crate::events::compressor_use`].
            compressor_use: AtomicU64,
            /// Events taken that no message stands for, less events that messages stand for too
            /// many, when the compressor was last drained.
            residue: AtomicU64,
        }

        /// The counted trigger; see [`crate::exact`].
        trigger: Trigger at 808 {
            /// Checks that the checking version runs for.
            n_check: u32 = N_CHECK,
            /// Checks that the instrumented version runs for.
            n_instr: u32 = N_INSTR,
            /// Not zero: the thread is in the instrumented version.
            is_instrumented: AtomicU32 = IS_INSTRUMENTED,
            /// Zero.
            reserved: u32,
        }
    }

    /// Offsets in [`ThreadHeader`], for generated code.
    pub mod offset {
        /// Offset of the upper half of `exact.frame`: the calling context.
        pub const CONTEXT: u32 = FRAME + 4;

        /// Returns the offset of `clusters[index]`.
        #[must_use]
        pub const fn cluster(index: usize) -> u32 {
            (core::mem::offset_of!(ThreadHeader, clusters) + index * size_of::<Cluster>()) as u32
        }
    }
}

const _: () = assert!(size_of::<ThreadHeader>() == 824);
const _: () = assert!(FIRST_SEGMENT + N_SEGMENTS as u64 * SEGMENT_BYTES <= AREA_BYTES);
const _: () = assert!(MAX_UNCHECKED_RECORDS as u64 * 4 < LIMIT_SLACK);
