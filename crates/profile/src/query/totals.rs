//! What all shares are of.
//!
//! The kernel knows the CPU time of a run exactly, and splits it into user and system time by
//! looking which of the two a processor is in at each of its own timer interrupts. Ticks say where
//! the time went. They do not account for all of it: a thread's time behind its last tick, and
//! threads and processes that ended before their first, are *not sampled*.

use crate::estimate::Estimate;
use crate::model::{CpuTime, Profile};

/// CPU time of the run, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// In user mode.
    pub user_ns: Estimate,
    /// In the kernel.
    pub kernel_ns: Estimate,
    /// Both.
    pub cpu_ns: Estimate,
    /// Time of system calls, by ticks, with the way into the kernel and back, of which the kernel
    /// counts a part as user time. The rest of its time is page faults and interrupts, which ticks
    /// find at the interrupted instruction.
    pub system_calls_ns: Estimate,
    /// CPU time that ticks stand for, with the error of a sample.
    pub sampled_ns: Estimate,
    /// CPU time that no tick stands for.
    pub not_sampled_ns: f64,
}

/// Interrupts per second at which kernels commonly look whether a processor is in user or kernel
/// mode.
const KERNEL_SAMPLES_PER_SECOND: f64 = 250.0;

/// The factor within which counts are right, with 95 % confidence, if chance is left out; 1 in an
/// exact profile.
#[must_use]
pub fn scale_factor(profile: &Profile) -> f64 {
    let variance = profile.scale_error.powi(2) + profile.mix_error.powi(2);
    let log = Estimate { variance, ..Estimate::default() };
    log.margin().exp()
}

/// Takes in the kernel's account of the run. Where it knows of less user time than ticks found at
/// user addresses, the rest was page faults and interrupts. Which of the code they belong to is not
/// known, and counts of code that is slow for that reason are too high: by something between
/// nothing and the quotient of the two, which [`Profile::scale_error`] allows for unless counts do
/// not rest on time.
pub fn account(profile: &mut Profile, measured: CpuTime, counts_rest_on_time: bool) {
    profile.measured_cpu = measured;
    if !counts_rest_on_time {
        return;
    }
    let found_ns: f64 = profile.functions.iter().map(|row| row.self_ns.value).sum();
    let user_ns = totals(profile).user_ns;
    let width = (found_ns / (user_ns.value + user_ns.margin())).ln();
    if width.is_finite() && width > 0.0 {
        profile.scale_error = (profile.scale_error.powi(2) + width * width / 3.0).sqrt();
    }
}

/// Sums a profile up.
#[must_use]
pub fn totals(profile: &Profile) -> Totals {
    let user_ns: Estimate = profile.functions.iter().map(|row| row.self_ns).sum();
    let system_calls_ns: Estimate = profile.contexts.iter().map(|row| row.kernel_ns).sum();
    let sampled_ns = user_ns + system_calls_ns;
    let measured = profile.measured_cpu;
    let total_ns = measured.total_ns();
    if total_ns <= 0.0 {
        return Totals {
            user_ns,
            kernel_ns: system_calls_ns,
            cpu_ns: sampled_ns,
            system_calls_ns,
            sampled_ns,
            not_sampled_ns: 0.0,
        };
    }
    // One more look at each of the two keeps what was never met from being surely nothing.
    let look_ns = 1e9 / KERNEL_SAMPLES_PER_SECOND;
    let n_looks = total_ns / look_ns + 2.0;
    let variance = (measured.user_ns + look_ns) * (measured.system_ns + look_ns) / n_looks;
    Totals {
        user_ns: Estimate { value: measured.user_ns, variance, seen: 0 },
        kernel_ns: Estimate { value: measured.system_ns, variance, seen: 0 },
        // Ticks and the kernel's account are of the same clock, but the latter has whole
        // microseconds.
        cpu_ns: Estimate::measured(total_ns.max(sampled_ns.value)),
        system_calls_ns,
        sampled_ns,
        not_sampled_ns: (total_ns - sampled_ns.value).max(0.0),
    }
}

/// CPU time of a run: by the kernel's account, or, where there is none, by ticks.
pub(crate) fn cpu_time(profile: &Profile) -> CpuTime {
    if profile.measured_cpu.total_ns() > 0.0 {
        return profile.measured_cpu;
    }
    let totals = totals(profile);
    CpuTime { user_ns: totals.user_ns.value, system_ns: totals.kernel_ns.value }
}
