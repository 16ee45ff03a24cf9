//! Bursts that a count of checks starts: from the words of a thread area to bursts, and what all of
//! them add up to.

pub mod log;

/// Bursts of all processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountedTotals {
    /// Bursts.
    pub n_bursts: u64,
    /// Of these, those that used up their checks.
    pub n_whole: u64,
    /// Blocks that they reached.
    pub n_records: u64,
    /// Records that were dropped because the ring stayed full.
    pub n_records_lost: u64,
}
