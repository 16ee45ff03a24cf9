//! Bursty tracing (Hirzel, Chilimbi): what the possibility of bursts costs, and what they cost by
//! their rate.
//!
//! *Basic overhead* is the cost of being able to start bursts when none ever starts. With the timer
//! it is that of ticks. With the counted trigger the program runs in copies that check, and the
//! first burst is further away than the program runs (`count:infinity:1`). Copies that do nothing
//! at all take time by themselves, so that the cost of checks is given against them and against the
//! program alone.

use anyhow::Context as _;
use flow::checks::CheckPolicy;
use serde::{Deserialize, Serialize};

use super::{Claim, Experiment, Finding, Set, Verdict, Workbench};
use crate::chart;
use crate::corpus::{Data, Workload};
use crate::exact_run::Facts;
use crate::exact_speed::geometric_mean;
use crate::net::native_run;
use crate::resample::{interval, mean};
use crate::table::Table;

/// The claims of the paper that can be shown.
pub const CLAIMS: [Claim; 3] = [
    Claim {
        id: "B1",
        statement: "basic overhead of the counted trigger, by policy of check elimination",
        published: "6-35 %, mean 15.9 % (orig)",
        required: "measured for orig, EL, EC, EN, L4, L10, LN, EC+L4",
        experiment: Experiment::Measured { run: policies, minutes: 8.0 },
    },
    Claim {
        id: "B2",
        statement: "basic overhead after check elimination: EC+L4 against orig; of ticks, when no burst ever starts",
        published: "3-18 % (checks in the program)",
        required: "fewer checks on every program and less time on the mean; timer <= 0.3 %",
        experiment: Experiment::Measured { run: basic_overhead, minutes: 0.5 },
    },
    Claim {
        id: "B5",
        statement: "total overhead is linear in the sampling rate (equation 4)",
        published: "model",
        required: "R^2 >= 0.95 over 6 rates on every program",
        experiment: Experiment::Measured { run: linear, minutes: 8.0 },
    },
];

const POLICIES: [&str; 8] = CheckPolicy::PAPER_NAMES;
const ORIG: usize = 0;
const EC_L4: usize = 7;

/// Shares of checks that are in bursts, in percent, and the trigger with bursts of 1,009 checks.
const RATES: [(f64, &str); 6] = [
    (0.0, "count:infinity:1009"),
    (0.5, "count:200791:1009"),
    (1.0, "count:99991:1009"),
    (2.0, "count:49441:1009"),
    (3.0, "count:32633:1009"),
    (5.0, "count:19171:1009"),
];

/// What a program took with checks of each policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Checked {
    program: String,
    /// CPU seconds alone.
    native: f64,
    /// The same in copies that do nothing.
    copies: f64,
    /// The same with checks, by policy.
    seconds: [f64; POLICIES.len()],
    /// Checks that were made, by policy, as far as bursts tell.
    checks: [f64; POLICIES.len()],
}

impl Checked {
    fn over_copies(&self, policy: usize) -> f64 {
        100.0 * (self.seconds[policy] / self.copies - 1.0)
    }

    fn over_native(&self, policy: usize) -> f64 {
        100.0 * (self.seconds[policy] / self.native - 1.0)
    }

    fn measure(bench: &Workbench, workload: &Workload) -> anyhow::Result<Checked> {
        /// Few enough that a program of a tenth of a second meets many.
        const CHECKS_PER_BURST: f64 = 100_000.0;
        let strobe = crate::transparency::strobe_program()?;
        let data = data(bench, workload)?;
        let mut all = Checked {
            program: workload.name.to_owned(),
            native: f64::INFINITY,
            copies: f64::INFINITY,
            seconds: [f64::INFINITY; POLICIES.len()],
            checks: [0.0; POLICIES.len()],
        };
        let seconds = |options: &str| Facts::record(&strobe, &data, workload, options)?.program_seconds();
        for _ in 0..n_rounds(bench) {
            all.native = all.native.min(native_run(&data, workload)?);
            all.copies = all.copies.min(seconds("--exact=nothing")?);
            for (least, policy) in all.seconds.iter_mut().zip(POLICIES) {
                *least = least.min(seconds(&format!("--trigger count:infinity:1 --checks {policy}"))?);
            }
        }
        for (checks, policy) in all.checks.iter_mut().zip(POLICIES) {
            let options = format!("--trigger count:99999:1 --checks {policy}");
            let facts = Facts::record(&strobe, &data, workload, &options)?;
            *checks = facts.number("bursts")? * CHECKS_PER_BURST;
        }
        Ok(all)
    }
}

