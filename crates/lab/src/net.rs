//! Net cost: what a recording costs beyond the work that bursts do for the program.
//!
//! Accounted cost counts all time between a tick and the end of its burst, as if the program had
//! stood still. It has not: the burst ran the program's own instructions. Their native time is
//! their number, which the checker of traces counts (where it knows the code already), times the
//! program's native time per instruction, which is its CPU time on a short input without recording
//! over callgrind's count of instructions there.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, ensure};
use recorder::{Bursts, Mode};

use crate::corpus::{Data, Workload};
use crate::cpu_time::cpu_of_children;
use crate::recording::{self, Run};
use crate::table::Table;

/// Native runs, of which the fastest counts.
const N_RUNS: usize = 3;

/// Measures all programs: time per instruction on the inputs of `short`, recordings on those of
/// `full`.
pub fn measure(short: &Data, full: &Data, programs: &[Workload]) -> anyhow::Result<Table> {
    let mut table = Table::new(&[
        "program",
        "ns/instruction",
        "M instructions in bursts",
        "CPU s",
        "accounted %",
        "native %",
        "net %",
        "extra ns/block",
    ]);
    let mut sums = [0.0; 3];
    for workload in programs {
        let ns_per_instruction = 1e9 * native_seconds(short, workload)? / instructions(short, workload)?;
        let run = record(full, workload)?;
        let (bursts, cpu) = (run.bursts()?, run.facts.cpu_seconds());
        let (checked, shares) = (&bursts.findings, bursts.shares(&run.facts));
        let n_records = bursts.tally.n_records as f64;
        let n_checked = checked.n_blocks.saturating_sub(checked.n_unknown).max(1);
        let in_bursts = checked.n_instructions as f64 / n_checked as f64 * n_records;
        let accounted = 100.0 * shares.total();
        let native = 100.0 * in_bursts * ns_per_instruction * 1e-9 / cpu;
        let extra = (shares.bursts - native / 100.0) * cpu * 1e9 / n_records;
        for (sum, value) in sums.iter_mut().zip([accounted, native, accounted - native]) {
            *sum += value / programs.len() as f64;
        }
        eprintln!("{}: accounted {accounted:.3} %, net {:.3} %", workload.name, accounted - native);
        table.row([
            workload.name.to_owned(),
            format!("{ns_per_instruction:.3}"),
            format!("{:.1}", in_bursts / 1e6),
            format!("{cpu:.2}"),
            format!("{accounted:.3}"),
            format!("{native:.3}"),
            format!("{:.3}", accounted - native),
            format!("{extra:.2}"),
        ]);
    }
    let [accounted, native, net] = sums.map(|sum| format!("{sum:.3}"));
    table.row(["mean".to_owned(), String::new(), String::new(), String::new(), accounted, native, net]);
    Ok(table)
}

fn native_seconds(data: &Data, workload: &Workload) -> anyhow::Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..N_RUNS {
        best = best.min(native_run(data, workload)?);
    }
    Ok(best)
}

/// CPU seconds of a run without recording.
pub(crate) fn native_run(data: &Data, workload: &Workload) -> anyhow::Result<f64> {
    run_under(data, workload, "")
}

/// CPU seconds of a run under a tool, that of the tool included.
pub(crate) fn run_under(data: &Data, workload: &Workload, prefix: &str) -> anyhow::Result<f64> {
    let before = cpu_of_children()?;
    run(data, workload, prefix)?;
    let seconds = (cpu_of_children()? - before).as_secs_f64();
    ensure!(seconds > 0.0, "{} takes no time", workload.name);
    Ok(seconds)
}

/// Instructions of a run, by callgrind's count.
fn instructions(data: &Data, workload: &Workload) -> anyhow::Result<f64> {
    let log = data.root().join(format!("out/{}.count.log", workload.name));
    let tool = "valgrind --tool=callgrind --callgrind-out-file=/dev/null";
    run(data, workload, &format!("{tool} --log-file='{}'", log.display()))?;
    let text = fs::read_to_string(&log)?;
    let count = text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    count.with_context(|| format!("{}: no count of instructions", log.display()))
}

fn record(data: &Data, workload: &Workload) -> anyhow::Result<Run> {
    let profile = data.root().join(format!("out/{}.strobe", workload.name));
    let record = |seed| {
        let bursts = Bursts { verifies: true, ..Bursts::new(None, None, None) };
        recording::record(data, workload, &profile, Mode::Bursts(bursts), seed)
    };
    // Copies are in the cache after the first run, so that the second is recorded from its
    // beginning.
    record(1)?;
    record(2)
}

fn run(data: &Data, workload: &Workload, prefix: &str) -> anyhow::Result<()> {
    let mut command = data.command(workload, prefix)?;
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().context("cannot start a shell")?;
    Ok(())
}
