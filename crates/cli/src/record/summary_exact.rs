//! The end of a recording that counted everything, on one screen.

use std::fmt::Write as _;

use profile::Profile;
use recorder::facts::{ExactFacts, PathTraceFacts, RunFacts, shape};
use recorder::{Accesses, Stay};
use wire::control::NativeReason;

use super::{left_alone, summary, summary_values};
use crate::numbers::thousands;

fn cache_line(facts: &ExactFacts, cache: emit::Cache) -> String {
    let misses = thousands(facts.cache_misses);
    if !facts.counts_accesses() {
        return format!("{}: {misses} misses", shape(cache));
    }
    let Accesses { simulated, not_simulated } = facts.accesses;
    let rate = facts.cache_misses as f64 / (simulated as f64).max(1.0) * 100.0;
    let rest =
        if not_simulated > 0 { format!("; {} more not simulated", thousands(not_simulated)) } else { String::new() };
    format!("{}: {misses} misses of {} accesses, {rate:.2} %{rest}", shape(cache), thousands(simulated))
}

fn reason_name(reason: NativeReason) -> &'static str {
    match reason {
        NativeReason::Runtime => "strobe's own functions",
        NativeReason::Kernel => "the kernel's code",
        NativeReason::Outside => "code of no file",
        NativeReason::NoCopy => "code without a copy",
        NativeReason::Instruction => "instructions not copied",
        NativeReason::SystemCall => "system calls that change control",
        NativeReason::Abandoned => "strobe did not answer",
    }
}

/// Returns lines on how far threads stayed in the copies.
pub fn coverage_lines(run: &RunFacts, stay: &Stay) -> Vec<(&'static str, String)> {
    let excursions = stay.n_excursions();
    let text = match excursions {
        0 if !run.left_alone.is_empty() => "incomplete: what was left alone was not counted".to_owned(),
        0 if stay.coverage.is_complete() => "complete: no thread ran code that was not counted".to_owned(),
        _ => stay.coverage.text(),
    };
    let mut lines = vec![("coverage", text)];
    if excursions > 0 {
        let named: Vec<String> =
            stay.native.iter().map(|(&reason, n)| format!("{} {n}", reason_name(reason))).collect();
        let text =
            format!("{} excursions into code that was not counted ({})", thousands(excursions), named.join(", "));
        lines.push(("", text));
    }
    if stay.n_abandoned > 0 {
        let text = format!("{} processes ran on uncounted: strobe did not answer in time", stay.n_abandoned);
        lines.push(("given up", text));
    }
    lines
}

fn trace_line(trace: &PathTraceFacts) -> String {
    let per_record = trace.n_bytes as f64 / (trace.n_records as f64).max(1.0);
    let lost = if trace.n_lost == 0 { "none lost".to_owned() } else { format!("{} LOST", thousands(trace.n_lost)) };
    let left_out = match trace.n_left_out {
        0 => String::new(),
        n => format!("; without {n} functions that are counted by blocks"),
    };
    format!(
        "{} records in {} bytes, {per_record:.3} bytes each, {lost}{left_out}: {}",
        thousands(trace.n_records),
        thousands(trace.n_bytes),
        trace.path.display()
    )
}

/// Returns the summary of a recording that counted everything, whose profile is in `file`.
pub fn text(run: &RunFacts, facts: &ExactFacts, profile: &Profile, file: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<10} {text}");
    };
    if let Some(warning) = facts.stay.coverage.warning() {
        line("WARNING", warning);
    }
    line("time", summary::time(run, (run.user() + run.system()).as_secs_f64()));
    let executions: f64 = profile.blocks.iter().map(|block| block.count.value).sum();
    line(
        "counted",
        format!(
            "{}: {} contexts, {} executions of {} blocks, {} edges, {} paths",
            facts.counted(),
            thousands(profile.contexts.len() as u64),
            thousands(executions as u64),
            thousands(profile.blocks.len() as u64),
            thousands(profile.edges.len() as u64),
            thousands(profile.paths.len() as u64)
        ),
    );
    if let Some(cache) = facts.cache() {
        line("cache", cache_line(facts, cache));
    }
    if let Some(sampled) = &facts.sampled {
        let n_samples = thousands(facts.n_paths);
        let n_ticks = thousands(sampled.n_ticks);
        line(
            "sampled",
            format!("{n_samples} path ends at {n_ticks} ticks; counts are samples: compare shares, not numbers"),
        );
    }
    if let Some(trace) = &facts.path_trace {
        line("trace", trace_line(trace));
    }
    let modules = &run.modules;
    for (name, text) in summary_values::lines(run.values.as_ref(), modules) {
        line(name, text);
    }
    for (name, text) in coverage_lines(run, &facts.stay) {
        line(name, text);
    }
    if facts.n_lost_paths > 0 {
        line("lost", format!("{} path ends: the table of paths was full", thousands(facts.n_lost_paths)));
    }
    if facts.n_calls_without_paths > 0 {
        let n_calls = thousands(facts.n_calls_without_paths);
        line("lost", format!("the paths of {n_calls} calls of functions with too many jumps through tables"));
    }
    if facts.n_lost_contexts > 0 {
        let n_lost = thousands(facts.n_lost_contexts);
        line("lost", format!("the callers of {n_lost} calls: the table of contexts was full"));
    }
    line("modules", format!("{} translated ({} from the cache)", modules.n_translated, modules.n_from_cache));
    for text in left_alone::lines(&run.left_alone) {
        line("left alone", text);
    }
    let problems = run.counters.problems.keys().chain(&facts.problems);
    for problem in problems {
        line("stayed out", problem.clone());
    }
    line("profile", file.to_owned());
    out
}
