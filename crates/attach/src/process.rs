//! One process of a session.
//!
//! A [`Process`] is made when a process has joined and lives until the caller drops it, which may
//! be long after the process has died: the samples are still there. Dropping it ends the recording
//! in a process that is still alive. Methods take `&self` and may be called from several threads.
//!
//! Keep the object of a dead process while children of it may still join ([`Process::has_heirs`]):
//! what they run are its copies.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use wire::clusters::{Cluster, N_CLUSTERS};
use wire::control::{TIMER_SIGNAL, TickSource};
use wire::exact::{
    CELLS, CELLS_BYTES, CONTEXT_BYTES, CONTEXTS, CONTEXTS_BYTES, ContextEntry, PATH_METRIC, PATHS, PATHS_BYTES,
};

use crate::area::Arena;
use crate::control::{ControlFile, Counters, ExactCounters, Slot};
use crate::copies::Copies;
use crate::drain::{Drained, Reader, SampleRef};
use crate::error::{Error, Result, Step};
use crate::maps;
use crate::modules::{self, MappedModule, Surroundings};
use crate::thread_exits::ThreadExitRecord;

/// The counts of a path in one thread area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCount {
    /// Function or context in the upper half, number of the path in the lower one.
    pub key: u64,
    /// How often it was counted.
    pub count: u64,
    /// What the metric's counter has gone up by on it, if there is one; the sum of squares
    /// ([`wire::exact::Squares`]), if paths are sampled.
    pub beside: u64,
}

/// A process that has joined, with the memory shared with it.
#[derive(Debug)]
pub struct Process {
    identity: Identity,
    control: Arc<ControlFile>,
    arena: Arena,
    copies: Arc<Copies>,
    reader: Mutex<Reader>,
}

/// Who a process is.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    pub(crate) parent: Option<u32>,
    pub(crate) first_tid: u32,
    pub(crate) runtime_address: u64,
    /// Target of `/proc/PID/exe` when it joined.
    pub(crate) program: OsString,
    pub(crate) pidfd: OwnedFd,
}

impl Process {
    pub(crate) fn new(identity: Identity, control: Arc<ControlFile>, arena: Arena, copies: Arc<Copies>) -> Process {
        Process { identity, control, arena, copies, reader: Mutex::new(Reader::new()) }
    }

    /// Returns the process id, as the agent sees it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Returns the process that it was forked from, if it joined as a child that shares that one's
    /// copies.
    #[must_use]
    pub fn parent(&self) -> Option<u32> {
        self.identity.parent
    }

    /// Returns what it ran when it joined.
    #[must_use]
    pub fn program(&self) -> &OsStr {
        &self.identity.program
    }

    /// Returns the thread that joined, by its own account.
    #[must_use]
    pub fn first_tid(&self) -> u32 {
        self.identity.first_tid
    }

