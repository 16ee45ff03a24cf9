//! What watching adds to the time of a burst.
//!
//! Probes do not simply add up with the program's own instructions: while those wait for memory or for a division, probes are executed
//! beside them for nothing; where there is nothing to wait for, the processor's throughput is shared. Measured times of loops with known
//! native times fit the length of a right triangle,
//!
//! ```text
//! spent^2 = native^2 + probes^2
//! ```
//!
//! from 0.3 to 12 ns per block. Where probes take nearly all of the time, the difference says nothing, and the native time is taken to be
//! that of fast code.

/// What watching costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeCost {
    /// Of entering and leaving a burst, and of code that is not in the caches.
    pub per_burst_ns: f64,
    /// Of recording a block.
    pub per_record_ns: f64,
    /// Native time per instruction that no code is believed to be faster than.
    pub least_ns_per_insn: f64,
}

impl ProbeCost {
    /// Nothing: durations are native already.
    pub const NONE: ProbeCost = ProbeCost { per_burst_ns: 0.0, per_record_ns: 0.0, least_ns_per_insn: 0.0 };

    /// The time that a burst would have taken without being watched.
    #[must_use]
    pub fn native_ns(self, spent_ns: f64, n_records: f64, n_insns: f64) -> f64 {
        let spent_ns = (spent_ns - self.per_burst_ns).max(0.0);
        let probes_ns = self.per_record_ns * n_records;
        let native_ns = (spent_ns * spent_ns - probes_ns * probes_ns).max(0.0).sqrt();
        native_ns.max(self.least_ns_per_insn * n_insns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: ProbeCost = ProbeCost { per_burst_ns: 1000.0, per_record_ns: 3.0, least_ns_per_insn: 0.1 };

    #[test]
    fn slow_code_hides_probes_and_dense_code_does_not() {
        let slow = COST.native_ns(1000.0 + 12_370.0, 1000.0, 10_000.0);
        assert!((11_900.0..12_100.0).contains(&slow), "{slow}");
        assert_eq!(COST.native_ns(1000.0 + 3_000.0, 1000.0, 4_000.0), 400.0);
        assert_eq!(COST.native_ns(0.0, 1000.0, 4_000.0), 400.0);
        assert_eq!(ProbeCost::NONE.native_ns(123.0, 50.0, 200.0), 123.0);
    }
}
