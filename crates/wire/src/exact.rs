//! What exact mode adds to a process: threads that never leave the copies, and the counters that
//! copies keep.
//!
//! **Never leaving.** In exact mode a copy that cannot go on jumps to
//! [`crate::thread::Exact::gate`] instead of the original: the runtime's *gate*, with all registers
//! those of the program, the address where the program is in `target` and the reason in
//! `end_reason`. The gate makes the system call, waits for the agent to provide the missing copy,
//! or has the thread run natively for a while and counts that ([`crate::control::Exact`]).
//!
//! **Thread areas** are larger than those of bursts ([`AREA_BITS`]) and hold, at fixed offsets from
//! the header so that one displacement from `gs:` reaches them, what copies count into:
//!
//! ```text
//!   0          header
//!   7 MiB      lines in the simulated data cache
//!   16 MiB     frames of callers
//!   32 MiB     thread-exit records
//!   64 MiB     path table: counts of paths by key, open addressing; or the ring of the path trace
//!   132 MiB    calling contexts
//!   262 MiB    the metric of callers' paths, beside the frames
//!   270 MiB    the sites of callers' calls, beside the frames
//!   280 MiB    return table
//!   288 MiB    return table of checking copies
//!   320 MiB    the metric of paths, or sums of squares, beside the path table
//!   512 MiB    cells: counters of 8 bytes, the agent gives each module a range
//! ```
//!
//! An area is never cleared: the next thread that gets it goes on counting. The totals of a process
//! are the sums over its areas, and no counter is ever shared by two threads at a time.
//!
//! **Return table.** A return in a copy finds the original return address on the stack, and needs
//! the copy of the return site. The table is a cache of that, chosen by bits of the return address
//! ([`ReturnEntry`]); what is not there is looked up in the map, where the entry of the last byte
//! of a call is the offset of what comes behind it (an address that nothing else can go to).
//!
//! **Frames.** Where probes keep something for the present activation of a function, a call leaves
//! it in the entry that its stack pointer chooses, and takes it back when it has returned. So
//! `longjmp`, exceptions and switches of stacks need no care: whoever comes back to a stack pointer
//! finds what the last call from there left, and key and *site* say whether it is that one. The key
//! alone does not: a call that was made natively leaves nothing, and its return into a copy finds
//! at the same stack pointer what another function's call once left, whose path is none of this
//! function's.
//!
//! **Contexts.** The calling context tree is a hash table: an entry stands for a function called
//! from a context, and the context is the place of the entry. A search looks at one place of the
//! table's front, and if another entry has taken that, behind it. The thread's present context is
//! the upper half of `frame`. A function that is entered looks for its entry, counts there and
//! takes the context from it; if there is none yet, the gate makes one. Recursion is an entry whose
//! context is that of an entry around it.
//!
//! **Callees.** An indirect call counts whom it calls in the path table, too: by a number of its
//! own, with [`CALLEE`] set, in place of the function's, and the lower half of the target's address
//! in place of the path's.
//!
//! **Metric.** What is added up on paths or in contexts is read from a counter that only goes up:
//! that of the processor's time stamps, or [`crate::thread::DataCache::misses`], which counts the
//! misses of a simulated data cache. The cache is the thread's own. A set has the addresses of its
//! lines in the order of their last use, in words; 0 is no line.
//!
//! **Sampled paths** (PEP). Copies keep the path register, but count a path only while
//! `samples_wanted` is not zero. A tick sets it to the number of paths to sample, and copies count
//! down; [`Squares`] has what it takes to say how far the counts may be off.
//!
//! **Counted trigger.** A thread alternates between two versions of the copies
//! ([`crate::clusters::Version`]): [`crate::thread::Burst::checks`] goes down at every check, and
//! the check that makes it 0 takes the thread to the other version, with as many checks as
//! [`crate::thread::Trigger`] says. The instrumented version appends every block to the buffer of
//! words ([`crate::path_trace`]). Each version has a return table.
//!
//! **Thread exits.** Functions that are still active when a thread ends are on paths that will
//! never end. A thread that ends in order leaves a record ([`ThreadExit`]) behind those of its
//! predecessors, with what it takes to find these functions: where it is, its stack, and the frames
//! that the stack may hold.

