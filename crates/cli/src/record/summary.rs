//! The end of a recording on one screen.

use std::fmt::Write as _;

use recorder::facts::{BurstFacts, RunFacts, Shares};
use recorder::{Perturbation, end_reason_name, outcome_name};
use wire::control::TickSource;
use wire::sample::EndReason;

use super::{left_alone, summary_values};
use crate::numbers::thousands;

/// Returns the summary of a recording in bursts, whose profile is in `file`.
pub fn text(run: &RunFacts, facts: &BurstFacts, file: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<10} {text}");
    };
    let tally = &facts.tally;
    let of_ticks: Vec<String> =
        tally.outcomes.iter().map(|(&outcome, n)| format!("{} {n}", outcome_name(outcome))).collect();
    line("time", time(run, run.cpu_seconds()));
    let wanted = if facts.budget.is_some() { "as the budget allows, first" } else { "asked" };
    line(
        "ticks",
        format!(
            "{} at {:.1} per CPU second ({wanted} {:.1}, {}); {} merged, {} lost",
            thousands(tally.n_samples),
            facts.attained_rate_hz(run),
            facts.asked_rate_hz,
            source(facts.tick_source),
            tally.n_overruns,
            run.counters.lost_ticks
        ),
    );
    if !of_ticks.is_empty() {
        line("", of_ticks.join(", "));
    }
    if tally.n_bursts > 0 {
        let n = tally.n_bursts as f64;
        line(
            "bursts",
            format!(
                "{}, mean length {:.0} checks and {:.0} blocks; {} % full length",
                thousands(tally.n_bursts),
                tally.n_checks as f64 / n,
                tally.n_records as f64 / n,
                percent(tally.n_full_bursts, tally.n_bursts)
            ),
        );
        let others: Vec<String> = tally
            .end_reasons
            .iter()
            .filter(|&(&reason, _)| reason != EndReason::Full)
            .map(|(&reason, n)| format!("{} {n}", end_reason_name(reason)))
            .collect();
        if !others.is_empty() {
            line("", format!("others ended by: {}", others.join(", ")));
        }
        for (place, n) in frequent_departures(run, facts) {
            line("", format!("{n} {place}"));
        }
    }
    if tally.yields().n_tries > 0 {
        let after = facts.warm_after.map_or(String::new(), |time| format!("; 90 % after {:.2} s", time.as_secs_f64()));
        line(
            "hit rate",
            format!(
                "{} % of ticks in file-backed code, {} % once all was translated{after}",
                rate(tally.yields().hit_rate()),
                rate(facts.warm.hit_rate())
            ),
        );
    }
    let shares @ Shares { ticks, bursts, starts, spots } = facts.shares(run);
    let limit = facts.budget.map_or("no budget".to_owned(), |budget| format!("budget {:.2} %", 100.0 * budget));
    line(
        "cost",
        format!(
            "at most {:.2} % of CPU time in the program: ticks {:.2} %, bursts {:.2} %, spot counts {:.2} % ({limit}), starts of processes {:.2} %",
            100.0 * shares.total(),
            100.0 * ticks,
            100.0 * bursts,
            100.0 * spots,
            100.0 * starts
        ),
    );
    if let Some(spots) = facts.spots.filter(|spots| spots.n_moments > 0) {
        line(
            "spot counts",
            format!("{} of blocks, in {} moments", thousands(spots.n_hits), thousands(spots.n_moments)),
        );
    }
    let modules = &run.modules;
    line(
        "modules",
        format!(
            "{} translated ({} from the cache): {} functions, {} instructions",
            modules.n_translated,
            modules.n_from_cache,
            thousands(modules.n_functions),
            thousands(modules.n_instructions)
        ),
    );
    for (name, text) in summary_values::lines(run.values.as_ref(), modules) {
        line(name, text);
    }
    for text in left_alone::lines(&run.left_alone) {
        line("left alone", text);
    }
    for (problem, n) in &run.counters.problems {
        let times = if *n == 1 { String::new() } else { format!(" ({n} times)") };
        line("stayed out", format!("{problem}{times}"));
    }
    if run.counters.unknown_bursts > 0 {
        line("stayed out", format!("{} bursts through code of unknown control flow", run.counters.unknown_bursts));
    }
    if run.counters.threads_blind > 0 {
        line("stayed out", format!("{} threads had ticks blocked for a while", run.counters.threads_blind));
    }
    if run.counters.threads_unprofiled > 0 {
        line("stayed out", format!("{} threads found no free area or timer", run.counters.threads_unprofiled));
    }
    let findings = &facts.findings;
    if findings.n_bursts > 0 {
        line(
            "checked",
            format!(
                "{} blocks of {} bursts: {} false steps, {} in unknown code, {} past calls",
                thousands(findings.n_blocks),
                thousands(findings.n_bursts),
                findings.n_false,
                findings.n_unknown,
                findings.n_nonlocal
            ),
        );
        for example in &findings.examples {
            line("", example.clone());
        }
    }
    line("profile", file.to_owned());
    out
}

/// Returns the first line of a summary.
pub fn time(run: &RunFacts, cpu_seconds: f64) -> String {
    format!(
        "{cpu_seconds:.2} s CPU in {} process{}, {:.2} s elapsed",
        run.n_processes,
        if run.n_processes == 1 { "" } else { "es" },
        run.elapsed.as_secs_f64()
    )
}

fn source(source: TickSource) -> &'static str {
    match source {
        TickSource::PosixTimer => "POSIX timers",
        TickSource::Perf => "perf events",
        TickSource::Off => "off",
    }
}

/// Returns the last line: what strobe itself took.
pub fn own_text(run: &RunFacts) -> String {
    let own = run.agent_cpu.as_secs_f64();
    let share = |cost: f64| 100.0 * (cost + own) / run.cpu_seconds().max(1e-9);
    let in_all = run.cost_in_program().map(|cost| format!("; in all {:.2} %", share(cost)));
    let start_up = 1e3 * run.start_up.as_secs_f64();
    format!(
        "  {:<10} strobe itself {own:.2} s CPU; start-up {start_up:.1} ms{}\n",
        "own cost",
        in_all.unwrap_or_default()
    )
}

/// Returns a table of both runs, without and with recording.
pub fn perturbation(both: &Perturbation) -> String {
    let mut lines = format!("  {:<16}{:>12}{:>12}{:>8}\n", "PERTURBATION", "WITHOUT", "WITH", "RATIO");
    for row in both.rows() {
        let ratio = if row.without > 0.0 { format!("{:.2}", row.with / row.without) } else { "-".to_owned() };
        let _ = writeln!(lines, "  {:<16}{:>12.3}{:>12.3}{ratio:>8}", row.name, row.without, row.with);
    }
    lines
}

/// Returns the places where a noticeable part of all bursts ended early, the most frequent first.
fn frequent_departures<'a>(run: &'a RunFacts, facts: &BurstFacts) -> Vec<(&'a str, u64)> {
    const MOST: usize = 3;
    const PART: u64 = 50;
    let all = run.counters.departures.iter().map(|(place, &n)| (place.as_str(), n));
    let mut frequent: Vec<_> = all.filter(|&(_, n)| n * PART >= facts.tally.n_bursts && n > 1).collect();
    frequent.sort_by_key(|&(place, n)| (std::cmp::Reverse(n), place));
    frequent.truncate(MOST);
    frequent
}

fn rate(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.2}", 100.0 * share))
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}", 100.0 * part as f64 / whole as f64) }
}
