//! The control file of a process: settings that the agent writes, counters that the runtime writes, and the table of modules.

use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wire::control::{
    Control, FILE_BYTES, KNOWN_PLACES_OFFSET, MAX_MODULES, MODULES_OFFSET, ModuleSlot, NativeReason, Policy,
    SYSTEM_CALLS_BYTES, SYSTEM_CALLS_OFFSET, SYSTEM_CALLS_THAT_LEAVE, SYSTEM_CALLS_THAT_LEAVE_EXACT, TickPlace,
    TickSource,
};
use wire::events::{filling, known_place_slots};
use wire::hello::LeftAlone;

use crate::error::{Result, Step};
use crate::events::EventSettings;
use crate::memory::{SharedMemory, Use};

/// What a process is told when it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Ticks start bursts.
    pub enabled: bool,
    /// CPU time between ticks of a thread.
    pub tick_interval_ns: u64,
    /// Length of a burst in checks.
    pub burst_checks: u32,
    /// Most bytes of stack in a sample, a multiple of 8.
    pub stack_bytes: u32,
    /// Which path ends of a burst count.
    pub policy: Policy,
    /// Of the policy.
    pub samples: u32,
    /// Of the policy.
    pub stride: u32,
    /// Seed of random first phases.
    pub seed: u64,
    /// Where ticks come from.
    pub tick_source: TickSource,
    /// Threads never leave the copies ([`wire::exact`]).
    pub is_exact: bool,
    /// The metric of paths and contexts is the misses of a simulated data cache, not cycles.
    pub counts_misses: bool,
    /// Copies note events, and this becomes of them; those of bursts go as they are.
    pub events: Option<EventSettings>,
    /// Copies append the paths that end to a trace ([`wire::trace`]); there are no events then.
    pub traces_paths: bool,
}

/// What the runtime has counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Ticks delivered, over all threads.
    pub ticks: u64,
    /// Ticks that arrived while the thread was in a burst.
    pub ticks_in_burst: u64,
    /// Ticks that found no free segment.
    pub lost_ticks: u64,
    /// Cycles spent in tick handlers.
    pub handler_cycles: u64,
    /// Ticks in threads that have no area.
    pub foreign_ticks: u32,
    /// Times that something was unmapped when the program closed a library.
    pub unloads: u32,
    /// Threads that were given an area.
    pub threads_started: u32,
    /// Threads that ended in order.
    pub threads_ended: u32,
    /// Threads that run unprofiled.
    pub threads_unprofiled: u32,
    /// Bursts that the program's signal handlers ended.
    pub bursts_ended_by_signals: u32,
    /// CPU nanoseconds of threads that have ended.
    pub cpu_ns_of_ended_threads: u64,
    /// Signals whose handlers go through the runtime, bit `n - 1` for signal `n`.
    pub wrapped_signals: u64,
    /// Address of the dynamic linker's `r_debug` in the target; 0 if it was not found.
    pub r_debug: u64,
    /// The runtime has withdrawn from the process.
    pub left_alone: Option<LeftAlone>,
    /// Children of `vfork` that installed a filter, and whose programs run unprofiled.
    pub children_left_alone: u32,
    /// CPU nanoseconds that joining took in the process.
    pub join_cpu_ns: u64,
}

/// What the runtime has counted of exact mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExactCounters {
    /// Times that a thread went on natively, by reason.
    pub native: [(NativeReason, u64); NativeReason::COUNT],
    /// Cycles between that and being back.
    pub native_cycles: u64,
    /// Times that a thread came into copies.
    pub entries: u64,
    /// Whether a thread gave up waiting for copies.
    pub is_abandoned: bool,
    /// Ticks of CPU time, by where they found a thread.
    pub ticks: [(TickPlace, u64); TickPlace::COUNT],
}

/// A module's copy, as the runtime sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) copy: u64,
    pub(crate) copy_len: u64,
    pub(crate) runs: u64,
    pub(crate) n_runs: u64,
    pub(crate) base: u64,
    pub(crate) code_start: u64,
    pub(crate) code_end: u64,
}

/// The mapped control file.
#[derive(Debug)]
pub(crate) struct ControlFile {
    memory: SharedMemory,
}

/// The word of a field of [`Control`].
macro_rules! field32 {
    ($file:expr, $($field:ident).+) => {
        $file.memory.word32(offset_of!(Control, $($field).+) as u64)
    };
}
macro_rules! field64 {
    ($file:expr, $($field:ident).+) => {
        $file.memory.word64(offset_of!(Control, $($field).+) as u64)
    };
}

