//! The end of an exact recording on one screen, and as facts of the profile.

use std::fmt::Write as _;

use wire::control::{NativeReason, Policy};

use super::{Outcome, Totals};
use crate::numbers::thousands;
use crate::props::{Exact, ExactProps};
use crate::record::session::Session;
use crate::record::summary::{Ending, Modules};
use crate::record::value_summary;
use crate::trace::file::Writer;

fn what(exact: ExactProps) -> String {
    let counted = match exact.what {
        Exact::Paths => "paths",
        Exact::HeaderPaths => "paths between loop headers",
        Exact::SampledPaths => "samples of paths",
        Exact::Trace => "paths, one by one",
        Exact::Blocks => "blocks",
        Exact::Contexts => "calling contexts",
        Exact::ContextPaths => "paths by calling context",
        Exact::Nothing => "nothing",
    };
    match exact.metric {
        Some(emit::Metric::Cycles) => format!("{counted} with cycles"),
        Some(emit::Metric::Misses(_)) => format!("{counted} with cache misses"),
        None => counted.to_owned(),
    }
}

/// A cache as it is asked for.
fn shape(cache: emit::Cache) -> String {
    let (n_bytes, n_ways, line) = (cache.n_bytes(), cache.n_ways(), cache.line());
    let size = if n_bytes.is_multiple_of(1024) { format!("{}k", n_bytes >> 10) } else { n_bytes.to_string() };
    format!("l1d:{size}:{n_ways}:{line}")
}

fn simulated(exact: ExactProps) -> Option<emit::Cache> {
    match exact.metric {
        Some(emit::Metric::Misses(cache)) => Some(cache),
        Some(emit::Metric::Cycles) | None => None,
    }
}

/// What a simulated data cache has seen. Accesses are known where blocks are counted.
fn cache_facts(totals: &Totals, outcome: &Outcome, exact: ExactProps) -> Vec<(&'static str, String)> {
    let Some(cache) = simulated(exact) else { return Vec::new() };
    let mut facts = vec![("cache", shape(cache)), ("cache_misses", totals.cache_misses.to_string())];
    if counts_accesses(exact) {
        facts.push(("cache_accesses", outcome.accesses.simulated.to_string()));
        facts.push(("cache_accesses_not_simulated", outcome.accesses.not_simulated.to_string()));
    }
    facts
}

fn counts_accesses(exact: ExactProps) -> bool {
    matches!(exact.what, Exact::Paths | Exact::ContextPaths)
}

