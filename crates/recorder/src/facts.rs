//! Facts of a run beside its profile: typed, and as rows of text in the profile file.

use std::time::Duration;

use attach::{Exit, ResourceUse};
use sampling::selector::Selector;
use wire::control::{Policy, TickSource};
use wire::sample::{EndReason, Outcome};

use crate::bursts::check::Findings;
use crate::bursts::spots::{SpotCounter, SpotTotals};
use crate::bursts::tally::{Cost, Tally, Yields};
use crate::counted::CountedTotals;
use crate::exact::{Accesses, Outcome as ExactOutcome, Stay};
use crate::left_alone::LeftAlonePrograms;
use crate::noted::{Counters as ValueCounters, converge};
use crate::plan::{Counted, Mode, Sampling};
use crate::session::Session;
use crate::sums::Counters;

/// A row of the profile file: name, value.
pub type Fact = (&'static str, String);

/// The facts of a run: how it went, and what recording took.
#[derive(Debug)]
pub struct RunFacts {
    /// The command on one line.
    pub command: String,
    /// How the program ended, and what it and the children that it waited for have used.
    pub exit: Exit,
    /// Time from the start of strobe's work to the end of the program.
    pub elapsed: Duration,
    /// Time from the start of strobe's work to the start of the program.
    pub start_up: Duration,
    /// CPU time of strobe itself.
    pub agent_cpu: Duration,
    /// CPU seconds of the recorded processes, by themselves.
    pub seen_cpu_seconds: f64,
    /// Processes that joined.
    pub n_processes: usize,
    /// Programs that ran as if strobe were not there.
    pub left_alone: LeftAlonePrograms,
    /// What became of processes, threads and modules.
    pub counters: Counters,
    /// What was translated.
    pub modules: Modules,
    /// What became of noted values, if any were noted.
    pub values: Option<ValueFacts>,
    /// What only one way of recording has.
    pub of_mode: ModeFacts,
}

/// What only one way of recording has.
#[derive(Debug)]
pub enum ModeFacts {
    /// Of bursts.
    Bursts(Box<BurstFacts>),
    /// Of bursts that a count of checks starts.
    Counted(Box<CountedFacts>),
    /// Of counting everything, or samples of it.
    Exact(Box<ExactFacts>),
}

/// Ticks and bursts of a run.
#[derive(Debug)]
pub struct BurstFacts {
    /// Share of CPU time that recording was allowed to cost, if there was a limit.
    pub budget: Option<f64>,
    /// Where ticks came from.
    pub tick_source: TickSource,
    /// Ticks per second of CPU time at first.
    pub asked_rate_hz: f64,
    /// Ticks and bursts.
    pub tally: Tally,
    /// What checking bursts has found.
    pub findings: Findings,
    /// The cost in the program.
    pub cost: Cost,
    /// What it took to deliver the signal of a tick.
    pub delivery_seconds: f64,
    /// How ticks were used once everything was translated.
    pub warm: Yields,
    /// Time from the first join until nine of ten ticks started bursts.
    pub warm_after: Option<Duration>,
    /// Blocks that were counted in native code, if the kernel let it.
    pub spots: Option<SpotTotals>,
}

/// Counters of a run.
#[derive(Debug)]
pub struct ExactFacts {
    /// What was counted.
    pub counting: emit::Counting,
    /// How much of the run threads spent in copies.
    pub stay: Stay,
    /// Path ends that found a full table.
    pub n_lost_paths: u64,
    /// Calls whose caller is not known because a table was full.
    pub n_lost_contexts: u64,
    /// Misses of simulated data caches.
    pub cache_misses: u64,
    /// Accesses that simulated data caches saw, and those that they did not.
    pub accesses: Accesses,
    /// Paths that ended.
    pub n_paths: u64,
    /// Additions to path registers on the way.
    pub n_additions: u64,
    /// Calls of functions whose paths were not counted, though paths were to be.
    pub n_calls_without_paths: u64,
    /// Paths that are wrong in their first part.
    pub n_misattributed_paths: u64,
    /// Numbers that no path has.
    pub n_unknown_paths: u64,
    /// Edges that counters do not determine.
    pub n_undetermined_edges: u64,
    /// Modules whose counters could not be understood, with the reason.
    pub problems: Vec<String>,
    /// Samples of paths, if only these were counted.
    pub sampled: Option<SampledFacts>,
    /// The file of paths, if there is one.
    pub path_trace: Option<PathTraceFacts>,
}

/// Bursts that a count of checks started.
#[derive(Debug)]
pub struct CountedFacts {
    /// What started and ended them.
    pub trigger: Counted,
    /// How far threads stayed in copies.
    pub stay: Stay,
    /// Bursts.
    pub bursts: CountedTotals,
}

/// How paths were sampled.
#[derive(Debug, Clone, Copy)]
pub struct SampledFacts {
    /// Which paths counted.
    pub sampling: Sampling,
    /// Ticks that wanted samples.
    pub n_ticks: u64,
}

/// The file of paths, one by one.
#[derive(Debug, Clone)]
pub struct PathTraceFacts {
    /// Where it is.
    pub path: std::path::PathBuf,
    /// Paths in it.
    pub n_records: u64,
    /// Marks in it.
    pub n_marks: u64,
    /// Its size.
    pub n_bytes: u64,
    /// Its size, if it were not packed.
    pub n_raw_bytes: u64,
    /// Functions that are counted by blocks and have no paths in it.
    pub n_left_out: u64,
    /// Records that were dropped because the ring stayed full, or that could not be written.
    pub n_lost: u64,
}

/// What became of noted values.
#[derive(Debug)]
pub struct ValueFacts {
    /// Where values were noted, if not everywhere.
    pub selector: Option<Selector>,
    /// Counters of noted values.
    pub counters: ValueCounters,
    /// Instructions that noted any.
    pub n_sites: usize,
    /// Of each process, how its profile became stable.
    pub converged: Vec<converge::Converged>,
}

/// What was translated.
#[derive(Debug, Default, Clone)]
pub struct Modules {
    /// Modules that have copies.
    pub n_translated: usize,
    /// Of these, those whose copies an earlier run made.
    pub n_from_cache: usize,
    /// Functions in them.
    pub n_functions: u64,
    /// Instructions in them.
    pub n_instructions: u64,
    /// Instructions that note values.
    pub n_noting: u64,
    /// Time that translating took.
    pub time: Duration,
}

impl Modules {
    fn of(session: &Session) -> Modules {
        let mut modules = Modules::default();
        for translation in session.translator.all().into_iter().filter_map(|(_, known)| known.ok()) {
            let statistics = translation.copy.statistics();
            modules.n_translated += 1;
            modules.n_from_cache += usize::from(translation.from_cache);
            modules.n_functions += statistics.functions;
            modules.n_instructions += statistics.instructions;
            modules.n_noting += statistics.events;
            modules.time += translation.time;
        }
        modules
    }
}

/// Shares of the program's CPU time that recording took there.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    /// Ticks: delivering signals, and their handlers.
    pub ticks: f64,
    /// Bursts.
    pub bursts: f64,
    /// Starts of processes.
    pub starts: f64,
    /// Counting blocks in native code.
    pub spots: f64,
}