impl ControlFile {
    /// A file with these settings and no modules, and the descriptor for the target.
    pub(crate) fn create(pid: u32, settings: &Settings) -> Result<(ControlFile, OwnedFd)> {
        let (memory, file) = SharedMemory::create("strobe-control", FILE_BYTES, Use::ReadWrite).step("control file")?;
        let control = ControlFile { memory };
        field32!(control, version).store(wire::VERSION, Ordering::Relaxed);
        field32!(control, pid).store(pid, Ordering::Relaxed);
        control.enabled().store(settings.enabled.into(), Ordering::Relaxed);
        control.tick_interval_ns().store(settings.tick_interval_ns, Ordering::Relaxed);
        control.burst_checks().store(settings.burst_checks, Ordering::Relaxed);
        control.stack_bytes().store(settings.stack_bytes & !7, Ordering::Relaxed);
        field32!(control, policy).store(settings.policy as u32, Ordering::Relaxed);
        field32!(control, samples).store(settings.samples, Ordering::Relaxed);
        field32!(control, stride).store(settings.stride, Ordering::Relaxed);
        field64!(control, seed).store(settings.seed, Ordering::Relaxed);
        field32!(control, tick_source).store(settings.tick_source as u32, Ordering::Relaxed);
        field32!(control, exact.is_on).store(settings.is_exact.into(), Ordering::Relaxed);
        field32!(control, exact.counts_misses).store(settings.counts_misses.into(), Ordering::Relaxed);
        control.fill_system_calls(settings.is_exact);
        if let Some(events) = &settings.events {
            control.set_events(events);
        }
        if settings.traces_paths {
            field32!(control, events.is_on).store(filling::TRACE, Ordering::Relaxed);
        }
        Ok((control, file))
    }

    fn set_events(&self, events: &EventSettings) {
        for (word, value) in events.words().into_iter().enumerate() {
            let at = offset_of!(Control, events.expression) + word * size_of::<u64>();
            self.memory.word64(at as u64).store(value, Ordering::Relaxed);
        }
        field32!(self, events.expression_len).store(events.len(), Ordering::Relaxed);
        field64!(self, events.seed).store(events.seed(), Ordering::Relaxed);
        field32!(self, events.is_on).store(filling::EVENTS, Ordering::Relaxed);
    }

    fn fill_system_calls(&self, is_exact: bool) {
        let more: &[u16] = if is_exact { &SYSTEM_CALLS_THAT_LEAVE_EXACT } else { &[] };
        let numbers = SYSTEM_CALLS_THAT_LEAVE.iter().chain(more).map(|&number| u64::from(number));
        for number in numbers.filter(|&number| number < SYSTEM_CALLS_BYTES) {
            let (word, byte) = (number / 4 * 4, number % 4);
            self.memory.word32(SYSTEM_CALLS_OFFSET + word).fetch_or(1 << (8 * byte), Ordering::Relaxed);
        }
    }

    pub(crate) fn enabled(&self) -> &AtomicU32 {
        field32!(self, enabled)
    }

    pub(crate) fn tick_interval_ns(&self) -> &AtomicU64 {
        field64!(self, tick_interval_ns)
    }

    pub(crate) fn burst_checks(&self) -> &AtomicU32 {
        field32!(self, burst_checks)
    }

    pub(crate) fn stack_bytes(&self) -> &AtomicU32 {
        field32!(self, stack_bytes)
    }

    pub(crate) fn tick_source(&self) -> &AtomicU32 {
        field32!(self, tick_source)
    }

    pub(crate) fn stopped(&self) -> &AtomicU32 {
        field32!(self, stopped)
    }

    pub(crate) fn unloads(&self) -> &AtomicU32 {
        field32!(self, unloads)
    }

    pub(crate) fn unloads_cleared(&self) -> &AtomicU32 {
        field32!(self, unloads_cleared)
    }

    pub(crate) fn exact_requests(&self) -> &AtomicU32 {
        field32!(self, exact.requests)
    }

    pub(crate) fn exact_answered(&self) -> &AtomicU32 {
        field32!(self, exact.answered)
    }

    pub(crate) fn heartbeat(&self) -> &AtomicU32 {
        field32!(self, exact.heartbeat)
    }

    pub(crate) fn progress(&self) -> &AtomicU32 {
        field32!(self, exact.progress)
    }

