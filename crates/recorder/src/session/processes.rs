//! Processes of a recording: taking them in, draining them, watching what they load, and their end.
//!
//! A process that has ended is drained at once. Its reader concludes when the control flow that it
//! needs is known, or when it has waited long enough.

use std::sync::Arc;
use std::time::{Duration, Instant};

use attach::{Joined, Process};
use wire::control::TickSource;
use wire::hello::LeftAlone;

use super::{Session, interval_ns};
use crate::noted::ProcessNotes;
use crate::plan::Mode;
use crate::process::{Module, Watched};
use crate::reader::Reader;
use crate::reader::bursts::BurstReader;
use crate::reader::counted::CountedReader;
use crate::reader::exact::ExactReader;
use crate::translation::Translation;
use crate::translation::work::{Placement, Work};
use store::path_trace::facts::Fact;

/// How often it is looked for what keeps bursts from being harmless.
const LOOK_FOR_HINDRANCES_EVERY: Duration = Duration::from_millis(100);
/// How often it is looked whether ended processes have children that need their copies. All
/// processes of the system are looked through for that.
const CHECK_ANCESTORS_EVERY: Duration = Duration::from_secs(1);
/// Between ticks of a process in which no bursts may start.
const HINDERED_INTERVAL_NS: u64 = 1_000_000_000;
/// Tries over which the hit rate is judged.
const HIT_WINDOW: u64 = 20;

/// A process and what reads it.
#[derive(Debug)]
pub(super) struct Followed {
    pub of: Watched,
    pub reader: Box<dyn Reader>,
    pub notes: Option<ProcessNotes>,
    /// When it ended, and was drained for the last time.
    ended: Option<Instant>,
}

impl Followed {
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    pub fn is_process(&self, process: &Arc<Process>) -> bool {
        Arc::ptr_eq(&self.of.process, process)
    }

    /// Gives the module at `base` its translation.
    pub fn add_translation(&mut self, base: u64, translation: &Arc<Translation>, placed: Option<Placement>) {
        if let Some(module) = self.of.set_translation(base, translation, placed) {
            self.reader.translated(module, translation);
        }
    }

    /// Retires the module at `base`, which has been unloaded.
    pub fn remove_module(&mut self, base: u64) {
        if self.of.retire(base) {
            self.reader.unloaded(base);
        }
    }

    /// Returns whether its end has to wait for what is still being translated.
    fn must_wait(&self, work: &Work, is_hurried: bool) -> bool {
        let Some(ended) = self.ended else { return true };
        !is_hurried && self.reader.longest_wait(&self.of, work).is_some_and(|longest| ended.elapsed() < longest)
    }
}

impl Session {
    pub(super) fn take_in(&mut self) {
        while let Ok(joined) = self.joined.try_recv() {
            match joined {
                Joined::Process(process) => self.take_in_one(Arc::new(*process)),
                Joined::Refused { error: attach::Error::LeftAlone { program, reason }, .. } => {
                    self.sums.left_alone.add(&program, reason);
                }
                Joined::Refused { pid, error } => self.sums.counters.problem(format!("process {pid}: {error}")),
                _ => {}
            }
        }
    }

    fn take_in_one(&mut self, process: Arc<Process>) {
        // The same process with a new program.
        let is_same = |followed: &Followed| !followed.has_ended() && followed.of.process.pid() == process.pid();
        while let Some(index) = self.processes.iter().position(is_same) {
            self.end_process(index);
        }
        let command = std::fs::read(format!("/proc/{}/cmdline", process.pid())).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
        let id = self.sums.recording.process(process.pid(), process.parent(), &command);
        process.set_enabled(self.window.is_enabled);
        let setting = self.pace.budget.setting();
        process.set_interval_ns(interval_ns(setting.rate_hz));
        process.set_burst_checks(setting.burst_checks);
        self.n_processes += 1;
        let mut of = Watched::new(Arc::clone(&process), id);
        if self.tick_source == TickSource::Perf {
            match process.start_perf_ticks(interval_ns(setting.rate_hz)) {
                Ok(ticks) => of.perf_ticks = Some(ticks),
                Err(error) => self.sums.counters.problem(format!("no ticks from perf: {error}")),
            }
        }
        let reader = self.reader(&process, command);
        let notes = self.plan.noting.as_ref().map(ProcessNotes::new);
        let mut followed = Followed { of, reader, notes, ended: None };
        if let Some(parent) = process.parent() {
            self.inherit(&mut followed, parent);
        }
        self.scan(&mut followed);
        self.processes.push(followed);
    }

