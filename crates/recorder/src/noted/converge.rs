//! `--converge`: ends the noting of values at a place, and then in the whole process, when half as
//! many values again no longer change the profile.
//!
//! Each process by itself. What is known is thrown away in the program's runtime, before it is
//! compressed; the probes stay. Shares of values are those until then, and of the whole run only if
//! the program went on as before; counts follow from blocks ([`profile::of_whole_run`]).

use std::time::{Duration, Instant};

use attach::Process;
use sampling::convergence::{Settings, Watch};

use super::Messages;

/// Looks in a row at which the profile must not have changed.
const N_STABLE: u32 = 2;

/// The values of a process, until they are known well enough.
#[derive(Debug)]
pub struct Converging {
    watch: Watch<u64>,
    started: Instant,
    change: f64,
    n_known: u64,
    end: Option<End>,
}

/// How the values of a process became known well enough.
#[derive(Debug, Clone, Copy)]
pub struct Converged {
    /// Share by which the last third of the values changed the profile.
    pub change: f64,
    /// Places whose values were known before those of the whole process.
    pub n_known: u64,
    /// When the values of the whole process were known, if they were.
    pub end: Option<End>,
}

/// When the values of a process were known.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Values that it took.
    pub n_events: u64,
    /// Time that it took.
    pub after: Duration,
}

impl Converging {
    pub fn new(tolerance: f64) -> Converging {
        let settings = Settings { tolerance, n_stable: N_STABLE, max_rest: 1 };
        Converging { watch: Watch::new(settings), started: Instant::now(), change: 1.0, n_known: 0, end: None }
    }

    /// Looks at the values so far, if it is time to, and ends noting where they are known.
    pub fn look(&mut self, process: &Process, messages: &Messages) {
        if self.end.is_some() || !self.watch.is_due(messages.weight) {
            return;
        }
        let mut tuples: Vec<(u64, u64, u64)> = messages.tuples().collect();
        let finding = self.watch.look(&mut tuples);
        self.change = finding.change;
        // A place that there is no room for goes on, which costs a little and is no mistake.
        self.n_known += finding.newly_known.iter().filter(|&&place| process.end_events_of(place)).count() as u64;
        if finding.is_stable {
            process.end_events();
            self.end = Some(End { n_events: messages.weight, after: self.started.elapsed() });
        }
    }

    /// Returns how the values became known.
    pub fn outcome(&self) -> Converged {
        Converged { change: self.change, n_known: self.n_known, end: self.end }
    }
}
