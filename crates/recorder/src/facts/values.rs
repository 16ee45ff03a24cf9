//! What became of noted values.

use sampling::selector::Selector;

use super::Modules;
use crate::noted::{Counters, converge};
use crate::rows::Fact;

/// What became of noted values.
#[derive(Debug)]
pub struct ValueFacts {
    /// Where values were noted, if not everywhere.
    pub selector: Option<Selector>,
    /// Counters of noted values.
    pub counters: Counters,
    /// Instructions that noted any.
    pub n_sites: usize,
    /// Of each process, how its profile became stable.
    pub converged: Vec<converge::Converged>,
}

impl ValueFacts {
    pub(super) fn rows(&self, modules: &Modules) -> Vec<Fact> {
        let counters = &self.counters;
        let mut rows = vec![
            ("value_places", modules.n_noting.to_string()),
            ("value_events", counters.n_events.to_string()),
            ("value_events_passed_over", counters.n_passed_over.to_string()),
            ("value_messages", counters.n_messages.to_string()),
            ("value_events_unsent", counters.residue.to_string()),
            ("value_events_told", counters.weight.to_string()),
            ("value_waits", counters.n_waits.to_string()),
            ("value_messages_lost", counters.n_lost.to_string()),
            ("value_events_foreign", counters.n_foreign.to_string()),
        ];
        rows.extend(self.selector.iter().map(|selector| ("select", selector.to_string())));
        if !self.converged.is_empty() {
            let ends = || self.converged.iter().filter_map(|each| each.end);
            let n_known: u64 = self.converged.iter().map(|each| each.n_known).sum();
            rows.push(("value_profiles_stable", ends().count().to_string()));
            rows.push(("value_events_until_stable", ends().map(|end| end.n_events).sum::<u64>().to_string()));
            rows.push(("value_places_known", n_known.to_string()));
        }
        rows
    }
}
