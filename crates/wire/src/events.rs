//! Events: what probes note about single executions of instructions, in copies that are never left.
//!
//! An event is a *site* and a value: the instruction, and what it loaded. A probe appends it to the buffer of its thread, which is filled from the
//! front and addressed from its end: [`crate::thread::ThreadHeader::next_event`] goes up to 0 in steps of [`EVENT_WORDS`], so that whoever makes
//! it 0 has filled the buffer, and no limit needs to be loaded. Then the thread goes to the gate, which takes the buffer through a compressor, or
//! as it is, into a ring that the agent reads.
//!
//! **Site.** As a block record: the cluster and the instruction's address in it ([`crate::sample::RECORD_ADDRESS_BITS`]). 0 is no site.
//!
//! **Ring.** One writer, the thread, and one reader, the agent. `messages_sent` and `messages_read` count up; their difference is what lies in the
//! ring. When a process has ended, what is left in ring and buffer is still there.
//!
//! **Signals.** A handler that interrupts a probe finds an empty buffer, and leaves one; then the probe goes on with the place that it had, and what
//! it had written there. What has been taken from the buffer has its site cleared, so that nothing is taken twice. Of a handler that does not return,
//! only the event of the interrupted probe is lost.

/// An event in the buffer, or a message in the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// What was loaded.
    pub value: u64,
    /// The instruction; 0: no event.
    pub site: u32,
    /// How many events a message stands for; 0 in the buffer.
    pub weight: u32,
}

/// Words of an event.
pub const EVENT_WORDS: u64 = (size_of::<Event>() / 8) as u64;
/// Offset of the site in an event.
pub const SITE: u32 = core::mem::offset_of!(Event, site) as u32;

/// Offset of the buffer in the thread area.
pub const EVENTS: u32 = 5 << 20;
/// Events in a buffer: small enough to stay in the cache until they are compressed.
pub const N_EVENTS: u32 = 4096;
/// Offset of the end of the buffer in the thread area.
pub const EVENTS_END: u32 = EVENTS + N_EVENTS * size_of::<Event>() as u32;
/// `next_event` of an empty buffer.
pub const EMPTY: u64 = (N_EVENTS as u64 * EVENT_WORDS).wrapping_neg();

/// Offset of the ring in the thread area.
pub const RING: u32 = 6 << 20;
/// Messages in a ring, a power of two.
pub const N_MESSAGES: u32 = 1 << 16;

/// Offset of the compressor's memory in the thread area.
pub const COMPRESSOR: u32 = 9 << 20;
/// Bytes of it.
pub const COMPRESSOR_BYTES: u32 = 7 << 20;

/// Longest expression of a compressor, in bytes.
pub const MAX_EXPRESSION: usize = 128;

const _: () = assert!(EVENTS_END <= RING);
const _: () = assert!(EVENTS as u64 >= crate::thread::FIRST_SEGMENT + 4 * crate::thread::SEGMENT_BYTES);
const _: () = assert!(RING + N_MESSAGES * size_of::<Event>() as u32 <= crate::exact::RETURNS);
const _: () = assert!(COMPRESSOR >= crate::exact::RETURNS + crate::exact::N_RETURNS * 8);
const _: () = assert!(COMPRESSOR + COMPRESSOR_BYTES <= crate::exact::FRAMES);