impl Shares {
    fn of(cost: &Cost, cpu_seconds: f64) -> Shares {
        let share = |seconds: f64| if cpu_seconds > 0.0 { seconds / cpu_seconds } else { 0.0 };
        Shares {
            ticks: share(cost.tick_seconds),
            bursts: share(cost.burst_seconds),
            starts: share(cost.start_seconds),
            spots: share(cost.spot_seconds),
        }
    }

    /// Returns the sum of the shares.
    #[must_use]
    pub fn total(self) -> f64 {
        self.ticks + self.bursts + self.starts + self.spots
    }

    fn rows(self) -> [Fact; 5] {
        let percent = |share: f64| format!("{:.3}", 100.0 * share);
        [
            ("cost_percent", percent(self.total())),
            ("cost_ticks_percent", percent(self.ticks)),
            ("cost_bursts_percent", percent(self.bursts)),
            ("cost_starts_percent", percent(self.starts)),
            ("cost_spots_percent", percent(self.spots)),
        ]
    }
}

/// When a run ended and what it took, as far as the session does not know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    pub exit: Exit,
    pub elapsed: Duration,
    pub start_up: Duration,
    pub agent_cpu: Duration,
    pub asked_rate_hz: f64,
}

/// Returns what can be said while the program runs, for those who read the profile meanwhile, or
/// after strobe was killed.
pub(crate) fn so_far(session: &Session) -> Vec<Fact> {
    let cpu_seconds = session.cpu_seconds();
    let mut rows = vec![
        ("command", session.plan.command_line()),
        ("strobe", env!("CARGO_PKG_VERSION").to_owned()),
        ("cpu_s", format!("{cpu_seconds:.3}")),
        ("elapsed_s", seconds(session.started().elapsed())),
    ];
    match &session.plan.mode {
        Mode::Counted(trigger) => {
            rows.extend([("trigger", trigger.to_string()), ("bursts", session.sums.counted.n_bursts.to_string())]);
        }
        Mode::Bursts(_) | Mode::Exact(_) | Mode::Pep(_) => {
            let tally = &session.sums.tally;
            rows.extend([("ticks", tally.n_samples.to_string()), ("bursts", tally.n_bursts.to_string())]);
            rows.extend(Shares::of(&session.cost(), cpu_seconds).rows());
        }
    }
    rows
}

