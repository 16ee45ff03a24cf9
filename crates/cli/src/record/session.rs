//! The loop of a recording: take in processes, have their modules translated, drain their samples, keep the budget, write the profile.
//!
//! Three threads: one waits for processes to join, one translates, and this one does the rest, a few hundred times a second at most.
//! Nothing that the target waits for happens here; it waits for nothing.

mod exact_mode;
mod modules;
mod processes;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use attach::{Joined, Listener, Process, Settings};
use profile::builder::Options;
use profile::model::NotedValue;
use profile::{Builder, Profile};
use sampling::selector::Selector;
use store::Recording;
use wire::control::TickSource;

use crate::props::RecordProps;
use crate::record::budget::Budget;
use crate::record::digest::TIMES;
use crate::record::events::{self, ValueStream};
use crate::record::exact;
use crate::record::guide::Guide;
use crate::record::left_alone::Loners;
use crate::record::outside::Requests;
use crate::record::process::Watched;
use crate::record::summary;
use crate::record::tally::{Cost, Tally, Yields};
use crate::record::trace_check::Findings;
use crate::record::tracing;
use crate::record::translation::{Content, FileKey, Translator};
use crate::record::work::{Done, Work};
use crate::trace::file::Writer;

const ADJUST_EVERY: Duration = Duration::from_millis(50);
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Times the time that writing the profile takes, until it is written again.
const WRITE_PAUSE: u32 = 20;
const N_ACCEPTORS: usize = 2;
/// What a process takes to load the runtime, to join and to let go of it at its end, as a multiple of joining, which is what the runtime can measure: between 1.7 and 1.9 for `true`,
/// rounded up.
const START_PER_JOIN: f64 = 2.0;

/// A recording in progress.
pub struct Session<'a> {
    pub props: &'a RecordProps,
    pub recording: Recording,
    pub builder: Builder,
    /// Build-ids are read once per file.
    known_files: HashMap<FileKey, modules::KnownFile>,
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
    /// Processes that were left alone.
    pub loners: Loners,
    clock: Clock,
    pub started: Instant,
    pub is_enabled: bool,
    pub recorded: Duration,
    /// Recording was off for a while.
    was_paused: bool,
    /// The program has ended.
    is_over: bool,
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
    /// What was written last, for a live view.
    latest: Option<Profile>,
    pub delivery_seconds: f64,
    /// Counters of exact mode.
    pub exact: exact::Totals,
    /// Where values go, if they are not counted.
    pub value_stream: Option<ValueStream>,
    /// Where the trace goes, if there is one.
    pub trace: Option<Writer>,
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
    /// CPU time in which processes joined.
    pub join_cpu_ns: u64,
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
        guide: Guide,
    ) -> Session<'a> {
        let probe = match (props.exact, props.probe) {
            (Some(exact), _) => emit::Probe::Exact(exact::counting(exact, props.per_call_site)),
            (None, crate::props::Probe::Trace) => emit::Probe::Trace,
            (None, crate::props::Probe::None | crate::props::Probe::Off) => emit::Probe::None,
        };
        let content = Content { probe, events: props.noted, selector: props.selector.clone() };
        let n_threads = std::thread::available_parallelism().unwrap_or(std::num::NonZeroUsize::MIN);
        let keeps_flow = props.verify || props.exact.is_some();
        let translator = Arc::new(Translator::new(props.use_cache, content, keeps_flow, guide, n_threads));
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
            builder: Builder::new(Options { times: TIMES, ..Options::SAMPLED }),
            known_files: HashMap::new(),
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
            loners: Loners::default(),
            clock: Clock::new(),
            started: now,
            is_enabled,
            recorded: Duration::ZERO,
            was_paused: false,
            is_over: false,
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
            latest: None,
            delivery_seconds: 0.0,
            exact: exact::Totals { values: events::Totals::new(&props.compressor), ..exact::Totals::default() },
            value_stream: None,
            trace: None,
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
        self.answer_requests();
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
        for _ in 0..self.processes.len() {
            let mut watched = self.processes.remove(0);
            self.end(&mut watched);
            self.processes.push(watched);
        }
        self.is_over = true;
        self.set_enabled(false);
    }

    pub fn cost(&self) -> Cost {
        let mut cost = self.tally.cost(self.clock.cycles_per_second(), self.delivery_seconds);
        // Ticks that left no sample were delivered all the same.
        let silent = (self.counters.lost_ticks + self.counters.ticks_in_burst) as f64;
        cost.n_ticks += silent;
        cost.tick_seconds += silent * self.delivery_seconds;
        let living: u64 = self.processes.iter().map(|watched| watched.process.counters().join_cpu_ns).sum();
        cost.start_seconds = START_PER_JOIN * (self.counters.join_cpu_ns + living) as f64 / 1e9;
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
        self.was_paused |= !enabled && !self.is_over;
        if enabled {
            self.enabled_since = Some(Instant::now());
        } else if let Some(since) = self.enabled_since.take() {
            self.recorded += since.elapsed().max(Duration::from_nanos(1));
        }
        for watched in &self.processes {
            watched.process.set_enabled(enabled && watched.hindrance.is_none());
        }
    }

    fn adjust(&mut self) {
        let cost = self.cost();
        let setting = self.budget.adjust(cost, self.cpu_seconds(), self.builder.expected_lack());
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
            if let Some(writer) = &mut self.trace {
                tracing::write(watched, writer);
            }
            watched.hand_on(&mut self.recording);
            for path in watched.unplace_changed() {
                let problem = format!("{}: the program has changed this code", path.display());
                *self.counters.problems.entry(problem).or_default() += 1;
            }
            watched.blind_threads.extend(watched.process.threads_that_block_ticks().unwrap_or_default());
        }
        if self.props.exact.is_none() && self.last_write.elapsed() >= self.write_time * WRITE_PAUSE {
            let facts = summary::facts_so_far(self, &super::command_line(self.props));
            for (name, value) in &facts {
                self.recording.fact(name, value);
            }
            let mut profile = self.builder.profile();
            self.write(&profile);
            if self.props.live {
                profile.facts.extend(facts.into_iter().map(|(name, value)| (name.to_owned(), value)));
                self.latest = Some(profile);
            }
        }
    }

    /// The profile so far, if it was written since the last time.
    pub fn take_latest(&mut self) -> Option<Profile> {
        self.latest.take()
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
        self.props.use_cache && (self.work.is_wanted() || self.work.is_indexing())
    }

    /// Whether nothing of the run was left out: recording was never off.
    pub fn recorded_all(&self) -> bool {
        let window = self.props.window;
        let is_whole = window.delay.is_zero() && window.duration.is_none() && !window.starts_paused;
        is_whole && !self.was_paused && self.props.threads.is_empty()
    }

    /// Whether events are noted.
    pub fn notes_values(&self) -> bool {
        !self.props.noted.is_empty()
    }

    /// What bursts have seen of values.
    pub fn values_of_bursts(&self) -> Vec<NotedValue> {
        let same = self.known_files.values().map(|known| (known.id, known.id)).collect();
        self.exact.values.rows(&same)
    }

    /// Where events are noted, if not everywhere.
    pub fn selector(&self) -> Option<&Selector> {
        self.props.selector.as_ref()
    }

    pub fn is_translating(&self) -> bool {
        !self.work.is_idle()
    }
}

pub fn interval_ns(rate_hz: f64) -> u64 {
    (1e9 / rate_hz) as u64
}
