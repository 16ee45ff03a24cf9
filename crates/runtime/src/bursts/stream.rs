//! Writing the stream of samples of the calling thread's area; see [`wire::thread`] for the
//! protocol.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use wire::sample::{EndReason, SampleHeader};
use wire::thread::{FIRST_SEGMENT, LIMIT_SLACK, MIN_ROOM, N_SEGMENTS, SEGMENT_BYTES, segment_state, thread_state};

use crate::threads::area::Area;

/// Most bytes of stack in a sample: what fits besides a burst that just reaches the limit.
const MAX_STACK_BYTES: u64 = MIN_ROOM - LIMIT_SLACK - 64 * 1024;

/// A segment with this many bytes is left for the next one if that is free: the first use of a page
/// costs more than all the rest of a tick, so the stream stays on as few pages as the agent's
/// reading allows.
const EARLY_SWITCH: u32 = 96 << 10;

/// Room for a sample at the end of the stream.
pub struct Room {
    pub sample: *mut SampleHeader,
    /// End of the segment.
    pub end: u64,
}

impl Room {
    /// Returns where the stack goes, at most `wanted` bytes of it.
    pub fn stack(&self, wanted: u32) -> &'static mut [u8] {
        let bytes = u64::from(wanted & !7).min(MAX_STACK_BYTES);
        // SAFETY: `find_room` left at least `MIN_ROOM` bytes from `sample` on.
        unsafe { core::slice::from_raw_parts_mut(self.sample.add(1).cast(), bytes as usize) }
    }

    /// Returns where generated code has to stop.
    pub fn limit(&self) -> u64 {
        self.end - LIMIT_SLACK
    }
}

/// Finds room for a sample, in the next segment if this one is full.
pub fn find_room(area: &Area) -> Option<Room> {
    let header = area.header();
    let index = current_segment(area);
    let segment = &header.stream.segments[index];
    if segment.state.load(Acquire) == segment_state::ACTIVE {
        let room = room_in(area, index);
        let next_is_free = header.stream.segments[(index + 1) % N_SEGMENTS].state.load(Acquire) == segment_state::FREE;
        let is_used_enough = segment.committed.load(Relaxed) >= EARLY_SWITCH && next_is_free;
        if !is_used_enough && room.end - room.sample as u64 >= MIN_ROOM {
            return Some(room);
        }
        segment.state.store(segment_state::CLOSED, Release);
    }
    let next = if segment.state.load(Acquire) == segment_state::FREE { index } else { (index + 1) % N_SEGMENTS };
    let segment = &header.stream.segments[next];
    if segment.state.load(Acquire) != segment_state::FREE {
        return None;
    }
    segment.committed.store(0, Relaxed);
    segment.state.store(segment_state::ACTIVE, Release);
    header.stream.current_segment.store(next as u32, Release);
    Some(room_in(area, next))
}

fn current_segment(area: &Area) -> usize {
    area.header().stream.current_segment.load(Relaxed) as usize % N_SEGMENTS
}

fn room_in(area: &Area, index: usize) -> Room {
    let start = area.address() + FIRST_SEGMENT + index as u64 * SEGMENT_BYTES;
    let committed = u64::from(area.header().stream.segments[index].committed.load(Relaxed)).min(SEGMENT_BYTES);
    Room { sample: (start + committed) as *mut SampleHeader, end: start + SEGMENT_BYTES }
}

/// Commits the sample at the end of the stream.
pub fn commit(area: &Area, sample_bytes: u32) {
    let committed = &area.header().stream.segments[current_segment(area)].committed;
    committed.store(committed.load(Relaxed) + sample_bytes, Release);
}

/// How a burst ended.
pub struct End {
    pub reason: u8,
    pub tsc: u64,
    pub pc: u64,
}

/// Commits a burst that ended by itself.
pub fn commit_ended_burst(area: &Area) {
    let header = area.raw();
    // SAFETY: the area is the calling thread's, and its burst is over.
    let (tsc, pc) = unsafe { ((*header).burst.end_tsc, (*header).scratch.target) };
    let reason = area.header().burst.end_reason.load(Relaxed) as u8;
    commit_burst(area, &End { reason, tsc, pc });
}

/// Commits the burst that the thread is in, or was in until now; afterwards it runs natively.
pub fn commit_burst(area: &Area, end: &End) {
    let room = room_in(area, current_segment(area));
    let header = area.header();
    // SAFETY: the sample at the end of the stream was written by the tick that started the burst;
    // only this thread writes it.
    let size = unsafe {
        let sample = &mut *room.sample;
        let records = room.sample.add(1) as u64 + u64::from(sample.stack_bytes);
        let cursor = header.burst.cursor.load(Relaxed).clamp(records, room.end.max(records));
        sample.n_records = ((cursor - records) / 4) as u32;
        sample.checks_left = if end.reason == EndReason::Full as u8 {
            0
        } else {
            header.burst.checks.load(Relaxed).min(sample.checks_planned)
        };
        sample.end_reason = end.reason;
        sample.n_system_calls = (*area.raw()).burst.n_system_calls;
        sample.system_call_cycles = (*area.raw()).burst.system_call_cycles;
        sample.end_tsc = end.tsc;
        sample.end_pc = end.pc;
        sample.size = (cursor - room.sample as u64).next_multiple_of(8) as u32;
        sample.size
    };
    commit(area, size);
    header.burst.state.store(thread_state::NATIVE, Release);
}
