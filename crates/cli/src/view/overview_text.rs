//! The overview for reading in a terminal.

use std::io::{self, Write};

use crate::figures::{Figure, bare_percent};
use crate::names::file_name;
use crate::numbers::thousands;
use crate::view::overview::{ContextLine, Overview, PathSummary};
use crate::view::subject::Spot;
use crate::view::table::{TITLE, Table, heat};
use crate::view::{View, title};

/// Functions of a stack that are shown: the innermost.
const MAX_STACK: usize = 6;

/// Characters of a command line that are shown.
const MAX_COMMAND: usize = 120;
/// Shares of CPU time below this are not worth a remark.
const NOTICEABLE_SHARE: f64 = 0.02;
/// Ticks that should lead to a burst, at least.
const LOW_HIT_PERCENT: f64 = 50.0;
const TRANSLATED_LATE: &str =
    "most ticks came before the code was translated; record again, now that it is, or for longer";

impl View for Overview {
    const KIND: &'static str = "report";

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        self.facts(out)?;
        self.system_calls(out)?;
        self.functions(out)?;
        self.paths(out)?;
        self.contexts(out)
    }
}

impl Overview {
    fn facts(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut fact = |name: &str, text: String| writeln!(out, "{TITLE}{name:<9}{TITLE:#} {text}");
        if let Some(command) = &self.command {
            fact("command", one_line(command))?;
        }
        fact("time", self.time())?;
        if !self.is_timeless && NOTICEABLE_SHARE * self.time.cpu_ns.value < self.time.not_sampled_ns {
            fact("", self.not_sampled())?;
        }
        if let Some(cost) = self.cost() {
            fact("cost", cost)?;
        }
        if !self.coverage.ticks.is_empty() {
            fact("ticks", self.ticks())?;
        }
        fact("coverage", self.coverage())?;
        if self.coverage.hit_percent.is_some_and(|hit| hit < LOW_HIT_PERCENT) {
            fact("", TRANSLATED_LATE.to_owned())?;
        }
        let factor = self.coverage.scale_factor;
        if 1.0 < factor {
            fact(
                "counts",
                format!("right within a factor of {factor:.1}; ratios within a function do not depend on it"),
            )?;
        }
        Ok(())
    }

    fn time(&self) -> String {
        let time = &self.time;
        if let Some(n_ticks) = self.n_sampling_ticks {
            return format!("not measured: counts are samples of paths, at {} ticks", thousands(n_ticks));
        }
        if let Some(trigger) = &self.trigger {
            return format!("not measured: bursts were started by a count of checks ({trigger})");
        }
        if self.is_timeless {
            return "not measured: this recording counts what ran".to_owned();
        }
        let threads = if time.n_threads == 1 { "thread" } else { "threads" };
        let (user, kernel) = (time.user_share.percent(), time.kernel_share.percent());
        let mut text =
            format!("{} CPU in {} {threads}: user {user}, kernel {kernel}", time.cpu_ns.time(), time.n_threads);
        let system_calls = time.system_calls_share.percent();
        if time.kernel_share.value < time.system_calls_share.value {
            // The kernel counts a part of entering and leaving it as user time.
            text.push_str(&format!("; system calls with the way there and back {system_calls}"));
        } else if 0.0 < time.system_calls_share.value {
            text.push_str(&format!(" (in system calls {system_calls})"));
        }
        if let (Some(elapsed), Some(off_cpu)) = (time.elapsed_s, time.off_cpu_at_least_s) {
            text.push_str(&format!("; {elapsed:.2} s elapsed, blocked or waiting at least {off_cpu:.2} s"));
        }
        text
    }

    fn not_sampled(&self) -> String {
        let time = Figure { value: self.time.not_sampled_ns, margin: 0.0, seen: 0 }.time();
        let share = bare_percent(self.time.not_sampled_ns / self.time.cpu_ns.value);
        format!(
            "not sampled {time} ({share}): threads and processes that ended before a tick, or behind their last one"
        )
    }

    fn cost(&self) -> Option<String> {
        let cost = &self.cost;
        let mut text = format!("at most {:.2} % of CPU time in the program", cost.percent?);
        if let (Some(ticks), Some(bursts)) = (cost.ticks_percent, cost.bursts_percent) {
            let starts = cost.starts_percent.map(|starts| format!(", starts of processes {starts:.2} %"));
            text.push_str(&format!(" (ticks {ticks:.2} %, bursts {bursts:.2} %{})", starts.unwrap_or_default()));
        }
        if let Some(agent) = cost.agent_cpu_s {
            text.push_str(&format!("; strobe itself {agent:.2} s CPU"));
        }
        Some(text)
    }

