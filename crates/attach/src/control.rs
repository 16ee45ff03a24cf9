//! The control file of a process: settings that the agent writes, counters that the runtime writes,
//! and the table of modules.

use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wire::control::{
    Control, ENTERS_ANYWHERE, FILE_BYTES, KNOWN_PLACES_OFFSET, MAX_MODULES, MODULES_OFFSET, ModuleSlot, NativeReason,
    SYSTEM_CALLS_BYTES, SYSTEM_CALLS_OFFSET, SYSTEM_CALLS_THAT_LEAVE, SYSTEM_CALLS_THAT_LEAVE_EXACT, TickPlace,
};
use wire::events::{filling, known_place_slots};
use wire::hello::LeftAlone;

use crate::error::{Result, Step};
use crate::memory::{SharedMemory, Use};
use crate::settings::{EventSettings, MetricSource, Mode, Noted, PathEnds, Settings};

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
    /// Cycles that threads spent natively.
    pub native_cycles: u64,
    /// Times that a thread entered the copies.
    pub entries: u64,
    /// Whether a thread has given up waiting for copies.
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
        field32!(control, identity.version).store(wire::VERSION, Ordering::Relaxed);
        field32!(control, identity.pid).store(pid, Ordering::Relaxed);
        control.enabled().store(settings.enabled.into(), Ordering::Relaxed);
        control.tick_interval_ns().store(settings.tick_interval_ns, Ordering::Relaxed);
        field64!(control, settings.seed).store(settings.seed, Ordering::Relaxed);
        field32!(control, settings.tick_source).store(settings.tick_source as u32, Ordering::Relaxed);
        field32!(control, exact.is_on).store(settings.mode.is_exact().into(), Ordering::Relaxed);
        control.set_mode(&settings.mode);
        control.fill_system_calls(settings.mode.is_exact());
        Ok((control, file))
    }

    fn set_mode(&self, mode: &Mode) {
        match mode {
            Mode::Bursts { checks, stack_bytes, ends, values } => {
                self.burst_checks().store(*checks, Ordering::Relaxed);
                self.stack_bytes().store(stack_bytes & !7, Ordering::Relaxed);
                self.set_path_ends(ends);
                self.set_values(values.as_ref());
            }
            Mode::Exact { metric, noted, keeps_paths } => {
                if !keeps_paths {
                    field32!(self, exact.is_on).store(ENTERS_ANYWHERE, Ordering::Relaxed);
                }
                let counts_misses = *metric == MetricSource::CacheMisses;
                field32!(self, exact.counts_misses).store(counts_misses.into(), Ordering::Relaxed);
                self.set_path_ends(&PathEnds::ALL);
                self.set_noted(noted);
            }
            Mode::Counted { n_check, n_instr, noted } => {
                field32!(self, exact.is_on).store(ENTERS_ANYWHERE, Ordering::Relaxed);
                field32!(self, trigger.n_check).store(*n_check, Ordering::Relaxed);
                field32!(self, trigger.n_instr).store(*n_instr, Ordering::Relaxed);
                self.set_path_ends(&PathEnds::ALL);
                self.set_noted(noted);
            }
            Mode::PathSampling { ends, values } => {
                self.set_path_ends(ends);
                self.set_values(values.as_ref());
            }
        }
    }

    fn set_noted(&self, noted: &Noted) {
        match noted {
            Noted::Nothing => {}
            Noted::Values(values) => self.set_values(Some(values)),
            Noted::Words => self.set_filling(filling::WORDS),
        }
    }

    fn set_path_ends(&self, ends: &PathEnds) {
        field32!(self, settings.policy).store(ends.policy as u32, Ordering::Relaxed);
        field32!(self, settings.samples).store(ends.samples, Ordering::Relaxed);
        field32!(self, settings.stride).store(ends.stride, Ordering::Relaxed);
    }

    fn set_values(&self, settings: Option<&EventSettings>) {
        let Some(settings) = settings else { return };
        for (word, value) in settings.words().into_iter().enumerate() {
            let at = offset_of!(Control, events.expression) + word * size_of::<u64>();
            self.memory.word64(at as u64).store(value, Ordering::Relaxed);
        }
        field32!(self, events.expression_len).store(settings.len(), Ordering::Relaxed);
        field64!(self, events.seed).store(settings.seed(), Ordering::Relaxed);
        self.set_filling(filling::EVENTS);
    }

    fn set_filling(&self, filling: u32) {
        field32!(self, events.filling).store(filling, Ordering::Relaxed);
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
        field32!(self, settings.enabled)
    }

    pub(crate) fn tick_interval_ns(&self) -> &AtomicU64 {
        field64!(self, settings.tick_interval_ns)
    }

    pub(crate) fn burst_checks(&self) -> &AtomicU32 {
        field32!(self, settings.burst_checks)
    }

    pub(crate) fn stack_bytes(&self) -> &AtomicU32 {
        field32!(self, settings.stack_bytes)
    }

    pub(crate) fn tick_source(&self) -> &AtomicU32 {
        field32!(self, settings.tick_source)
    }

    pub(crate) fn stopped(&self) -> &AtomicU32 {
        field32!(self, settings.stopped)
    }

    pub(crate) fn unloads(&self) -> &AtomicU32 {
        field32!(self, modules.unloads)
    }

    pub(crate) fn unloads_cleared(&self) -> &AtomicU32 {
        field32!(self, modules.unloads_cleared)
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

    /// Adds a place whose events are known. Returns whether there was room for it.
    pub(crate) fn add_known_place(&self, place: u64) -> bool {
        let mut slots = known_place_slots(place).map(|slot| self.memory.word64(KNOWN_PLACES_OFFSET + 8 * slot as u64));
        let Some(free) = slots.find(|slot| [0, place].contains(&slot.load(Ordering::Relaxed))) else { return false };
        free.store(place, Ordering::Relaxed);
        field32!(self, events.n_known).fetch_add(1, Ordering::Release);
        true
    }

    /// Returns what the runtime has counted of exact mode.
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
        field32!(self, threads.n_areas).load(Ordering::Acquire)
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
        field32!(self, modules.n_modules).fetch_max(index as u32 + 1, Ordering::Release);
    }

    /// Voids a slot.
    pub(crate) fn remove_module(&self, index: usize) {
        self.memory.word64(slot_offset(index) + offset_of!(ModuleSlot, n_runs) as u64).store(0, Ordering::Release);
    }

    /// Counters of the process; those of its threads are added by the caller.
    pub(crate) fn counters(&self) -> Counters {
        let count = |word: &AtomicU32| word.load(Ordering::Relaxed);
        Counters {
            foreign_ticks: count(field32!(self, process.foreign_ticks)),
            unloads: count(field32!(self, modules.unloads)),
            threads_started: count(field32!(self, threads.started)),
            threads_ended: count(field32!(self, threads.ended)),
            threads_unprofiled: count(field32!(self, threads.unprofiled)),
            bursts_ended_by_signals: count(field32!(self, process.bursts_ended_by_signals)),
            cpu_ns_of_ended_threads: field64!(self, threads.cpu_ns_of_ended).load(Ordering::Relaxed),
            wrapped_signals: field64!(self, process.wrapped_signals).load(Ordering::Relaxed),
            r_debug: field64!(self, process.r_debug).load(Ordering::Relaxed),
            left_alone: LeftAlone::from_u32(count(field32!(self, process.left_alone))),
            children_left_alone: count(field32!(self, process.children_left_alone)),
            join_cpu_ns: field64!(self, process.join_cpu_ns).load(Ordering::Relaxed),
            ..Counters::default()
        }
    }
}

fn slot_offset(index: usize) -> u64 {
    assert!(index < MAX_MODULES, "the caller counts slots");
    MODULES_OFFSET + (index * size_of::<ModuleSlot>()) as u64
}
