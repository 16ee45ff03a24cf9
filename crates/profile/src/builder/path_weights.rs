//! What a whole path counts, given that long ones are seen whole more rarely.
//!
//! What counts of a burst are `L` intervals between checks: from the first check to the last, or to
//! where the burst ended early. A path begins at a check; if `c` checks lie between its start and
//! its end, it is seen whole if it starts in one of the first `L - c` of these. So each that is
//! seen counts `L / (L - c)`. This has the mean of the true count, as long as `c` is below `L`.
//!
//! Ends of paths are seen whatever the length of the path. What they exceed the weighted whole
//! paths by is the flow that is on no path that bursts of this length can see:
//! [`crate::Profile::unobserved_flow`].

use super::Tables;
use super::events::{Event, Tally};
use super::ids::EventId;
use super::walk::Walked;

/// Writes what paths count beyond what was seen of them. `n_intervals` is `L`; without it,
/// everything counts as seen.
pub(super) fn weigh(tables: &mut Tables, walked: &Walked<'_>, n_intervals: Option<u32>, weights: &mut Tally) {
    let Tables { known, tally, .. } = tables;
    let mut n_extra = 0.0;
    for &(event, n_checks_within) in walked.long_paths {
        if let (Event::Path(_), Some(n)) = (known.events.get(event), n_intervals) {
            let n_starts = n.saturating_sub(n_checks_within).max(1);
            let extra = f64::from(n) / f64::from(n_starts) - 1.0;
            weights.add(event, extra);
            n_extra += extra;
        }
    }
    let is_tail = |event: &&EventId| matches!(known.events.get(**event), Event::Tail(_));
    let n_tails: f64 = tally.touched().iter().filter(is_tail).map(|&event| tally.get(event)).sum();
    let unobserved = known.events.number(Event::UnobservedFlow);
    tally.add(unobserved, n_tails);
    weights.add(unobserved, -n_extra);
}
