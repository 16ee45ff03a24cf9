//! The loop of a recording: take in processes, have their modules translated, drain their samples, keep the budget, write the profile.
//!
//! Three threads: one waits for processes to join, one translates, and this one does the rest, a few hundred times a second at most.
//! Nothing that the target waits for happens here; it waits for nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use attach::{Joined, Listener, MappedModule, Placed, Process, Settings};
use profile::builder::Options;
use profile::model::ModuleId;
use profile::{Builder, Profile};
use store::Recording;
use wire::control::TickSource;

use crate::props::RecordProps;
use crate::record::budget::Budget;
use crate::record::digest::PROBES;
use crate::record::outside::Requests;
use crate::record::process::{Module, Sinks, Wanted, Watched};
use crate::record::tally::{Cost, Tally, Yields};
use crate::record::trace_check::Findings;
use crate::record::translation::{FileKey, Translation, Translator};
use crate::record::work::{Done, Job, Work};

const ADJUST_EVERY: Duration = Duration::from_millis(50);
const SCAN_EVERY: Duration = Duration::from_millis(100);
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Times the time that writing the profile takes, until it is written again.
const WRITE_PAUSE: u32 = 20;
const N_ACCEPTORS: usize = 2;
/// For the control flow of code that a process ran that has ended.
const LONGEST_WAIT_FOR_CODE: Duration = Duration::from_secs(20);
/// Between ticks of a process in which no bursts may start.
const HINDERED_INTERVAL_NS: u64 = 1_000_000_000;
/// Tries over which the hit rate is judged.
const HIT_WINDOW: u64 = 20;

/// A recording in progress.
pub struct Session<'a> {
    props: &'a RecordProps,
    pub recording: Recording,
    pub builder: Builder,
    /// Build-ids are read once per file.
    module_ids: HashMap<FileKey, ModuleId>,
    pub translator: Arc<Translator>,
    work: Work,
    joined: Receiver<Joined>,
    done: Receiver<Done>,
    pub budget: Budget,
    pub processes: Vec<Watched>,
    /// Dead, but their children run their copies.
    ancestors: Vec<Arc<Process>>,
    pub n_processes: usize,
    pub tally: Tally,
    pub findings: Findings,
    pub counters: Totals,
    clock: Clock,
    pub started: Instant,
    pub is_enabled: bool,
    pub recorded: Duration,
    enabled_since: Option<Instant>,
    requests: Requests,
    tick_source: TickSource,
    judged: Yields,
    /// How ticks were used until everything was translated.
    pub until_translated: Option<Yields>,
    /// Time from the first join until nine of ten ticks started bursts.
    pub warm_after: Option<Duration>,
    last_adjust: Instant,
    last_flush: Instant,
    last_write: Instant,
    write_time: Duration,
    pub write_error: Option<String>,
    pub delivery_seconds: f64,
}

/// Counters of processes that have ended, and of the agent's reading.
#[derive(Debug, Default, Clone)]
pub struct Totals {
    pub lost_ticks: u64,
    pub ticks_in_burst: u64,
    pub foreign_ticks: u64,
    pub threads: u64,
    pub threads_unprofiled: u64,
    /// Threads that were seen with the signal of ticks blocked.
    pub threads_blind: u64,
    pub unloads: u64,
    /// Bursts that no control flow was known for.
    pub untold_bursts: u64,
    pub bad_streams: u64,
    pub cpu_ns: u64,
    pub n_placed: u64,
    /// Where bursts ended early.
    pub departures: std::collections::BTreeMap<String, u64>,
    /// Modules without a copy, with the reason.
    pub problems: std::collections::BTreeMap<String, u64>,
}

/// Converts cycles of the time-stamp counter.
#[derive(Debug)]
struct Clock {
    started: Instant,
    tsc: u64,
}

impl Clock {
    fn new() -> Clock {
        Clock { started: Instant::now(), tsc: attach::time_stamp() }
    }

    fn cycles_per_second(&self) -> f64 {
        let seconds = self.started.elapsed().as_secs_f64().max(1e-4);
        attach::time_stamp().wrapping_sub(self.tsc) as f64 / seconds
    }
}

