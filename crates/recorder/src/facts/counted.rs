//! What only bursts have that a count of checks starts.

use crate::counted::CountedTotals;
use crate::exact::Stay;
use crate::plan::Counted;
use crate::rows::Fact;
use crate::sums::Counters;

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

impl CountedFacts {
    pub(super) fn rows(&self, counters: &Counters) -> Vec<Fact> {
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
