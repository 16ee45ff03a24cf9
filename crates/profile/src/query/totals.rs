//! What all shares are of.

use crate::estimate::Estimate;
use crate::model::Profile;

/// CPU time of the run, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// In the program's code.
    pub user_ns: Estimate,
    /// In the kernel on its behalf.
    pub kernel_ns: Estimate,
    /// Both.
    pub cpu_ns: Estimate,
}

/// The factor within which counts are right, with 95 % confidence, if chance is left out; 1 in an exact profile.
#[must_use]
pub fn scale_factor(profile: &Profile) -> f64 {
    let variance = profile.scale_error.powi(2) + profile.mix_error.powi(2);
    let log = Estimate { variance, ..Estimate::default() };
    log.margin().exp()
}

/// Sums a profile up.
#[must_use]
pub fn totals(profile: &Profile) -> Totals {
    let user_ns = profile.functions.iter().map(|row| row.self_ns).sum();
    let kernel_ns = profile.contexts.iter().map(|row| row.kernel_ns).sum();
    Totals { user_ns, kernel_ns, cpu_ns: user_ns + kernel_ns }
}