impl RunFacts {
    pub(crate) fn new(session: &Session, exact: Option<&ExactOutcome>, ending: &Ending) -> RunFacts {
        let of_mode = match (&session.plan.mode, exact) {
            (Mode::Counted(trigger), _) => ModeFacts::Counted(Box::new(CountedFacts {
                trigger: *trigger,
                stay: session.sums.exact.stay.clone(),
                bursts: session.sums.counted,
            })),
            (Mode::Exact(_) | Mode::Pep(_), Some(outcome)) => {
                ModeFacts::Exact(Box::new(ExactFacts::new(session, outcome)))
            }
            (Mode::Bursts(_), _) | (_, None) => ModeFacts::Bursts(Box::new(BurstFacts::new(session, ending))),
        };
        let values = session.plan.noting.as_ref().map(|noting| ValueFacts {
            selector: noting.selector.clone(),
            counters: session.sums.values.counters,
            n_sites: session.sums.values.n_sites(),
            converged: session.sums.values.converged(),
        });
        RunFacts {
            command: session.plan.command_line(),
            exit: ending.exit,
            elapsed: ending.elapsed,
            start_up: ending.start_up,
            agent_cpu: ending.agent_cpu,
            seen_cpu_seconds: session.cpu_seconds(),
            n_processes: session.n_processes,
            left_alone: session.sums.left_alone.clone(),
            counters: session.sums.counters.clone(),
            modules: Modules::of(session),
            values,
            of_mode,
        }
    }

    /// Returns how the program ended, in words.
    #[must_use]
    pub fn ended(&self) -> String {
        match self.exit.signal {
            Some(signal) => format!("killed by signal {signal}"),
            None => format!("exit {}", self.exit.code.unwrap_or(0)),
        }
    }

    /// Returns the CPU seconds of the run: what the kernel charged the program and the children
    /// that it waited for, or what was seen of its processes if that is more.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        (self.user() + self.system()).as_secs_f64().max(self.seen_cpu_seconds)
    }

    /// Returns CPU time in user mode.
    #[must_use]
    pub fn user(&self) -> Duration {
        Duration::from_micros(self.exit.used.user_us)
    }

    /// Returns CPU time in the kernel.
    #[must_use]
    pub fn system(&self) -> Duration {
        Duration::from_micros(self.exit.used.system_us)
    }

    /// Returns CPU seconds that recording took in the program, where that is known.
    #[must_use]
    pub fn cost_in_program(&self) -> Option<f64> {
        match &self.of_mode {
            ModeFacts::Bursts(bursts) => Some(bursts.cost.seconds() + bursts.cost.start_seconds),
            ModeFacts::Counted(_) | ModeFacts::Exact(_) => None,
        }
    }

    /// Returns the rows of the profile file.
    pub(crate) fn rows(&self) -> Vec<Fact> {
        let ResourceUse { .. } = self.exit.used;
        let mut rows = vec![
            ("command", self.command.clone()),
            ("strobe", env!("CARGO_PKG_VERSION").to_owned()),
            ("ended", self.ended()),
            ("user_s", seconds(self.user())),
            ("system_s", seconds(self.system())),
            ("elapsed_s", seconds(self.elapsed)),
            ("processes", self.n_processes.to_string()),
            ("threads", self.counters.threads.to_string()),
            ("threads_unprofiled", self.counters.threads_unprofiled.to_string()),
            ("modules_translated", self.modules.n_translated.to_string()),
            ("modules_from_cache", self.modules.n_from_cache.to_string()),
            ("translation_s", seconds(self.modules.time)),
        ];
        rows.extend(self.own_rows());
        match &self.of_mode {
            ModeFacts::Bursts(bursts) => rows.extend(bursts.rows(self)),
            ModeFacts::Counted(counted) => rows.extend(counted.rows(&self.counters)),
            ModeFacts::Exact(exact) => rows.extend(exact.rows()),
        }
        rows.extend(self.values.iter().flat_map(|values| values.rows(&self.modules)));
        rows
    }

    /// Returns the rows that are known only when everything has been done.
    pub(crate) fn own_rows(&self) -> [Fact; 1] {
        [("agent_cpu_s", seconds(self.agent_cpu))]
    }
}