impl<'a> Session<'a> {
    /// Starts to listen. The caller starts the program.
    pub fn start(
        props: &'a RecordProps,
        listener: Listener,
        settings: Settings,
        recording: Recording,
        requests: Requests,
    ) -> Session<'a> {
        let probe = match props.probe {
            crate::props::Probe::Trace => emit::Probe::Trace,
            crate::props::Probe::None | crate::props::Probe::Off => emit::Probe::None,
        };
        let n_threads = std::thread::available_parallelism().unwrap_or(std::num::NonZeroUsize::MIN);
        let translator = Arc::new(Translator::new(props.use_cache, probe, props.verify, n_threads));
        let (send_done, done) = channel();
        let work = Work::start(Arc::clone(&translator), send_done);
        let (send_joined, joined) = channel();
        // More than one, because a process that stalls while it joins must not keep others out. The threads end with strobe: nothing is
        // lost when they are cut off between two processes.
        let listener = Arc::new(listener);
        for _ in 0..N_ACCEPTORS {
            let (listener, send_joined) = (Arc::clone(&listener), send_joined.clone());
            std::thread::spawn(move || {
                while let Ok(joined) = listener.accept(&settings) {
                    if send_joined.send(joined).is_err() {
                        return;
                    }
                }
            });
        }
        let now = Instant::now();
        let wishes = super::wishes(props);
        let is_enabled = settings.enabled;
        Session {
            props,
            recording,
            builder: Builder::new(Options { probes: PROBES, ..Options::SAMPLED }),
            module_ids: HashMap::new(),
            translator,
            work,
            joined,
            done,
            budget: Budget::new(wishes),
            processes: Vec::new(),
            ancestors: Vec::new(),
            n_processes: 0,
            tally: Tally::default(),
            findings: Findings::default(),
            counters: Totals::default(),
            clock: Clock::new(),
            started: now,
            is_enabled,
            recorded: Duration::ZERO,
            enabled_since: is_enabled.then_some(now),
            requests,
            tick_source: settings.tick_source,
            judged: Yields::default(),
            until_translated: None,
            warm_after: None,
            last_adjust: now,
            last_flush: now,
            last_write: now,
            write_time: Duration::ZERO,
            write_error: None,
            delivery_seconds: 0.0,
        }
    }

    /// One round. Returns whether there was anything to drain.
    pub fn step(&mut self) -> bool {
        self.keep_time();
        self.take_in();
        self.take_translations();
        let before = self.tally.n_samples;
        self.drain();
        self.rescan();
        if self.last_adjust.elapsed() >= ADJUST_EVERY {
            self.last_adjust = Instant::now();
            self.adjust();
        }
        if self.last_flush.elapsed() >= FLUSH_EVERY {
            self.flush();
        }
        self.tally.n_samples > before
    }

    /// The program has ended: takes what is left and writes everything.
    pub fn finish(&mut self) {
        self.take_in();
        self.take_translations();
        for watched in &self.processes {
            watched.process.stop();
        }
        let mut processes = std::mem::take(&mut self.processes);
        for watched in &mut processes {
            self.end(watched);
        }
        self.processes = processes;
        self.set_enabled(false);
    }

    pub fn cost(&self) -> Cost {
        let mut cost = self.tally.cost(self.clock.cycles_per_second(), self.delivery_seconds);
        // Ticks that left no sample were delivered all the same.
        let silent = (self.counters.lost_ticks + self.counters.ticks_in_burst) as f64;
        cost.n_ticks += silent;
        cost.tick_seconds += silent * self.delivery_seconds;
        cost
    }

    /// CPU seconds of all processes so far.
    pub fn cpu_seconds(&self) -> f64 {
        let living: u64 = self.processes.iter().map(|watched| watched.cpu_ns).sum();
        (self.counters.cpu_ns + living) as f64 / 1e9
    }

    fn keep_time(&mut self) {
        let window = self.props.window;
        let elapsed = self.started.elapsed();
        let starts =
            !window.starts_paused && elapsed >= window.delay && self.enabled_since.is_none() && self.recorded.is_zero();
        if starts || self.requests.take_start() {
            self.set_enabled(true);
        }
        let recorded = self.recorded + self.enabled_since.map_or(Duration::ZERO, |since| since.elapsed());
        if self.requests.take_stop() || window.duration.is_some_and(|duration| recorded >= duration) {
            self.set_enabled(false);
        }
    }

    fn set_enabled(&mut self, enabled: bool) {
        if enabled == self.is_enabled {
            return;
        }
        self.is_enabled = enabled;
        if enabled {
            self.enabled_since = Some(Instant::now());
        } else if let Some(since) = self.enabled_since.take() {
            self.recorded += since.elapsed().max(Duration::from_nanos(1));
        }
        for watched in &self.processes {
            watched.process.set_enabled(enabled && watched.hindrance.is_none());
        }
    }

    fn take_in(&mut self) {
        while let Ok(joined) = self.joined.try_recv() {
            match joined {
                Joined::Process(process) => self.take_in_one(Arc::new(*process)),
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
        let mut watched = Watched::new(Arc::clone(&process), id, command, &self.props.threads);
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
            child.modules.push(Module { mapped, id: module.id, translation: None, placed: None, problem: None });
            if let Some(translation) = &module.translation {
                child.add_translation(module.mapped.base, translation, module.placed);
            }
        }
    }

    /// Looks for modules that have come.
    fn scan(&mut self, watched: &mut Watched) {
        watched.last_scan = Instant::now();
        let Ok(mapped) = watched.process.modules() else { return };
        for module in mapped {
            if watched.modules.iter().any(|known| known.mapped.is_same_as(&module)) {
                continue;
            }
            watched.remove(module.base);
            let path = module.path.display().to_string();
            let device = rustix::fs::makedev(module.dev.0, module.dev.1);
            let cluster = module.cluster.unwrap_or_default();
            let key = FileKey { path: module.path.clone(), device, inode: module.inode, cluster };
            let id = self.module_id(&key);
            self.recording.module_at(watched.id, &path, module.bias);
            watched.layout.add(module.base, module.end, module.bias, id);
            let problem = self.obstacle(&module);
            if let Some(problem) = &problem {
                *self.counters.problems.entry(format!("{path}: {problem}")).or_default() += 1;
            } else if module.cluster.is_some() {
                let urgency = urgency(&module);
                self.work.add(Job { process: Arc::clone(&watched.process), module: module.clone(), key, urgency });
            }
            watched.modules.push(Module { mapped: module, id, translation: None, placed: None, problem });
        }
    }

    fn module_id(&mut self, key: &FileKey) -> ModuleId {
        if let Some(&id) = self.module_ids.get(key) {
            return id;
        }
        let build_id = Translator::build_id(key).unwrap_or_default();
        let id = self.builder.module(&key.path.display().to_string(), &build_id);
        self.module_ids.insert(key.clone(), id);
        id
    }

    fn obstacle(&self, module: &MappedModule) -> Option<String> {
        if let Some(reason) = module.reason {
            return Some(reason.to_string());
        }
        let name = module.path.file_name().unwrap_or_default().to_string_lossy();
        let filters = &self.props.modules;
        let is_filtered = !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str()));
        if is_filtered {
            return Some("left out by --module".to_owned());
        }
        // libc unloads these by itself, past the function that the runtime watches.
        let is_volatile =
            module.path.components().any(|part| part.as_os_str() == "gconv") || name.starts_with("libnss_");
        is_volatile.then(|| "libc may unload it at any time".to_owned())
    }

    fn take_translations(&mut self) {
        while let Ok(Done { pid, base, result }) = self.done.try_recv() {
            self.take_translation(pid, base, result, None);
        }
    }

    /// A module has been placed, or could not be. `ending` is a process that is no more among the others.
    fn take_translation(
        &mut self,
        pid: u32,
        base: u64,
        result: Result<(Arc<Translation>, Placed), String>,
        ending: Option<&mut Watched>,
    ) {
        let Session { processes, counters, builder, .. } = self;
        let mut all = processes.iter_mut().chain(ending);
        let Some(watched) = all.find(|watched| watched.process.pid() == pid) else { return };
        let Some(module) = watched.modules.iter_mut().find(|module| module.mapped.base == base) else { return };
        match result {
            Ok((translation, placed)) => {
                counters.n_placed += 1;
                let first = translation.code.get().and_then(|code| builder.set_code(module.id, Arc::clone(code)));
                watched.add_translation(base, &translation, Some(placed));
                if let Some(first) = first {
                    watched.set_code(base, first, &translation, builder);
                }
            }
            Err(problem) => {
                let path = module.mapped.path.display();
                *counters.problems.entry(format!("{path}: {problem}")).or_default() += 1;
                module.problem = Some(problem);
            }
        }
    }

    fn drain(&mut self) {
        let mut processes = std::mem::take(&mut self.processes);
        processes.retain_mut(|watched| {
            let is_alive = watched.process.is_alive();
            if is_alive {
                self.drain_one(watched, false);
            } else {
                self.end(watched);
                self.ancestors.push(Arc::clone(&watched.process));
            }
            is_alive
        });
        self.ancestors.retain(|process| process.has_heirs());
        self.processes = processes;
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
        self.counters.bad_streams += drained.bad_streams;
        if let Ok(time) = process.cpu_time() {
            watched.cpu_ns = time.total_ns;
        }
        for base in watched.wanted.keys() {
            self.work.want(process.pid(), *base);
        }
    }

    /// A process is gone, or the recording is over: its last samples and counters.
    fn end(&mut self, watched: &mut Watched) {
        self.drain_one(watched, true);
        self.wait_for_code(watched);
        watched.digest.release(&mut self.builder, &mut watched.layout, true);
        self.counters.untold_bursts += watched.digest.n_untold;
        watched.hand_on(&mut self.recording);
        let counters = watched.process.counters();
        for (place, n) in watched.named_departures() {
            *self.counters.departures.entry(place).or_default() += n;
        }
        self.counters.lost_ticks += counters.lost_ticks;
        self.counters.ticks_in_burst += counters.ticks_in_burst;
        self.counters.foreign_ticks += u64::from(counters.foreign_ticks);
        self.counters.threads += u64::from(counters.threads_started);
        self.counters.threads_unprofiled += u64::from(counters.threads_unprofiled);
        self.counters.unloads += u64::from(counters.unloads);
        self.counters.threads_blind += watched.blind_threads.len() as u64;
        self.counters.cpu_ns += std::mem::take(&mut watched.cpu_ns);
    }

    /// Bursts of a process that has ended may still wait for control flow that is being made.
    fn wait_for_code(&mut self, watched: &mut Watched) {
        let started = Instant::now();
        while watched.digest.is_waiting() && self.is_translating() && started.elapsed() < LONGEST_WAIT_FOR_CODE {
            let Ok(Done { pid, base, result }) = self.done.recv_timeout(SCAN_EVERY) else { continue };
            self.take_translation(pid, base, result, Some(&mut *watched));
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
    fn rescan(&mut self) {
        let mut processes = std::mem::take(&mut self.processes);
        for watched in &mut processes {
            if watched.perf_ticks.is_some() && watched.process.handles_tick_signal() {
                self.replace_perf_ticks(watched);
            }
            if watched.process.unloads_pending() {
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
                self.look_for_hindrances(watched);
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

    fn adjust(&mut self) {
        let cost = self.cost();
        let setting = self.budget.adjust(cost, self.cpu_seconds());
        for watched in self.processes.iter_mut().filter(|watched| watched.hindrance.is_none()) {
            let interval_ns = interval_ns(setting.rate_hz);
            if let Some(ticks) = watched.perf_ticks.as_mut().filter(|_| watched.process.interval_ns() != interval_ns) {
                let _ = ticks.set_interval_ns(interval_ns);
            }
            watched.process.set_interval_ns(interval_ns);
            watched.process.set_burst_checks(setting.burst_checks);
        }
    }

    /// Writes the profile so far, or only what is cheap if the last time took long.
    pub fn flush(&mut self) {
        self.last_flush = Instant::now();
        for watched in &mut self.processes {
            watched.hand_on(&mut self.recording);
            for path in watched.unplace_changed() {
                let problem = format!("{}: the program has changed this code", path.display());
                *self.counters.problems.entry(problem).or_default() += 1;
            }
            watched.blind_threads.extend(watched.process.threads_that_block_ticks().unwrap_or_default());
        }
        if self.last_write.elapsed() >= self.write_time * WRITE_PAUSE {
            let profile = self.builder.profile();
            self.write(&profile);
        }
    }

    /// A profile that cannot be written does not stop the program; the loss is reported at the end.
    pub fn write(&mut self, profile: &Profile) {
        let started = Instant::now();
        if let Err(error) = self.recording.write(profile) {
            self.write_error.get_or_insert(error.to_string());
        }
        self.write_time = started.elapsed();
        self.last_write = Instant::now();
    }

    pub fn close(self) -> Recording {
        self.work.close();
        self.recording
    }

    /// Whether a translation that the next run can use is under way.
    pub fn prepares_next_run(&self) -> bool {
        self.props.use_cache && self.work.is_wanted()
    }

    pub fn is_translating(&self) -> bool {
        !self.work.is_idle()
    }
}

pub fn interval_ns(rate_hz: f64) -> u64 {
    (1e9 / rate_hz) as u64
}

/// The program first, then libc, then small before large.
fn urgency(module: &MappedModule) -> u64 {
    let name = module.path.file_name().unwrap_or_default().to_string_lossy();
    let rank: u64 = if module.is_program {
        2
    } else if name.starts_with("libc.so") || name.starts_with("libc-") {
        1
    } else {
        0
    };
    (rank << 28) + (1 << 27) - module.exec_bytes().min(1 << 27)
}
