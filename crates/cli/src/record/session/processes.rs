//! Processes of a recording: taking them in, draining their samples, watching what they load, and their end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use attach::{Joined, Process};
use wire::control::TickSource;
use wire::hello::LeftAlone;

use crate::record::process::{Module, Sinks, Wanted, Watched};
use crate::record::session::{Session, interval_ns};
use crate::record::tracing::{self, ProcessTrace};
use crate::trace::facts::Fact;

const SCAN_EVERY: Duration = Duration::from_millis(100);
/// For the control flow of code that a process ran that has ended.
const LONGEST_WAIT_FOR_CODE: Duration = Duration::from_secs(20);
/// Between ticks of a process in which no bursts may start.
const HINDERED_INTERVAL_NS: u64 = 1_000_000_000;
/// Tries over which the hit rate is judged.
const HIT_WINDOW: u64 = 20;

impl Session<'_> {
    pub(super) fn take_in(&mut self) {
        while let Ok(joined) = self.joined.try_recv() {
            match joined {
                Joined::Process(process) => self.take_in_one(Arc::new(*process)),
                Joined::Refused { error: attach::Error::LeftAlone { program, reason }, .. } => {
                    self.loners.add(&program, reason);
                }
                Joined::Refused { pid, error } => {
                    *self.counters.problems.entry(format!("process {pid}: {error}")).or_default() += 1;
                }
                _ => {}
            }
        }
    }

    fn take_in_one(&mut self, process: Arc<Process>) {
        // The same process with a new program.
        while let Some(index) = self.processes.iter().position(|watched| watched.process.pid() == process.pid()) {
            let mut replaced = self.processes.remove(index);
            self.end(&mut replaced);
            self.ancestors.push(replaced.process);
        }
        let command = std::fs::read(format!("/proc/{}/cmdline", process.pid())).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
        let id = self.recording.process(process.pid(), process.parent(), &command);
        process.set_enabled(self.is_enabled);
        let setting = self.budget.setting();
        process.set_interval_ns(interval_ns(setting.rate_hz));
        process.set_burst_checks(setting.burst_checks);
        self.n_processes += 1;
        let mut watched = Watched::new(Arc::clone(&process), id, command.clone(), self.props);
        if let Some(writer) = &mut self.trace {
            let number = self.n_processes as u32;
            writer.fact(&Fact::Process { process: number, pid: process.pid(), command });
            watched.path_trace = Some(ProcessTrace::new(number));
        }
        if self.tick_source == TickSource::Perf {
            match process.start_perf_ticks(interval_ns(setting.rate_hz)) {
                Ok(ticks) => watched.perf_ticks = Some(ticks),
                Err(error) => *self.counters.problems.entry(format!("no ticks from perf: {error}")).or_default() += 1,
            }
        }
        if let Some(parent) = process.parent() {
            self.inherit(&mut watched, parent);
        }
        self.scan(&mut watched);
        self.processes.push(watched);
    }

    /// A forked child runs its parent's copies.
    fn inherit(&mut self, child: &mut Watched, parent: u32) {
        let Some(parent) = self.processes.iter().find(|watched| watched.process.pid() == parent) else { return };
        child.layout.inherit(&parent.layout);
        for module in &parent.modules {
            self.recording.module_at(child.id, &module.mapped.path.display().to_string(), module.mapped.bias);
            let mapped = module.mapped.clone();
            let unwind = module.unwind.clone();
            child.add_module(Module { mapped, id: module.id, translation: None, placed: None, problem: None, unwind });
            if let Some(translation) = &module.translation {
                child.add_translation(module.mapped.base, translation, module.placed);
            }
        }
    }

    pub(super) fn drain(&mut self) {
        let mut processes = std::mem::take(&mut self.processes);
        for watched in &mut processes {
            self.drain_one(watched, false);
        }
        self.processes = processes;
        // The end of one may have to wait for translations, and those of the others must find them.
        while let Some(index) = self.processes.iter().position(|watched| !watched.process.is_alive()) {
            let mut watched = self.processes.remove(index);
            self.end(&mut watched);
            self.ancestors.push(watched.process);
        }
        self.ancestors.retain(|process| process.has_heirs());
        self.judge_warmth();
    }

    fn drain_one(&mut self, watched: &mut Watched, is_last: bool) {
        if let Some(ticks) = &mut watched.perf_ticks {
            ticks.follow_threads(&watched.process);
        }
        let wanted = Wanted { checks_traces: self.props.verify, keeps_traces: self.props.keep_trace };
        let process = Arc::clone(&watched.process);
        let ns_per_cycle = 1e9 / self.clock.cycles_per_second();
        let Session { builder, tally, findings, recording, .. } = self;
        let mut sinks = Sinks { builder, tally, findings, recording, ns_per_cycle };
        let mut sink = |sample: attach::SampleRef<'_>| watched.take(&sample, wanted, &mut sinks);
        let drained = if is_last { process.salvage(&mut sink) } else { process.drain(&mut sink) };
        if !self.props.noted.is_empty() && !is_last {
            self.drain_events(watched, false);
        }
        if let Some(writer) = &mut self.trace {
            tracing::drain(watched, writer, is_last);
        }
        self.counters.bad_streams += drained.bad_streams;
        if let Ok(time) = process.cpu_time() {
            watched.cpu_ns = time.total_ns;
        }
        for base in watched.wanted.keys() {
            self.work.want(process.pid(), *base);
        }
    }

    /// A process is gone, or the recording is over: its last samples and counters.
    pub(super) fn end(&mut self, watched: &mut Watched) {
        self.drain_one(watched, true);
        self.wait_for_code(watched);
        watched.digest.release(&mut self.builder, &mut watched.layout, true);
        self.counters.untold_bursts += watched.digest.n_untold;
        watched.hand_on(&mut self.recording);
        if let Some(writer) = &mut self.trace {
            tracing::write(watched, writer);
        }
        self.take_counters(watched);
        self.end_trace(watched);
        self.take_values(watched);
        let counters = watched.process.counters();
        for (place, n) in watched.named_departures() {
            *self.counters.departures.entry(place).or_default() += n;
        }
        let children = (0..counters.children_left_alone).map(|_| LeftAlone::Filter);
        for reason in counters.left_alone.into_iter().chain(children) {
            self.loners.add(watched.process.program(), reason);
        }
        self.counters.lost_ticks += counters.lost_ticks;
        self.counters.ticks_in_burst += counters.ticks_in_burst;
        self.counters.foreign_ticks += u64::from(counters.foreign_ticks);
        self.counters.threads += u64::from(counters.threads_started);
        self.counters.threads_unprofiled += u64::from(counters.threads_unprofiled);
        self.counters.unloads += u64::from(counters.unloads);
        self.counters.threads_blind += watched.blind_threads.len() as u64;
        self.counters.join_cpu_ns += counters.join_cpu_ns;
        self.counters.cpu_ns += std::mem::take(&mut watched.cpu_ns);
    }

    /// Bursts of a process that has ended may still wait for control flow that is being made.
    fn wait_for_code(&mut self, watched: &mut Watched) {
        let started = Instant::now();
        let is_busy = |work: &crate::record::work::Work| !work.is_idle() || work.is_indexing();
        while watched.digest.is_waiting() && is_busy(&self.work) && started.elapsed() < LONGEST_WAIT_FOR_CODE {
            if self.requests.is_hurried() {
                return;
            }
            let Ok(done) = self.done.recv_timeout(SCAN_EVERY) else { continue };
            self.take_translation(done, Some(&mut *watched));
        }
    }

    fn judge_warmth(&mut self) {
        let now = self.tally.yields();
        let window = now.since(self.judged);
        if self.warm_after.is_none() && window.n_tries >= HIT_WINDOW {
            let is_warm = window.n_bursts * 10 >= window.n_tries * 9;
            self.warm_after = is_warm.then(|| self.started.elapsed());
            self.judged = now;
        }
        if self.until_translated.is_none() && self.counters.n_placed > 0 && self.work.is_idle() {
            self.until_translated = Some(now);
        }
    }

    /// Modules come and go while a program runs.
    pub(super) fn rescan(&mut self) {
        let mut processes = std::mem::take(&mut self.processes);
        for watched in &mut processes {
            let is_left_alone = watched.process.counters().left_alone.is_some();
            if is_left_alone && watched.perf_ticks.take().is_some() {
                watched.process.use_timers();
            }
            if watched.perf_ticks.is_some() && watched.process.handles_tick_signal() {
                self.replace_perf_ticks(watched);
            }
            // In exact mode the process waits until it is answered, and that needs to know all its copies.
            if watched.process.unloads_pending() && (self.props.exact.is_none() || !self.awaits_modules(watched)) {
                if self.props.exact.is_some() {
                    watched.forget_targets();
                }
                for placed in watched.process.acknowledge_unloads().unwrap_or_default() {
                    let gone = watched.modules.iter().find(|module| module.placed == Some(placed));
                    if let Some(base) = gone.map(|module| module.mapped.base) {
                        watched.remove(base);
                    }
                }
                self.scan(watched);
            }
            let has_strangers = watched.wanted.remove(&0).is_some();
            watched.wanted.clear();
            let waited = watched.last_scan.elapsed();
            if waited >= SCAN_EVERY || has_strangers && waited >= SCAN_EVERY / 10 {
                self.scan(watched);
                if !is_left_alone {
                    self.look_for_hindrances(watched);
                }
            }
        }
        self.processes = processes;
    }

    /// A process that handles the signal of ticks itself gets them from timers.
    fn replace_perf_ticks(&mut self, watched: &mut Watched) {
        watched.perf_ticks = None;
        watched.process.use_timers();
        let problem = format!("process {}: uses SIGURG itself, so ticks come from timers", watched.process.pid());
        *self.counters.problems.entry(problem).or_default() += 1;
    }

    fn look_for_hindrances(&mut self, watched: &mut Watched) {
        if !watched.look_for_hindrances() {
            return;
        }
        watched.process.set_enabled(self.is_enabled && watched.hindrance.is_none());
        if let Some(hindrance) = watched.hindrance {
            // Threads look at the interval when they tick, so a longer one would be noticed too late.
            watched.process.set_interval_ns(HINDERED_INTERVAL_NS);
            if let Some(ticks) = &mut watched.perf_ticks {
                let _ = ticks.set_interval_ns(HINDERED_INTERVAL_NS);
            }
            let problem = format!("process {}: paused, because {hindrance}", watched.process.pid());
            *self.counters.problems.entry(problem).or_default() += 1;
        }
    }
}
