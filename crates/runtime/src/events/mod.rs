//! Events, from the buffer of a thread to the ring that the agent reads ([`wire::events`]).
//!
//! Everything here happens with all signals blocked, most of it in the gate: a thread's buffer,
//! compressor and end of the ring have one user at a time.
//!
//! **Bursts.** What they note is taken at the next tick, on the small stack of signals and without
//! a compressor, for which the areas of bursts have no memory.
//!
//! **What is known.** The agent can say that it knows enough, of some places or of all. What they
//! note is thrown away here, before it costs the compressor and the agent anything; the probes
//! stay.
//!
//! **The end of the process.** Threads live on when one of them ends the process, and their
//! compressors hold what has not been sent. So that one closes the others' compressors
//! ([`compressor_use`]), once it finds them unused, and sends what they hold. Whoever comes then
//! waits until that is done, and sends events as they are. What is in buffers the agent finds
//! there.
//!
//! **The compressor** is made when the first buffer is full, from an expression that the agent has
//! checked. All that it allocates comes from the memory that the thread's area has for it
//! ([`AreaMemory`]), and only then; what is given back stays unused. Should that not be enough, the
//! kernel is asked: a compressor that is too large must not cost the program its life. It lives as
//! long as the area, and the next thread that has the area goes on with it.

mod path_trace;

use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use sampling::{Compressor as _, Dynamic, Expression, Message, Tuple};
use wire::control::Control;
use wire::events::{
    BURST_EMPTY, COMPRESSOR, COMPRESSOR_BYTES, EMPTY, EVENT_WORDS, EVENTS_END, Event, MAX_EXPRESSION, MAX_WEIGHT,
    N_MESSAGES, RING, compressor_use, filling, known_place_slots,
};
use wire::path_trace::Mark;

use crate::exact;
use crate::exact::resume::Underway;
use crate::mode::{self, empty_buffer};
use crate::process::session;
use crate::sys::syscall;
use crate::threads::area::Area;

/// An event as a compressor sees it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct Noted(Event);

impl Tuple for Noted {
    #[inline]
    fn key(&self) -> [u64; 2] {
        [u64::from(self.0.site) | u64::from(self.0.tag) << 32, self.0.value]
    }
}

/// Bytes at the start of the compressor's memory for the address of the compressor.
const FIRST_BYTES: u64 = size_of::<*mut Dynamic<Noted>>() as u64;

/// Prepares the buffer of an area for bursts. What the last thread that had it has left is taken
/// now; when there is no next one, the agent finds it there.
///
/// # Safety
/// The area must be the calling thread's, and no copy runs in it.
pub unsafe fn initialize_for_bursts(area: &Area, was_used: bool) {
    if was_used {
        // SAFETY: the caller's promise.
        unsafe { take_burst(area) };
    } else {
        area.header().events.next.store(BURST_EMPTY, Relaxed);
    }
}

/// Takes what bursts have noted, without a compressor. What is not read in time is lost, and
/// counted.
///
/// # Safety
/// The area must be the calling thread's, which is in no burst, with all signals blocked or before
/// its first tick.
pub unsafe fn take_burst(area: &Area) {
    // SAFETY: the caller's promise.
    unsafe {
        // Of a burst that a signal ended in a probe.
        let unfinished = place(area, area.header().events.next.load(Relaxed));
        if let Some(unfinished) = unfinished {
            unfinished.write(Event::default());
        }
        take_buffer(area, |_| None);
    }
}

/// Prepares the buffer of an area that has never been used. A trace says whose it is from now on.
///
/// # Safety
/// The area must be the calling thread's, and no copy runs in it.
pub unsafe fn initialize(area: &Area) {
    let _ = area.header().events.next.compare_exchange(0, EMPTY, Relaxed, Relaxed);
    if has_words(area) {
        // SAFETY: the caller's promise.
        unsafe { path_trace::note(area, Mark::Thread(area.header().stream.owner_tid.load(Relaxed))) };
    }
}

/// Returns whether the buffer has words of a trace or log instead of events.
fn has_words(area: &Area) -> bool {
    area.session.control.events.filling.load(Relaxed) == filling::WORDS
}

/// Takes what is in the buffer.
///
/// # Safety
/// The area must be the calling thread's, which is in the gate.
pub unsafe fn deliver(area: &Area) {
    // SAFETY: the caller's promise.
    unsafe { take_buffer(area, compressor) };
}

