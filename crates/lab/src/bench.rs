//! Speed of the analysis.
//!
//! Each measurement is a whole process, ours as well as objdump's, timed from start to exit, because that is what a user waits
//! for. Rounds are interleaved so that a slow spell of the machine hits both; best and median are shown. Our process is this
//! program run again as a probe, which also reports the time of each stage and its peak memory.

use std::env;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use flow::paths::{DEFAULT_MAX_PATHS, EdgeOrder, PathPlan, Placement, PlanOptions, Truncation, estimate_weights};
use flow::{Executor, FunctionFlow};
use image::Image;

use crate::module::short_name;
use crate::table::{Table, grouped};
use crate::threads::Threads;

/// The program whose analysis is compared with objdump.
const LARGE: &str = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1";

/// Files of growing size, 10 KB to 90 MB of text.
const LADDER: [&str; 6] = [
    "/usr/bin/true",
    "/usr/bin/gzip",
    "/usr/bin/perl",
    "/usr/bin/python3.11",
    LARGE,
    "/usr/lib/x86_64-linux-gnu/libLLVM-15.so.1",
];

/// Name of the hidden subcommand that runs [`probe`].
pub const PROBE_COMMAND: &str = "bench-probe";

/// What one analysis did and took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Bytes of executable code in the file.
    pub text_bytes: u64,
    /// Functions analysed.
    pub n_functions: u64,
    /// Instructions decoded.
    pub n_insns: u64,
    /// Time to read and parse the file.
    pub parse_us: u64,
    /// Time for decoding, graphs, jump tables, loops and liveness.
    pub analyze_us: u64,
    /// Time to number the paths of every function and to place the additions.
    pub number_us: u64,
    /// Most memory that was resident at a time.
    pub peak_kib: u64,
}

/// Analyses a file completely and reports on it, in this process.
pub fn probe(path: &Path, threads: Threads) -> anyhow::Result<Probe> {
    let start = Instant::now();
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let image = Image::parse(&bytes).with_context(|| format!("cannot parse {}", path.display()))?;
    let parsed = Instant::now();
    let module = flow::analyze(&image, &threads);
    let analyzed = Instant::now();
    const FUNCTIONS_AT_A_TIME: usize = 64;
    let chunks: Vec<&[FunctionFlow]> = module.functions.chunks(FUNCTIONS_AT_A_TIME).collect();
    let n_additions: Vec<usize> = threads.map(&chunks, |chunk| chunk.iter().map(number).sum());
    std::hint::black_box(n_additions);
    let numbered = Instant::now();
    Ok(Probe {
        text_bytes: image.code_regions().iter().map(|region| region.range.len()).sum(),
        n_functions: module.functions.len() as u64,
        n_insns: module.functions.iter().map(|function| u64::from(function.n_insns)).sum(),
        parse_us: microseconds(parsed - start),
        analyze_us: microseconds(analyzed - parsed),
        number_us: microseconds(numbered - analyzed),
        peak_kib: peak_kib()?,
    })
}

/// Numbers the paths of a function and places the additions, as a profiler would.
fn number(function: &FunctionFlow) -> usize {
    let weights = estimate_weights(&function.cfg.graph, &function.loops);
    let options = PlanOptions {
        truncation: Truncation::BackEdges,
        order: EdgeOrder::Smart(&weights),
        max_paths: DEFAULT_MAX_PATHS,
    };
    let plan = PathPlan::new(&function.cfg.graph, &options);
    Placement::spanning_tree(&plan, &weights).n_additions()
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn peak_kib() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmHWM in /proc/self/status")?;
    Ok(kib.parse()?)
}

impl Probe {
    /// One line, for the process that started the probe.
    #[must_use]
    pub fn to_line(&self) -> String {
        let Probe { text_bytes, n_functions, n_insns, parse_us, analyze_us, number_us, peak_kib } = self;
        format!("{text_bytes} {n_functions} {n_insns} {parse_us} {analyze_us} {number_us} {peak_kib}")
    }

    fn from_line(line: &str) -> anyhow::Result<Probe> {
        let fields: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        match fields[..] {
            [text_bytes, n_functions, n_insns, parse_us, analyze_us, number_us, peak_kib] => {
                Ok(Probe { text_bytes, n_functions, n_insns, parse_us, analyze_us, number_us, peak_kib })
            }
            _ => anyhow::bail!("the probe said {line:?}"),
        }
    }
}

