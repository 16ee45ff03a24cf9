//! How far the time model can be off for reasons that are known.
//!
//! Its error in general was found from ordinary programs
//! ([`super::time_model::TimeModel::log_error`]). Two kinds of code are not ordinary, and each of
//! them can be told from a burst:
//!
//! * **Words that are stored and loaded again.** Some processors take five cycles to forward them,
//!   others forward them at once. So some bursts are simulated both ways; the truth is somewhere
//!   between the two.
//! * **System calls.** What entering and leaving the kernel costs in user mode, and in cold caches
//!   and predictors afterwards, depends on the machine, its kernel and what the call does. It is
//!   something between nothing and [`SYSTEM_CALL_NS`] each.
//!
//! Let the logarithm of the native time be anywhere between the ends `l <= 0 <= u`, as far from the
//! model. Its mean squared distance from the model is `(u^3 - l^3) / 3 (u - l)`, which is added to
//! the variance of the model.

use std::ops::AddAssign;

/// User time that a system call costs at most beyond its instructions.
const SYSTEM_CALL_NS: f64 = 60.0;

/// Times of bursts, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Doubt {
    /// Of all bursts, as modelled.
    modelled_ns: f64,
    /// What their system calls can add.
    system_calls_ns: f64,
    /// Of the bursts that were simulated twice, as modelled,
    slow_ns: f64,
    /// and if forwarding takes no time.
    fast_ns: f64,
}

impl Doubt {
    pub fn new(modelled_ns: f64, n_system_calls: u32) -> Doubt {
        Doubt { modelled_ns, system_calls_ns: SYSTEM_CALL_NS * f64::from(n_system_calls), ..Doubt::default() }
    }

    /// The burst takes so long if forwarding takes no time.
    pub fn with_fast(self, fast_ns: f64) -> Doubt {
        Doubt { slow_ns: self.modelled_ns, fast_ns: fast_ns.min(self.modelled_ns), ..self }
    }

    /// Variance of the logarithm of native over modelled time.
    pub fn variance(&self) -> f64 {
        let most = if self.modelled_ns > 0.0 { (self.system_calls_ns / self.modelled_ns).ln_1p() } else { 0.0 };
        let least = if self.fast_ns > 0.0 { (self.fast_ns / self.slow_ns).ln() } else { 0.0 };
        let width = most - least;
        if width > 0.0 { (most.powi(3) - least.powi(3)) / (3.0 * width) } else { 0.0 }
    }
}

impl AddAssign for Doubt {
    fn add_assign(&mut self, other: Doubt) {
        self.modelled_ns += other.modelled_ns;
        self.system_calls_ns += other.system_calls_ns;
        self.slow_ns += other.slow_ns;
        self.fast_ns += other.fast_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_code_leaves_no_doubt() {
        assert_eq!(Doubt::new(1000.0, 0).variance(), 0.0);
        assert_eq!(Doubt::new(1000.0, 0).with_fast(1000.0).variance(), 0.0);
        assert_eq!(Doubt::default().variance(), 0.0);
    }

    #[test]
    fn the_distance_is_that_of_an_even_distribution() {
        let above = Doubt::new(60.0, 1);
        assert!((above.variance() - 2.0_f64.ln().powi(2) / 3.0).abs() < 1e-12);
        let both = above.with_fast(30.0);
        assert!((both.variance() - 2.0_f64.ln().powi(2) / 3.0).abs() < 1e-12);
        let below = Doubt::new(100.0, 0).with_fast(20.0);
        assert!((below.variance() - 5.0_f64.ln().powi(2) / 3.0).abs() < 1e-12);
    }

    #[test]
    fn bursts_add_up() {
        let mut sum = Doubt::new(100.0, 0).with_fast(50.0);
        sum += Doubt::new(300.0, 0);
        assert!(
            (sum.variance() - 2.0_f64.ln().powi(2) / 3.0).abs() < 1e-12,
            "bursts that were simulated once do not count"
        );
    }
}