/// Logarithm of the bytes of a thread area in exact mode.
pub const AREA_BITS: u32 = 30;
/// Thread areas in an arena in exact mode.
pub const MAX_THREADS: usize = 256;

/// Offset of the return table in the thread area.
pub const RETURNS: u32 = 280 << 20;
/// Offset of the return table of checking copies.
pub const CHECKING_RETURNS: u32 = 288 << 20;
/// Entries of the return table.
pub const N_RETURNS: u32 = 1 << 20;
/// The return address, exclusive-or its upper half at [`RETURN_SHIFT`], in these bits chooses the
/// entry. Code that is near to each other has entries that are, so that they share cache lines and
/// pages; and entry and lower half together tell the whole address, which has 47 bits unless a
/// program asks the kernel for more. Direct calls have entries of their own within 4 MiB of code:
/// where two that alternate share one, every return is a search.
pub const RETURN_MASK: u32 = (N_RETURNS - 1) << 2;
/// By how much the return address goes down to bring its upper half to where the mask begins.
pub const RETURN_SHIFT: u32 = 32 - 2;
/// What the masked address is multiplied by to get the offset of the entry.
pub const RETURN_SCALE: u32 = 2;

/// An entry of the return table, in one word, so that it is written at once: the lower half of the
/// return address, and how far from the address the copy of the return site is, as a signed number,
/// in the upper half. Zero: nothing. (An address whose lower half is zero may take that for its
/// own: it returns to the original then.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnEntry(pub u64);

impl ReturnEntry {
    /// Returns the address to which the entry with this index sends returns; `None` if it is empty.
    #[must_use]
    pub const fn twin(self, index: u64) -> Option<u64> {
        if self.0 == 0 {
            return None;
        }
        let low = self.0 & 0xffff_ffff;
        let address = (index ^ low >> 2 & (N_RETURNS - 1) as u64) << 32 | low;
        Some(address.wrapping_add_signed(self.0 as i64 >> 32))
    }
}

const _: () = {
    let address: u64 = 0x7f12_3456_789b;
    let index = ((address >> RETURN_SHIFT ^ address) & RETURN_MASK as u64) >> 2;
    let Some(twin) = ReturnEntry(5 << 32 | address & 0xffff_ffff).twin(index) else { panic!() };
    assert!(twin == address + 5);
};

/// Offset of the frames in the thread area.
pub const FRAMES: u32 = 16 << 20;
/// Bits of the stack pointer that choose the entry; it is a multiple of 8.
pub const FRAME_MASK: u32 = 0x7f_fff8;
/// What the masked stack pointer is multiplied by to get the offset of the entry.
pub const FRAME_SCALE: u32 = 2;

/// A frame: what the caller keeps in the table of frames for when its call has returned.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CallerFrame {
    /// The stack pointer before the call.
    pub key: u64,
    /// The caller's `frame` ([`crate::thread::Exact::frame`]).
    pub frame: u64,
}

/// Offset of the thread-exit records in the thread area: a word with the number of bytes of all,
/// itself included, then each record.
pub const THREAD_EXITS: u32 = 32 << 20;
/// Most bytes of thread-exit records.
pub const THREAD_EXITS_BYTES: u32 = 32 << 20;

/// The record of a thread that ends. Behind it come the words of its stack, from the stack pointer
/// on, and then `n_frames` [`CallerFrame`]s whose keys are in that stack, ascending. Only the stack
/// tells whether a frame is in use or was left by a call that has returned.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadExit {
    /// The instruction that ends the thread.
    pub rip: u64,
    /// Its stack pointer.
    pub rsp: u64,
    /// Its frame pointer.
    pub rbp: u64,
    /// Its `frame` ([`crate::thread::Exact::frame`]).
    pub frame: u64,
    /// Words of stack.
    pub n_stack_words: u64,
    /// Frames.
    pub n_frames: u64,
    /// Its id.
    pub thread: u64,
}

