//! The loop of a recording: takes processes in, has their modules translated, drains what they
//! leave in shared memory, keeps the budget, writes the profile.
//!
//! Three threads: one waits for processes to join, one translates, and this one does the rest, a
//! few hundred times a second at most. No step waits for anything: a process that has ended stays
//! as such until what its samples need is known, or until it has waited long enough.

mod modules;
mod processes;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use attach::{Joined, Listener, Process, Settings};
use profile::Profile;
use profile::builder::Options;
use profile::model::NotedValue;
use store::Recording;
use store::path_trace::file::Writer;
use wire::control::TickSource;

use self::processes::Followed;
use crate::bursts::budget::Budget;
use crate::bursts::digest::TIMES;
use crate::bursts::tally::{Cost, Yields};
use crate::error::Result;
use crate::exact;
use crate::facts;
use crate::noted::{self, ValueStream};
use crate::plan::{Mode, Plan};
use crate::requests::Requests;
use crate::sums::{Clock, Counters, Sums};
use crate::translation::guide::Guide;
use crate::translation::work::{Done, Work};
use crate::translation::{Content, FileKey, Translator};

const ADJUST_EVERY: Duration = Duration::from_millis(50);
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// A snapshot of the profile is written again after so many times the time that writing it took.
const WRITE_PAUSE: u32 = 20;
const N_ACCEPTORS: usize = 2;
/// What a process takes to load the runtime, to join and to let go of it at its end, as a multiple
/// of joining, which is what the runtime can measure: between 1.7 and 1.9 for `true`, rounded up.
const START_PER_JOIN: f64 = 2.0;

/// A recording in progress.
#[derive(Debug)]
pub struct Session {
    pub plan: Plan,
    pub sums: Sums,
    /// Build-ids are read once per file.
    known_files: HashMap<FileKey, modules::KnownFile>,
    pub translator: Arc<Translator>,
    work: Work,
    joined: Receiver<Joined>,
    done: Receiver<Done>,
    processes: Vec<Followed>,
    /// Dead, but their children run their copies.
    ancestors: Vec<Arc<Process>>,
    pub n_processes: usize,
    window: OpenWindow,
    requests: Requests,
    pub tick_source: TickSource,
    pub pace: Pace,
    writing: Writing,
    /// What it takes to deliver the signal of a tick.
    pub delivery_seconds: f64,
}

/// Whether recording is on, and for how long it has been.
#[derive(Debug)]
struct OpenWindow {
    started: Instant,
    is_enabled: bool,
    enabled_since: Option<Instant>,
    recorded: Duration,
    /// Recording was off for a while.
    was_paused: bool,
    /// The program has ended.
    is_over: bool,
}

/// How often threads tick, and what has come of that.
#[derive(Debug)]
pub struct Pace {
    pub budget: Budget,
    last_adjust: Instant,
    judged: Yields,
    /// How ticks were used until everything was translated.
    pub until_translated: Option<Yields>,
    /// Time from the first join until nine of ten ticks started bursts.
    pub warm_after: Option<Duration>,
}

/// Snapshots of the profile while the program runs.
#[derive(Debug)]
struct Writing {
    last_flush: Instant,
    last_write: Instant,
    write_time: Duration,
    error: Option<String>,
    /// What was written last.
    latest: Option<Profile>,
}

impl Session {
    /// Starts to listen. The caller starts the program.
    pub fn start(
        plan: Plan,
        listener: Listener,
        settings: Settings,
        recording: Recording,
        requests: Requests,
    ) -> Result<Session> {
        let guide = plan.mode.guide().map(|file| Guide::read(&file.path, file.is_flipped)).transpose()?;
        let selector = plan.noting.as_ref().and_then(|noting| noting.selector.clone());
        let content = Content {
            probe: plan.mode.probe(),
            checking_probe: plan.mode.checking_probe(),
            events: plan.events(),
            selector,
        };
        let n_threads = std::thread::available_parallelism().unwrap_or(std::num::NonZeroUsize::MIN);
        let keeps_flow = plan.mode.keeps_flow();
        let guide = guide.unwrap_or_default();
        let translator = Arc::new(Translator::new(plan.uses_cache, content, keeps_flow, guide, n_threads));
        let (send_done, done) = channel();
        let work = Work::start(Arc::clone(&translator), send_done);
        let joined = accept(listener, settings);
        let stream = plan.noting.as_ref().and_then(|noting| noting.stream.as_deref());
        let compressor = plan.noting.as_ref().map_or("", |noting| &noting.compressor);
        let path_trace = plan.mode.traces_paths().then(|| store::path_trace::path_beside(&plan.output));
        let sums = Sums {
            recording,
            builder: profile::Builder::new(options(&plan.mode)),
            tally: Default::default(),
            findings: Default::default(),
            counters: Counters::default(),
            exact: exact::Totals::default(),
            counted: Default::default(),
            path_trace: path_trace.as_deref().map(Writer::create).transpose()?,
            values: noted::Totals::new(compressor),
            value_stream: stream.map(ValueStream::create).transpose()?,
            left_alone: Default::default(),
            clock: Clock::start(),
        };
        let now = Instant::now();
        let is_enabled = settings.enabled;
        Ok(Session {
            window: OpenWindow {
                started: now,
                is_enabled,
                enabled_since: is_enabled.then_some(now),
                recorded: Duration::ZERO,
                was_paused: false,
                is_over: false,
            },
            pace: Pace {
                budget: Budget::new(plan.mode.wishes()),
                last_adjust: now,
                judged: Yields::default(),
                until_translated: None,
                warm_after: None,
            },
            writing: Writing {
                last_flush: now,
                last_write: now,
                write_time: Duration::ZERO,
                error: None,
                latest: None,
            },
            plan,
            sums,
            known_files: HashMap::new(),
            translator,
            work,
            joined,
            done,
            processes: Vec::new(),
            ancestors: Vec::new(),
            n_processes: 0,
            requests,
            tick_source: settings.tick_source,
            delivery_seconds: 0.0,
        })
    }

