//! The arena of a process: one area per thread, seen as words at offsets of the layout.

use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wire::exact::{self, ReturnEntry};
use wire::thread::{AREA_BYTES, FIRST_SEGMENT, MAGIC, MAX_THREADS, N_SEGMENTS, SEGMENT_BYTES, Segment, ThreadHeader};

use crate::error::{Result, Step};
use crate::memory::{SharedMemory, Use};

/// How many areas an arena has, and how large they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) area_bits: u32,
    pub(crate) n_areas: usize,
}

impl Shape {
    /// For bursts.
    pub(crate) const BURSTS: Shape = Shape { area_bits: AREA_BYTES.ilog2(), n_areas: MAX_THREADS };
    /// For exact mode, where an area holds counters.
    pub(crate) const EXACT: Shape = Shape { area_bits: exact::AREA_BITS, n_areas: exact::MAX_THREADS };

    pub(crate) fn area_bytes(self) -> u64 {
        1 << self.area_bits
    }

    pub(crate) fn bytes(self) -> u64 {
        self.n_areas as u64 * self.area_bytes()
    }
}

/// The areas of all threads.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: SharedMemory,
    /// The same memory, to ask which of it was ever touched; only where there are counters.
    file: Option<OwnedFd>,
    shape: Shape,
}

/// The area of one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area<'a> {
    memory: &'a SharedMemory,
    start: u64,
}

/// The word of a field of [`ThreadHeader`].
macro_rules! field32 {
    ($area:expr, $part:ident.$field:ident) => {
        $area.memory.word32($area.start + offset_of!(ThreadHeader, $part.$field) as u64)
    };
}
macro_rules! field64 {
    ($area:expr, $part:ident.$field:ident) => {
        $area.memory.word64($area.start + offset_of!(ThreadHeader, $part.$field) as u64)
    };
}

impl Arena {
    pub(crate) fn create(shape: Shape) -> Result<(Arena, OwnedFd)> {
        let (memory, file) = SharedMemory::create("strobe-arena", shape.bytes(), Use::ReadWrite).step("arena")?;
        let own = if shape == Shape::EXACT { Some(file.try_clone().step("arena")?) } else { None };
        Ok((Arena { memory, file: own, shape }, file))
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Hands on the words that are not zero in a range of every area, with their distance from the
    /// start of the range in bytes.
    pub(crate) fn for_each_word(&self, n_areas: u32, range: Range<u64>, sink: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.visit(n_areas, range, &mut |at, word| sink(at, word.load(Ordering::Relaxed)))
    }

    /// The same for one area.
    pub(crate) fn for_each_word_of(&self, index: u32, range: Range<u64>, sink: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.visit_one(u64::from(index), range, &mut |at, word| sink(at, word.load(Ordering::Relaxed)))
    }

    /// Sets words that are not zero to zero, if the caller wants it.
    pub(crate) fn clear_words(
        &self,
        n_areas: u32,
        range: Range<u64>,
        is_wanted: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        self.visit(n_areas, range, &mut |at, word| {
            if is_wanted(at) {
                word.store(0, Ordering::Relaxed);
            }
        })
    }

    /// Voids the entries of return tables whose twins are gone.
    pub(crate) fn forget_returns(&self, n_areas: u32, is_gone: &dyn Fn(u64) -> bool) -> Result<()> {
        [exact::RETURNS, exact::CHECKING_RETURNS].into_iter().try_for_each(|start| {
            let start = u64::from(start);
            let range = start..start + u64::from(exact::N_RETURNS) * size_of::<ReturnEntry>() as u64;
            self.visit(n_areas, range, &mut |at, word| {
                let twin = ReturnEntry(word.load(Ordering::Relaxed)).twin(at / size_of::<ReturnEntry>() as u64);
                if twin.is_some_and(is_gone) {
                    word.store(0, Ordering::Relaxed);
                }
            })
        })
    }

    /// Visits the words that are not zero. Memory that nobody has touched is skipped: looking at it
    /// would fill it.
    fn visit(&self, n_areas: u32, range: Range<u64>, sink: &mut dyn FnMut(u64, &AtomicU64)) -> Result<()> {
        let n_areas = u64::from(n_areas).min(self.shape.n_areas as u64);
        (0..n_areas).try_for_each(|index| self.visit_one(index, range.clone(), sink))
    }

    fn visit_one(&self, index: u64, range: Range<u64>, sink: &mut dyn FnMut(u64, &AtomicU64)) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let start = index * self.shape.area_bytes() + range.start;
        let end = index * self.shape.area_bytes() + range.end;
        let mut at = start;
        while let Some(data) = next_extent(file, at, end).step("arena")? {
            let words = self.memory.words64(data.clone()).unwrap_or_default();
            for (number, word) in words.iter().enumerate() {
                if word.load(Ordering::Relaxed) != 0 {
                    sink(data.start + number as u64 * 8 - start, word);
                }
            }
            at = data.end;
        }
        Ok(())
    }