impl ThreadExit {
    /// Words of a record without stack and frames.
    pub const WORDS: usize = size_of::<ThreadExit>() / 8;
}

/// Offset of the path table in the thread area.
pub const PATHS: u32 = 64 << 20;
/// Entries of the path table but for its front, a power of two.
pub const N_PATH_ENTRIES: u32 = 1 << 22;
/// Entries of its *front*, behind the others. A path looks at one of them first, and only if
/// another path has taken it, among the others. The front is so small that processors have at hand
/// what is used of it, while a place among millions is in no cache.
pub const N_FRONT_PATHS: u32 = 1 << 17;
/// Offset of the front in the path table, a power of two.
pub const FRONT_PATHS: u32 = N_PATH_ENTRIES * size_of::<PathEntry>() as u32;
/// Bytes of the path table.
pub const PATHS_BYTES: u32 = FRONT_PATHS + N_FRONT_PATHS * size_of::<PathEntry>() as u32;

/// Set in the upper half of the key of an entry that counts calls of a computed target: the rest of
/// that half is the number of the call, and the lower half is that of the target's address.
pub const CALLEE: u32 = 1 << 31;

/// Entries that may be in use; beyond that, paths that are not in the table are counted as lost.
pub const MAX_PATH_ENTRIES: u32 = N_PATH_ENTRIES / 4 * 3;

/// An entry of the path table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PathEntry {
    /// What is counted; 0: nothing, the entry is free.
    pub key: u64,
    /// How often it was counted.
    pub count: u64,
}

/// Offset of the calling contexts in the thread area.
pub const CONTEXTS: u32 = 132 << 20;
/// Entries of the table of contexts but for its front, a power of two.
pub const N_CONTEXT_ENTRIES: u32 = 1 << 22;
/// Entries that may be in use; beyond that, calls are counted by function, as of [`LOST_CONTEXT`].
pub const MAX_CONTEXT_ENTRIES: u32 = N_CONTEXT_ENTRIES / 2;
/// Entries of its front, which has the purpose of the path table's.
pub const N_FRONT_CONTEXTS: u32 = 1 << 16;
/// Offset of the front in the table of contexts.
pub const FRONT_CONTEXTS: u32 = N_CONTEXT_ENTRIES * CONTEXT_BYTES;
/// Bytes of the table of contexts.
pub const CONTEXTS_BYTES: u32 = FRONT_CONTEXTS + N_FRONT_CONTEXTS * CONTEXT_BYTES;
/// What the key of a context is multiplied by to get its place in the front, from bit 32 of the
/// product on.
pub const CONTEXT_FRONT_FACTOR: i32 = 0x5851_f42d;
/// What the key of a context is multiplied by to get its place in the table, in the upper bits of
/// the product.
pub const CONTEXT_HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A function as called from a context. A context *is* the place of its entry: the offset in the
/// table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ContextEntry {
    /// The number of the function in the upper half, the caller's context in the lower one; 0: the
    /// entry is free.
    pub key: u64,
    /// Calls.
    pub count: u64,
    /// The context that the function then runs in: this one, or an enclosing one of the same
    /// function.
    pub context: u32,
    /// Zero.
    pub reserved: u32,
    /// What the metric's counter has gone up by in this context, if there is one.
    pub metric: u64,
}

/// Bytes of a [`ContextEntry`].
pub const CONTEXT_BYTES: u32 = size_of::<ContextEntry>() as u32;
/// The context outside of all functions: of a thread's first function, and of signal handlers.
pub const ROOT_CONTEXT: u32 = 0;
/// The context of calls that the table has no room for.
pub const LOST_CONTEXT: u32 = CONTEXT_BYTES;
/// Keys of [`ROOT_CONTEXT`] and [`LOST_CONTEXT`]; no function has their numbers.
pub const SPECIAL_KEYS: [u64; 2] = [0xffff_ffff << 32, 0xffff_fffe << 32];

