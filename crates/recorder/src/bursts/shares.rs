//! What recording takes of the program's CPU time.

use super::tally::Cost;
use crate::rows::Fact;

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
    pub(crate) fn of(cost: &Cost, cpu_seconds: f64) -> Shares {
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

    pub(crate) fn rows(self) -> [Fact; 5] {
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