    /// Returns whether it has not ended. True for one that has replaced its program.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let mut fds = [PollFd::new(&self.identity.pidfd, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(rustix::event::poll(&mut fds, Some(&at_once)), Ok(0))
    }

    /// Returns whether other processes have its copies mapped: children, in the session or about to
    /// join it. Looks through all processes.
    #[must_use]
    pub fn has_heirs(&self) -> bool {
        let is_heir = |pid: u32| {
            let is_same_program = || program_link(pid).is_ok_and(|program| program == self.identity.program);
            let has_copies = || maps::of_process(pid).is_ok_and(|maps| self.copies.is_run_by(&maps));
            pid != self.pid() && is_same_program() && has_copies()
        };
        fs::read_dir("/proc")
            .is_ok_and(|names| names.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok()).any(is_heir))
    }

    /// Returns whether it runs the same copies as another process, as a forked child does.
    #[must_use]
    pub fn shares_copies_with(&self, other: &Process) -> bool {
        Arc::ptr_eq(&self.copies, &other.copies)
    }

    /// Returns a descriptor that becomes readable when the process ends.
    #[must_use]
    pub fn pidfd(&self) -> &OwnedFd {
        &self.identity.pidfd
    }

    /// Returns the clusters of the process; those with `span` 0 are not in use.
    #[must_use]
    pub fn clusters(&self) -> &[Cluster; N_CLUSTERS] {
        &self.copies.clusters
    }

    /// Returns what the process has loaded now, by address.
    ///
    /// # Errors
    /// When the process is gone, may not be looked at, or has replaced its program.
    pub fn modules(&self) -> Result<Vec<MappedModule>> {
        let maps = maps::of_process(self.pid())?;
        if !self.copies.is_run_by(&maps) {
            return Err(Error::Replaced);
        }
        let program = program_link(self.pid())?;
        let around = Surroundings {
            program: &program,
            runtime_address: self.identity.runtime_address,
            clusters: &self.copies.clusters,
        };
        Ok(modules::modules(&maps, around, &mut |mapping| modules::segments_of_mapped_file(self.pid(), mapping)))
    }

    /// Reads all samples that are complete and hands them on, oldest first for each thread.
    pub fn drain(&self, sink: &mut dyn FnMut(SampleRef<'_>)) -> Drained {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).drain(&self.arena, self.control.n_areas(), sink)
    }

    /// Reads the samples of a process that has died or replaced its program, also of bursts that
    /// were under way.
    pub fn salvage(&self, sink: &mut dyn FnMut(SampleRef<'_>)) -> Drained {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).salvage(&self.arena, self.control.n_areas(), sink)
    }

    /// Returns what the runtime has counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.control.counters();
        for area in self.arena.areas(self.control.n_areas()) {
            let [ticks, in_burst, lost, cycles] = area.counts();
            counters.ticks = counters.ticks.wrapping_add(ticks);
            counters.ticks_in_burst = counters.ticks_in_burst.wrapping_add(in_burst);
            counters.lost_ticks = counters.lost_ticks.wrapping_add(lost);
            counters.handler_cycles = counters.handler_cycles.wrapping_add(cycles);
        }
        counters
    }

    /// Returns, in exact mode, what the process last asked for, if it has not been answered. See
    /// [`Process::answer`].
    #[must_use]
    pub fn open_request(&self) -> Option<u32> {
        let asked = self.control.exact_requests().load(Ordering::Acquire);
        (asked != self.control.exact_answered().load(Ordering::Acquire)).then_some(asked)
    }

    /// Tells the process, in exact mode, that everything that was mapped when it asked has its
    /// copies now, or never will.
    pub fn answer(&self, request: u32) {
        self.control.exact_answered().store(request, Ordering::Release);
    }

    /// Tells the process, in exact mode, that the agent is alive, and how far its work has come, as
    /// a number that changes. It waits for an answer only as long as the first is done every
    /// second, and the second changes every minute.
    pub fn show_life(&self, progress: u32) {
        self.control.heartbeat().fetch_add(1, Ordering::Relaxed);
        self.control.progress().store(progress, Ordering::Relaxed);
    }

    /// Has the process note no more values.
    pub fn end_events(&self) {
        self.control.events_are_enough().store(1, Ordering::Relaxed);
    }

    /// Has the process note no more values at a place ([`wire::events::Event::place`]). Returns
    /// whether there was room to ask for it.
    pub fn end_events_of(&self, place: u64) -> bool {
        self.control.add_known_place(place)
    }

    /// Returns what the runtime has counted of exact mode.
    #[must_use]
    pub fn exact_counters(&self) -> ExactCounters {
        self.control.exact_counters()
    }

    /// Hands on, in exact mode, every counter that is not zero with its number, once for each
    /// thread area that it was used in.
    ///
    /// # Errors
    /// When the memory file cannot be asked which of it was used.
    pub fn for_each_cell(&self, sink: &mut dyn FnMut(u32, u64)) -> Result<()> {
        let range = u64::from(CELLS)..u64::from(CELLS) + u64::from(CELLS_BYTES);
        self.arena.for_each_word(self.control.n_areas(), range, &mut |at, value| sink((at / 8) as u32, value))
    }

    /// Sets counters to zero in all thread areas, in exact mode: those that remember targets of
    /// calls, when code is gone.
    ///
    /// # Errors
    /// When the memory file cannot be asked which of it was used.
    pub fn clear_cells(&self, is_wanted: &mut dyn FnMut(u32) -> bool) -> Result<()> {
        let range = u64::from(CELLS)..u64::from(CELLS) + u64::from(CELLS_BYTES);
        self.arena.clear_words(self.control.n_areas(), range, &mut |at| is_wanted((at / 8) as u32))
    }

    /// In exact mode: returns that were noted in copies that are gone must not be taken by code
    /// that comes to lie at the same addresses.
    pub(crate) fn forget_returns(&self, gone: &[Slot]) {
        let is_gone = |twin: u64| gone.iter().any(|slot| twin.wrapping_sub(slot.copy) < slot.copy_len);
        // What cannot be asked for cannot have been used.
        let _ = self.arena.forget_returns(self.control.n_areas(), &is_gone);
    }

    /// Returns the number of thread areas that were used, in exact mode.
    #[must_use]
    pub fn n_areas(&self) -> u32 {
        self.control.n_areas()
    }

    /// Hands on, in exact mode, the calling contexts of one thread area: their places and entries.
    ///
    /// # Errors
    /// When the memory file cannot be asked which of it was used.
    pub fn for_each_context(&self, area: u32, sink: &mut dyn FnMut(u32, ContextEntry)) -> Result<()> {
        let range = u64::from(CONTEXTS)..u64::from(CONTEXTS) + u64::from(CONTEXTS_BYTES);
        let mut place = u64::MAX;
        let mut entry = ContextEntry::default();
        self.arena.for_each_word_of(area, range, &mut |at, value| {
            if at / u64::from(CONTEXT_BYTES) != place {
                if entry.key != 0 {
                    sink(place as u32 * CONTEXT_BYTES, entry);
                }
                (place, entry) = (at / u64::from(CONTEXT_BYTES), ContextEntry::default());
            }
            match at % u64::from(CONTEXT_BYTES) {
                0 => entry.key = value,
                8 => entry.count = value,
                16 => entry.context = value as u32,
                24 => entry.metric = value,
                _ => {}
            }
        })?;
        if entry.key != 0 {
            sink(place as u32 * CONTEXT_BYTES, entry);
        }
        Ok(())
    }

    /// Hands on, in exact mode, the path table of one thread area.
    ///
    /// # Errors
    /// When the memory file cannot be asked which of it was used.
    pub fn for_each_path(&self, area: u32, sink: &mut dyn FnMut(PathCount)) -> Result<()> {
        let bytes = u64::from(PATHS_BYTES);
        let range = |start: u32| u64::from(start)..u64::from(start) + bytes;
        let mut beside: BTreeMap<u64, u64> = BTreeMap::new();
        self.arena.for_each_word_of(area, range(PATH_METRIC), &mut |at, value| {
            // A signal between reading the counter and noting it charges the handler to the wrong
            // side: not below nothing.
            beside.insert(at, u64::try_from(value.cast_signed()).unwrap_or(0));
        })?;
        let mut key = (u64::MAX, 0);
        self.arena.for_each_word_of(area, range(PATHS), &mut |at, value| {
            if at % 16 == 0 {
                key = (at, value);
            } else if key.0 == at - 8 {
                sink(PathCount { key: key.1, count: value, beside: beside.get(&key.0).copied().unwrap_or(0) });
            }
        })
    }

    /// Hands on, in exact mode, what threads left when they ended.
    pub fn for_each_thread_exit(&self, sink: &mut dyn FnMut(&ThreadExitRecord)) {
        self.arena.areas(self.control.n_areas()).for_each(|area| area.for_each_thread_exit(sink));
    }

    /// Returns, in exact mode, the number of path ends that found their table full.
    #[must_use]
    pub fn n_lost_paths(&self) -> u64 {
        self.arena.areas(self.control.n_areas()).map(|area| area.n_lost_paths()).sum()
    }

    /// Returns, in exact mode, the misses of the simulated data caches of all threads.
    #[must_use]
    pub fn n_cache_misses(&self) -> u64 {
        self.arena.areas(self.control.n_areas()).map(|area| area.n_cache_misses()).sum()
    }

    /// Returns the number of ticks that wanted samples, if paths are sampled.
    #[must_use]
    pub fn n_sampling_ticks(&self) -> u64 {
        self.arena.areas(self.control.n_areas()).map(|area| area.n_sampling_ticks()).sum()
    }

    /// Returns the areas of all threads so far.
    pub(crate) fn areas(&self) -> impl Iterator<Item = crate::area::Area<'_>> {
        self.arena.areas(self.control.n_areas())
    }

    /// Returns whether threads never leave the copies.
    pub(crate) fn is_exact(&self) -> bool {
        self.arena.shape() == crate::area::Shape::EXACT
    }

    /// Sets whether ticks start bursts.
    pub fn set_enabled(&self, enabled: bool) {
        self.control.enabled().store(enabled.into(), Ordering::Release);
    }

    /// Sets the CPU time between ticks of a thread; each thread adopts it at its next tick.
    pub fn set_interval_ns(&self, interval_ns: u64) {
        self.control.tick_interval_ns().store(interval_ns, Ordering::Release);
    }

    /// Returns the CPU time between ticks of a thread.
    #[must_use]
    pub fn interval_ns(&self) -> u64 {
        self.control.tick_interval_ns().load(Ordering::Acquire)
    }

    /// Sets the length of a burst, in checks.
    pub fn set_burst_checks(&self, checks: u32) {
        self.control.burst_checks().store(checks, Ordering::Release);
    }

    /// Sets how many bytes of stack a sample has at most, rounded down to a multiple of 8.
    pub fn set_stack_bytes(&self, bytes: u32) {
        self.control.stack_bytes().store(bytes & !7, Ordering::Release);
    }

    /// Returns whether the program handles the signal of ticks itself. Ticks from perf events would
    /// get in the way of its own signals, because they cannot be held back while it has them
    /// blocked; those of timers can.
    #[must_use]
    pub fn handles_tick_signal(&self) -> bool {
        self.control.counters().wrapped_signals >> (TIMER_SIGNAL - 1) & 1 != 0
    }

    /// Has the runtime make timers for threads that have no ticks, from their next opportunity on.
    pub fn use_timers(&self) {
        self.control.tick_source().store(TickSource::PosixTimer as u32, Ordering::Release);
    }

    /// Ends recording in this process for good: threads stop their timers at their next tick.
    pub fn stop(&self) {
        self.set_enabled(false);
        self.control.stopped().store(1, Ordering::Release);
    }

    pub(crate) fn control(&self) -> &ControlFile {
        &self.control
    }

    pub(crate) fn copies(&self) -> &Arc<Copies> {
        &self.copies
    }
}

/// Nobody reads the samples any more, and what others get copies of is no longer checked against
/// this process.
impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Target of `/proc/PID/exe`.
pub(crate) fn program_link(pid: u32) -> Result<OsString> {
    let path = PathBuf::from(format!("/proc/{pid}/exe"));
    Ok(fs::read_link(&path).map_err(|cause| Error::ProcessFile { path, cause })?.into_os_string())
}

/// A descriptor that stands for a process and no later one with the same id.
pub(crate) fn open_pidfd(pid: u32) -> Result<OwnedFd> {
    let number = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).ok_or(Error::Invisible)?;
    rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()).step("pidfd_open")
}

/// The caller drains from one thread and places copies from others.
const _: () = {
    const fn is_shareable<T: Send + Sync>() {}
    is_shareable::<Process>();
};
