//! The end of a recording whose bursts were started by a count of checks, on one screen.

use std::fmt::Write as _;

use recorder::facts::{CountedFacts, RunFacts};

use super::{left_alone, summary, summary_exact, summary_values};
use crate::numbers::thousands;

/// Returns the summary of such a recording, whose profile is in `file`.
pub fn text(run: &RunFacts, facts: &CountedFacts, file: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<10} {text}");
    };
    if let Some(warning) = facts.stay.coverage.warning() {
        line("WARNING", warning);
    }
    line("time", summary::time(run, (run.user() + run.system()).as_secs_f64()));
    let trigger = &facts.trigger;
    line(
        "trigger",
        format!("{} checks, then a burst of {}; checks by policy {}", trigger.n_check, trigger.n_instr, trigger.checks),
    );
    let bursts = &facts.bursts;
    if trigger.logs {
        let mean = bursts.n_records as f64 / (bursts.n_bursts as f64).max(1.0);
        line(
            "bursts",
            format!(
                "{}, mean length {mean:.0} blocks; {} ended with their thread or handler",
                thousands(bursts.n_bursts),
                thousands(bursts.n_bursts - bursts.n_whole)
            ),
        );
    }
    let modules = &run.modules;
    for (name, text) in summary_values::lines(run.values.as_ref(), modules) {
        line(name, text);
    }
    for (name, text) in summary_exact::coverage_lines(run, &facts.stay) {
        line(name, text);
    }
    if bursts.n_records_lost > 0 {
        line("lost", format!("{} blocks: strobe did not read them in time", thousands(bursts.n_records_lost)));
    }
    if run.counters.unknown_bursts > 0 {
        let n = thousands(run.counters.unknown_bursts);
        line("lost", format!("{n} bursts in code whose control flow was not known in time"));
    }
    line("modules", format!("{} translated ({} from the cache)", modules.n_translated, modules.n_from_cache));
    for text in left_alone::lines(&run.left_alone) {
        line("left alone", text);
    }
    for problem in run.counters.problems.keys() {
        line("stayed out", problem.clone());
    }
    line("profile", file.to_owned());
    out
}