impl BurstFacts {
    fn new(session: &Session, ending: &Ending) -> BurstFacts {
        let tally = session.sums.tally.clone();
        let warm = session.pace.until_translated.map_or(Yields::default(), |until| tally.yields().since(until));
        BurstFacts {
            budget: session.plan.mode.wishes().budget,
            tick_source: session.tick_source,
            asked_rate_hz: ending.asked_rate_hz,
            tally,
            findings: session.sums.findings.clone(),
            cost: session.cost(),
            delivery_seconds: session.delivery_seconds,
            warm,
            warm_after: session.pace.warm_after,
            spots: session.spots.as_ref().map(SpotCounter::totals),
        }
    }

    /// Returns what recording took of the program's CPU time.
    #[must_use]
    pub fn shares(&self, run: &RunFacts) -> Shares {
        Shares::of(&self.cost, run.cpu_seconds())
    }

    /// Returns ticks per second of CPU time.
    #[must_use]
    pub fn attained_rate_hz(&self, run: &RunFacts) -> f64 {
        let cpu_seconds = run.cpu_seconds();
        let ticks = self.tally.n_samples + run.counters.lost_ticks + run.counters.ticks_in_burst;
        if cpu_seconds > 0.0 { ticks as f64 / cpu_seconds } else { 0.0 }
    }

    fn rows(&self, run: &RunFacts) -> Vec<Fact> {
        let tally = &self.tally;
        let source = match self.tick_source {
            TickSource::PosixTimer => "POSIX timers",
            TickSource::Perf => "perf events",
            TickSource::Off => "off",
        };
        let mut rows = vec![
            ("cpu_s", format!("{:.3}", run.cpu_seconds())),
            ("ticks", tally.n_samples.to_string()),
            ("bursts", tally.n_bursts.to_string()),
            ("tick_source", source.to_owned()),
            ("asked_rate_hz", format!("{:.1}", self.asked_rate_hz)),
            ("attained_rate_hz", format!("{:.2}", self.attained_rate_hz(run))),
            ("overruns", tally.n_overruns.to_string()),
            ("lost_ticks", run.counters.lost_ticks.to_string()),
            ("ticks_in_burst", run.counters.ticks_in_burst.to_string()),
            ("records", tally.n_records.to_string()),
            ("checks", tally.n_checks.to_string()),
            ("full_percent", share_of(tally.n_full_bursts, tally.n_bursts)),
            ("hit_percent", percent(tally.yields().hit_rate())),
            ("hit_warm_percent", percent(self.warm.hit_rate())),
            ("full_warm_percent", percent(self.warm.full_rate())),
            ("warm_after_s", self.warm_after.map_or("-".to_owned(), seconds)),
            ("tick_delivery_us", format!("{:.2}", 1e6 * self.delivery_seconds)),
            ("start_up_s", format!("{:.4}", run.start_up.as_secs_f64())),
            ("processes_left_alone", run.left_alone.n_processes().to_string()),
            ("untold_bursts", run.counters.unknown_bursts.to_string()),
            ("threads_blind", run.counters.threads_blind.to_string()),
            ("functions_translated", run.modules.n_functions.to_string()),
            ("instructions_translated", run.modules.n_instructions.to_string()),
        ];
        rows.extend(self.shares(run).rows());
        rows.extend(self.spots.iter().flat_map(|spots| {
            [("spot_moments", spots.n_moments.to_string()), ("spot_hits", spots.n_hits.to_string())]
        }));
        rows.extend(tally.outcomes.iter().map(|(&outcome, n)| (outcome_fact(outcome), n.to_string())));
        rows.extend(tally.end_reasons.iter().map(|(&reason, n)| (end_fact(reason), n.to_string())));
        if self.findings.n_bursts > 0 {
            rows.extend([
                ("checked_bursts", self.findings.n_bursts.to_string()),
                ("checked_blocks", self.findings.n_blocks.to_string()),
                ("checked_instructions", self.findings.n_instructions.to_string()),
                ("false_steps", self.findings.n_false.to_string()),
                ("unknown_steps", self.findings.n_unknown.to_string()),
            ]);
        }
        rows
    }
}

