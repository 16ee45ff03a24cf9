//! What the runtime knows about the process that it is in.
//!
//! Three questions are answered here, and their answers outlive different things:
//!
//! * [`is_active`]: are the program's signals wrapped? From the join on, in this process and in all
//!   children by `fork`, attached or not.
//! * [`attached`]: is there an agent's memory to write to? That memory is not inherited over
//!   `fork`, and not every child passes through the handler in [`crate::process::fork`], for
//!   instance one made by a raw system call. Therefore the answer lies in a page that the kernel
//!   itself wipes in children, and no child can ever touch memory that it does not have.
//! * [`is_own_process`]: does the calling process own the runtime's private memory? A child of
//!   `vfork` shares it with its parent and must not change it.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use wire::clusters::{Cluster, N_CLUSTERS};
use wire::control::{Control, KNOWN_PLACES_OFFSET, MODULES_OFFSET, ModuleSlot};
use wire::events::N_KNOWN_PLACES;
use wire::hello::Welcome;
use wire::thread::{AREA_BYTES, MAX_THREADS};

use crate::statics::{AREA_BITS, ARENA, ARENA_BYTES, ATTACHED, CLUSTERS, CONTROL, IS_ACTIVE, PID};
use crate::sys::syscall::{self, Advice, Errno};

/// The memory shared with the agent.
#[derive(Clone, Copy)]
pub struct Session {
    pub control: &'static Control,
    pub arena: u64,
}

impl Session {
    /// Returns the module slots in use.
    pub fn modules(&self) -> &'static [ModuleSlot] {
        let first = core::ptr::from_ref(self.control) as u64 + MODULES_OFFSET;
        let count = (self.control.modules.n_modules.load(Acquire) as usize).min(wire::control::MAX_MODULES);
        // SAFETY: the slots lie in the control file, which is mapped as a whole.
        unsafe { core::slice::from_raw_parts(first as *const ModuleSlot, count) }
    }

    /// Returns whether a count of checks starts bursts.
    pub fn has_counted_trigger(&self) -> bool {
        self.control.trigger.n_check.load(Relaxed) != 0
    }

    /// Returns the table of places whose events are known.
    pub fn known_places(&self) -> &'static [AtomicU64] {
        let first = core::ptr::from_ref(self.control) as u64 + KNOWN_PLACES_OFFSET;
        // SAFETY: the table lies in the control file, which is mapped as a whole.
        unsafe { core::slice::from_raw_parts(first as *const AtomicU64, N_KNOWN_PLACES) }
    }
}

/// How large thread areas are and how many the arena has.
#[derive(Clone, Copy)]
pub struct Layout {
    pub area_bits: u32,
    pub n_areas: usize,
}

impl Layout {
    /// Areas of bursts.
    pub const BURSTS: Layout = Layout { area_bits: AREA_BYTES.ilog2(), n_areas: MAX_THREADS };

    /// Returns what the agent proposes, if it can be.
    pub fn of(welcome: &Welcome) -> Result<Layout, Errno> {
        if welcome.area_bits == 0 && welcome.n_areas == 0 {
            return Ok(Layout::BURSTS);
        }
        let proposed = Layout { area_bits: welcome.area_bits, n_areas: welcome.n_areas as usize };
        let is_possible = (AREA_BYTES.ilog2()..=wire::exact::AREA_BITS).contains(&proposed.area_bits)
            && (1..=MAX_THREADS).contains(&proposed.n_areas);
        if is_possible { Ok(proposed) } else { Err(Errno::INVALID) }
    }

    pub const fn area_bytes(self) -> u64 {
        1 << self.area_bits
    }

    pub const fn arena_bytes(self) -> u64 {
        (self.n_areas as u64) << self.area_bits
    }
}

pub fn is_active() -> bool {
    IS_ACTIVE.load(Relaxed)
}

pub fn activate() {
    IS_ACTIVE.store(true, Relaxed);
}

/// From now on the process has neither a session nor wrapped signals.
pub fn deactivate() {
    IS_ACTIVE.store(false, Relaxed);
    let flag = ATTACHED.load(Relaxed);
    if !flag.is_null() {
        // SAFETY: `prepare` made the page. Who has found the session uses memory that stays mapped.
        unsafe { &*flag }.store(0, Release);
    }
}

/// Returns the process that owns the private memory.
pub fn pid() -> u32 {
    PID.load(Relaxed)
}

pub fn set_pid(pid: u32) {
    PID.store(pid, Relaxed);
}

pub fn is_own_process() -> bool {
    syscall::getpid() == pid()
}

/// Returns the session, if this process has joined one.
pub fn attached() -> Option<Session> {
    let flag = ATTACHED.load(Relaxed);
    // SAFETY: once set, the page stays mapped, in children too.
    if flag.is_null() || unsafe { &*flag }.load(Acquire) == 0 {
        return None;
    }
    // SAFETY: `attach` was given a mapped control file, which stays while the flag is set.
    Some(Session { control: unsafe { &*CONTROL.load(Relaxed) }, arena: ARENA.load(Relaxed) })
}

pub fn layout() -> Layout {
    let area_bits = AREA_BITS.load(Relaxed);
    Layout { area_bits, n_areas: (ARENA_BYTES.load(Relaxed) >> area_bits) as usize }
}

/// Returns where copies are. Empty before the join; the same in forked children, which share them.
pub fn clusters() -> &'static [Cluster; N_CLUSTERS] {
    // SAFETY: see `Clusters`.
    unsafe { &*CLUSTERS.0.get() }
}

/// Returns whether `pc` is in a copy.
pub fn is_in_copy(pc: u64) -> bool {
    clusters().iter().any(|cluster| cluster.holds_copy(pc))
}

/// Makes the page whose contents children do not get.
pub fn prepare() -> Result<(), Errno> {
    if !ATTACHED.load(Relaxed).is_null() {
        return Ok(());
    }
    // SAFETY: new private memory.
    unsafe {
        let page = syscall::map_memory(wire::PAGE)?;
        if let Err(error) = syscall::madvise(page, wire::PAGE, Advice::WipeOnFork) {
            syscall::munmap(page, wire::PAGE);
            return Err(error);
        }
        ATTACHED.store(page as *mut AtomicU32, Relaxed);
    }
    Ok(())
}

/// Declares the process attached. `clusters` is `None` in a forked child, which has its parent's.
///
/// # Safety
/// Everything must be mapped at the given addresses and stay so; no thread may be using an earlier
/// session.
pub unsafe fn attach(control: *mut Control, arena: u64, layout: Layout, clusters: Option<&[Cluster; N_CLUSTERS]>) {
    if let Some(clusters) = clusters {
        // SAFETY: nobody reads them before the flag below is set for the first time.
        unsafe { *CLUSTERS.0.get() = *clusters };
    }
    CONTROL.store(control, Relaxed);
    ARENA.store(arena, Relaxed);
    ARENA_BYTES.store(layout.arena_bytes(), Relaxed);
    AREA_BITS.store(layout.area_bits, Relaxed);
    // SAFETY: `prepare` made the page.
    unsafe { &*ATTACHED.load(Relaxed) }.store(1, Release);
}