    pub(crate) fn events_are_enough(&self) -> &AtomicU32 {
        field32!(self, events.is_enough)
    }

    /// Adds a place whose events are known. Whether there was room for it.
    pub(crate) fn add_known_place(&self, place: u64) -> bool {
        let mut slots = known_place_slots(place).map(|slot| self.memory.word64(KNOWN_PLACES_OFFSET + 8 * slot as u64));
        let Some(free) = slots.find(|slot| [0, place].contains(&slot.load(Ordering::Relaxed))) else { return false };
        free.store(place, Ordering::Relaxed);
        field32!(self, events.n_known).fetch_add(1, Ordering::Release);
        true
    }

    /// What the runtime has counted of exact mode.
    pub(crate) fn exact_counters(&self) -> ExactCounters {
        let native = offset_of!(Control, exact.native) as u64;
        let ticks = offset_of!(Control, exact.ticks) as u64;
        ExactCounters {
            native: NativeReason::ALL.map(|reason| {
                let word = self.memory.word64(native + 8 * reason as u64);
                (reason, word.load(Ordering::Relaxed))
            }),
            native_cycles: field64!(self, exact.native_cycles).load(Ordering::Relaxed),
            entries: field64!(self, exact.entries).load(Ordering::Relaxed),
            is_abandoned: field64!(self, exact.abandoned_tsc).load(Ordering::Relaxed) != 0,
            ticks: TickPlace::ALL.map(|place| {
                let word = self.memory.word64(ticks + 8 * place as u64);
                (place, word.load(Ordering::Relaxed))
            }),
        }
    }

    pub(crate) fn n_areas(&self) -> u32 {
        field32!(self, n_areas).load(Ordering::Acquire)
    }

    /// Writes a module's slot and then the number of slots. A slot in use is never moved or reused.
    pub(crate) fn add_module(&self, index: usize, slot: &Slot) {
        let at = slot_offset(index);
        let word = |offset: usize| self.memory.word64(at + offset as u64);
        word(offset_of!(ModuleSlot, copy)).store(slot.copy, Ordering::Relaxed);
        word(offset_of!(ModuleSlot, copy_len)).store(slot.copy_len, Ordering::Relaxed);
        word(offset_of!(ModuleSlot, runs)).store(slot.runs, Ordering::Relaxed);
        word(offset_of!(ModuleSlot, base)).store(slot.base, Ordering::Relaxed);
        word(offset_of!(ModuleSlot, code_start)).store(slot.code_start, Ordering::Relaxed);
        word(offset_of!(ModuleSlot, code_end)).store(slot.code_end, Ordering::Relaxed);
        word(offset_of!(ModuleSlot, n_runs)).store(slot.n_runs, Ordering::Release);
        field32!(self, n_modules).fetch_max(index as u32 + 1, Ordering::Release);
    }

    /// Voids a slot.
    pub(crate) fn remove_module(&self, index: usize) {
        self.memory.word64(slot_offset(index) + offset_of!(ModuleSlot, n_runs) as u64).store(0, Ordering::Release);
    }

    /// Counters of the process; those of its threads are added by the caller.
    pub(crate) fn counters(&self) -> Counters {
        let count = |word: &AtomicU32| word.load(Ordering::Relaxed);
        Counters {
            foreign_ticks: count(field32!(self, foreign_ticks)),
            unloads: count(field32!(self, unloads)),
            threads_started: count(field32!(self, threads_started)),
            threads_ended: count(field32!(self, threads_ended)),
            threads_unprofiled: count(field32!(self, threads_unprofiled)),
            bursts_ended_by_signals: count(field32!(self, bursts_ended_by_signals)),
            cpu_ns_of_ended_threads: field64!(self, cpu_ns_of_ended_threads).load(Ordering::Relaxed),
            wrapped_signals: field64!(self, wrapped_signals).load(Ordering::Relaxed),
            r_debug: field64!(self, r_debug).load(Ordering::Relaxed),
            left_alone: LeftAlone::from_u32(count(field32!(self, left_alone))),
            children_left_alone: count(field32!(self, children_left_alone)),
            join_cpu_ns: field64!(self, join_cpu_ns).load(Ordering::Relaxed),
            ..Counters::default()
        }
    }
}

fn slot_offset(index: usize) -> u64 {
    assert!(index < MAX_MODULES, "the caller counts slots");
    MODULES_OFFSET + (index * size_of::<ModuleSlot>()) as u64
}