    /// Returns what reads a process, by the mode of the recording.
    fn reader(&mut self, process: &Process, command: String) -> Box<dyn Reader> {
        match &self.plan.mode {
            Mode::Bursts(bursts) => Box::new(BurstReader::new(bursts, &self.plan.threads, process.pid(), command)),
            Mode::Counted(counted) => Box::new(CountedReader::new(counted, &self.plan.threads, process.pid(), command)),
            Mode::Exact(_) | Mode::Pep(_) => {
                let number = self.n_processes as u32;
                let traced = self.sums.path_trace.as_mut().map(|writer| {
                    writer.fact(&Fact::Process { process: number, pid: process.pid(), command });
                    number
                });
                Box::new(ExactReader::new(traced))
            }
        }
    }

    /// Gives a forked child what its parent has: it runs its parent's copies.
    fn inherit(&mut self, child: &mut Followed, parent: u32) {
        let is_parent = |followed: &&Followed| !followed.has_ended() && followed.of.process.pid() == parent;
        let Some(Followed { of: parent, .. }) = self.processes.iter().find(is_parent) else { return };
        child.of.layout.inherit(&parent.layout);
        for module in &parent.modules {
            let Module { mapped, id, unwind, translation, placed, .. } = module;
            self.sums.recording.module_at(child.of.id, &mapped.path.display().to_string(), mapped.bias);
            child.of.add_module(Module {
                mapped: mapped.clone(),
                id: *id,
                translation: None,
                placed: None,
                problem: None,
                unwind: unwind.clone(),
            });
            if let Some(translation) = translation {
                child.add_translation(mapped.base, translation, *placed);
            }
        }
    }

    pub(super) fn drain(&mut self) {
        let mut processes = std::mem::take(&mut self.processes);
        for followed in processes.iter_mut().filter(|followed| !followed.has_ended()) {
            self.drain_one(followed, false);
        }
        self.processes = processes;
        for index in 0..self.processes.len() {
            if !self.processes[index].has_ended() && !self.processes[index].of.process.is_alive() {
                self.end_process(index);
            }
        }
        if !self.ancestors.is_empty() && self.ancestors_checked.elapsed() >= CHECK_ANCESTORS_EVERY {
            self.ancestors_checked = Instant::now();
            self.ancestors.retain(|process| process.has_heirs());
        }
        self.judge_warmth();
    }

    fn drain_one(&mut self, followed: &mut Followed, is_last: bool) {
        let Followed { of, reader, notes, .. } = followed;
        if let Some(ticks) = &mut of.perf_ticks {
            ticks.follow_threads(&of.process);
        }
        reader.drain(of, &mut self.sums, is_last);
        if let Some(notes) = notes.as_mut().filter(|_| !is_last) {
            notes.drain(of, self.sums.value_stream.as_mut());
        }
        if let Ok(cpu_ns) = of.process.cpu_ns() {
            of.cpu_ns = cpu_ns;
        }
        for base in of.wanted.keys() {
            self.work.want(of.process.pid(), *base);
        }
    }

    /// Takes what is left of a process that is gone, or whose recording is over.
    pub(super) fn end_process(&mut self, index: usize) {
        let mut followed = self.processes.remove(index);
        if !followed.has_ended() {
            self.drain_one(&mut followed, true);
            followed.ended = Some(Instant::now());
        }
        self.processes.insert(index, followed);
    }

    /// Concludes processes that have ended and wait for nothing any more.
    pub(super) fn settle(&mut self) {
        let is_hurried = self.is_hurried();
        loop {
            let ready = |followed: &Followed| followed.has_ended() && !followed.must_wait(&self.work, is_hurried);
            let Some(index) = self.processes.iter().position(ready) else { return };
            // What was counted as done was sent before.
            self.take_translations();
            let followed = self.processes.remove(index);
            self.conclude(followed);
        }
    }

