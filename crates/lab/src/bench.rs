//! Speed of the analysis.
//!
//! Each measurement is a whole process, ours as well as objdump's, timed from start to exit,
//! because that is what a user waits for. Rounds are interleaved so that a slow spell of the
//! machine hits both; best and median are shown, and the least CPU time, which other load disturbs
//! less. Our process is this program run again as a probe, which also reports the time of each
//! stage and its peak memory.

use std::env;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use flow::paths::{DEFAULT_MAX_PATHS, EdgeOrder, PathPlan, Placement, PlanOptions, Truncation, estimate_weights};
use flow::{Executor, FunctionFlow};
use image::Image;
use recorder::Threads;

use crate::corpus::DEFAULT_DIR;
use crate::cpu_time::cpu_of_children;
use crate::module::short_name;
use crate::table::{Table, grouped};

/// The program whose analysis is compared with objdump.
const LARGE: &str = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1";

/// Files of growing size, from 16 KB of text; [`largest`] comes on top.
const LADDER: [&str; 5] =
    ["/usr/bin/true", "/usr/bin/gzip", "/usr/bin/perl", LARGE, "/usr/lib/x86_64-linux-gnu/libLLVM-15.so.1"];

/// A package with a library of more than 100 MB of text. It is unpacked beside the corpus, not
/// installed.
const LARGEST: &str = "libqt5webenginecore5";

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
    let large = Path::new(LARGE);
    let mut ours = Timings::default();
    let mut objdump = Timings::default();
    let mut last = Probe::default();
    for _ in 0..rounds.get() {
        let (cost, probe) = run_probe(large, threads)?;
        ours.add(cost);
        last = probe;
        objdump.add(run_objdump(large)?);
    }
    let mut comparison = Table::new(&["", "best", "median", "least CPU", "peak memory"]);
    let seconds = |times: [Duration; 3]| times.map(|time| format!("{:.3} s", time.as_secs_f64()));
    let (ours, theirs) = (ours.best_median_cpu(), objdump.best_median_cpu());
    let peak = format!("{} MiB", last.peak_kib / 1024);
    comparison.row([format!("strobe, {threads} threads")].into_iter().chain(seconds(ours)).chain([peak]));
    comparison.row(["objdump -d --no-show-raw-insn".to_owned()].into_iter().chain(seconds(theirs)));
    let ratios =
        ours.iter().zip(theirs).map(|(ours, theirs)| format!("{:.2}", ours.as_secs_f64() / theirs.as_secs_f64()));
    comparison.row(["ratio".to_owned()].into_iter().chain(ratios));
    Ok(format!(
        "{LARGE}: {} functions, {} instructions, {rounds} interleaved rounds\n{comparison}\n{}",
        grouped(last.n_functions),
        grouped(last.n_insns),
        ladder(rounds, threads)?
    ))
}

/// Speed of translating `cc1` into an instrumented copy, on one thread, after the analysis.
pub fn emit(rounds: NonZeroUsize) -> anyhow::Result<Table> {
    let bytes = fs::read(LARGE).with_context(|| LARGE.to_owned())?;
    let image = Image::parse(&bytes)?;
    let flow = flow::analyze(&image, &Threads::available());
    let mut table = Table::new(&["round", "translate", "instructions per second", "copy", "place"]);
    for round in 1..=rounds.get() {
        let options = emit::Options { cluster: 0, probe: emit::Probe::Trace, events: emit::Events::default() };
        let started = Instant::now();
        let copy = emit::translate(&image, &flow, options, &flow::Sequential);
        let translate = started.elapsed();
        let base = emit::image_base(&image).0;
        let started = Instant::now();
        let placed = copy.place(&emit::Position {
            module_base: base,
            copy: base + (1 << 30),
            cluster_lo: base,
            first_cell: 0,
            first_key: 1,
        })?;
        let place = started.elapsed();
        let rate = copy.statistics().instructions as f64 / translate.as_secs_f64();
        table.row([
            round.to_string(),
            format!("{:.3} s", translate.as_secs_f64()),
            format!("{:.2} M", rate / 1e6),
            format!("{} MiB", placed.len() >> 20),
            format!("{:.3} s", place.as_secs_f64()),
        ]);
    }
    Ok(table)
}

/// What running a process took.
#[derive(Clone, Copy, Debug)]
struct Cost {
    elapsed: Duration,
    cpu: Duration,
}