fn outcome_fact(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Burst => "ticks_burst",
        Outcome::NoCopy => "ticks_no_copy",
        Outcome::Outside => "ticks_outside",
        Outcome::SystemCall => "ticks_kernel",
        Outcome::Paused => "ticks_paused",
        Outcome::Unloading => "ticks_unloading",
        Outcome::Skipped => "ticks_skipped",
    }
}

fn end_fact(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Full => "end_full",
        EndReason::BufferFull => "end_buffer_full",
        EndReason::EventsFull => "end_events_full",
        EndReason::NoCopy => "end_no_copy",
        EndReason::Outside => "end_outside",
        EndReason::SystemCall => "end_system_call",
        EndReason::Instruction => "end_instruction",
        EndReason::Signal => "end_signal",
        EndReason::Unloading => "end_unloading",
        EndReason::Asked => "end_told",
        EndReason::Died => "end_died",
        EndReason::None | EndReason::NewContext => "end_unknown",
    }
}

impl ExactFacts {
    fn new(session: &Session, outcome: &ExactOutcome) -> ExactFacts {
        let totals = &session.sums.exact;
        let counting = session.plan.mode.counting().unwrap_or(emit::Counting::Nothing);
        let sum = |of: fn(&crate::exact::counts::Gaps) -> u64| outcome.gaps.values().map(of).sum::<u64>();
        let n_left_out = sum(|gaps| gaps.n_by_blocks);
        let sampled = (counting == emit::Counting::SampledPaths)
            .then(|| SampledFacts { sampling: session.plan.mode.sampling(), n_ticks: totals.n_sampling_ticks });
        let path_trace = session.sums.path_trace.as_ref().map(|trace| PathTraceFacts {
            path: trace.path().to_path_buf(),
            n_records: trace.n_records(),
            n_marks: trace.n_marks(),
            n_bytes: trace.n_bytes(),
            n_raw_bytes: trace.n_words() * 8,
            n_left_out,
            n_lost: totals.n_words_lost + trace.n_unwritten(),
        });
        ExactFacts {
            counting,
            stay: totals.stay.clone(),
            n_lost_paths: totals.lost_paths,
            n_lost_contexts: totals.contexts.n_lost,
            cache_misses: totals.cache_misses,
            accesses: outcome.accesses,
            n_paths: outcome.effort.n_paths,
            n_additions: outcome.effort.n_additions,
            n_calls_without_paths: outcome.n_calls_without_paths,
            n_misattributed_paths: sum(|gaps| gaps.lost_paths.iter().map(|gap| gap.count).sum()),
            n_unknown_paths: sum(|gaps| gaps.unknown_paths.iter().map(|gap| gap.count).sum()),
            n_undetermined_edges: sum(|gaps| gaps.undetermined.iter().map(|gap| gap.count).sum()),
            problems: outcome.problems.clone(),
            sampled,
            path_trace,
        }
    }

    /// Returns what was counted, in words.
    #[must_use]
    pub fn counted(&self) -> String {
        let what = match self.counting {
            emit::Counting::Paths | emit::Counting::PathMetric(_) => "paths",
            emit::Counting::HeaderPaths => "paths between loop headers",
            emit::Counting::SampledPaths => "samples of paths",
            emit::Counting::TracedPaths => "paths, one by one",
            emit::Counting::Blocks => "blocks",
            emit::Counting::Contexts(emit::Contexts { paths: false, .. }) => "calling contexts",
            emit::Counting::Contexts(emit::Contexts { paths: true, .. }) => "paths by calling context",
            emit::Counting::Nothing | emit::Counting::Triggered(_) => "nothing",
        };
        match self.counting.metric() {
            Some(emit::Metric::Cycles) => format!("{what} with cycles"),
            Some(emit::Metric::Misses(_)) => format!("{what} with cache misses"),
            None => what.to_owned(),
        }
    }

    /// Returns the data cache that was simulated, if one was.
    #[must_use]
    pub fn cache(&self) -> Option<emit::Cache> {
        match self.counting.metric() {
            Some(emit::Metric::Misses(cache)) => Some(cache),
            Some(emit::Metric::Cycles) | None => None,
        }
    }

    /// Returns whether accesses to the simulated data cache are known: only where blocks are
    /// counted.
    #[must_use]
    pub fn counts_accesses(&self) -> bool {
        self.counting.has_paths()
    }

