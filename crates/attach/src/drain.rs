//! Reads samples out of the memory of a process.
//!
//! Each thread area is a ring of segments. The producer fills them in order, except that it takes
//! the last one again if that has been freed meanwhile; the agent reads them in the same order,
//! oldest first, frees those that are closed and read to the end, and remembers how far it has read
//! the open one. What `committed` covers is final, so it is read without asking the thread.
//!
//! Nothing in the memory can be believed. A sample's header is copied out first, checked against
//! the segment and against itself, and only then the rest is copied; what the caller gets is in the
//! agent's own memory. A stream that does not make sense is counted, and the rest of what is
//! committed in that segment is dropped; the next sample after that is tried again.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::sample::{EndReason, Outcome, SampleHeader};
use wire::thread::{MAX_THREADS, N_SEGMENTS, SEGMENT_BYTES, segment_state, thread_state};

use crate::area::{Area, Arena, segment_start};

/// One sample, in the agent's own memory.
#[derive(Debug, Clone, Copy)]
pub struct SampleRef<'a> {
    /// The fixed part. Sizes in it are right, `outcome` and `end_reason` are numbers that exist.
    pub header: SampleHeader,
    /// The stack from the stack pointer upwards.
    pub stack: &'a [u8],
    /// Block records in the order in which blocks were reached.
    pub records: &'a [u32],
}

/// What reading the streams of a process found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Samples handed on.
    pub samples: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments given back to the process.
    pub freed_segments: u64,
    /// Times that a stream did not make sense and the rest of a segment was dropped.
    pub bad_streams: u64,
    /// Of the samples, those of bursts that had not been committed when the process died.
    pub salvaged: u64,
}

const HEADER_BYTES: u64 = size_of::<SampleHeader>() as u64;
const HEADER_WORDS: usize = size_of::<SampleHeader>() / 8;

/// How far the streams of one process have been read.
#[derive(Debug)]
pub(crate) struct Reader {
    areas: Vec<Progress>,
    stack: Vec<u8>,
    records: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Bytes read of each segment.
    read: [u32; N_SEGMENTS],
}

impl Reader {
    pub(crate) fn new() -> Reader {
        Reader { areas: vec![Progress::default(); MAX_THREADS], stack: Vec::new(), records: Vec::new() }
    }

