//! What became of values, on one screen and as facts of the profile, whether bursts noted them or
//! all of the program.

use crate::numbers::thousands;
use recorder::Converged;
use recorder::facts::{Modules, ValueFacts};

/// Lines of the summary, with their names.
pub fn lines(values: Option<&ValueFacts>, modules: &Modules) -> Vec<(&'static str, String)> {
    let Some(values) = values else { return Vec::new() };
    let counters = &values.counters;
    let mut lines = Vec::new();
    if let Some(selector) = &values.selector {
        lines.push(("selected", format!("{} places by {selector}", thousands(modules.n_noting))));
    }
    if counters.n_messages > 0 {
        let some = |n: u64, what: &str| if n > 0 { format!(", {} {what}", thousands(n)) } else { String::new() };
        lines.push((
            "values",
            format!(
                "{} events at {} places, as {} messages{}{}{}",
                thousands(counters.n_events),
                thousands(values.n_sites as u64),
                thousands(counters.n_messages),
                some(counters.n_passed_over, "more passed over"),
                some(counters.n_waits, "waits for strobe"),
                some(counters.n_lost, "messages lost"),
            ),
        ));
    }
    lines.extend(values.converged.iter().map(|converged| ("stable", stable(converged))));
    lines
}

fn stable(converged: &Converged) -> String {
    let change = 100.0 * converged.change;
    let places = thousands(converged.n_known);
    match converged.end {
        Some(end) => format!(
            "after {} events in {:.1} s, {places} places before that; the last half more of them changed {change:.2} %",
            thousands(end.n_events),
            end.after.as_secs_f64(),
        ),
        None => format!("{places} places, but not the whole: at last {change:.2} % changed"),
    }
}