fn cache_line(totals: &Totals, outcome: &Outcome, exact: ExactProps, cache: emit::Cache) -> String {
    let misses = thousands(totals.cache_misses);
    if !counts_accesses(exact) {
        return format!("{}: {misses} misses", shape(cache));
    }
    let super::Accesses { simulated, not_simulated } = outcome.accesses;
    let rate = totals.cache_misses as f64 / (simulated as f64).max(1.0) * 100.0;
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

/// Times that a thread left the copies for code that should have been counted.
fn n_excursions(totals: &Totals) -> u64 {
    let counts = |reason: &NativeReason| {
        matches!(
            reason,
            NativeReason::Outside | NativeReason::NoCopy | NativeReason::Instruction | NativeReason::Abandoned
        )
    };
    totals.native.iter().filter(|(reason, _)| counts(reason)).map(|(_, n)| n).sum()
}

/// Facts of the profile.
pub fn facts(
    session: &Session<'_>,
    outcome: &Outcome,
    exact: ExactProps,
    ending: &Ending,
) -> Vec<(&'static str, String)> {
    let totals = &session.exact;
    let sampled = (exact.what == Exact::SampledPaths).then(|| sampling_facts(session)).into_iter().flatten();
    let modules = Modules::of(session);
    let sum = |gaps: fn(&super::Gaps) -> u64| outcome.gaps.values().map(gaps).sum::<u64>().to_string();
    let mut facts = vec![
        ("command", ending.command.clone()),
        ("ended", ending.how.clone()),
        ("strobe", env!("CARGO_PKG_VERSION").to_owned()),
        ("exact", what(exact)),
        ("user_s", format!("{:.3}", ending.user.as_secs_f64())),
        ("system_s", format!("{:.3}", ending.system.as_secs_f64())),
        ("elapsed_s", format!("{:.3}", ending.elapsed.as_secs_f64())),
        ("agent_cpu_s", format!("{:.3}", ending.agent_cpu.as_secs_f64())),
        ("processes", session.n_processes.to_string()),
        ("threads", session.counters.threads.to_string()),
        ("threads_unprofiled", session.counters.threads_unprofiled.to_string()),
        ("native_excursions", n_excursions(totals).to_string()),
        ("abandoned_processes", totals.n_abandoned.to_string()),
        ("native_cycles", totals.native_cycles.to_string()),
        ("lost_paths", totals.lost_paths.to_string()),
        ("paths_ended", outcome.effort.n_paths.to_string()),
        ("path_additions", outcome.effort.n_additions.to_string()),
        ("lost_contexts", totals.contexts.n_lost.to_string()),
        ("calls_without_paths", outcome.n_calls_without_paths.to_string()),
        ("misattributed_paths", sum(|gaps| gaps.lost_paths.iter().map(|gap| gap.count).sum())),
        ("unknown_paths", sum(|gaps| gaps.unknown_paths.iter().map(|gap| gap.count).sum())),
        ("undetermined_edges", sum(|gaps| gaps.undetermined.iter().map(|gap| gap.count).sum())),
        ("modules_translated", modules.n_translated.to_string()),
        ("modules_from_cache", modules.n_from_cache.to_string()),
        ("translation_s", format!("{:.3}", modules.time.as_secs_f64())),
    ];
    facts.extend(totals.coverage.facts());
    facts.extend(cache_facts(totals, outcome, exact));
    facts.extend(sampled);
    facts.extend(trace_facts(session, outcome));
    facts.extend(value_summary::facts(session, &modules));
    facts
}

/// Where the trace is, and how large.
fn trace_facts(session: &Session<'_>, outcome: &Outcome) -> Vec<(&'static str, String)> {
    let Some(trace) = &session.trace else { return Vec::new() };
    vec![
        ("trace_file", trace.path().display().to_string()),
        ("trace_records", trace.n_records().to_string()),
        ("trace_marks", trace.n_marks().to_string()),
        ("trace_bytes", trace.n_bytes().to_string()),
        ("trace_raw_bytes", (trace.n_words() * 8).to_string()),
        ("trace_functions_left_out", n_left_out(outcome).to_string()),
        ("trace_records_lost", (session.exact.n_words_lost + trace.n_unwritten()).to_string()),
    ]
}

/// Functions that ran but have no records, because their paths have no numbers.
fn n_left_out(outcome: &Outcome) -> u64 {
    outcome.gaps.values().map(|gaps| gaps.n_by_blocks).sum()
}

fn trace_line(session: &Session<'_>, outcome: &Outcome, trace: &Writer) -> String {
    let per_record = trace.n_bytes() as f64 / (trace.n_records() as f64).max(1.0);
    let n_lost = session.exact.n_words_lost + trace.n_unwritten();
    let lost = if n_lost == 0 { "none lost".to_owned() } else { format!("{} LOST", thousands(n_lost)) };
    let left_out = match n_left_out(outcome) {
        0 => String::new(),
        n => format!("; without {n} functions that are counted by blocks"),
    };
    format!(
        "{} records in {} bytes, {per_record:.3} bytes each, {lost}{left_out}: {}",
        thousands(trace.n_records()),
        thousands(trace.n_bytes()),
        trace.path().display()
    )
}

/// How paths were sampled.
fn sampling_facts(session: &Session<'_>) -> [(&'static str, String); 4] {
    let props = session.props;
    [
        ("sampling_ticks", session.exact.n_sampling_ticks.to_string()),
        ("samples_per_tick", props.samples.to_string()),
        ("sampling_stride", props.stride.to_string()),
        ("sampling_policy", if props.policy == Policy::Full { "full" } else { "simplified" }.to_owned()),
    ]
}

