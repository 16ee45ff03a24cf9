//! Facts of a run beside its profile: typed, and as rows of text in the profile file.
//!
//! What only one way of recording has is in a file of its own.

mod bursts;
mod counted;
mod exact;
mod values;

use std::time::Duration;

use attach::{Exit, ResourceUse};

pub use self::bursts::BurstFacts;
pub use self::counted::CountedFacts;
pub use self::exact::{ExactFacts, PathTraceFacts, SampledFacts, shape};
pub use self::values::ValueFacts;
pub use crate::bursts::shares::Shares;
use crate::exact::Outcome;
use crate::left_alone::LeftAlonePrograms;
use crate::plan::Mode;
use crate::rows::{Fact, seconds};
use crate::session::Session;
use crate::sums::Counters;

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

/// When a run ended and what it took, as far as the session does not know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    pub exit: Exit,
    pub elapsed: Duration,
    pub start_up: Duration,
    pub agent_cpu: Duration,
    pub asked_rate_hz: f64,
}

impl RunFacts {
    pub(crate) fn new(session: &Session, exact: Option<&Outcome>, ending: &Ending) -> RunFacts {
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
