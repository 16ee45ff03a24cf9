//! What exact mode adds to a process: threads that never leave the copies, and the counters that copies keep.
//!
//! **Never leaving.** In exact mode a copy that cannot go on jumps to [`crate::thread::ThreadHeader::gate`] instead of the original: the
//! runtime's *gate*, with all registers those of the program, the address where the program is in `target` and the reason in `end_reason`.
//! The gate makes the system call, waits for the agent to provide the missing copy, or has the thread run natively for a while and counts
//! that ([`crate::control::Exact`]).
//!
//! **Thread areas** are larger than those of bursts ([`AREA_BITS`]) and hold, at fixed offsets from the header so that one displacement
//! from `gs:` reaches them, what copies count into:
//!
//! ```text
//!   0          header
//!   16 MiB     return table
//!   64 MiB     path table: counts of paths by key, open addressing
//!   128 MiB    calling contexts
//!   512 MiB    cells: counters of 8 bytes, the agent gives each module a range
//! ```
//!
//! An area is never cleared: the next thread that gets it goes on counting. The totals of a process are the sums over its areas, and no
//! counter is ever shared by two threads at a time.
//!
//! **Return table.** A call in a copy notes where its return leads: the twin of the return site, and the caller's registers of the probe (path
//! and context). The entry is found by the address of the return address on the stack, so that `longjmp`, exceptions and switches of stacks need no
//! care: whoever returns through a slot finds what the last call through that slot noted. `key` is the sum of the slot's address and the
//! return address; if it does not match, the return looks its target up in the map and the path is counted as lost.

/// Logarithm of the bytes of a thread area in exact mode.
pub const AREA_BITS: u32 = 30;
/// Thread areas in an arena in exact mode.
pub const MAX_THREADS: usize = 256;

/// Offset of the return table in the thread area.
pub const RETURNS: u32 = 16 << 20;
/// Bits of a slot's address that choose its entry; slots are at multiples of 8.
pub const SLOT_MASK: u32 = 0x7f_fff8;
/// What the masked address is multiplied by to get the offset of the entry.
pub const SLOT_SCALE: u32 = 4;

/// An entry of the return table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ReturnEntry {
    /// Address of the slot plus return address, wrapping.
    pub key: u64,
    /// The twin of the return site.
    pub twin: u64,
    /// The caller's `frame` ([`crate::thread::ThreadHeader::frame`]).
    pub frame: u64,
    /// Zero.
    pub reserved: u64,
}

/// Offset of the path table in the thread area.
pub const PATHS: u32 = 64 << 20;
/// Entries of the path table, a power of two.
pub const N_PATH_ENTRIES: u32 = 1 << 22;

/// Entries that may be in use; beyond that, paths that are not in the table are counted as lost.
pub const MAX_PATH_ENTRIES: u32 = N_PATH_ENTRIES / 4 * 3;

/// An entry of the path table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PathEntry {
    /// What is counted; 0: nothing, the entry is free.
    pub key: u64,
    /// How often.
    pub count: u64,
}

/// Offset of the calling contexts in the thread area.
pub const CONTEXTS: u32 = 128 << 20;
/// Offset of the cells in the thread area.
pub const CELLS: u32 = 512 << 20;
/// Bytes of the cells.
pub const CELLS_BYTES: u32 = 512 << 20;

const _: () = assert!(size_of::<ReturnEntry>() == (SLOT_SCALE * 8) as usize);
const _: () = assert!(RETURNS + (SLOT_MASK + 8) * SLOT_SCALE <= PATHS);
const _: () = assert!(PATHS + N_PATH_ENTRIES * size_of::<PathEntry>() as u32 <= CONTEXTS);
const _: () = assert!(CELLS as u64 + CELLS_BYTES as u64 == 1 << AREA_BITS);