#[derive(Debug, Default)]
struct Timings {
    elapsed: Vec<Duration>,
    cpu: Vec<Duration>,
}

impl Timings {
    fn add(&mut self, cost: Cost) {
        self.elapsed.push(cost.elapsed);
        self.cpu.push(cost.cpu);
    }

    fn best_median_cpu(&mut self) -> [Duration; 3] {
        self.elapsed.sort_unstable();
        let [best, median] = [self.elapsed.first(), self.elapsed.get(self.elapsed.len() / 2)];
        [best, median, self.cpu.iter().min()].map(|time| time.copied().unwrap_or_default())
    }
}

/// Runs a command to its end.
fn timed(command: &mut Command) -> anyhow::Result<(Cost, Output)> {
    let cpu_before = cpu_of_children()?;
    let start = Instant::now();
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let cost = Cost { elapsed: start.elapsed(), cpu: cpu_of_children()?.saturating_sub(cpu_before) };
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok((cost, output))
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
    let paths = LADDER.iter().map(PathBuf::from).chain([largest()?]);
    for path in paths {
        let mut runs = (0..rounds.get()).map(|_| run_probe(&path, threads)).collect::<Result<Vec<_>, _>>()?;
        runs.sort_by_key(|(cost, _)| cost.elapsed);
        let Some((cost, probe)) = runs.first() else { continue };
        let ms = |us: u64| format!("{:.1}", us as f64 / 1e3);
        table.row([
            short_name(&path),
            grouped(probe.text_bytes),
            grouped(probe.n_insns),
            ms(microseconds(cost.elapsed)),
            ms(probe.parse_us),
            ms(probe.analyze_us),
            ms(probe.number_us),
            format!("{:.0}", cost.elapsed.as_nanos() as f64 / probe.n_insns.max(1) as f64),
            (probe.peak_kib / 1024).to_string(),
        ]);
    }
    Ok(table)
}

/// The library of [`LARGEST`], downloaded and unpacked if it is not there yet.
fn largest() -> anyhow::Result<PathBuf> {
    let folder = Path::new(DEFAULT_DIR).join("packages");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let library_in = |folder: &Path| -> anyhow::Result<Option<PathBuf>> {
        let Ok(files) = fs::read_dir(folder.join("usr/lib/x86_64-linux-gnu")) else { return Ok(None) };
        let mut files = files.collect::<Result<Vec<_>, _>>()?;
        files.retain(|file| file.file_type().is_ok_and(|kind| kind.is_file()));
        Ok(files.into_iter().max_by_key(|file| file.metadata().map_or(0, |facts| facts.len())).map(|file| file.path()))
    };
    if let Some(library) = library_in(&folder)? {
        return Ok(library);
    }
    let script = format!("apt-get download -qq {LARGEST} && dpkg -x {LARGEST}_*.deb . && rm {LARGEST}_*.deb");
    let status = Command::new("sh").args(["-ec", &script]).current_dir(&folder).status()?;
    ensure!(status.success(), "cannot download the package {LARGEST}; run 'apt-get update' and try again");
    library_in(&folder)?.with_context(|| format!("no library in the package {LARGEST}"))
}

fn run_probe(path: &Path, threads: NonZeroUsize) -> anyhow::Result<(Cost, Probe)> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(PROBE_COMMAND).arg(path).arg("--threads").arg(threads.to_string());
    let (cost, output) = timed(&mut command)?;
    Ok((cost, Probe::from_line(&String::from_utf8_lossy(&output.stdout))?))
}

fn run_objdump(path: &Path) -> anyhow::Result<Cost> {
    let mut command = Command::new("objdump");
    command.args(["-d", "--no-show-raw-insn"]).arg(path).stdout(Stdio::null());
    Ok(timed(&mut command)?.0)
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
    fn a_process_that_fails_is_an_error_with_its_message() {
        let (_, output) = timed(Command::new("sh").args(["-c", "echo fine"])).unwrap();
        assert_eq!(output.stdout, b"fine\n");
        let failure = timed(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err().to_string();
        assert!(failure.contains("why"), "{failure}");
    }

    #[test]
    fn the_median_is_the_middle_one() {
        let mut timings = Timings::default();
        for (elapsed, cpu) in [(5, 7), (1, 6), (9, 8)] {
            timings.add(Cost { elapsed: Duration::from_secs(elapsed), cpu: Duration::from_secs(cpu) });
        }
        assert_eq!(timings.best_median_cpu(), [1, 5, 6].map(Duration::from_secs));
    }
}