/// What a program took at each rate.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rates {
    program: String,
    native: f64,
    seconds: [f64; RATES.len()],
}

impl Rates {
    fn measure(bench: &Workbench, workload: &Workload) -> anyhow::Result<Rates> {
        let strobe = crate::transparency::strobe_program()?;
        let data = data(bench, workload)?;
        let mut all =
            Rates { program: workload.name.to_owned(), native: f64::INFINITY, seconds: [f64::INFINITY; RATES.len()] };
        for _ in 0..n_rounds(bench) {
            all.native = all.native.min(native_run(&data, workload)?);
            for (least, (_, trigger)) in all.seconds.iter_mut().zip(RATES) {
                let options = format!("--trigger {trigger}");
                *least = least.min(Facts::record(&strobe, &data, workload, &options)?.program_seconds()?);
            }
        }
        Ok(all)
    }

    /// Overhead in percent by rate in percent.
    fn points(&self) -> [(f64, f64); RATES.len()] {
        let mut points = [(0.0, 0.0); RATES.len()];
        for ((point, (rate, _)), seconds) in points.iter_mut().zip(RATES).zip(self.seconds) {
            *point = (rate, 100.0 * (seconds / self.native - 1.0));
        }
        points
    }
}

/// A line through points.
#[derive(Clone, Copy, Debug)]
struct Line {
    at_zero: f64,
    slope: f64,
    /// Share of the variance that the line explains.
    r_squared: f64,
}

impl Line {
    fn fit(points: &[(f64, f64)]) -> Line {
        let n = points.len() as f64;
        let (x_mean, y_mean) =
            (points.iter().map(|point| point.0).sum::<f64>() / n, points.iter().map(|point| point.1).sum::<f64>() / n);
        let xy: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
        let xx: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
        let yy: f64 = points.iter().map(|(_, y)| (y - y_mean).powi(2)).sum();
        let slope = xy / xx;
        let left: f64 = points.iter().map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2)).sum();
        let r_squared = if yy > 0.0 { 1.0 - left / yy } else { 1.0 };
        Line { at_zero: y_mean - slope * x_mean, slope, r_squared }
    }
}

fn data(bench: &Workbench, workload: &Workload) -> anyhow::Result<Data> {
    Data::generate(&bench.dir, bench.set.exact_size(), &[*workload])
}

fn n_rounds(bench: &Workbench) -> usize {
    match bench.set {
        Set::Smoke => 1,
        Set::Quick => 3,
        Set::Full => 7,
    }
}

fn checked(bench: &Workbench) -> anyhow::Result<Vec<Checked>> {
    let programs = if bench.set == Set::Full { bench.programs()? } else { bench.few_programs()? };
    let of = |workload: &Workload| {
        bench.kept(&format!("checks/{}.json", workload.name), || {
            eprintln!("  {}, checks", workload.name);
            Checked::measure(bench, workload)
        })
    };
    programs.iter().map(of).collect()
}

