//! What all processes of a recording add up to, on the way to the profile.

use std::collections::BTreeMap;
use std::time::Instant;

use profile::Builder;
use store::Recording;
use store::path_trace::file::Writer;

use crate::bursts::check::Findings;
use crate::bursts::spots::Lot;
use crate::bursts::tally::Tally;
use crate::counted::CountedTotals;
use crate::exact;
use crate::left_alone::LeftAlonePrograms;
use crate::noted::{self, ValueStream};

/// Where the readers of processes put what they have read.
#[derive(Debug)]
pub struct Sums {
    /// The profile file.
    pub recording: Recording,
    /// Ticks and bursts.
    pub builder: Builder,
    /// How ticks and bursts went.
    pub tally: Tally,
    /// A thread that ticks have found lately.
    pub lot: Lot,
    /// What checking bursts has found.
    pub findings: Findings,
    /// How the rest went.
    pub counters: Counters,
    /// Counters of copies that count everything.
    pub exact: exact::Totals,
    /// Bursts that a count of checks started.
    pub counted: CountedTotals,
    /// Where paths go one by one, if they do.
    pub path_trace: Option<Writer>,
    /// Noted values.
    pub values: noted::Totals,
    /// Where noted values go one by one, if they do.
    pub value_stream: Option<ValueStream>,
    /// Programs that run as if strobe were not there.
    pub left_alone: LeftAlonePrograms,
    /// The time-stamp counter's.
    pub clock: Clock,
}

/// What became of processes, threads and modules.
#[derive(Debug, Default, Clone)]
pub struct Counters {
    /// Ticks that found no room for a sample.
    pub lost_ticks: u64,
    /// Ticks that found the thread in a burst.
    pub ticks_in_burst: u64,
    /// Ticks of threads without an area.
    pub foreign_ticks: u64,
    /// Threads that were given an area.
    pub threads: u64,
    /// Threads that found no free area or timer.
    pub threads_unprofiled: u64,
    /// Threads that were seen with the signal of ticks blocked.
    pub threads_blind: u64,
    /// Libraries that were unloaded.
    pub unloads: u64,
    /// Bursts through code whose control flow is not known.
    pub unknown_bursts: u64,
    /// Damage in streams of samples.
    pub bad_streams: u64,
    /// CPU time of processes that have ended.
    pub cpu_ns: u64,
    /// CPU time in which these processes joined.
    pub join_cpu_ns: u64,
    /// Copies that were put in place.
    pub n_placed: u64,
    /// Where bursts ended early, in words, and how often.
    pub departures: BTreeMap<String, u64>,
    /// What was not recorded, in words, and how often.
    pub problems: BTreeMap<String, u64>,
}

impl Counters {
    /// Counts something that was not recorded.
    pub fn problem(&mut self, what: String) {
        *self.problems.entry(what).or_default() += 1;
    }
}

/// Converts cycles of the time-stamp counter.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    tsc: u64,
}

impl Clock {
    /// Starts to compare the time-stamp counter with the system's clock.
    pub fn start() -> Clock {
        Clock { started: Instant::now(), tsc: attach::time_stamp() }
    }

    /// Returns the rate of the time-stamp counter.
    pub fn cycles_per_second(&self) -> f64 {
        let seconds = self.started.elapsed().as_secs_f64().max(1e-4);
        attach::time_stamp().wrapping_sub(self.tsc) as f64 / seconds
    }

    /// Returns the length of a cycle.
    pub fn ns_per_cycle(&self) -> f64 {
        1e9 / self.cycles_per_second()
    }
}
