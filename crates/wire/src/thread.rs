//! What `gs:` points to in a thread that can enter copies, and the stream of samples that it writes.
//!
//! A process has an *arena* of [`MAX_THREADS`] thread areas in one memory file, each of [`AREA_BYTES`]: a [`ThreadHeader`], then
//! [`N_SEGMENTS`] segments of [`SEGMENT_BYTES`]. Pages that nobody touched cost nothing. The arena is not inherited over `fork`.
//!
//! **Scratch.** Generated code keeps application registers in the `saved_*` fields while it uses them, and only between two twin
//! points. Nothing there survives a burst.
//!
//! **Stream.** Samples are appended to the current segment. Everything below `committed` is final and belongs to the agent. A sample that
//! starts a burst lies at `committed` while the burst runs: header and stack are written by the tick handler, records by the copy through
//! `cursor`; the next tick of the thread, its end, or a signal handler that ends the burst fills in the end of the header and commits it.
//! When less than [`MIN_ROOM`] is left, the producer closes the segment and takes the next one if it is free; if it is not, the tick is
//! counted in `lost_ticks` and leaves nothing else. The agent frees closed segments that it has read to the end. If the process dies, the
//! agent can salvage the uncommitted sample from `cursor`.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::clusters::{Cluster, N_CLUSTERS};

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
/// Bytes at the end of a segment that `limit` keeps free, for the records between two looks at `limit`.
pub const LIMIT_SLACK: u64 = 64 << 10;
/// Records that generated code may write between two looks at `limit`; a function with more blocks must look more often.
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

/// The first page of a thread area.
#[repr(C)]
#[derive(Debug)]
pub struct ThreadHeader {
    /// Address of this header in the target.
    pub self_address: u64,
    /// [`MAGIC`].
    pub magic: u64,
    /// Application `rax` inside probes.
    pub saved_rax: u64,
    /// Application `rcx` inside probes.
    pub saved_rcx: u64,
    /// Application `rdx` inside probes.
    pub saved_rdx: u64,
    /// Application flags inside probes, as `lahf; seto al` leave them in `ax`.
    pub saved_flags: u64,
    /// Original address that a call, jump, return or exit goes to.
    pub target: u64,
    /// Address of its twin.
    pub twin: u64,

    /// Address of the next record. (Second cache line.)
    pub cursor: AtomicU64,
    /// When `cursor` has reached this, the burst must end.
    pub limit: u64,
    /// Checks left; the burst ends when it becomes 0.
    pub checks: AtomicU32,
    /// Why the burst ended: an [`crate::sample::EndReason`], written before `state`.
    pub end_reason: AtomicU32,
    /// One of [`thread_state`].
    pub state: AtomicU32,
    /// System calls made in the burst.
    pub n_system_calls: u32,
    /// Time stamp counter before the current system call.
    pub system_call_start: u64,
    /// The same, after it.
    pub system_call_end: u64,
    /// Cycles in system calls of the burst.
    pub system_call_cycles: u64,
    /// Time stamp counter at the end of the burst.
    pub end_tsc: u64,

    /// Address of a table of 65536 bytes, indexed by the low 16 bits of a system call number; not zero: leave the copy to make it.
    pub system_calls_that_leave: u64,
    /// Address of [`crate::control::Control::unloads_pending`].
    pub unloads_pending: u64,
    /// Number of the current system call.
    pub system_call_number: u64,
    /// What a probe keeps for the present activation of a function: the path register in the low half, the offset of the calling context
    /// in the area in the high half.
    pub frame: AtomicU64,
    /// Address of the runtime's gate; see [`crate::exact`].
    pub gate: u64,
    /// Cycles of native code since `native_since`, in exact mode; only while the thread is native.
    pub native_since: u64,
    /// The key of the context that a copy has not found, for the gate to make.
    pub wanted_context: u64,
    /// What the metric's counter was when it was last charged to a context; where paths have a metric, what it would have been at the start of the present
    /// path if nothing else had run since.
    pub charged: u64,

    /// The clusters of the process.
    pub clusters: [Cluster; N_CLUSTERS],

    /// The thread that owns the area; 0: nobody.
    pub owner_tid: AtomicU32,
    /// Index of the current segment.
    pub current_segment: AtomicU32,
    /// The segments.
    pub segments: [Segment; N_SEGMENTS],
    /// Ticks delivered to threads of this area.
    pub ticks: AtomicU64,
    /// Ticks that arrived while the thread was in a burst.
    pub ticks_in_burst: AtomicU64,
    /// Ticks that found no free segment.
    pub lost_ticks: AtomicU64,
    /// Cycles spent in tick handlers, entry to return.
    pub handler_cycles: AtomicU64,
    /// CPU time of the thread when it was last seen, in nanoseconds.
    pub last_cpu_ns: AtomicU64,
    /// State of the generator of random first phases.
    pub random: u64,
    /// Tick interval that the thread's timer is set to.
    pub armed_interval_ns: u64,
    /// Kernel's number of the thread's timer; negative: none.
    pub timer_id: i64,

