//! The profile of a run that is longer or shorter by a factor.
//!
//! Estimates of the run scale, and their standard errors with them. What was observed does not:
//! ticks, trip counts, histories of branches, and how many events an estimate rests on stay as they
//! were.

use crate::estimate::Estimate;
use crate::model::Profile;

/// The profile of `factor` times as much work.
#[must_use]
pub fn scale(profile: &Profile, factor: f64) -> Profile {
    let mut scaled = profile.clone();
    let by_factor = |estimate: &mut Estimate| *estimate = estimate.scaled(factor);
    for row in &mut scaled.functions {
        [&mut row.entries, &mut row.self_ns].into_iter().for_each(by_factor);
    }
    for row in &mut scaled.blocks {
        [&mut row.count, &mut row.self_ns].into_iter().for_each(by_factor);
    }
    scaled.edges.iter_mut().for_each(|row| by_factor(&mut row.count));
    for row in &mut scaled.paths {
        [&mut row.count, &mut row.self_ns].into_iter().for_each(by_factor);
    }
    scaled.calls.iter_mut().for_each(|row| by_factor(&mut row.count));
    for row in &mut scaled.contexts {
        [&mut row.entries, &mut row.self_ns, &mut row.kernel_ns].into_iter().for_each(by_factor);
    }
    scaled.recursions.iter_mut().for_each(|row| by_factor(&mut row.count));
    for row in &mut scaled.context_paths {
        [&mut row.count, &mut row.self_ns].into_iter().for_each(by_factor);
    }
    for row in &mut scaled.loops {
        [&mut row.entries, &mut row.iterations, &mut row.self_ns].into_iter().for_each(by_factor);
    }
    scaled.system_calls.iter_mut().for_each(|row| by_factor(&mut row.kernel_ns));
    scaled.values.iter_mut().for_each(|row| by_factor(&mut row.count));
    for row in &mut scaled.threads {
        row.cpu_ns = (row.cpu_ns as f64 * factor).round() as u64;
    }
    by_factor(&mut scaled.unobserved_flow);
    scaled.unseen_at_most *= factor;
    let measured = &mut scaled.measured_cpu;
    for ns in [&mut measured.user_ns, &mut measured.system_ns, &mut scaled.unwatched_ns] {
        *ns *= factor;
    }
    scaled
}
