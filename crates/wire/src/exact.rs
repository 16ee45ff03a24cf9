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
//!   8 MiB      return table
//!   16 MiB     frames of callers
//!   64 MiB     path table: counts of paths by key, open addressing
//!   128 MiB    calling contexts
//!   512 MiB    cells: counters of 8 bytes, the agent gives each module a range
//! ```
//!
//! An area is never cleared: the next thread that gets it goes on counting. The totals of a process are the sums over its areas, and no
//! counter is ever shared by two threads at a time.
//!
//! **Return table.** A return in a copy finds the original return address on the stack, and needs the copy of the return site. The table is a
//! cache of that, chosen by the low bits of the return address ([`ReturnEntry`]); what is not there is looked up in the map, where the entry of
//! the last byte of a call is the offset of what comes behind it (an address that nothing else can go to).
//!
//! **Frames.** Where probes keep something for the present activation of a function, a call leaves it in the entry that its stack pointer chooses,
//! and takes it back when it has returned. So `longjmp`, exceptions and switches of stacks need no care: whoever comes back to a stack pointer finds
//! what the last call from there left, and the key says whether it is that one.

/// Logarithm of the bytes of a thread area in exact mode.
pub const AREA_BITS: u32 = 30;
/// Thread areas in an arena in exact mode.
pub const MAX_THREADS: usize = 256;

/// Offset of the return table in the thread area.
pub const RETURNS: u32 = 8 << 20;
/// Entries of the return table: one for each value of the low 16 bits of a return address.
pub const N_RETURNS: u32 = 1 << 16;

/// An entry of the return table, in one word, so that it is written at once: the return address without its low 16 bits, and how far from
/// it the copy of the return site is, as a signed number, in the upper half. Zero: nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnEntry(pub u64);

impl ReturnEntry {
    /// The address to which the entry with this index sends returns; `None` if it is empty.
    #[must_use]
    pub const fn twin(self, index: u64) -> Option<u64> {
        if self.0 == 0 {
            return None;
        }
        let address = (self.0 & 0xffff_ffff) << 16 | index;
        Some(address.wrapping_add_signed(self.0 as i64 >> 32))
    }
}

/// Offset of the frames in the thread area.
pub const FRAMES: u32 = 16 << 20;
/// Bits of the stack pointer that choose the entry; it is a multiple of 8.
pub const FRAME_MASK: u32 = 0x7f_fff8;
/// What the masked stack pointer is multiplied by to get the offset of the entry.
pub const FRAME_SCALE: u32 = 2;

/// What a call leaves for when it has returned.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameEntry {
    /// The stack pointer before the call.
    pub key: u64,
    /// The caller's `frame` ([`crate::thread::ThreadHeader::frame`]).
    pub frame: u64,
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

const _: () = assert!(RETURNS + N_RETURNS * size_of::<ReturnEntry>() as u32 <= FRAMES);
const _: () = assert!(size_of::<FrameEntry>() == (FRAME_SCALE * 8) as usize);
const _: () = assert!(FRAMES + (FRAME_MASK + 8) * FRAME_SCALE <= PATHS);
const _: () = assert!(PATHS + N_PATH_ENTRIES * size_of::<PathEntry>() as u32 <= CONTEXTS);
const _: () = assert!(CELLS as u64 + CELLS_BYTES as u64 == 1 << AREA_BITS);