/// # Safety
/// The area must be the calling thread's, with all signals blocked.
unsafe fn take_buffer(area: &Area, compressor: unsafe fn(&Area) -> Option<&'static mut Dynamic<Noted>>) {
    match area.session.control.events.filling.load(Relaxed) {
        filling::NOTHING => return,
        // SAFETY: the caller's promise.
        filling::WORDS => return unsafe { path_trace::take(area) },
        _ => {}
    }
    // SAFETY: the caller's promise.
    let events = unsafe { buffer(area) };
    // Before the place of a probe that a handler interrupted, there is nothing any more.
    let n_void = events.iter().take_while(|noted| noted.0.site == 0).count();
    let all = &mut events[n_void..];
    let n_wanted = keep_wanted(area, all);
    area.header().events.passed_over.fetch_add((all.len() - n_wanted) as u64, Relaxed);
    let events = &all[..n_wanted];
    area.header().events.taken.fetch_add(events.len() as u64, Relaxed);
    match begin_use(area) {
        // SAFETY: the caller's promise; nobody else has the use of it.
        Use::Open => unsafe {
            send(area, events, compressor(area));
            area.header().events.compressor_use.store(compressor_use::FREE, Release);
        },
        Use::Closed => send(area, events, None),
        Use::Denied => {
            area.header().events.lost.fetch_add(events.len() as u64, Relaxed);
        }
    }
    all.fill(Noted(Event::default()));
    area.header().events.next.store(empty_buffer(), Relaxed);
}

/// Moves the events that the agent still wants to the front, in their order. Returns how many there
/// are.
fn keep_wanted(area: &Area, events: &mut [Noted]) -> usize {
    let control = &area.session.control.events;
    if control.is_enough.load(Relaxed) != 0 {
        return 0;
    }
    if control.n_known.load(Relaxed) == 0 {
        return events.len();
    }
    let known = area.session.known_places();
    let is_known = |place: u64| {
        let in_table = known_place_slots(place).map(|slot| known.get(slot).map_or(0, |known| known.load(Relaxed)));
        in_table.take_while(|&known| known != 0).any(|known| known == place)
    };
    let mut n_wanted = 0;
    for index in 0..events.len() {
        if !is_known(events[index].0.place()) {
            events[n_wanted] = events[index];
            n_wanted += 1;
        }
    }
    n_wanted
}

fn send(area: &Area, events: &[Noted], compressor: Option<&mut Dynamic<Noted>>) {
    let mut ring = Ring::new(area);
    match compressor {
        Some(compressor) => compressor.observe_all(events, &mut |message| ring.send(message)),
        None => events.iter().for_each(|&tuple| ring.send(Message { tuple, weight: 1 })),
    }
    ring.publish();
}

/// What the owner of an area may use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Ring and compressor, which it has to give back.
    Open,
    /// The ring.
    Closed,
    /// Nothing: somebody else has it for too long.
    Denied,
}

/// Takes ring and compressor for the owner of the area, who is about to use them.
fn begin_use(area: &Area) -> Use {
    let user = &area.header().events.compressor_use;
    if user.compare_exchange(compressor_use::FREE, compressor_use::OWNER, Acquire, Relaxed).is_ok() {
        return Use::Open;
    }
    let is_closed = || user.load(Acquire) == compressor_use::CLOSED;
    if is_closed() || exact::wait_until(area.session.control, is_closed) { Use::Closed } else { Use::Denied }
}

/// Returns what the interrupted thread has under way.
///
/// # Safety
/// The area must be the calling thread's, with all signals blocked.
pub unsafe fn underway(area: &Area) -> Underway {
    let next_event = area.header().events.next.load(Relaxed);
    // SAFETY: the place is in the buffer, which is the caller's.
    let event = place(area, next_event).map_or(Event::default(), |at| unsafe { at.read() });
    Underway { next_event, event }
}

/// Gives a handler that is about to run an empty buffer. The compressor may be used, because it is
/// never interrupted, but is not made here, where the stack is small.
///
/// # Safety
/// As for [`underway`].
pub unsafe fn begin_handler(area: &Area) {
    // SAFETY: the caller's promise.
    unsafe {
        let interrupted = place(area, area.header().events.next.load(Relaxed));
        take_buffer(area, made_compressor);
        if let Some(interrupted) = interrupted {
            interrupted.write(Event::default());
        }
        if has_words(area) {
            path_trace::note(area, Mark::Handler);
        }
    }
}