fn policies(bench: &Workbench) -> anyhow::Result<Finding> {
    let rows = checked(bench)?;
    let mut over_copies = Table::new(&[&["program", "native s", "copies"], &POLICIES[..]].concat());
    let mut over_native = Table::new(&[&["program", "copies"], &POLICIES[..]].concat());
    for row in &rows {
        let copies = 100.0 * (row.copies / row.native - 1.0);
        let cells = |over: &dyn Fn(usize) -> f64| (0..POLICIES.len()).map(|at| format!("{:.1}", over(at))).collect();
        let (of_copies, of_native): (Vec<String>, Vec<String>) =
            (cells(&|policy| row.over_copies(policy)), cells(&|policy| row.over_native(policy)));
        let head = [row.program.clone(), format!("{:.3}", row.native), format!("{copies:.1}")];
        over_copies.row(head.into_iter().chain(of_copies));
        over_native.row([row.program.clone(), format!("{copies:.1}")].into_iter().chain(of_native));
    }
    let means = |over: fn(&Checked, usize) -> f64| -> Vec<f64> {
        (0..POLICIES.len()).map(|policy| mean(&rows.iter().map(|row| over(row, policy)).collect::<Vec<_>>())).collect()
    };
    let (of_copies, of_native) = (means(Checked::over_copies), means(Checked::over_native));
    let texts = |means: &[f64]| means.iter().map(|mean| format!("{mean:.1}")).collect::<Vec<_>>();
    over_copies.row(["mean".to_owned(), String::new(), String::new()].into_iter().chain(texts(&of_copies)));
    over_native.row(["mean".to_owned(), String::new()].into_iter().chain(texts(&of_native)));
    let orig: Vec<f64> = rows.iter().map(|row| row.over_copies(ORIG)).collect();
    let (low, high) = interval(&orig, mean);
    let ours = format!(
        "orig {:.1} %, EC+L4 {:.1} % over bare copies; {:.1} and {:.1} % over native",
        of_copies[ORIG], of_copies[EC_L4], of_native[ORIG], of_native[EC_L4]
    );
    let mut finding = Finding::new(ours, format!("orig {low:.1}-{high:.1} %"), Verdict::Holds);
    finding.notes.push(
        "Least CPU time of several runs in turn; `count:infinity:1`, so that no burst starts. The paper adds checks to the program itself; \
         here they are in copies, which take time without any. EN and LN are limits: a program can run for ever without a check."
            .to_owned(),
    );
    finding.tables.push(("Cost of checks, % over copies that do nothing".to_owned(), over_copies));
    finding.tables.push(("The same, % over the program alone".to_owned(), over_native));
    Ok(finding)
}

/// Ticks as they come at the default budget, without the bursts that follow them; and checks.
fn basic_overhead(bench: &Workbench) -> anyhow::Result<Finding> {
    const MAX_PERCENT: f64 = 0.3;
    let rows = bench.observations(&bench.programs()?, &bench.default_setting())?;
    let costs: Vec<f64> = rows.iter().map(|row| row.ticks_percent).collect();
    let (low, high) = interval(&costs, mean);
    let worst = costs.iter().copied().fold(0.0, f64::max);
    let mut table = Table::new(&["program", "ticks %", "bursts %"]);
    for row in &rows {
        let bursts = row.accounted_percent - row.ticks_percent;
        table.row([row.program.clone(), format!("{:.3}", row.ticks_percent), format!("{bursts:.3}")]);
    }
    let checked = checked(bench)?;
    let mut checks = Table::new(&["program", "checks, orig", "checks, EC+L4", "ratio", "time, EC+L4 / orig"]);
    for row in &checked {
        let [orig, eliminated] = [ORIG, EC_L4].map(|policy| row.checks[policy]);
        let time = row.seconds[EC_L4] / row.seconds[ORIG];
        checks.row([
            row.program.clone(),
            format!("{orig:.3e}"),
            format!("{eliminated:.3e}"),
            format!("{:.3}", eliminated / orig),
            format!("{time:.3}"),
        ]);
    }
    let has_fewer = checked.iter().all(|row| row.checks[EC_L4] < row.checks[ORIG]);
    let times: Vec<f64> = checked.iter().map(|row| row.seconds[EC_L4] / row.seconds[ORIG]).collect();
    let time = geometric_mean(&times);
    let n_fewer = checked.iter().filter(|row| row.checks[EC_L4] < row.checks[ORIG]).count();
    let ours = format!(
        "ticks: mean {:.3} %, highest {worst:.3} %; EC+L4: fewer checks on {n_fewer} of {}, {time:.3} of the time of orig",
        mean(&costs),
        checked.len()
    );
    let holds = worst <= MAX_PERCENT && has_fewer && time < 1.0;
    let mut finding = Finding::new(ours, format!("ticks {low:.3}-{high:.3} %"), Verdict::of(holds));
    finding.notes.push(
        "Timer: accounted cost of delivering ticks and of their handlers, which copy 16 KB of stack, over CPU time, at the rate that the \
         default budget leads to. Between ticks the program runs its own code. Checks: how many there are is known to 100,000, from bursts \
         that come that often; their cost in time is that of B1."
            .to_owned(),
    );
    let labels: Vec<String> = rows.iter().map(|row| row.program.clone()).collect();
    let title = "Basic overhead: accounted cost of ticks, % of CPU time";
    finding.plots.push(chart::bars(title, &labels, &[("ticks", costs)], 0.0, Some(MAX_PERCENT)));
    finding.tables.push(("Ticks, by program".to_owned(), table));
    finding.tables.push(("Checks, by program".to_owned(), checks));
    Ok(finding)
}

