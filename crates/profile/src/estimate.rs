//! Estimates: numbers with their errors.
//!
//! An [`Estimate`] is a mean and the variance of its error. Sums of independent estimates are
//! estimates again, so that profiles of different runs merge by addition. An exact count is an
//! estimate of variance zero.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Standard deviations on either side of the mean that hold 95 % of a normal distribution.
const Z_95: f64 = 1.959_963_984_540_054;

/// An estimated count or time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The best guess.
    pub value: f64,
    /// Variance of its error; 0 for exact counts.
    pub variance: f64,
    /// How many events were seen for it.
    pub seen: u64,
}

impl Estimate {
    /// A count without error.
    #[must_use]
    pub fn exact(count: u64) -> Estimate {
        Estimate { value: count as f64, variance: 0.0, seen: count }
    }

    /// A quantity that was measured as a whole.
    #[must_use]
    pub fn measured(value: f64) -> Estimate {
        Estimate { value, variance: 0.0, seen: 0 }
    }

    /// Standard error.
    #[must_use]
    pub fn error(self) -> f64 {
        self.variance.max(0.0).sqrt()
    }

    /// Half the width of the 95 % interval.
    #[must_use]
    pub fn margin(self) -> f64 {
        Z_95 * self.error()
    }

    /// The 95 % interval, cut at zero.
    #[must_use]
    pub fn interval(self) -> (f64, f64) {
        ((self.value - self.margin()).max(0.0), self.value + self.margin())
    }

    /// The 95 % interval if the value can also be off by a factor, whose logarithm has the given
    /// standard deviation. The logarithm of the whole is taken to be normal.
    #[must_use]
    pub fn interval_with(self, log_error: f64) -> (f64, f64) {
        if self.value <= 0.0 {
            return self.interval();
        }
        let of_chance = (self.variance.max(0.0) / (self.value * self.value)).ln_1p();
        let factor = (Z_95 * (of_chance + log_error * log_error).sqrt()).exp();
        (self.value / factor, self.value * factor)
    }

    /// The estimate of `factor` times as much.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Estimate {
        Estimate { value: self.value * factor, variance: self.variance * factor * factor, seen: self.seen }
    }
}

impl Add for Estimate {
    type Output = Estimate;

    fn add(self, other: Estimate) -> Estimate {
        Estimate {
            value: self.value + other.value,
            variance: self.variance + other.variance,
            seen: self.seen + other.seen,
        }
    }
}

impl AddAssign for Estimate {
    fn add_assign(&mut self, other: Estimate) {
        *self = *self + other;
    }
}

impl Sum for Estimate {
    fn sum<I: Iterator<Item = Estimate>>(estimates: I) -> Estimate {
        estimates.fold(Estimate::default(), Add::add)
    }
}
