//! Claim F5: table 2 of the paper, what is recorded of a metric against what it is without
//! recording.
//!
//! *Without* are, for cycles, the time that the program takes by itself, waits included, which the
//! time stamp counter does not tell apart either; and for instructions and misses of the same data
//! cache, cachegrind.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use profile::Profile;
use serde::{Deserialize, Serialize};

use super::{Judged, judged};
use crate::accuracy::{Bench, What};
use crate::claims::{Finding, Verdict, Workbench};
use crate::corpus::Workload;
use crate::exact_run::Facts;
use crate::exact_speed::geometric_mean;
use crate::table::Table;

/// Ratios of a metric with recording to it without: by path, and by context.
type Pair = [f64; 2];

/// What recording did to the metrics of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ratios {
    program: String,
    cycles: Pair,
    instructions: Pair,
    misses: Pair,
}

/// What cachegrind counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Totals {
    instructions: f64,
    misses: f64,
}

fn cachegrind(bench: &Bench, workload: &Workload) -> anyhow::Result<Totals> {
    let out = bench.data.root().join(format!("out/{}.cachegrind", workload.name));
    let options = "-q --tool=cachegrind --cache-sim=yes --D1=16384,1,32";
    let prefix = format!("valgrind {options} --cachegrind-out-file='{}'", out.display());
    let status = bench.data.quiet_command(workload, &prefix)?.status().context("cannot start a shell")?;
    ensure!(status.code().is_some(), "{} under cachegrind: {status}", workload.name);
    let text = fs::read_to_string(&out).with_context(|| format!("cannot read {}", out.display()))?;
    totals(&text).with_context(|| format!("{} has no totals", out.display()))
}

/// Totals of a file of cachegrind, which names its events in one line and sums them up in another.
fn totals(text: &str) -> Option<Totals> {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).map(str::split_whitespace);
    let events: Vec<&str> = line("events:")?.collect();
    let sums: Vec<f64> = line("summary:")?.map(str::parse).collect::<Result<_, _>>().ok()?;
    let sum = |name: &str| sums.get(events.iter().position(|&event| event == name)?).copied();
    Some(Totals { instructions: sum("Ir")?, misses: sum("D1mr")? + sum("D1mw")? })
}

/// A fact of `--perturbation`: without and with.
fn without_and_with(text: &str) -> Option<(f64, f64)> {
    let (without, rest) = text.split_once(" without, ")?;
    Some((without.parse().ok()?, rest.strip_suffix(" with")?.parse().ok()?))
}

fn cycles(strobe: &Path, bench: &Bench, workload: &Workload, exact: &str) -> anyhow::Result<f64> {
    let options = format!("--exact={exact} --metric=cycles --perturbation");
    let facts = Facts::record(strobe, &bench.data, workload, &options)?;
    let fact = |name: &str| {
        let text = facts.text(name)?;
        without_and_with(text).with_context(|| format!("{}: {name} is {text}", workload.name))
    };
    let ((elapsed, _), (_, charged)) = (fact("perturbation_elapsed_s")?, fact("perturbation_cycles_s")?);
    Ok(charged / elapsed)
}

fn ratios(bench: &Workbench, workload: &Workload) -> anyhow::Result<Option<Ratios>> {
    eprintln!("  {}, with and without recording", workload.name);
    let strobe = crate::transparency::strobe_program()?;
    let recordings = bench.exact_bench(&[*workload])?;
    let mut profiles = Vec::new();
    for what in [What::PathMisses, What::ContextPathMisses] {
        let Some(profile) = recordings.counted_program(workload, what)? else { return Ok(None) };
        profiles.push(profile);
    }
    let alone = cachegrind(&recordings, workload)?;
    let mut found = Ratios {
        program: workload.name.to_owned(),
        cycles: [cycles(&strobe, &recordings, workload, "paths")?, cycles(&strobe, &recordings, workload, "contexts")?],
        instructions: [0.0; 2],
        misses: [0.0; 2],
    };
    for (index, profile) in profiles.iter().enumerate() {
        found.instructions[index] = instructions(profile) / alone.instructions;
        let misses = profile.facts.get("cache_misses").and_then(|text| text.parse::<f64>().ok());
        found.misses[index] = misses.with_context(|| format!("{}: no misses", workload.name))? / alone.misses;
    }
    Ok(Some(found))
}

fn instructions(profile: &Profile) -> f64 {
    profile.blocks.iter().map(|row| row.count.value * f64::from(row.n_insns)).sum()
}

/// F5: metrics with and without recording.
pub fn table_2(bench: &Workbench) -> anyhow::Result<Finding> {
    /// How far off a metric may be on average for its perturbation to be small.
    const SMALL: f64 = 0.1;
    let measure =
        |workload: &Workload| bench.kept(&format!("perturbation/{}.json", workload.name), || ratios(bench, workload));
    let Judged { found: all, left_out } = judged(&bench.programs()?, measure)?;
    let mut table = Table::new(&["program", "cycles F", "C", "instructions F", "C", "L1D misses F", "C"]);
    let metrics: [fn(&Ratios) -> Pair; 3] = [|row| row.cycles, |row| row.instructions, |row| row.misses];
    for row in &all {
        let cells = metrics.iter().flat_map(|metric| metric(row)).map(|ratio| format!("{ratio:.3}"));
        table.row([row.program.clone()].into_iter().chain(cells));
    }
    let means = metrics
        .map(|metric| [0, 1].map(|kind| geometric_mean(&all.iter().map(|row| metric(row)[kind]).collect::<Vec<_>>())));
    let cells = means.iter().flatten().map(|ratio| format!("{ratio:.3}"));
    table.row(["geometric mean".to_owned()].into_iter().chain(cells));
    let [cycles, instructions, misses] = means.map(|[flow, context]| format!("{flow:.2} and {context:.2}"));
    let ours = format!("by path and by context: cycles {cycles}, instructions {instructions}, L1D misses {misses}");
    let is_small = means.iter().flatten().all(|mean| (mean - 1.0).abs() <= SMALL);
    let verdict = if is_small { Verdict::Holds } else { Verdict::Contradicted };
    let mut finding = Finding::new(ours, "", verdict);
    finding.notes.push(
        "Ratio of what was recorded (F: by path, C: by calling context) to the same without recording, whole programs, one run each. Cycles are those of the time stamp \
         counter against the time that the program takes alone: what counting takes is part of them, and both have waits and the time for which other work has the \
         processor. Instructions and misses (16 KB, direct-mapped, lines of 32 bytes) are against cachegrind, which also has the start of the dynamic linker and \
         shows the program another processor: libc fills memory by loops there, and by repeated string instructions here, which are one instruction and one or two accesses to strobe. \
         Misses of a direct-mapped cache depend on addresses, which are others in each run. The paper calls its perturbation small on average; the claim holds if all \
         means are within 10 %."
            .to_owned(),
    );
    finding.notes.extend(left_out);
    finding.tables.push(("With / without recording (table 2)".to_owned(), table));
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cachegrind_sums_up_by_name_of_the_event() {
        let text = "desc: x\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nfl=x\n1 1 1 1 1 1 1 1 1 1\nsummary: 90 1 1 30 5 1 20 7 1\n";
        assert_eq!(totals(text), Some(Totals { instructions: 90.0, misses: 12.0 }));
        assert_eq!(totals("events: Ir\nsummary: 90\n"), None);
    }

    #[test]
    fn facts_have_both_numbers() {
        assert_eq!(without_and_with("0.250 without, 0.500 with"), Some((0.25, 0.5)));
        assert_eq!(without_and_with("0.250"), None);
    }
}