/// Lets the thread go on with what it had under way, when a handler has returned to the gate.
///
/// # Safety
/// As for [`deliver`].
pub unsafe fn go_on(area: &Area, underway: &Underway) {
    // SAFETY: the caller's promise.
    unsafe {
        deliver(area);
        if has_words(area) {
            path_trace::note(area, Mark::HandlerEnd);
        }
        area.header().events.next.store(underway.next_event, Relaxed);
        if let Some(at) = place(area, underway.next_event) {
            at.write(underway.event);
        }
    }
}

/// Returns where the next event goes; `None` if the buffer is full, or there is none.
fn place(area: &Area, next_event: u64) -> Option<*mut Event> {
    let is_on = area.session.control.events.filling.load(Relaxed) != filling::NOTHING;
    let end = area.address() + u64::from(EVENTS_END);
    (is_on && next_event >= empty_buffer()).then(|| end.wrapping_add(next_event.wrapping_mul(8)) as *mut Event)
}

/// Takes what is in the buffer of the calling thread, which ends, and what the compressor still
/// holds.
///
/// # Safety
/// As for [`deliver`].
pub unsafe fn finish(area: &Area) {
    // SAFETY: the caller's promise.
    unsafe {
        deliver(area);
        if begin_use(area) == Use::Open {
            drain(area);
            area.header().events.compressor_use.store(compressor_use::FREE, Release);
        }
    }
}

/// Does what [`finish`] does for the calling thread, which ends the process, and for all others
/// what they will not come to do.
///
/// # Safety
/// As for [`deliver`].
pub unsafe fn finish_process(area: &Area) {
    let control = area.session.control;
    if control.events.filling.load(Relaxed) == filling::NOTHING {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { finish(area) };
    if has_words(area) {
        return;
    }
    for index in (0..control.threads.n_areas.load(Acquire) as usize).filter(|&index| index != area.index) {
        let other = Area::numbered(area.session, index);
        let user = &other.header().events.compressor_use;
        let is_ours = Cell::new(false);
        // One that another thread closes, which ends the process too, is that one's affair.
        exact::wait_until(control, || {
            let was = user.compare_exchange(compressor_use::FREE, compressor_use::CLOSING, Acquire, Relaxed);
            is_ours.set(was.is_ok());
            was != Err(compressor_use::OWNER)
        });
        if is_ours.get() {
            // SAFETY: its owner does not use it any more.
            unsafe { drain(&other) };
            user.store(compressor_use::CLOSED, Release);
        }
    }
}

/// Sends what the compressor of an area holds.
///
/// # Safety
/// The caller must have the use of it.
unsafe fn drain(area: &Area) {
    // SAFETY: the caller's promise.
    if let Some(compressor) = unsafe { made_compressor(area) } {
        let mut ring = Ring::new(area);
        compressor.drain(&mut |message| ring.send(message));
        ring.publish();
        area.header().events.residue.store(compressor.residue() as u64, Relaxed);
    }
}

/// # Safety
/// As for [`deliver`]; there must be no other reference.
unsafe fn buffer(area: &Area) -> &'static mut [Noted] {
    let next = area.header().events.next.load(Relaxed);
    let n_events = (next.wrapping_sub(empty_buffer()) / EVENT_WORDS).min(empty_buffer().wrapping_neg() / EVENT_WORDS);
    let start = (area.address() + u64::from(EVENTS_END)).wrapping_add(empty_buffer().wrapping_mul(8)) as *mut Noted;
    // SAFETY: lies in the area; only the thread writes there, and it is here. Any bytes are an
    // event.
    unsafe { core::slice::from_raw_parts_mut(start, n_events as usize) }
}

/// Returns the area's compressor if it has been made.
///
/// # Safety
/// As for [`compressor`].
unsafe fn made_compressor(area: &Area) -> Option<&'static mut Dynamic<Noted>> {
    // SAFETY: the caller's promise.
    if area.header().events.compressor_bytes.load(Relaxed) == 0 { None } else { unsafe { compressor(area) } }
}