    /// Not zero: the gate has saved the program's registers in `gate_registers`, and the processor's are its own.
    pub is_in_gate: u64,
    /// General registers in hardware order, then the flags as `pushfq` stores them.
    pub gate_registers: [u64; 17],
    /// The program's signal mask while the gate blocks all signals.
    pub gate_mask: u64,
    /// Top of the stack that the gate runs on.
    pub gate_stack: u64,
    /// Where the return address is that the runtime has replaced while the thread is in code of the kernel; 0: nowhere.
    pub hook_slot: u64,
    /// That return address.
    pub hook_return: u64,
    /// Used entries of the path table.
    pub n_path_entries: AtomicU64,
    /// Path ends that found the path table full.
    pub lost_paths: AtomicU64,
    /// Used entries of the table of contexts.
    pub n_context_entries: AtomicU64,
    /// What the path that is being counted has of the metric, if paths have one.
    pub ended_metric: u64,
    /// Misses of the simulated data cache; see [`crate::exact`].
    pub misses: u64,
    /// The line that is being looked for in the cache, and the last one of the same access.
    pub line: u64,
    /// See `line`.
    pub last_line: u64,
    /// 1 if the access has missed.
    pub has_missed: u64,

    /// Paths to be sampled yet; 0 until the next tick. See [`crate::exact`].
    pub samples_wanted: AtomicU32,
    /// Path ends to pass over before the next of them.
    pub ends_to_skip: AtomicU32,
    /// Path ends to pass over between two of them.
    pub ends_between: AtomicU32,
    /// Zero.
    pub reserved: u32,
    /// The number of the last tick that wanted samples in the upper half, 1 in the lower one.
    pub sampling_tick: AtomicU64,

    /// Where the next event goes, in words from the end of the buffer, so negative; see [`crate::events`].
    pub next_event: AtomicU64,
    /// Events taken from the buffer so far.
    pub events_taken: AtomicU64,
    /// Events taken from the buffer and thrown away, because what they would tell is known.
    pub events_passed_over: AtomicU64,
    /// Messages written to the ring so far.
    pub messages_sent: AtomicU64,
    /// Messages that the agent has read; written by it.
    pub messages_read: AtomicU64,
    /// Times that a full ring had to be waited for.
    pub ring_waits: AtomicU64,
    /// Messages that found the ring full for too long.
    pub messages_lost: AtomicU64,
    /// Bytes of the compressor's memory that are in use; 0: there is no compressor yet.
    pub compressor_bytes: AtomicU64,
    /// Who uses it: [`crate::events::compressor_use`].
    pub compressor_use: AtomicU64,
    /// Events that it had taken and no message stood for, less events that messages stood for too many, when it was last drained.
    pub residue: AtomicU64,
}

/// Offsets in [`ThreadHeader`], for generated code.
pub mod offset {
    use super::{ThreadHeader, offset_of};
    use crate::clusters::Cluster;

