//! `--converge`: no more events of places, and then of the whole process, when half more of them do not change their profile any more.
//!
//! Each process by itself. What is known is thrown away in the program's runtime, before it is compressed; the probes stay. Shares of values are those until
//! then, and of the whole run only if the program went on as before; counts follow from blocks ([`profile::of_whole_run`]).

use std::time::{Duration, Instant};

use attach::Process;
use sampling::convergence::{Settings, Watch};

use crate::numbers::thousands;
use crate::record::events::Messages;

/// Looks in a row at which the profile must not have changed.
const N_STABLE: u32 = 2;

/// The profile of a process on its way to be known.
#[derive(Debug)]
pub struct Converging {
    watch: Watch<u64>,
    started: Instant,
    change: f64,
    n_known: u64,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy)]
struct End {
    n_events: u64,
    after: Duration,
}

impl Converging {
    pub fn new(tolerance: f64) -> Converging {
        let settings = Settings { tolerance, n_stable: N_STABLE, max_rest: 1 };
        Converging { watch: Watch::new(settings), started: Instant::now(), change: 1.0, n_known: 0, end: None }
    }

    /// Looks at what the process has sent, if it is time to, and ends what is known.
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

    /// What came of it.
    pub fn text(&self) -> String {
        let change = 100.0 * self.change;
        match self.end {
            Some(End { n_events, after }) => format!(
                "after {} events in {:.1} s, {} places before that; the last half more of them changed {change:.2} %",
                thousands(n_events),
                after.as_secs_f64(),
                thousands(self.n_known)
            ),
            None => format!("{} places, but not the whole: at last {change:.2} % changed", thousands(self.n_known)),
        }
    }
}

/// Facts of the profile.
pub fn facts(all: &[Converging]) -> Vec<(&'static str, String)> {
    if all.is_empty() {
        return Vec::new();
    }
    let ends = || all.iter().filter_map(|each| each.end);
    vec![
        ("value_profiles_stable", ends().count().to_string()),
        ("value_events_until_stable", ends().map(|end| end.n_events).sum::<u64>().to_string()),
        ("value_places_known", all.iter().map(|each| each.n_known).sum::<u64>().to_string()),
    ]
}