/// Compares with objdump on a large program, then shows how time grows with size.
pub fn analysis(rounds: NonZeroUsize, threads: NonZeroUsize) -> anyhow::Result<String> {
    let large = PathBuf::from(LARGE);
    let mut ours = Vec::new();
    let mut objdump = Vec::new();
    let mut last = Probe::default();
    for _ in 0..rounds.get() {
        let (time, probe) = run_probe(&large, threads)?;
        ours.push(time);
        last = probe;
        objdump.push(run_objdump(&large)?);
    }
    let mut comparison = Table::new(&["", "best", "median", "peak memory"]);
    let [our_best, our_median] = best_and_median(&mut ours);
    let [their_best, their_median] = best_and_median(&mut objdump);
    comparison.row([
        format!("strobe, {threads} threads"),
        seconds(our_best),
        seconds(our_median),
        format!("{} MiB", last.peak_kib / 1024),
    ]);
    comparison.row(["objdump -d --no-show-raw-insn".to_owned(), seconds(their_best), seconds(their_median)]);
    let ratio = |ours: Duration, theirs: Duration| format!("{:.2}", ours.as_secs_f64() / theirs.as_secs_f64());
    comparison.row(["ratio".to_owned(), ratio(our_best, their_best), ratio(our_median, their_median)]);
    Ok(format!(
        "{LARGE}: {} functions, {} instructions, {rounds} interleaved rounds\n{comparison}\n{}",
        grouped(last.n_functions),
        grouped(last.n_insns),
        ladder(rounds, threads)?
    ))
}

fn ladder(rounds: NonZeroUsize, threads: NonZeroUsize) -> anyhow::Result<Table> {
    let mut table = Table::new(&[
        "file",
        "text bytes",
        "instructions",
        "best ms",
        "parse",
        "analyse",
        "number",
        "ns/instruction",
        "peak MiB",
    ]);
    for path in LADDER.map(Path::new) {
        let mut runs = (0..rounds.get()).map(|_| run_probe(path, threads)).collect::<Result<Vec<_>, _>>()?;
        runs.sort_by_key(|(time, _)| *time);
        let Some((time, probe)) = runs.first() else { continue };
        let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
        table.row([
            short_name(path),
            grouped(probe.text_bytes),
            grouped(probe.n_insns),
            ms(microseconds(*time)),
            ms(probe.parse_us),
            ms(probe.analyze_us),
            ms(probe.number_us),
            format!("{:.0}", time.as_nanos() as f64 / probe.n_insns.max(1) as f64),
            (probe.peak_kib / 1024).to_string(),
        ]);
    }
    Ok(table)
}

fn run_probe(path: &Path, threads: NonZeroUsize) -> anyhow::Result<(Duration, Probe)> {
    let start = Instant::now();
    let output = Command::new(env::current_exe()?)
        .arg(PROBE_COMMAND)
        .arg(path)
        .arg("--threads")
        .arg(threads.to_string())
        .stderr(Stdio::inherit())
        .output()?;
    let time = start.elapsed();
    ensure!(output.status.success(), "the analysis of {} failed", path.display());
    Ok((time, Probe::from_line(&String::from_utf8_lossy(&output.stdout))?))
}

fn run_objdump(path: &Path) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let status = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn"])
        .arg(path)
        .stdout(Stdio::null())
        .status()
        .context("cannot run objdump; install the package binutils")?;
    ensure!(status.success(), "objdump failed on {}", path.display());
    Ok(start.elapsed())
}

fn best_and_median(times: &mut [Duration]) -> [Duration; 2] {
    times.sort_unstable();
    [times.first(), times.get(times.len() / 2)].map(|time| time.copied().unwrap_or_default())
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_survives_being_written_and_read() {
        let probe = probe(Path::new("/bin/true"), Threads(NonZeroUsize::MIN)).unwrap();
        assert!(probe.n_functions > 10 && probe.n_insns > 1000 && probe.peak_kib > 1000, "{probe:?}");
        assert_eq!(Probe::from_line(&probe.to_line()).unwrap(), probe);
        assert!(Probe::from_line("1 2 3").is_err());
    }

    #[test]
    fn median_is_the_middle_one() {
        let mut times = [5, 1, 9].map(Duration::from_secs);
        assert_eq!(best_and_median(&mut times), [1, 5].map(Duration::from_secs));
    }
}
