//! CPU time by ticks.
//!
//! A tick stands for the CPU time since the one before. What is found at ticks is a sample of what
//! takes the time, and the share of a function a proportion. Its variance is taken to be that of
//! independent draws, `share * (1 - share) / n`; ticks that are evenly spaced in time do better
//! than that unless the program keeps time with them. With ticks that stand for unequal times, n is
//! the number of equal ones that would do as well: `(sum of t)^2 / sum of t^2`.
//!
//! If all ticks are found in one place, the variance of draws is none, but the next tick can still
//! be elsewhere. The share that the variance is computed from is drawn towards the middle by one
//! more tick, half of it here and half elsewhere.

use std::ops::AddAssign;

use crate::estimate::Estimate;

/// Time that was found in one place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TickTime {
    pub ns: f64,
    pub n_ticks: u64,
}

/// Time of all ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TotalTime {
    pub ns: f64,
    squares: f64,
}

impl TickTime {
    pub fn add(&mut self, cpu_ns: f64) {
        self.ns += cpu_ns;
        self.n_ticks += 1;
    }
}

impl AddAssign for TickTime {
    fn add_assign(&mut self, other: TickTime) {
        self.ns += other.ns;
        self.n_ticks += other.n_ticks;
    }
}

impl TotalTime {
    pub fn add(&mut self, cpu_ns: f64) {
        self.ns += cpu_ns;
        self.squares += cpu_ns * cpu_ns;
    }

    /// How many ticks of equal times tell as much.
    pub fn n_ticks(&self) -> f64 {
        if self.squares > 0.0 { self.ns * self.ns / self.squares } else { 0.0 }
    }

    /// How many of [`TotalTime::n_ticks`] a nanosecond is.
    pub fn ticks_per_ns(&self) -> f64 {
        if self.squares > 0.0 { self.ns / self.squares } else { 0.0 }
    }

    /// What part of the total was found in one place, as an estimate.
    pub fn estimate(&self, part: TickTime) -> Estimate {
        let n = self.n_ticks();
        let is_somewhere = n > 0.0 && part.ns > 0.0;
        let share = (n * part.ns / self.ns + 0.5) / (n + 1.0);
        let variance = if is_somewhere { self.ns * self.ns * share * (1.0 - share).max(0.0) / n } else { 0.0 };
        Estimate { value: part.ns, variance, seen: part.n_ticks }
    }
}