/// The summary.
pub fn text(session: &Session<'_>, outcome: &Outcome, exact: ExactProps, ending: &Ending, file: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<10} {text}");
    };
    let totals = &session.exact;
    let profile = &outcome.profile;
    let cpu = ending.user.as_secs_f64() + ending.system.as_secs_f64();
    if let Some(warning) = totals.coverage.warning() {
        line("WARNING", warning);
    }
    line(
        "time",
        format!(
            "{cpu:.2} s CPU in {} process{}, {:.2} s elapsed",
            session.n_processes,
            if session.n_processes == 1 { "" } else { "es" },
            ending.elapsed.as_secs_f64()
        ),
    );
    let executions: f64 = profile.blocks.iter().map(|block| block.count.value).sum();
    line(
        "counted",
        format!(
            "{}: {} contexts, {} executions of {} blocks, {} edges, {} paths",
            what(exact),
            thousands(profile.contexts.len() as u64),
            thousands(executions as u64),
            thousands(profile.blocks.len() as u64),
            thousands(profile.edges.len() as u64),
            thousands(profile.paths.len() as u64)
        ),
    );
    if let Some(cache) = simulated(exact) {
        line("cache", cache_line(totals, outcome, exact, cache));
    }
    if exact.what == Exact::SampledPaths {
        let n_samples = thousands(outcome.effort.n_paths);
        let n_ticks = thousands(totals.n_sampling_ticks);
        line(
            "sampled",
            format!("{n_samples} path ends at {n_ticks} ticks; counts are samples: compare shares, not numbers"),
        );
    }
    if let Some(trace) = &session.trace {
        line("trace", trace_line(session, outcome, trace));
    }
    let modules = Modules::of(session);
    for (name, text) in value_summary::lines(session, &modules) {
        line(name, text);
    }
    let excursions = n_excursions(totals);
    line(
        "coverage",
        match excursions {
            0 if !session.loners.is_empty() => "incomplete: what was left alone was not counted".to_owned(),
            0 if totals.coverage.is_complete() => "complete: no thread ran code that was not counted".to_owned(),
            _ => totals.coverage.text(),
        },
    );
    if excursions > 0 {
        let named: Vec<String> =
            totals.native.iter().map(|(&reason, n)| format!("{} {n}", reason_name(reason))).collect();
        line("", format!("{} excursions into code that was not counted ({})", thousands(excursions), named.join(", ")));
    }
    if totals.lost_paths > 0 {
        line("lost", format!("{} path ends: the table of paths was full", thousands(totals.lost_paths)));
    }
    if outcome.n_calls_without_paths > 0 {
        let n_calls = thousands(outcome.n_calls_without_paths);
        line("lost", format!("the paths of {n_calls} calls of functions with too many jumps through tables"));
    }
    if totals.contexts.n_lost > 0 {
        let n_lost = thousands(totals.contexts.n_lost);
        line("lost", format!("the callers of {n_lost} calls: the table of contexts was full"));
    }
    if totals.n_abandoned > 0 {
        line("given up", format!("{} processes ran on uncounted: strobe did not answer in time", totals.n_abandoned));
    }
    line("modules", format!("{} translated ({} from the cache)", modules.n_translated, modules.n_from_cache));
    for text in session.loners.lines() {
        line("left alone", text);
    }
    let problems = session.counters.problems.keys().chain(&outcome.problems);
    for problem in problems {
        line("stayed out", problem.clone());
    }
    line("profile", file.to_owned());
    out
}