    fn rows(&self) -> Vec<Fact> {
        let mut rows = vec![
            ("exact", self.counted()),
            ("lost_paths", self.n_lost_paths.to_string()),
            ("paths_ended", self.n_paths.to_string()),
            ("path_additions", self.n_additions.to_string()),
            ("lost_contexts", self.n_lost_contexts.to_string()),
            ("calls_without_paths", self.n_calls_without_paths.to_string()),
            ("misattributed_paths", self.n_misattributed_paths.to_string()),
            ("unknown_paths", self.n_unknown_paths.to_string()),
            ("undetermined_edges", self.n_undetermined_edges.to_string()),
        ];
        rows.extend(self.stay.rows());
        if let Some(cache) = self.cache() {
            rows.extend([("cache", shape(cache)), ("cache_misses", self.cache_misses.to_string())]);
            if self.counts_accesses() {
                let Accesses { simulated, not_simulated } = self.accesses;
                rows.push(("cache_accesses", simulated.to_string()));
                rows.push(("cache_accesses_not_simulated", not_simulated.to_string()));
            }
        }
        rows.extend(self.sampled.iter().flat_map(SampledFacts::rows));
        rows.extend(self.path_trace.iter().flat_map(PathTraceFacts::rows));
        rows
    }
}

/// Returns a data cache as users ask for it: `l1d:16k:1:32`.
#[must_use]
pub fn shape(cache: emit::Cache) -> String {
    let (n_bytes, n_ways, line) = (cache.n_bytes(), cache.n_ways(), cache.line());
    let size = if n_bytes.is_multiple_of(1024) { format!("{}k", n_bytes >> 10) } else { n_bytes.to_string() };
    format!("l1d:{size}:{n_ways}:{line}")
}

impl CountedFacts {
    fn rows(&self, counters: &Counters) -> Vec<Fact> {
        let CountedTotals { n_bursts, n_whole, n_records, n_records_lost } = self.bursts;
        let mut rows = vec![
            ("trigger", self.trigger.to_string()),
            ("checks_policy", self.trigger.checks.to_string()),
            ("bursts", n_bursts.to_string()),
            ("bursts_whole", n_whole.to_string()),
            ("records", n_records.to_string()),
            ("records_lost", n_records_lost.to_string()),
            ("untold_bursts", counters.unknown_bursts.to_string()),
        ];
        rows.extend(self.stay.rows());
        rows
    }
}

impl SampledFacts {
    fn rows(&self) -> [Fact; 4] {
        let Sampling { samples, stride, policy } = self.sampling;
        let policy = if policy == Policy::Full { "full" } else { "simplified" };
        [
            ("sampling_ticks", self.n_ticks.to_string()),
            ("samples_per_tick", samples.to_string()),
            ("sampling_stride", stride.to_string()),
            ("sampling_policy", policy.to_owned()),
        ]
    }
}

impl PathTraceFacts {
    fn rows(&self) -> [Fact; 7] {
        [
            ("trace_file", self.path.display().to_string()),
            ("trace_records", self.n_records.to_string()),
            ("trace_marks", self.n_marks.to_string()),
            ("trace_bytes", self.n_bytes.to_string()),
            ("trace_raw_bytes", self.n_raw_bytes.to_string()),
            ("trace_functions_left_out", self.n_left_out.to_string()),
            ("trace_records_lost", self.n_lost.to_string()),
        ]
    }
}

impl ValueFacts {
    fn rows(&self, modules: &Modules) -> Vec<Fact> {
        let counters = &self.counters;
        let mut rows = vec![
            ("value_places", modules.n_noting.to_string()),
            ("value_events", counters.n_events.to_string()),
            ("value_events_passed_over", counters.n_passed_over.to_string()),
            ("value_messages", counters.n_messages.to_string()),
            ("value_events_unsent", counters.residue.to_string()),
            ("value_events_told", counters.weight.to_string()),
            ("value_waits", counters.n_waits.to_string()),
            ("value_messages_lost", counters.n_lost.to_string()),
            ("value_events_foreign", counters.n_foreign.to_string()),
        ];
        rows.extend(self.selector.iter().map(|selector| ("select", selector.to_string())));
        if !self.converged.is_empty() {
            let ends = || self.converged.iter().filter_map(|each| each.end);
            let n_known: u64 = self.converged.iter().map(|each| each.n_known).sum();
            rows.push(("value_profiles_stable", ends().count().to_string()));
            rows.push(("value_events_until_stable", ends().map(|end| end.n_events).sum::<u64>().to_string()));
            rows.push(("value_places_known", n_known.to_string()));
        }
        rows
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.2}", 100.0 * share))
}

fn share_of(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}", 100.0 * part as f64 / whole as f64) }
}