/// Returns the area's compressor; `None` if events go as they are.
///
/// # Safety
/// As for [`deliver`]; there must be no other reference.
unsafe fn compressor(area: &Area) -> Option<&'static mut Dynamic<Noted>> {
    let place = (area.address() + u64::from(COMPRESSOR)) as *mut *mut Dynamic<Noted>;
    // SAFETY: the place is the thread's own; what is there was made by this process, because
    // children do not have the area.
    unsafe {
        if area.header().events.compressor_bytes.load(Relaxed) == 0 {
            area.header().events.compressor_bytes.store(FIRST_BYTES, Relaxed);
            let seed = area.session.control.events.seed.load(Relaxed).wrapping_add(area.index as u64);
            let made =
                expression(area.session.control).map(|expression| Box::into_raw(Box::new(expression.build(seed))));
            place.write(made.unwrap_or(null_mut()));
        }
        place.read().as_mut()
    }
}

fn expression(control: &Control) -> Option<Expression> {
    let mut text = [0; MAX_EXPRESSION];
    for (bytes, word) in text.as_chunks_mut().0.iter_mut().zip(&control.events.expression) {
        *bytes = word.load(Relaxed).to_le_bytes();
    }
    let len = control.events.expression_len.load(Relaxed) as usize;
    core::str::from_utf8(text.get(..len).filter(|text| !text.is_empty())?).ok()?.parse().ok()
}

/// The writing end of the ring.
struct Ring<'a> {
    area: &'a Area,
    sent: u64,
    /// Messages that there is room for until the reader is asked.
    room: u64,
}

impl Ring<'_> {
    fn new(area: &Area) -> Ring<'_> {
        let mut ring = Ring { area, sent: area.header().events.sent.load(Relaxed), room: 0 };
        ring.room = ring.current_room();
        ring
    }

    fn current_room(&self) -> u64 {
        let in_ring = self.sent.wrapping_sub(self.area.header().events.read.load(Acquire));
        u64::from(N_MESSAGES).saturating_sub(in_ring)
    }

    /// Sends a message, in several parts if it stands for very much.
    fn send(&mut self, message: Message<Noted>) {
        let mut left = message.weight;
        while left != 0 {
            let weight = u32::try_from(left).unwrap_or(u32::MAX).min(MAX_WEIGHT);
            self.put(message.tuple.0.with_weight(weight));
            left -= u64::from(weight);
        }
    }

    #[inline]
    fn put(&mut self, message: Event) {
        if self.room == 0 && !self.wait() {
            self.area.header().events.lost.fetch_add(1, Relaxed);
            return;
        }
        let slot = self.sent % u64::from(N_MESSAGES);
        let at = (self.area.address() + u64::from(RING)) as *mut Event;
        // SAFETY: the slot lies in the ring, and the reader is done with it.
        unsafe { at.add(slot as usize).write(message) };
        self.sent += 1;
        self.room -= 1;
    }

    fn publish(&self) {
        self.area.header().events.sent.store(self.sent, Release);
    }

    /// Waits for the agent to read, but not in a tick. Returns whether there is room now.
    #[cold]
    fn wait(&mut self) -> bool {
        self.publish();
        self.room = self.current_room();
        if self.room == 0 && mode::can_wait_for_reader() {
            self.area.header().events.waits.fetch_add(1, Relaxed);
            // A good part of the ring, so that this does not happen again at once.
            exact::wait_until(self.area.session.control, || self.current_room() >= u64::from(N_MESSAGES / 4));
            self.room = self.current_room();
        }
        self.room != 0
    }
}

/// Memory for compressors: that of the calling thread's area, given out once.
struct AreaMemory;

#[global_allocator]
static MEMORY: AreaMemory = AreaMemory;

// SAFETY: memory is given out once, aligned, and to one thread at a time, because each has its own.
unsafe impl GlobalAlloc for AreaMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(area) = session::attached().and_then(Area::own) else { return null_mut() };
        let used = area.header().events.compressor_bytes.load(Relaxed);
        let at = used.next_multiple_of(layout.align() as u64);
        let end = at.saturating_add(layout.size() as u64);
        if end > u64::from(COMPRESSOR_BYTES) {
            return from_kernel(layout.size() as u64);
        }
        area.header().events.compressor_bytes.store(end, Relaxed);
        (area.address() + u64::from(COMPRESSOR) + at) as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// Memory at a multiple of a page.
fn from_kernel(n_bytes: u64) -> *mut u8 {
    syscall::map_memory(n_bytes).map_or(null_mut(), |at| at as *mut u8)
}
