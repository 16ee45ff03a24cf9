//! The arena of a process: one area per thread, seen as words at offsets of the layout.

use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wire::thread::{AREA_BYTES, FIRST_SEGMENT, MAGIC, MAX_THREADS, N_SEGMENTS, SEGMENT_BYTES, Segment, ThreadHeader};

use crate::error::{Result, Step};
use crate::layout::ARENA_BYTES;
use crate::memory::{SharedMemory, Use};

/// The areas of all threads.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: SharedMemory,
}

/// The area of one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area<'a> {
    memory: &'a SharedMemory,
    start: u64,
}

/// The word of a field of [`ThreadHeader`].
macro_rules! field32 {
    ($area:expr, $field:ident) => {
        $area.memory.word32($area.start + offset_of!(ThreadHeader, $field) as u64)
    };
}
macro_rules! field64 {
    ($area:expr, $field:ident) => {
        $area.memory.word64($area.start + offset_of!(ThreadHeader, $field) as u64)
    };
}

impl Arena {
    pub(crate) fn create() -> Result<(Arena, OwnedFd)> {
        let (memory, file) = SharedMemory::create("strobe-arena", ARENA_BYTES, Use::ReadWrite).step("arena")?;
        Ok((Arena { memory }, file))
    }

    /// The first `n` areas, or all if there are fewer.
    pub(crate) fn areas(&self, n: u32) -> impl Iterator<Item = Area<'_>> {
        let n = (n as usize).min(MAX_THREADS) as u64;
        (0..n).map(|index| Area { memory: &self.memory, start: index * AREA_BYTES })
    }
}

impl<'a> Area<'a> {
    /// Whether a thread has ever set it up.
    pub(crate) fn is_initialized(&self) -> bool {
        field64!(self, magic).load(Ordering::Acquire) == MAGIC
    }

    pub(crate) fn state(&self) -> u32 {
        field32!(self, state).load(Ordering::Acquire)
    }

    pub(crate) fn current_segment(&self) -> u32 {
        field32!(self, current_segment).load(Ordering::Acquire)
    }

    /// Next record, as an offset in the area; meaningless if the target wrote nonsense.
    pub(crate) fn cursor(&self) -> u64 {
        let header = field64!(self, self_address).load(Ordering::Relaxed);
        field64!(self, cursor).load(Ordering::Acquire).wrapping_sub(header)
    }

    pub(crate) fn segment_state(&self, index: usize) -> &'a AtomicU32 {
        self.memory.word32(self.segment_field(index) + offset_of!(Segment, state) as u64)
    }

    pub(crate) fn committed(&self, index: usize) -> &'a AtomicU32 {
        self.memory.word32(self.segment_field(index) + offset_of!(Segment, committed) as u64)
    }

    fn segment_field(&self, index: usize) -> u64 {
        debug_assert!(index < N_SEGMENTS);
        self.start + (offset_of!(ThreadHeader, segments) + index * size_of::<Segment>()) as u64
    }

    /// Words of a segment; `None` if the range leaves it.
    pub(crate) fn segment_words(&self, index: usize, bytes: Range<u64>) -> Option<&'a [AtomicU64]> {
        if bytes.end > SEGMENT_BYTES || index >= N_SEGMENTS {
            return None;
        }
        let start = self.start + segment_start(index);
        self.memory.words64(start + bytes.start..start + bytes.end)
    }

    /// What the thread header holds of a burst that has not been committed.
    pub(crate) fn unfinished(&self) -> Unfinished {
        let load32 = |word: &AtomicU32| word.load(Ordering::Relaxed);
        let load64 = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Unfinished {
            end_reason: load32(field32!(self, end_reason)),
            checks_left: load32(field32!(self, checks)),
            n_system_calls: load32(field32!(self, n_system_calls)),
            system_call_cycles: load64(field64!(self, system_call_cycles)),
            end_tsc: load64(field64!(self, end_tsc)),
            end_pc: load64(field64!(self, target)),
        }
    }

    /// Ticks, ticks in bursts, lost ticks and cycles in handlers.
    pub(crate) fn counts(&self) -> [u64; 4] {
        let words = [
            field64!(self, ticks),
            field64!(self, ticks_in_burst),
            field64!(self, lost_ticks),
            field64!(self, handler_cycles),
        ];
        words.map(|word| word.load(Ordering::Relaxed))
    }
}

/// The end of a burst, as far as it got.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unfinished {
    pub(crate) end_reason: u32,
    pub(crate) checks_left: u32,
    pub(crate) n_system_calls: u32,
    pub(crate) system_call_cycles: u64,
    pub(crate) end_tsc: u64,
    pub(crate) end_pc: u64,
}

/// Offset of a segment in its area.
pub(crate) fn segment_start(index: usize) -> u64 {
    FIRST_SEGMENT + index as u64 * SEGMENT_BYTES
}

#[cfg(test)]
impl Area<'_> {
    /// Lets a test play the runtime.
    pub(crate) fn header32(&self, offset: usize) -> &AtomicU32 {
        self.memory.word32(self.start + offset as u64)
    }

    /// The same, for 64 bits.
    pub(crate) fn header64(&self, offset: usize) -> &AtomicU64 {
        self.memory.word64(self.start + offset as u64)
    }
}