    /// Adds up what a process has left.
    fn conclude(&mut self, followed: Followed) {
        let Followed { mut of, mut reader, notes, .. } = followed;
        reader.conclude(&mut of, &mut self.sums);
        if let Some(notes) = notes {
            notes.conclude(&of, self.sums.value_stream.as_mut(), &mut self.sums.values);
        }
        let counters = of.process.counters();
        let children = (0..counters.children_left_alone).map(|_| LeftAlone::Filter);
        for reason in counters.left_alone.into_iter().chain(children) {
            self.sums.left_alone.add(of.process.program(), reason);
        }
        let sums = &mut self.sums.counters;
        sums.lost_ticks += counters.lost_ticks;
        sums.ticks_in_burst += counters.ticks_in_burst;
        sums.foreign_ticks += u64::from(counters.foreign_ticks);
        sums.threads += u64::from(counters.threads_started);
        sums.threads_unprofiled += u64::from(counters.threads_unprofiled);
        sums.unloads += u64::from(counters.unloads);
        sums.threads_blind += of.blind_threads.len() as u64;
        sums.join_cpu_ns += counters.join_cpu_ns;
        sums.cpu_ns += of.cpu_ns;
        self.ancestors.push(of.process);
    }

    fn judge_warmth(&mut self) {
        let now = self.sums.tally.yields();
        let pace = &mut self.pace;
        let window = now.since(pace.judged);
        if pace.warm_after.is_none() && window.n_tries >= HIT_WINDOW {
            let is_warm = window.n_bursts * 10 >= window.n_tries * 9;
            pace.warm_after = is_warm.then(|| self.window.started.elapsed());
            pace.judged = now;
        }
        if pace.until_translated.is_none() && self.sums.counters.n_placed > 0 && self.work.is_idle() {
            pace.until_translated = Some(now);
        }
    }

    /// Looks at what has changed in processes: modules come and go while a program runs.
    pub(super) fn rescan(&mut self) {
        let mut processes = std::mem::take(&mut self.processes);
        for followed in processes.iter_mut().filter(|followed| !followed.has_ended()) {
            let process = Arc::clone(&followed.of.process);
            let is_left_alone = process.counters().left_alone.is_some();
            if is_left_alone && followed.of.perf_ticks.take().is_some() {
                process.use_timers();
            }
            if followed.of.perf_ticks.is_some() && process.handles_tick_signal() {
                self.replace_perf_ticks(&mut followed.of);
            }
            if process.unloads_pending() && followed.reader.may_unload(&followed.of, &self.work) {
                followed.reader.unloading(&followed.of);
                self.last_unload = Some(Instant::now());
                for placed in process.acknowledge_unloads().unwrap_or_default() {
                    if let Some(base) = followed.of.base_of(placed) {
                        followed.remove_module(base);
                    }
                }
                self.scan(followed);
            }
            let has_strangers = followed.of.wanted.remove(&0).is_some();
            followed.of.wanted.clear();
            if followed.of.scans.is_due(followed.of.cpu_ns, has_strangers) {
                self.scan(followed);
            }
            if !is_left_alone && followed.of.hindrance_looks.is_due(followed.of.cpu_ns, LOOK_FOR_HINDRANCES_EVERY) {
                self.look_for_hindrances(&mut followed.of);
            }
        }
        self.processes = processes;
    }

    /// Sees to the processes that wait for copies.
    pub(super) fn answer_requests(&mut self) {
        let mut processes = std::mem::take(&mut self.processes);
        let progress = self.translator.progress();
        for followed in processes.iter_mut().filter(|followed| !followed.has_ended()) {
            let Some(request) = followed.reader.attend(&followed.of, progress) else { continue };
            if request.is_new {
                self.scan(followed);
            }
            if !self.work.has_jobs_for(followed.of.process.pid()) {
                followed.of.process.answer(request.number);
            }
        }
        self.processes = processes;
    }

    /// Gives a process that handles the signal of ticks itself ticks from timers.
    fn replace_perf_ticks(&mut self, watched: &mut Watched) {
        watched.perf_ticks = None;
        watched.process.use_timers();
        let pid = watched.process.pid();
        self.sums.counters.problem(format!("process {pid}: uses SIGURG itself, so ticks come from timers"));
    }

    fn look_for_hindrances(&mut self, watched: &mut Watched) {
        watched.hindrance_looks.done(watched.cpu_ns);
        if !watched.look_for_hindrances() {
            return;
        }
        watched.process.set_enabled(self.window.is_enabled && watched.hindrance.is_none());
        if let Some(hindrance) = watched.hindrance {
            // Threads look at the interval when they tick, so a longer one would be noticed too
            // late.
            watched.process.set_interval_ns(HINDERED_INTERVAL_NS);
            if let Some(ticks) = &mut watched.perf_ticks {
                let _ = ticks.set_interval_ns(HINDERED_INTERVAL_NS);
            }
            let pid = watched.process.pid();
            self.sums.counters.problem(format!("process {pid}: paused, because {hindrance}"));
        }
    }
}