    /// Returns the first `n` areas, or all if there are fewer.
    pub(crate) fn areas(&self, n: u32) -> impl Iterator<Item = Area<'_>> {
        let n = (n as usize).min(self.shape.n_areas) as u64;
        (0..n).map(|index| Area { memory: &self.memory, start: index * self.shape.area_bytes() })
    }
}

impl<'a> Area<'a> {
    /// Returns whether a thread has ever set it up.
    pub(crate) fn is_initialized(&self) -> bool {
        field64!(self, identity.magic).load(Ordering::Acquire) == MAGIC
    }

    pub(crate) fn state(&self) -> u32 {
        field32!(self, burst.state).load(Ordering::Acquire)
    }

    pub(crate) fn current_segment(&self) -> u32 {
        field32!(self, stream.current_segment).load(Ordering::Acquire)
    }

    /// Next record, as an offset in the area; meaningless if the target wrote nonsense.
    pub(crate) fn cursor(&self) -> u64 {
        let header = field64!(self, identity.self_address).load(Ordering::Relaxed);
        field64!(self, burst.cursor).load(Ordering::Acquire).wrapping_sub(header)
    }

    pub(crate) fn segment_state(&self, index: usize) -> &'a AtomicU32 {
        self.memory.word32(self.segment_field(index) + offset_of!(Segment, state) as u64)
    }

    pub(crate) fn committed(&self, index: usize) -> &'a AtomicU32 {
        self.memory.word32(self.segment_field(index) + offset_of!(Segment, committed) as u64)
    }

    fn segment_field(&self, index: usize) -> u64 {
        debug_assert!(index < N_SEGMENTS);
        self.start + (offset_of!(ThreadHeader, stream.segments) + index * size_of::<Segment>()) as u64
    }

    /// Words of a segment; `None` if the range leaves it.
    pub(crate) fn segment_words(&self, index: usize, bytes: Range<u64>) -> Option<&'a [AtomicU64]> {
        if bytes.end > SEGMENT_BYTES || index >= N_SEGMENTS {
            return None;
        }
        let start = self.start + segment_start(index);
        self.memory.words64(start + bytes.start..start + bytes.end)
    }

    /// Returns what the thread header holds of a burst that has not been committed.
    pub(crate) fn unfinished(&self) -> Unfinished {
        let load32 = |word: &AtomicU32| word.load(Ordering::Relaxed);
        let load64 = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Unfinished {
            end_reason: load32(field32!(self, burst.end_reason)),
            checks_left: load32(field32!(self, burst.checks)),
            n_system_calls: load32(field32!(self, burst.n_system_calls)),
            system_call_cycles: load64(field64!(self, burst.system_call_cycles)),
            end_tsc: load64(field64!(self, burst.end_tsc)),
            end_pc: load64(field64!(self, scratch.target)),
        }
    }

    /// Words of the part of the area where threads leave records when they end; fewer if the target
    /// wrote nonsense.
    pub(crate) fn thread_exits(&self) -> &'a [AtomicU64] {
        let start = self.start + u64::from(exact::THREAD_EXITS);
        let n_bytes = self.memory.word64(start).load(Ordering::Acquire).min(u64::from(exact::THREAD_EXITS_BYTES));
        self.memory.words64(start..start + n_bytes / 8 * 8).unwrap_or_default().get(1..).unwrap_or_default()
    }

    /// A word of the header, at an offset of the layout.
    pub(crate) fn header_word(&self, offset: usize) -> &'a AtomicU64 {
        self.memory.word64(self.start + offset as u64)
    }

    /// Words of the area; `None` if the range leaves the arena.
    pub(crate) fn words(&self, bytes: Range<u64>) -> Option<&'a [AtomicU64]> {
        self.memory.words64(self.start + bytes.start..self.start + bytes.end)
    }

    /// Path ends that found the path table full.
    pub(crate) fn n_lost_paths(&self) -> u64 {
        field64!(self, tables.lost_paths).load(Ordering::Relaxed)
    }

    pub(crate) fn n_cache_misses(&self) -> u64 {
        field64!(self, cache.misses).load(Ordering::Relaxed)
    }

    /// Ticks that wanted samples of paths.
    pub(crate) fn n_sampling_ticks(&self) -> u64 {
        field64!(self, path_sampling.sampling_tick).load(Ordering::Relaxed) >> 32
    }

    /// Ticks, ticks in bursts, lost ticks and cycles in handlers.
    pub(crate) fn counts(&self) -> [u64; 4] {
        let words = [
            field64!(self, ticks.delivered),
            field64!(self, ticks.in_burst),
            field64!(self, ticks.lost),
            field64!(self, ticks.handler_cycles),
        ];
        words.map(|word| word.load(Ordering::Relaxed))
    }
}

/// Returns the first memory between two offsets that has been touched.
fn next_extent(file: &OwnedFd, from: u64, end: u64) -> std::io::Result<Option<Range<u64>>> {
    use rustix::fs::SeekFrom;
    if from >= end {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) if start < end => start,
        Ok(_) | Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some(start..hole.min(end)))
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