/// Equation 4: overhead(r) = t_checking / t_orig - 1 + r (t_instr - t_checking) / t_orig.
fn linear(bench: &Workbench) -> anyhow::Result<Finding> {
    const LEAST_R_SQUARED: f64 = 0.95;
    let programs = bench.few_programs()?;
    let of = |workload: &Workload| {
        bench.kept(&format!("rates/{}.json", workload.name), || {
            eprintln!("  {}, rates", workload.name);
            Rates::measure(bench, workload)
        })
    };
    let rows: Vec<Rates> = programs.iter().map(of).collect::<anyhow::Result<_>>()?;
    let rates: Vec<String> = RATES.iter().map(|(rate, _)| format!("r={rate} %")).collect();
    let names = rates.iter().map(String::as_str);
    let columns: Vec<&str> = ["program"].into_iter().chain(names).chain(["at 0", "per 1 %", "R^2"]).collect();
    let mut table = Table::new(&columns);
    let mut fits = Vec::new();
    for row in &rows {
        let points = row.points();
        let line = Line::fit(&points);
        let cells = points.iter().map(|(_, overhead)| format!("{overhead:.1}"));
        let of_line = [line.at_zero, line.slope].map(|number| format!("{number:.2}"));
        let fit = format!("{:.3}", line.r_squared);
        table.row([row.program.clone()].into_iter().chain(cells).chain(of_line).chain([fit]));
        fits.push(line.r_squared);
    }
    let worst = fits.iter().copied().reduce(f64::min).context("no programs")?;
    let (low, high) = interval(&fits, mean);
    let ours = format!("R^2 {:.3} on the mean, {worst:.3} at least", mean(&fits));
    let mut finding = Finding::new(ours, format!("{low:.3}-{high:.3}"), Verdict::of(worst >= LEAST_R_SQUARED));
    finding.notes.push(
        "Overhead over the program alone, least CPU time of several runs in turn, at six rates with bursts of 1,009 checks and checks by EC. \
         The rate is the share of checks that are in bursts."
            .to_owned(),
    );
    finding.tables.push(("Overhead in %, by rate".to_owned(), table));
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_explains_what_lies_on_it() {
        let line = Line::fit(&[(0.0, 5.0), (1.0, 7.0), (2.0, 9.0)]);
        assert!((line.at_zero - 5.0).abs() < 1e-9 && (line.slope - 2.0).abs() < 1e-9);
        assert!((line.r_squared - 1.0).abs() < 1e-9);
        let scattered = Line::fit(&[(0.0, 5.0), (1.0, 2.0), (2.0, 5.0)]);
        assert!(scattered.r_squared < 0.01, "{scattered:?}");
    }

    #[test]
    fn rates_are_those_of_their_triggers() {
        for (rate, trigger) in RATES {
            let counts: Vec<f64> = trigger.split(':').filter_map(|count| count.parse().ok()).collect();
            let share = if let [n_check, n_instr] = counts[..] { n_instr / (n_check + n_instr) } else { 0.0 };
            assert!((100.0 * share - rate).abs() < 0.01, "{trigger}: {share}");
        }
    }
}
