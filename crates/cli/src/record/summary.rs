//! The end of a recording on one screen, and the same numbers as facts of the profile.

use std::fmt::Write as _;
use std::time::Duration;

use crate::numbers::thousands;
use crate::record::session::Session;
use crate::record::tally::{Cost, Yields};
use crate::record::value_summary;

/// What the summary needs that the session does not know.
#[derive(Debug)]
pub struct Ending {
    pub command: String,
    pub how: String,
    pub elapsed: Duration,
    pub user: Duration,
    pub system: Duration,
    pub agent_cpu: Duration,
    pub start_up: Duration,
    pub tick_source: String,
    pub asked_rate_hz: f64,
}

/// A number of the summary: name in the profile, value.
pub type Fact = (&'static str, String);

/// What can be said while the program runs; who reads the profile meanwhile, or after strobe was killed, has this.
pub fn facts_so_far(session: &Session<'_>, command: &str) -> Vec<Fact> {
    common_facts(session, command, session.cpu_seconds(), session.started.elapsed())
}

/// Replaces what was said while the program ran.
pub fn facts(session: &Session<'_>, ending: &Ending) -> Vec<Fact> {
    let tally = &session.tally;
    let cpu = cpu_seconds(session, ending);
    let modules = Modules::of(session);
    let mut facts = common_facts(session, &ending.command, cpu, ending.elapsed);
    facts.extend(own_facts(ending));
    facts.extend([
        ("ended", ending.how.clone()),
        ("user_s", format!("{:.3}", ending.user.as_secs_f64())),
        ("system_s", format!("{:.3}", ending.system.as_secs_f64())),
        ("tick_source", ending.tick_source.clone()),
        ("asked_rate_hz", format!("{:.1}", ending.asked_rate_hz)),
        ("attained_rate_hz", format!("{:.2}", attained_rate(session, cpu))),
        ("overruns", tally.n_overruns.to_string()),
        ("lost_ticks", session.counters.lost_ticks.to_string()),
        ("ticks_in_burst", session.counters.ticks_in_burst.to_string()),
        ("records", tally.n_records.to_string()),
        ("checks", tally.n_checks.to_string()),
        ("full_percent", percent(tally.n_full_bursts, tally.n_bursts)),
        ("hit_percent", rate(tally.yields().hit_rate())),
        ("hit_warm_percent", rate(warm(session).hit_rate())),
        ("full_warm_percent", rate(warm(session).full_rate())),
        ("warm_after_s", session.warm_after.map_or("-".to_owned(), |time| format!("{:.3}", time.as_secs_f64()))),
        ("tick_delivery_us", format!("{:.2}", 1e6 * session.delivery_seconds)),
        ("start_up_s", format!("{:.4}", ending.start_up.as_secs_f64())),
        ("processes", session.n_processes.to_string()),
        ("processes_left_alone", session.loners.n_processes().to_string()),
        ("threads", session.counters.threads.to_string()),
        ("threads_unprofiled", session.counters.threads_unprofiled.to_string()),
        ("untold_bursts", session.counters.untold_bursts.to_string()),
        ("threads_blind", session.counters.threads_blind.to_string()),
        ("modules_translated", modules.n_translated.to_string()),
        ("modules_from_cache", modules.n_from_cache.to_string()),
        ("functions_translated", modules.n_functions.to_string()),
        ("instructions_translated", modules.n_instructions.to_string()),
        ("translation_s", format!("{:.3}", modules.time.as_secs_f64())),
    ]);
    if session.notes_values() {
        facts.extend(value_summary::facts(session, &modules));
    }
    facts.extend(tally.outcomes.iter().map(|(name, n)| (outcome_fact(name), n.to_string())));
    facts.extend(tally.end_reasons.iter().map(|(name, n)| (end_fact(name), n.to_string())));
    if session.findings.n_bursts > 0 {
        facts.push(("checked_bursts", session.findings.n_bursts.to_string()));
        facts.push(("checked_blocks", session.findings.n_blocks.to_string()));
        facts.push(("checked_instructions", session.findings.n_instructions.to_string()));
        facts.push(("false_steps", session.findings.n_false.to_string()));
        facts.push(("unknown_steps", session.findings.n_unknown.to_string()));
    }
    facts
}

/// What is known only when everything has been done.
pub fn own_facts(ending: &Ending) -> [Fact; 1] {
    [("agent_cpu_s", format!("{:.3}", ending.agent_cpu.as_secs_f64()))]
}

fn common_facts(session: &Session<'_>, command: &str, cpu: f64, elapsed: Duration) -> Vec<Fact> {
    let Shares { ticks, bursts, starts } = shares(&session.cost(), cpu);
    vec![
        ("command", command.to_owned()),
        ("strobe", env!("CARGO_PKG_VERSION").to_owned()),
        ("cpu_s", format!("{cpu:.3}")),
        ("elapsed_s", format!("{:.3}", elapsed.as_secs_f64())),
        ("ticks", session.tally.n_samples.to_string()),
        ("bursts", session.tally.n_bursts.to_string()),
        ("cost_percent", format!("{:.3}", 100.0 * (ticks + bursts + starts))),
        ("cost_ticks_percent", format!("{:.3}", 100.0 * ticks)),
        ("cost_bursts_percent", format!("{:.3}", 100.0 * bursts)),
        ("cost_starts_percent", format!("{:.3}", 100.0 * starts)),
    ]
}

fn outcome_fact(name: &'static str) -> &'static str {
    match name {
        "burst" => "ticks_burst",
        "no copy yet" => "ticks_no_copy",
        "outside known code" => "ticks_outside",
        "in the kernel" => "ticks_kernel",
        "paused" => "ticks_paused",
        "library unloading" => "ticks_unloading",
        _ => "ticks_skipped",
    }
}

fn end_fact(name: &'static str) -> &'static str {
    match name {
        "full length" => "end_full",
        "buffer full" => "end_buffer_full",
        "buffer of events full" => "end_events_full",
        "into code without a copy" => "end_no_copy",
        "out of known code" => "end_outside",
        "system call that changes control" => "end_system_call",
        "instruction not copied" => "end_instruction",
        "signal" => "end_signal",
        "library unloading" => "end_unloading",
        "told to leave" => "end_told",
        "died in it" => "end_died",
        _ => "end_unknown",
    }
}

pub fn text(session: &Session<'_>, ending: &Ending, budget: Option<f64>) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "  {name:<10} {text}");
    };
    let tally = &session.tally;
    let cpu = cpu_seconds(session, ending);
    let of_ticks: Vec<String> = tally.outcomes.iter().map(|(name, n)| format!("{name} {n}")).collect();
    line(
        "time",
        format!(
            "{cpu:.2} s CPU in {} process{}, {:.2} s elapsed",
            session.n_processes,
            if session.n_processes == 1 { "" } else { "es" },
            ending.elapsed.as_secs_f64()
        ),
    );
    let wanted = if budget.is_some() { "as the budget allows, first" } else { "asked" };
    line(
        "ticks",
        format!(
            "{} at {:.1} per CPU second ({wanted} {:.1}, {}); {} merged, {} lost",
            thousands(tally.n_samples),
            attained_rate(session, cpu),
            ending.asked_rate_hz,
            ending.tick_source,
            tally.n_overruns,
            session.counters.lost_ticks
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
            .filter(|&(&name, _)| name != "full length")
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        if !others.is_empty() {
            line("", format!("others ended by: {}", others.join(", ")));
        }
        for (place, n) in frequent_departures(session) {
            line("", format!("{n} {place}"));
        }
    }
    if tally.yields().n_tries > 0 {
        let after =
            session.warm_after.map_or(String::new(), |time| format!("; 90 % after {:.2} s", time.as_secs_f64()));
        line(
            "hit rate",
            format!(
                "{} % of ticks in file-backed code, {} % once all was translated{after}",
                rate(tally.yields().hit_rate()),
                rate(warm(session).hit_rate())
            ),
        );
    }
    let Shares { ticks, bursts, starts } = shares(&session.cost(), cpu);
    let limit = budget.map_or("no budget".to_owned(), |budget| format!("budget {:.2} %", 100.0 * budget));
    line(
        "cost",
        format!(
            "at most {:.2} % of CPU time in the program: ticks {:.2} %, bursts {:.2} % ({limit}), starts of processes {:.2} %",
            100.0 * (ticks + bursts + starts),
            100.0 * ticks,
            100.0 * bursts,
            100.0 * starts
        ),
    );
    let modules = Modules::of(session);
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
    for (name, text) in value_summary::lines(session, &modules) {
        line(name, text);
    }
    for text in session.loners.lines() {
        line("left alone", text);
    }
    for (problem, n) in &session.counters.problems {
        let times = if *n == 1 { String::new() } else { format!(" ({n} times)") };
        line("stayed out", format!("{problem}{times}"));
    }
    if session.counters.untold_bursts > 0 {
        line("stayed out", format!("{} bursts through code of unknown control flow", session.counters.untold_bursts));
    }
    if session.counters.threads_blind > 0 {
        line("stayed out", format!("{} threads had ticks blocked for a while", session.counters.threads_blind));
    }
    if session.counters.threads_unprofiled > 0 {
        line("stayed out", format!("{} threads found no free area or timer", session.counters.threads_unprofiled));
    }
    let findings = &session.findings;
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
    line("profile", session.recording.path().display().to_string());
    out
}

/// What recording took in the program and what CPU time the program took, in seconds; the first is not known of exact mode.
pub fn cost_in_program(session: &Session<'_>, ending: &Ending) -> (Option<f64>, f64) {
    let cost = session.cost();
    let seconds = session.props.exact.is_none().then(|| cost.seconds() + cost.start_seconds);
    (seconds, cpu_seconds(session, ending))
}

/// The last line: what strobe itself took.
pub fn own_text(ending: &Ending, (cost, cpu): (Option<f64>, f64)) -> String {
    let own = ending.agent_cpu.as_secs_f64();
    let in_all = cost.map(|cost| format!("; in all {:.2} %", 100.0 * (cost + own) / cpu.max(1e-9)));
    let start_up = 1e3 * ending.start_up.as_secs_f64();
    format!(
        "  {:<10} strobe itself {own:.2} s CPU; start-up {start_up:.1} ms{}\n",
        "own cost",
        in_all.unwrap_or_default()
    )
}

/// Places where a noticeable part of all bursts ended early, the most frequent first.
fn frequent_departures<'a>(session: &'a Session<'_>) -> Vec<(&'a str, u64)> {
    const MOST: usize = 3;
    const PART: u64 = 50;
    let all = session.counters.departures.iter().map(|(place, &n)| (place.as_str(), n));
    let mut frequent: Vec<_> = all.filter(|&(_, n)| n * PART >= session.tally.n_bursts && n > 1).collect();
    frequent.sort_by_key(|&(place, n)| (std::cmp::Reverse(n), place));
    frequent.truncate(MOST);
    frequent
}

struct Shares {
    ticks: f64,
    bursts: f64,
    starts: f64,
}

fn shares(cost: &Cost, cpu: f64) -> Shares {
    let share = |seconds: f64| if cpu > 0.0 { seconds / cpu } else { 0.0 };
    Shares { ticks: share(cost.tick_seconds), bursts: share(cost.burst_seconds), starts: share(cost.start_seconds) }
}

/// What the kernel charged the program and the children that it waited for, or what was seen of its processes if that is more.
pub fn cpu_seconds(session: &Session<'_>, ending: &Ending) -> f64 {
    (ending.user + ending.system).as_secs_f64().max(session.cpu_seconds())
}

fn attained_rate(session: &Session<'_>, cpu: f64) -> f64 {
    let ticks = session.tally.n_samples + session.counters.lost_ticks + session.counters.ticks_in_burst;
    if cpu > 0.0 { ticks as f64 / cpu } else { 0.0 }
}

#[derive(Default)]
pub struct Modules {
    pub n_translated: usize,
    pub n_from_cache: usize,
    pub n_functions: u64,
    pub n_instructions: u64,
    /// Places that note events.
    pub n_noting: u64,
    pub time: Duration,
}

impl Modules {
    pub fn of(session: &Session<'_>) -> Modules {
        let mut modules = Modules::default();
        for translation in session.translator.all().into_iter().filter_map(|(_, known)| known.ok()) {
            let statistics = translation.copy.statistics();
            modules.n_translated += 1;
            modules.n_from_cache += usize::from(translation.from_cache);
            modules.n_functions += statistics.functions;
            modules.n_instructions += statistics.instructions;
            modules.n_noting += statistics.events;
            modules.time += translation.time;
        }
        modules
    }
}

/// How ticks were used after everything was translated.
fn warm(session: &Session<'_>) -> Yields {
    session.until_translated.map_or(Yields::default(), |until| session.tally.yields().since(until))
}

fn rate(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.2}", 100.0 * share))
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}", 100.0 * part as f64 / whole as f64) }
}