    /// Of `saved_rax`.
    pub const SAVED_RAX: u32 = offset_of!(ThreadHeader, saved_rax) as u32;
    /// Of `saved_rcx`.
    pub const SAVED_RCX: u32 = offset_of!(ThreadHeader, saved_rcx) as u32;
    /// Of `saved_rdx`.
    pub const SAVED_RDX: u32 = offset_of!(ThreadHeader, saved_rdx) as u32;
    /// Of `saved_flags`.
    pub const SAVED_FLAGS: u32 = offset_of!(ThreadHeader, saved_flags) as u32;
    /// Of `target`.
    pub const TARGET: u32 = offset_of!(ThreadHeader, target) as u32;
    /// Of `twin`.
    pub const TWIN: u32 = offset_of!(ThreadHeader, twin) as u32;
    /// Of `cursor`.
    pub const CURSOR: u32 = offset_of!(ThreadHeader, cursor) as u32;
    /// Of `limit`.
    pub const LIMIT: u32 = offset_of!(ThreadHeader, limit) as u32;
    /// Of `checks`.
    pub const CHECKS: u32 = offset_of!(ThreadHeader, checks) as u32;
    /// Of `end_reason`.
    pub const END_REASON: u32 = offset_of!(ThreadHeader, end_reason) as u32;
    /// Of `state`.
    pub const STATE: u32 = offset_of!(ThreadHeader, state) as u32;
    /// Of `n_system_calls`.
    pub const N_SYSTEM_CALLS: u32 = offset_of!(ThreadHeader, n_system_calls) as u32;
    /// Of `system_call_start`.
    pub const SYSTEM_CALL_START: u32 = offset_of!(ThreadHeader, system_call_start) as u32;
    /// Of `system_call_end`.
    pub const SYSTEM_CALL_END: u32 = offset_of!(ThreadHeader, system_call_end) as u32;
    /// Of `system_call_cycles`.
    pub const SYSTEM_CALL_CYCLES: u32 = offset_of!(ThreadHeader, system_call_cycles) as u32;
    /// Of `end_tsc`.
    pub const END_TSC: u32 = offset_of!(ThreadHeader, end_tsc) as u32;
    /// Of `system_calls_that_leave`.
    pub const SYSTEM_CALLS_THAT_LEAVE: u32 = offset_of!(ThreadHeader, system_calls_that_leave) as u32;
    /// Of `unloads_pending`.
    pub const UNLOADS_PENDING: u32 = offset_of!(ThreadHeader, unloads_pending) as u32;
    /// Of `frame`.
    pub const FRAME: u32 = offset_of!(ThreadHeader, frame) as u32;
    /// Of the upper half of `frame`.
    pub const CONTEXT: u32 = FRAME + 4;
    /// Of `charged`.
    pub const CHARGED: u32 = offset_of!(ThreadHeader, charged) as u32;
    /// Of `wanted_context`.
    pub const WANTED_CONTEXT: u32 = offset_of!(ThreadHeader, wanted_context) as u32;
    /// Of `n_path_entries`.
    pub const N_PATH_ENTRIES: u32 = offset_of!(ThreadHeader, n_path_entries) as u32;
    /// Of `lost_paths`.
    pub const LOST_PATHS: u32 = offset_of!(ThreadHeader, lost_paths) as u32;
    /// Of `ended_metric`.
    pub const ENDED_METRIC: u32 = offset_of!(ThreadHeader, ended_metric) as u32;
    /// Of `misses`.
    pub const MISSES: u32 = offset_of!(ThreadHeader, misses) as u32;
    /// Of `line`.
    pub const LINE: u32 = offset_of!(ThreadHeader, line) as u32;
    /// Of `last_line`.
    pub const LAST_LINE: u32 = offset_of!(ThreadHeader, last_line) as u32;
    /// Of `has_missed`.
    pub const HAS_MISSED: u32 = offset_of!(ThreadHeader, has_missed) as u32;
    /// Of `samples_wanted`.
    pub const SAMPLES_WANTED: u32 = offset_of!(ThreadHeader, samples_wanted) as u32;
    /// Of `ends_to_skip`.
    pub const ENDS_TO_SKIP: u32 = offset_of!(ThreadHeader, ends_to_skip) as u32;
    /// Of `ends_between`.
    pub const ENDS_BETWEEN: u32 = offset_of!(ThreadHeader, ends_between) as u32;
    /// Of `sampling_tick`.
    pub const SAMPLING_TICK: u32 = offset_of!(ThreadHeader, sampling_tick) as u32;
    /// Of `next_event`.
    pub const NEXT_EVENT: u32 = offset_of!(ThreadHeader, next_event) as u32;
    /// Of `gate`.
    pub const GATE: u32 = offset_of!(ThreadHeader, gate) as u32;
    /// Of `system_call_number`.
    pub const SYSTEM_CALL_NUMBER: u32 = offset_of!(ThreadHeader, system_call_number) as u32;

    /// Of `clusters[index]`.
    #[must_use]
    pub const fn cluster(index: usize) -> u32 {
        (offset_of!(ThreadHeader, clusters) + index * size_of::<Cluster>()) as u32
    }
}

const _: () = assert!(size_of::<ThreadHeader>() <= 4096);
const _: () = assert!(offset_of!(ThreadHeader, cursor) == 64);
const _: () = assert!(offset_of!(ThreadHeader, system_calls_that_leave) == 128);
const _: () = assert!(offset_of!(ThreadHeader, clusters) == 192);
const _: () = assert!(offset_of!(ThreadHeader, owner_tid) == 192 + 48 * N_CLUSTERS);
const _: () = assert!(FIRST_SEGMENT + N_SEGMENTS as u64 * SEGMENT_BYTES <= AREA_BYTES);
const _: () = assert!(MAX_UNCHECKED_RECORDS as u64 * 4 < LIMIT_SLACK);
