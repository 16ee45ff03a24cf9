//! What became of values, on one screen and as facts of the profile, whether bursts noted them or all of the program.

use crate::numbers::thousands;
use crate::record::converge;
use crate::record::session::Session;
use crate::record::summary::{Fact, Modules};

/// Facts of the profile.
pub fn facts(session: &Session<'_>, modules: &Modules) -> Vec<Fact> {
    let values = &session.exact.values;
    let counters = &values.counters;
    let mut facts = vec![
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
    facts.extend(session.selector().map(|selector| ("select", selector.to_string())));
    facts.extend(converge::facts(&values.converging));
    facts
}

/// Lines of the summary, with their names.
pub fn lines(session: &Session<'_>, modules: &Modules) -> Vec<(&'static str, String)> {
    let values = &session.exact.values;
    let counters = &values.counters;
    let mut lines = Vec::new();
    if let Some(selector) = session.selector() {
        lines.push(("selected", format!("{} places by {selector}", thousands(modules.n_noting))));
    }
    if counters.n_messages > 0 {
        let some = |n: u64, what: &str| if n > 0 { format!(", {} {what}", thousands(n)) } else { String::new() };
        lines.push((
            "values",
            format!(
                "{} events at {} places, as {} messages{}{}{}",
                thousands(counters.n_events),
                thousands(values.n_sites() as u64),
                thousands(counters.n_messages),
                some(counters.n_passed_over, "more passed over"),
                some(counters.n_waits, "waits for strobe"),
                some(counters.n_lost, "messages lost"),
            ),
        ));
    }
    lines.extend(values.converging.iter().map(|converging| ("stable", converging.text())));
    lines
}