    /// Does one round; returns whether there was anything to drain.
    pub fn step(&mut self) -> bool {
        if self.window.is_over {
            self.take_translations();
            self.settle();
            return false;
        }
        self.keep_time();
        self.take_in();
        self.take_translations();
        let before = self.sums.tally.n_samples;
        self.drain();
        self.rescan();
        self.answer_requests();
        self.settle();
        if self.pace.last_adjust.elapsed() >= ADJUST_EVERY {
            self.pace.last_adjust = Instant::now();
            self.adjust();
        }
        if self.writing.last_flush.elapsed() >= FLUSH_EVERY {
            self.flush();
        }
        self.sums.tally.n_samples > before
    }

    /// Ends the recording of all processes: the program has ended. They settle in the steps that
    /// follow.
    pub fn end(&mut self) {
        self.take_in();
        self.take_translations();
        for followed in &self.processes {
            followed.of.process.stop();
        }
        for index in 0..self.processes.len() {
            self.end_process(index);
        }
        self.window.is_over = true;
        self.set_enabled(false);
    }

    /// Returns whether nothing of what was recorded waits for anything any more.
    pub fn is_settled(&self) -> bool {
        self.processes.is_empty()
    }

    pub fn started(&self) -> Instant {
        self.window.started
    }

    pub fn is_enabled(&self) -> bool {
        self.window.is_enabled
    }

    /// Returns the cost of recording in the program so far.
    pub fn cost(&self) -> Cost {
        let counters = &self.sums.counters;
        let mut cost = self.sums.tally.cost(self.sums.clock.cycles_per_second(), self.delivery_seconds);
        // Ticks that left no sample were delivered all the same.
        let silent = (counters.lost_ticks + counters.ticks_in_burst) as f64;
        cost.n_ticks += silent;
        cost.tick_seconds += silent * self.delivery_seconds;
        let unsettled: u64 = self.processes.iter().map(|followed| followed.of.process.counters().join_cpu_ns).sum();
        cost.start_seconds = START_PER_JOIN * (counters.join_cpu_ns + unsettled) as f64 / 1e9;
        cost
    }

    /// Returns the CPU seconds of all processes so far.
    pub fn cpu_seconds(&self) -> f64 {
        let unsettled: u64 = self.processes.iter().map(|followed| followed.of.cpu_ns).sum();
        (self.sums.counters.cpu_ns + unsettled) as f64 / 1e9
    }

    fn keep_time(&mut self) {
        let plan = self.plan.window;
        let OpenWindow { started, enabled_since, recorded, .. } = self.window;
        let elapsed = started.elapsed();
        let starts = !plan.starts_paused && elapsed >= plan.delay && enabled_since.is_none() && recorded.is_zero();
        if starts || self.requests.take_start() {
            self.set_enabled(true);
        }
        let recorded = self.window.recorded + self.window.enabled_since.map_or(Duration::ZERO, |since| since.elapsed());
        if self.requests.take_stop() || plan.duration.is_some_and(|duration| recorded >= duration) {
            self.set_enabled(false);
        }
    }

    fn set_enabled(&mut self, enabled: bool) {
        let window = &mut self.window;
        if enabled == window.is_enabled {
            return;
        }
        window.is_enabled = enabled;
        window.was_paused |= !enabled && !window.is_over;
        if enabled {
            window.enabled_since = Some(Instant::now());
        } else if let Some(since) = window.enabled_since.take() {
            window.recorded += since.elapsed().max(Duration::from_nanos(1));
        }
        for followed in self.processes.iter().filter(|followed| !followed.has_ended()) {
            followed.of.process.set_enabled(enabled && followed.of.hindrance.is_none());
        }
    }

