//! The loop of a recording: takes processes in, has their modules translated, drains what they
//! leave in shared memory, keeps the budget, writes the profile.
//!
//! Three threads: one waits for processes to join, one translates, and this one does the rest, a
//! few hundred times a second at most. No step waits for anything: a process that has ended stays
//! as such until what its samples need is known, or until it has waited long enough.

mod modules;
mod nap;
mod processes;
mod writing;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use attach::{Joined, Listener, Process, Settings};
use profile::builder::{Options, TimeModel};
use profile::model::NotedValue;
use store::Recording;
use store::path_trace::file::Writer;
use wire::control::TickSource;

pub use self::modules::is_volatile;
pub use self::nap::SHORTEST_NAP;
use self::processes::Followed;
use self::writing::Writing;
use crate::bursts::budget::Budget;
use crate::bursts::spots::SpotCounter;
use crate::bursts::tally::{Cost, Yields};
use crate::error::Result;
use crate::exact;
use crate::noted::{self, ValueStream};
use crate::plan::{Mode, Plan};
use crate::requests::Requests;
use crate::sums::{Clock, Counters, Sums};
use crate::translation::guide::Guide;
use crate::translation::work::{Done, Work};
use crate::translation::{Content, FileKey, Translator};
use crate::wake::Waker;

const ADJUST_EVERY: Duration = Duration::from_millis(50);
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
    /// When it was looked last whether they still do.
    ancestors_checked: Instant,
    pub n_processes: usize,
    /// When a process was found last that waited until its unloads were dealt with.
    last_unload: Option<Instant>,
    window: OpenWindow,
    requests: Requests,
    pub tick_source: TickSource,
    pub pace: Pace,
    writing: Writing,
    /// What it takes to deliver the signal of a tick.
    pub delivery_seconds: f64,
    /// Counts blocks in native code, where the kernel lets it.
    pub spots: Option<SpotCounter>,
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
        let content = Content::of(&plan);
        let n_threads = std::thread::available_parallelism().unwrap_or(std::num::NonZeroUsize::MIN);
        let keeps_flow = plan.mode.keeps_flow();
        let guide = guide.unwrap_or_default();
        let translator = Arc::new(Translator::new(plan.uses_cache, content, keeps_flow, guide, n_threads));
        let (send_done, done) = channel();
        let work = Work::start(Arc::clone(&translator), send_done, requests.waker().clone());
        let joined = accept(listener, settings, requests.waker());
        let stream = plan.noting.as_ref().and_then(|noting| noting.stream.as_deref());
        let compressor = plan.noting.as_ref().map_or("", |noting| &noting.compressor);
        let path_trace = plan.mode.traces_paths().then(|| store::path_trace::path_beside(&plan.output));
        let sums = Sums {
            recording,
            builder: profile::Builder::new(options(&plan.mode)),
            tally: Default::default(),
            lot: Default::default(),
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
            writing: Writing::new(now),
            plan,
            sums,
            known_files: HashMap::new(),
            translator,
            work,
            joined,
            done,
            processes: Vec::new(),
            ancestors: Vec::new(),
            ancestors_checked: now,
            n_processes: 0,
            last_unload: None,
            requests,
            tick_source: settings.tick_source,
            delivery_seconds: 0.0,
            spots: None,
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
        self.count_spots();
        if self.pace.last_adjust.elapsed() >= ADJUST_EVERY {
            self.pace.last_adjust = Instant::now();
            self.adjust();
        }
        if self.writing.is_flush_due() {
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
        cost.spot_seconds = self.spots.as_ref().map_or(0.0, |spots| spots.totals().program_seconds);
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

    /// Returns a nap that ends when recording is to start or to stop, if that is sooner.
    fn until_due(&self, nap: Duration) -> Duration {
        let plan = self.plan.window;
        let OpenWindow { started, enabled_since, recorded, .. } = self.window;
        let left = match enabled_since {
            Some(since) => plan.duration.map(|duration| duration.saturating_sub(recorded + since.elapsed())),
            None if plan.starts_paused || !recorded.is_zero() => None,
            None => Some(plan.delay.saturating_sub(started.elapsed())),
        };
        left.map_or(nap, |left| nap.min(left.max(SHORTEST_NAP)))
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

    /// Has blocks counted in native code, in a thread that ran lately.
    fn count_spots(&mut self) {
        let cpu_seconds = self.cpu_seconds();
        let (Some(spots), Sums { builder, lot, .. }) = (&mut self.spots, &mut self.sums) else { return };
        spots.take_in(builder);
        if !self.window.is_enabled || !spots.is_due(cpu_seconds) {
            return;
        }
        let Some((pid, tid)) = lot.take() else { return };
        builder.choose_spots();
        let is_asked = |followed: &&Followed| {
            !followed.has_ended() && followed.of.process.pid() == pid && followed.of.hindrance.is_none()
        };
        if let Some(Followed { of, .. }) = self.processes.iter().find(is_asked) {
            spots.order(tid, &builder.spots(), |block| of.layout.address_of(block));
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
        Mode::Bursts(_) | Mode::Exact(_) | Mode::Pep(_) => Options { times: TimeModel::RECORDED, ..Options::SAMPLED },
    }
}

/// Lets processes join, in threads of their own.
fn accept(listener: Listener, settings: Settings, waker: &Waker) -> Receiver<Joined> {
    let (send_joined, joined) = channel();
    // More than one, because a process that stalls while it joins must not keep others out. The
    // threads end with strobe: nothing is lost when they are cut off between two processes.
    let listener = Arc::new(listener);
    for _ in 0..N_ACCEPTORS {
        let (listener, send_joined, waker) = (Arc::clone(&listener), send_joined.clone(), waker.clone());
        std::thread::spawn(move || {
            while let Ok(joined) = listener.accept(&settings) {
                if send_joined.send(joined).is_err() {
                    return;
                }
                waker.wake();
            }
        });
    }
    joined
}

pub fn interval_ns(rate_hz: f64) -> u64 {
    (1e9 / rate_hz) as u64
}
