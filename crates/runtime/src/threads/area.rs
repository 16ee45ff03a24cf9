//! Thread areas as their owners see them, and what the runtime keeps about a thread in private
//! memory.
//!
//! `gs` holds the address of the area of a thread that can enter copies. A new thread starts with
//! its creator's `gs`, and a program may use `gs` for itself, so it proves nothing alone: an area
//! is a thread's own if `gs` points to it *and* it names the thread as its owner.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Relaxed};

use wire::thread::{MAGIC, ThreadHeader};

use crate::process::first_tick;
use crate::process::session::{self, Session};
use crate::statics::{HAS_FSGSBASE, PRIVATE};
use crate::sys::syscall;

/// The area of a thread.
#[derive(Clone, Copy)]
pub struct Area {
    pub session: Session,
    pub index: usize,
    header: *mut ThreadHeader,
}

/// What the agent does not need to know about a thread. It has the index of the thread's area.
pub struct Private {
    /// Signals of the runtime that the program believes to have blocked.
    pub blocked_by_program: AtomicU64,
    /// Where the frame of the last signal is that a handler of the program was called for; 0: none
    /// that matters.
    pub handler_frame: AtomicU64,
    /// Signals of the runtime that are blocked in that handler, but not because the program wants
    /// it.
    pub added_for_handler: AtomicU64,
    /// Stack pointer of the call that waits with a temporary mask, and that mask.
    pub waiting_at: AtomicU64,
    pub waiting_mask: AtomicU64,
    /// Where the stack of the thread's start routine begins: the outer end of what a sample keeps
    /// of it. 0: not known.
    pub stack_end: AtomicU64,
    /// Ticks in a row that found no room.
    pub lost_in_a_row: AtomicU32,
    /// How many times the tick interval is doubled because nobody reads.
    pub backoff: AtomicU32,
    /// Position in the rotation of a policy.
    pub rotation: AtomicU32,
    /// If the timer is stopped for a while: the time that was left until the next tick.
    pub paused_ns: AtomicU64,
    /// In exact mode: the `frame` with which the runtime last called a function of the program's
    /// libraries.
    pub calling_frame: AtomicU64,
}

impl Private {
    /// Nothing is known of the thread.
    pub const fn new() -> Private {
        Private {
            blocked_by_program: AtomicU64::new(0),
            handler_frame: AtomicU64::new(0),
            stack_end: AtomicU64::new(0),
            added_for_handler: AtomicU64::new(0),
            waiting_at: AtomicU64::new(0),
            waiting_mask: AtomicU64::new(0),
            lost_in_a_row: AtomicU32::new(0),
            backoff: AtomicU32::new(0),
            rotation: AtomicU32::new(0),
            paused_ns: AtomicU64::new(0),
            calling_frame: AtomicU64::new(0),
        }
    }
}

impl Area {
    /// Returns the calling thread's own area.
    pub fn own(session: Session) -> Option<Area> {
        let area = Area::at(session, gs_base())?;
        let header = area.header();
        let is_own = area.magic() == MAGIC && header.stream.owner_tid.load(Relaxed) == syscall::gettid();
        is_own.then_some(area)
    }

    /// Returns the area at `address`, if there can be one.
    pub fn at(session: Session, address: u64) -> Option<Area> {
        let layout = session::layout();
        let offset = address.wrapping_sub(session.arena);
        (offset < layout.arena_bytes() && offset.is_multiple_of(layout.area_bytes())).then_some(Area {
            session,
            index: (offset >> layout.area_bits) as usize,
            header: address as *mut ThreadHeader,
        })
    }

    /// Takes a free area for thread `tid`, if possible the one with the index `preferred`.
    pub fn take(session: Session, tid: u32, preferred: usize) -> Option<Area> {
        let n_areas = session::layout().n_areas;
        let index = core::iter::once(preferred.min(n_areas - 1)).chain(0..n_areas).find(|&index| {
            let owner = &Area::numbered(session, index).header().stream.owner_tid;
            owner.load(Relaxed) == 0 && owner.compare_exchange(0, tid, AcqRel, Relaxed).is_ok()
        })?;
        session.control.threads.n_areas.fetch_max(index as u32 + 1, AcqRel);
        Some(Area::numbered(session, index))
    }

    pub fn numbered(session: Session, index: usize) -> Area {
        let address = session.arena + ((index as u64) << session::layout().area_bits);
        Area { session, index, header: address as *mut ThreadHeader }
    }

    pub fn address(&self) -> u64 {
        self.header as u64
    }

    /// For the fields that are atomic.
    pub fn header(&self) -> &'static ThreadHeader {
        // SAFETY: lies in the arena, which is mapped as long as there is a session. Other fields
        // than atomics are only used through `raw`.
        unsafe { &*self.header }
    }

    /// For the fields that only the owner and its copies use.
    pub fn raw(&self) -> *mut ThreadHeader {
        self.header
    }

    pub fn private(&self) -> &'static Private {
        &PRIVATE[self.index]
    }

    fn magic(&self) -> u64 {
        // SAFETY: lies in the arena.
        unsafe { (&raw const (*self.header).identity.magic).read_volatile() }
    }
}

/// Returns the private part of thread `index`.
pub fn private(index: usize) -> &'static Private {
    &PRIVATE[index]
}

/// Returns the private part of the calling thread, if its signals pass through the runtime.
pub fn own_private() -> Option<&'static Private> {
    match session::attached() {
        Some(session) => Area::own(session).map(|area| area.private()),
        None => first_tick::waiting_thread().map(private),
    }
}

pub fn allow_fsgsbase(is_allowed: bool) {
    HAS_FSGSBASE.store(is_allowed, Relaxed);
}

/// Returns the base of `gs`.
pub fn gs_base() -> u64 {
    if !HAS_FSGSBASE.load(Relaxed) {
        return syscall::gs_base();
    }
    let base: u64;
    // SAFETY: the kernel says that the instruction may be used.
    unsafe { asm!("rdgsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

/// Sets the base of `gs`, which nothing but copies uses in the calling thread.
pub fn set_gs_base(base: u64) {
    // SAFETY: if the instruction is used, the kernel says that it may be; nothing else in the
    // thread uses `gs`.
    unsafe {
        if HAS_FSGSBASE.load(Relaxed) {
            asm!("wrgsbase {}", in(reg) base, options(nomem, nostack, preserves_flags));
        } else {
            syscall::set_gs_base(base);
        }
    }
}