    fn ticks(&self) -> String {
        let ticks = &self.coverage.ticks;
        let mut outcomes: Vec<(&String, u64)> = ticks.iter().map(|(name, &n)| (name, n)).collect();
        outcomes.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
        let outcomes: Vec<String> = outcomes.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let n_all = ticks.values().fold(0, |sum: u64, &n| sum.saturating_add(n));
        format!("{n_all}: {}", outcomes.join(", "))
    }

    fn coverage(&self) -> String {
        let coverage = &self.coverage;
        let mut parts = Vec::new();
        parts.extend(coverage.not_counted.as_ref().map(|not_counted| not_counted.text.clone()));
        if let Some(hit) = coverage.hit_percent {
            parts.push(format!("{hit:.1} % of ticks in files' code led to a burst"));
        }
        parts.push(format!("{} of flow is on no path", coverage.unobserved_share.percent()));
        if 0.0 < coverage.unseen_at_most {
            let bound = Figure { value: coverage.unseen_at_most, margin: 0.0, seen: 0 }.count();
            parts.push(format!("what bursts did not see ran at most {bound} times while they could see it"));
        }
        if !self.is_timeless && NOTICEABLE_SHARE < coverage.unwatched_share {
            let share = bare_percent(coverage.unwatched_share);
            parts
                .push(format!("in {share} of the CPU time no burst could start, and nothing is known of counts there"));
        }
        parts.join("; ")
    }

    fn system_calls(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.system_calls.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        title(out, "System calls by site", self.system_calls.len(), self.n_system_call_sites)?;
        let mut table = Table::new(&["KERNEL", "TIME", "CONTEXTS", "SITE"]);
        for line in &self.system_calls {
            let module = file_name(&line.module);
            let site = match line.function.is_empty() {
                true => line.spot.text(),
                false => format!("{} [{module}] {}", line.function, line.spot.text()),
            };
            let cells = [line.share.percent(), line.kernel_ns.time(), line.n_contexts.to_string(), site];
            table.row(heat(line.share.value), cells);
        }
        table.print(out)
    }

    fn functions(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out)?;
        title(out, "Hot functions", self.functions.len(), self.n_functions)?;
        if self.is_timeless {
            let mut table = Table::new(&["SHARE", "INSTRUCTIONS", "ENTRIES", "FUNCTION"]);
            for line in &self.functions {
                let figures =
                    [line.instruction_share.percent(), line.instructions.count(), line.entries.count_if_seen()];
                table.row(heat(line.instruction_share.value), figures.into_iter().chain([line.function.text()]));
            }
            return table.print(out);
        }
        let mut table = Table::new(&["SELF", "TIME", "WITH CALLEES", "ENTRIES", "FUNCTION"]);
        for line in &self.functions {
            let figures = [line.self_share.percent(), line.self_ns.time(), line.total_share.percent()];
            let rest = [line.entries.count_if_seen(), line.function.text()];
            table.row(heat(line.self_share.value), figures.into_iter().chain(rest));
        }
        table.print(out)
    }

    fn paths(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.paths.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        title(out, "Hot paths", self.paths.len(), self.n_paths)?;
        let mut table = Table::new(&[if self.is_timeless { "FLOW" } else { "TIME" }, "COUNT", "OF FUNCTION", "PATH"]);
        for line in &self.paths {
            let share = if self.is_timeless { &line.flow_share } else { &line.time_share };
            let figures = [share.percent(), line.count.count(), line.share_of_function.percent()];
            table.row(heat(share.value), figures.into_iter().chain([line.text()]));
        }
        table.print(out)
    }

    fn contexts(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.contexts.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        title(out, "Hot contexts", self.contexts.len(), self.n_contexts)?;
        let mut table = Table::new(&["SHARE", if self.is_timeless { "ENTRIES" } else { "TIME" }, "CONTEXT"]);
        for line in &self.contexts {
            let figure = if self.is_timeless { line.entries.count() } else { line.own_ns.time() };
            table.row(heat(line.share.value), [line.share.percent(), figure, line.text()]);
        }
        table.print(out)
    }
}

/// A command line of any shape, cut to one line.
fn one_line(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_COMMAND) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

impl PathSummary {
    fn text(&self) -> String {
        let blocks = if self.n_blocks == 1 { "block" } else { "blocks" };
        let extent: Vec<String> = self.first.iter().chain(&self.last).map(Spot::text).collect();
        format!("{}  {} {blocks}, {}", self.function.text(), self.n_blocks, extent.join(" .. "))
    }
}

impl ContextLine {
    /// The innermost functions, with their callers before them.
    fn text(&self) -> String {
        let n_hidden = self.stack.len().saturating_sub(MAX_STACK);
        let shown = self.stack.iter().skip(n_hidden).map(String::as_str);
        let hidden = (0 < n_hidden).then_some("...");
        hidden.into_iter().chain(shown).collect::<Vec<_>>().join(" > ")
    }
}