    fn adjust(&mut self) {
        let (cost, cpu_seconds) = (self.cost(), self.cpu_seconds());
        let setting = self.pace.budget.adjust(cost, cpu_seconds, self.sums.builder.expected_lack());
        let living = self.processes.iter_mut().filter(|followed| !followed.has_ended());
        for watched in living.map(|followed| &mut followed.of).filter(|watched| watched.hindrance.is_none()) {
            let interval_ns = interval_ns(setting.rate_hz);
            if let Some(ticks) = watched.perf_ticks.as_mut().filter(|_| watched.process.interval_ns() != interval_ns) {
                let _ = ticks.set_interval_ns(interval_ns);
            }
            watched.process.set_interval_ns(interval_ns);
            watched.process.set_burst_checks(setting.burst_checks);
        }
    }

    /// Writes what has been read so far, and a snapshot of the profile where the mode has one and
    /// it does not take too long.
    fn flush(&mut self) {
        self.writing.last_flush = Instant::now();
        for Followed { of, reader, .. } in self.processes.iter_mut().filter(|followed| !followed.has_ended()) {
            reader.flush(of, &mut self.sums);
            for path in of.unplace_changed() {
                self.sums.counters.problem(format!("{}: the program has changed this code", path.display()));
            }
            of.blind_threads.extend(of.process.threads_that_block_ticks().unwrap_or_default());
        }
        match self.plan.mode {
            Mode::Bursts(_) if self.writing.last_write.elapsed() >= self.writing.write_time * WRITE_PAUSE => {
                self.write_snapshot();
            }
            // Counters are read when their process has ended.
            Mode::Bursts(_) | Mode::Counted(_) | Mode::Exact(_) | Mode::Pep(_) => {}
        }
    }

    fn write_snapshot(&mut self) {
        let facts = facts::so_far(self);
        for (name, value) in &facts {
            self.sums.recording.fact(name, value);
        }
        let mut profile = self.sums.builder.profile();
        self.write(&profile);
        profile.facts.extend(facts.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self.writing.latest = Some(profile);
    }

    /// Returns the profile so far, if it has been written since the last time.
    pub fn take_latest(&mut self) -> Option<Profile> {
        self.writing.latest.take()
    }

    /// Writes a profile. One that cannot be written does not stop the program; the loss is reported
    /// at the end.
    pub fn write(&mut self, profile: &Profile) {
        let started = Instant::now();
        if let Err(error) = self.sums.recording.write(profile) {
            self.writing.error.get_or_insert(error.to_string());
        }
        self.writing.write_time = started.elapsed();
        self.writing.last_write = Instant::now();
    }

    /// Ends the threads; returns the profile file, and why it is incomplete.
    pub fn close(self) -> (Recording, Option<String>) {
        self.work.close();
        (self.sums.recording, self.writing.error)
    }

    /// Returns whether a translation that the next run can use is under way.
    pub fn prepares_next_run(&self) -> bool {
        self.plan.uses_cache && (self.work.is_wanted() || self.work.is_indexing())
    }

    /// Returns whether the whole run was recorded: recording was never off, for no thread.
    pub fn recorded_all(&self) -> bool {
        self.plan.window.is_whole_run() && !self.window.was_paused && self.plan.threads.is_empty()
    }

    /// Returns the profile from the counters, in a mode that counts everything.
    pub fn exact_outcome(&self, counting: emit::Counting) -> exact::Outcome {
        let names = self.known_files.iter().map(|(key, known)| (known.id, key.path.display().to_string())).collect();
        let per_tick = self.plan.mode.sampling().samples;
        self.sums.exact.outcome(counting, per_tick, self.sums.clock.ns_per_cycle(), &names)
    }

    /// Returns what bursts have seen of values.
    pub fn values_of_bursts(&self) -> Vec<NotedValue> {
        let same = self.known_files.values().map(|known| (known.id, known.id)).collect();
        self.sums.values.rows(&same)
    }

    pub fn is_translating(&self) -> bool {
        !self.work.is_idle()
    }

    /// Returns whether the user wants strobe to end, too.
    pub fn is_hurried(&self) -> bool {
        self.requests.is_hurried()
    }
}

/// Returns how the profile of a recording is built.
fn options(mode: &Mode) -> Options {
    match mode {
        Mode::Counted(counted) => Options::counted(counted.weight()),
        Mode::Bursts(_) | Mode::Exact(_) | Mode::Pep(_) => Options { times: TIMES, ..Options::SAMPLED },
    }
}

/// Lets processes join, in threads of their own.
fn accept(listener: Listener, settings: Settings) -> Receiver<Joined> {
    let (send_joined, joined) = channel();
    // More than one, because a process that stalls while it joins must not keep others out. The
    // threads end with strobe: nothing is lost when they are cut off between two processes.
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
    joined
}

pub fn interval_ns(rate_hz: f64) -> u64 {
    (1e9 / rate_hz) as u64
}