/// Returns the place in the front of the table of contexts where a key is looked for first.
#[must_use]
pub const fn front_context_place(key: u64) -> u32 {
    let bits = key.wrapping_mul(CONTEXT_FRONT_FACTOR as u64) >> 32;
    FRONT_CONTEXTS + (bits as u32 & (N_FRONT_CONTEXTS - 1)) * CONTEXT_BYTES
}

/// Returns the place in the table of contexts where the search starts for a key that is not in the
/// front.
#[must_use]
pub const fn context_place(key: u64) -> u32 {
    let bits = key.wrapping_mul(CONTEXT_HASH_FACTOR) >> (64 - N_CONTEXT_ENTRIES.ilog2());
    bits as u32 * CONTEXT_BYTES
}

/// Returns the place that a search looks at next.
#[must_use]
pub const fn next_context_place(place: u32) -> u32 {
    (place + CONTEXT_BYTES) & (N_CONTEXT_ENTRIES * CONTEXT_BYTES - 1)
}
/// Offset of the metric on callers' paths: a word for every entry of the frames, chosen in the same
/// way.
pub const FRAME_METRIC: u32 = 262 << 20;
/// Offset of the sites of callers' calls: in the lower half of a word for every entry of the
/// frames, the return address of the call that left it, as a block record has an address
/// ([`crate::sample::RECORD_ADDRESS_BITS`]).
pub const FRAME_SITES: u32 = 270 << 20;
/// Offset of the metric of paths: of the path in an entry of the path table, in the first word of
/// 16 bytes at the same distance from here.
pub const PATH_METRIC: u32 = 320 << 20;

/// Offset of the simulated data cache in the thread area.
pub const CACHE: u32 = 7 << 20;
/// Most bytes of the simulated data cache: a word for every line.
pub const CACHE_BYTES: u32 = 1 << 20;

/// The sums of squares of a path, which are in the place of its metric if paths are sampled. The
/// samples of one tick depend on each other, those of different ticks hardly; so the variance of a
/// count follows from the sum, over ticks, of the squares of the counts at each. It grows by `2 k +
/// 1` with the sample that follows `k` others at its tick.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Squares {
    /// The sum of squares.
    pub sum: u64,
    /// The last tick that sampled the path in the upper half, as in
    /// [`crate::thread::PathSampling::sampling_tick`]; by how much the next sample at it would make
    /// the sum grow in the lower one.
    pub last: u64,
}

/// Offset of the cells in the thread area.
pub const CELLS: u32 = 512 << 20;
/// Bytes of the cells.
pub const CELLS_BYTES: u32 = 512 << 20;

const _: () = assert!(size_of::<ReturnEntry>() == (RETURN_SCALE * 4) as usize);
const _: () = assert!(RETURNS + N_RETURNS * size_of::<ReturnEntry>() as u32 <= CHECKING_RETURNS);
const _: () = assert!(CHECKING_RETURNS + N_RETURNS * size_of::<ReturnEntry>() as u32 <= PATH_METRIC);
const _: () = assert!(size_of::<CallerFrame>() == (FRAME_SCALE * 8) as usize);
const _: () = assert!(FRAMES + (FRAME_MASK + 8) * FRAME_SCALE <= THREAD_EXITS);
const _: () = assert!(size_of::<ThreadExit>() == 56);
const _: () = assert!(THREAD_EXITS + THREAD_EXITS_BYTES <= PATHS);
const _: () = assert!(PATHS + PATHS_BYTES <= CONTEXTS);
const _: () = assert!(CONTEXT_BYTES == 32);
const _: () = assert!(CONTEXTS + CONTEXTS_BYTES <= FRAME_METRIC);
const _: () = assert!(FRAME_METRIC + FRAME_MASK + 8 <= FRAME_SITES);
const _: () = assert!(FRAME_SITES + FRAME_MASK + 8 <= RETURNS);
const _: () = assert!(size_of::<Squares>() == size_of::<PathEntry>());
const _: () = assert!(PATH_METRIC + PATHS_BYTES <= CELLS);
const _: () = assert!(CACHE + CACHE_BYTES <= FRAMES);
const _: () = assert!(CELLS as u64 + CELLS_BYTES as u64 == 1 << AREA_BITS);