    /// Reads all that is committed in the first `n_areas` areas.
    pub(crate) fn drain(&mut self, arena: &Arena, n_areas: u32, sink: &mut dyn FnMut(SampleRef<'_>)) -> Drained {
        let mut drained = Drained::default();
        for (index, area) in arena.areas(n_areas).enumerate() {
            if area.is_initialized() {
                self.drain_area(index, area, &mut drained, sink);
            }
        }
        drained
    }

    /// The same, and then the uncommitted sample of each area. For a process that runs no more.
    pub(crate) fn salvage(&mut self, arena: &Arena, n_areas: u32, sink: &mut dyn FnMut(SampleRef<'_>)) -> Drained {
        let mut drained = self.drain(arena, n_areas, sink);
        for area in arena.areas(n_areas).filter(Area::is_initialized) {
            if let Some(sample) = self.unfinished(area) {
                drained.salvaged += 1;
                drained.pass_on(&sample, sink);
            }
        }
        drained
    }

    fn drain_area(&mut self, index: usize, area: Area<'_>, drained: &mut Drained, sink: &mut dyn FnMut(SampleRef<'_>)) {
        for (segment, state) in oldest_first(area) {
            if state == segment_state::FREE {
                continue;
            }
            self.drain_segment(index, area, segment, drained, sink);
            if state != segment_state::CLOSED {
                break;
            }
            area.committed(segment).store(0, Ordering::Relaxed);
            area.segment_state(segment).store(segment_state::FREE, Ordering::Release);
            self.areas[index].read[segment] = 0;
            drained.freed_segments += 1;
        }
    }

    fn drain_segment(
        &mut self,
        index: usize,
        area: Area<'_>,
        segment: usize,
        drained: &mut Drained,
        sink: &mut dyn FnMut(SampleRef<'_>),
    ) {
        let committed = area.committed(segment).load(Ordering::Acquire);
        let mut at = self.areas[index].read[segment];
        if u64::from(committed) > SEGMENT_BYTES || committed < at {
            drained.bad_streams += 1;
            self.areas[index].read[segment] = committed.min(SEGMENT_BYTES as u32);
            return;
        }
        while at < committed {
            let Some(sample) = self.sample(area, segment, at.into(), committed.into()) else {
                drained.bad_streams += 1;
                break;
            };
            at += sample.header.size;
            drained.pass_on(&sample, sink);
        }
        self.areas[index].read[segment] = committed;
    }

    /// Returns the sample at an offset in a segment, if it makes sense and ends at or before `end`.
    fn sample(&mut self, area: Area<'_>, segment: usize, at: u64, end: u64) -> Option<SampleRef<'_>> {
        let header = read_header(area, segment, at)?;
        let is_known = Outcome::from_u8(header.outcome).is_some() && EndReason::from_u8(header.end_reason).is_some();
        if !is_known || body_bytes(&header)? != u64::from(header.size) || at + u64::from(header.size) > end {
            return None;
        }
        self.copy_body(area, segment, at, header)
    }

    /// Returns the sample that a thread was still writing.
    fn unfinished(&mut self, area: Area<'_>) -> Option<SampleRef<'_>> {
        let state = area.state();
        let segment = area.current_segment() as usize;
        if !matches!(state, thread_state::BURST | thread_state::ENDED) || segment >= N_SEGMENTS {
            return None;
        }
        let at = u64::from(area.committed(segment).load(Ordering::Acquire));
        let mut header = read_header(area, segment, at)?;
        if header.outcome != Outcome::Burst as u8 {
            return None;
        }
        let records_at = at.checked_add(HEADER_BYTES)?.checked_add(header.stack_bytes.into())?;
        let cursor = area.cursor().checked_sub(segment_start(segment)).filter(|&cursor| cursor <= SEGMENT_BYTES)?;
        header.n_records = u32::try_from(cursor.checked_sub(records_at)? / 4).ok()?;
        header.size = u32::try_from(body_bytes(&header)?).ok()?;
        let end = area.unfinished();
        header.checks_left = end.checks_left.min(header.checks_planned);
        header.n_system_calls = end.n_system_calls;
        header.system_call_cycles = end.system_call_cycles;
        if state == thread_state::ENDED {
            let reason = u8::try_from(end.end_reason).ok().and_then(EndReason::from_u8)?;
            (header.end_reason, header.end_tsc, header.end_pc) = (reason as u8, end.end_tsc, end.end_pc);
        } else {
            (header.end_reason, header.end_tsc, header.end_pc) = (EndReason::Died as u8, 0, 0);
        }
        self.copy_body(area, segment, at, header)
    }

    fn copy_body(&mut self, area: Area<'_>, segment: usize, at: u64, header: SampleHeader) -> Option<SampleRef<'_>> {
        let start = at + HEADER_BYTES;
        let records_at = start + u64::from(header.stack_bytes);
        let records_end = (records_at + 4 * u64::from(header.n_records)).next_multiple_of(8);
        let stack = area.segment_words(segment, start..records_at)?;
        let records = area.segment_words(segment, records_at..records_end)?;
        // Both are long: whole words are copied, and no length is looked at for each.
        self.stack.resize(8 * stack.len(), 0);
        for (bytes, word) in self.stack.chunks_exact_mut(8).zip(stack) {
            bytes.copy_from_slice(&load(word).to_le_bytes());
        }
        self.records.resize(2 * records.len(), 0);
        for (pair, word) in self.records.chunks_exact_mut(2).zip(records) {
            let word = load(word);
            pair.copy_from_slice(&[word as u32, (word >> 32) as u32]);
        }
        self.records.truncate(header.n_records as usize);
        Some(SampleRef { header, stack: &self.stack, records: &self.records })
    }
}

/// Segments and their states, in the order in which they were filled.
///
/// The producer goes round the ring and is at the current segment, which is therefore the last,
/// unless it is just going on: then the next one is open already. If it has gone on while the
/// states were read, they are read again; without segments being freed meanwhile it can do that
/// only so often.
fn oldest_first(area: Area<'_>) -> [(usize, u32); N_SEGMENTS] {
    let mut current = area.current_segment();
    for _ in 0..N_SEGMENTS {
        let segments = states_after(area, current);
        let current_now = area.current_segment();
        if current_now == current {
            return segments;
        }
        current = current_now;
    }
    states_after(area, current)
}

fn states_after(area: Area<'_>, current: u32) -> [(usize, u32); N_SEGMENTS] {
    let mut segments = std::array::from_fn(|distance| {
        let segment = (current as usize % N_SEGMENTS + 1 + distance) % N_SEGMENTS;
        (segment, area.segment_state(segment).load(Ordering::Acquire))
    });
    if let Some(open) = segments.iter().position(|&(_, state)| state == segment_state::ACTIVE) {
        segments.rotate_left((open + 1) % N_SEGMENTS);
    }
    segments
}

impl Drained {
    fn pass_on(&mut self, sample: &SampleRef<'_>, sink: &mut dyn FnMut(SampleRef<'_>)) {
        self.samples += 1;
        self.bytes += u64::from(sample.header.size);
        sink(*sample);
    }
}

/// Bytes of a sample with these parts, if they make sense.
fn body_bytes(header: &SampleHeader) -> Option<u64> {
    let parts = HEADER_BYTES + u64::from(header.stack_bytes) + 4 * u64::from(header.n_records);
    (header.stack_bytes.is_multiple_of(8) && parts <= SEGMENT_BYTES).then_some(parts.next_multiple_of(8))
}

const _: () = assert!(offset_of!(SampleHeader, outcome) == 16);
const _: () = assert!(offset_of!(SampleHeader, tick_tsc) == 40);
const _: () = assert!(offset_of!(SampleHeader, registers) == 96);

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

fn read_header(area: Area<'_>, segment: usize, at: u64) -> Option<SampleHeader> {
    let words = area.segment_words(segment, at..at.checked_add(HEADER_BYTES)?)?;
    let words: &[AtomicU64; HEADER_WORDS] = words.try_into().ok()?;
    let words = words.each_ref().map(load);
    let low = |index: usize| words[index] as u32;
    let high = |index: usize| (words[index] >> 32) as u32;
    let [outcome, end_reason, outer_low, outer_high, ..] = words[2].to_le_bytes();
    Some(SampleHeader {
        size: low(0),
        stack_bytes: high(0),
        n_records: low(1),
        tid: high(1),
        outcome,
        end_reason,
        outer_words: u16::from_le_bytes([outer_low, outer_high]),
        overrun: high(2),
        checks_planned: low(3),
        checks_left: high(3),
        checks_to_skip: low(4),
        n_system_calls: high(4),
        tick_tsc: words[5],
        resume_tsc: words[6],
        end_tsc: words[7],
        system_call_cycles: words[8],
        cpu_ns: words[9],
        end_pc: words[10],
        outer_stack: words[11],
        registers: std::array::from_fn(|register| words[12 + register]),
    })
}

#[cfg(test)]
mod tests;
