//! Stratified sampling (Sastry, Bodik, Smith): experiments with compressors of event streams.
//!
//! S1 and S2 are Monte Carlo experiments ([`crate::stratified`]). For the others, values, edges and
//! call targets of some programs are recorded once, and several kinds together; one replay of each
//! stream through all compressors serves all claims ([`crate::compress::claims`]). S8 is about
//! streams of several kinds at once.

use std::fs;

use anyhow::Context as _;
use recorder::Threads;
use sampling::{Rate, TableSize};

use super::{Claim, Experiment, Finding, Measure, Set, Verdict, Workbench, write_whole};
use crate::compress::claims::{Evidence, StreamName, memory_table, run};
use crate::compress::noted::{self, Wanted};
use crate::compress::report::stem;
use crate::compress::stream::{Kind, Stream};
use crate::corpus::{Data, Workload};
use crate::stratified::Settings;
use crate::stratified::report::{Found, s1, s2};

const fn claim(
    id: &'static str,
    statement: &'static str,
    published: &'static str,
    required: &'static str,
    run: Measure,
) -> Claim {
    // What is first takes what all take: the streams.
    let minutes = if matches!(id.as_bytes(), b"S3") { 5.0 } else { 0.2 };
    Claim { id, statement, published, required, experiment: Experiment::Measured { run, minutes } }
}

/// The claims of the paper.
pub const CLAIMS: [Claim; 10] = [
    claim(
        "S1",
        "Monte Carlo: three accuracy classes, {R, H[R]} worse than {P, CR} worse than {H[P], H[CR]}",
        "fig. 4",
        "same classes, same order",
        classes,
    ),
    claim(
        "S2",
        "stream length to 4 % mean error, R : H[P]",
        "12000 : 4600",
        "R at 12,000 +-5 %; the n of 4,600",
        stream_length,
    ),
    claim(
        "S3",
        "events until the error stays under 5 %, R256 : H[P256]2048",
        "7M : 300K (load values of gcc)",
        "H[P] needs fewer on every program",
        |bench| replayed(bench, "S3", "fewer with H[P256]2048"),
    ),
    claim("S4", "H[P512]2048 is as accurate as R256 at half the messages", "yes", "per program", |bench| {
        replayed(bench, "S4", "as accurate, or more")
    }),
    claim("S5", "2-bit tagged, 2-way, 2048 entries: lowest error, 2-3x the messages", "yes", "per program", |bench| {
        replayed(bench, "S5", "lowest error")
    }),
    claim("S6", "tables of 512 to 4096 entries; smaller ones win early (li)", "fig. 9", "curves", |bench| {
        replayed(bench, "S6", "512 better than 4096 at 50,000 events")
    }),
    claim(
        "S6b",
        "on real streams R256 and P256 are alike; stratified and tagged stabilise sooner",
        "gcc < 3 % error at 3.5 % overhead",
        "per program",
        |bench| replayed(bench, "S6b", "R256 and P256 within a factor of 1.5, the others better at 1 M events"),
    ),
    claim("S7", "an A16 second level reduces messages, losslessly", "1.15-2.5x", "per program, exact", |bench| {
        replayed(bench, "S7", "exact on all; 1.15x or more with H[P256]2048")
    }),
    claim("S8", "edges and call targets at once", "error < 3 %, overhead < 4.5 %", "per program", |bench| {
        replayed(bench, "S8", "both")
    }),
    claim(
        "S9",
        "Space-Saving, Misra-Gries and Count-Min at equal memory",
        "not published",
        "table; the best is default",
        |bench| replayed(bench, "S9", "H[P256]2048 has the least error in 2 KiB"),
    ),
];

const SEED: u64 = 1;

/// Streams for each length: the paper's number, or few to see that it works.
fn settings(bench: &Workbench) -> anyhow::Result<Settings> {
    const N_TRIALS: u32 = 2500;
    const N_SMOKE_TRIALS: u32 = 50;
    let trials = if bench.set == Set::Smoke { N_SMOKE_TRIALS } else { N_TRIALS };
    Ok(Settings { trials, rate: Rate::new(10)?, seed: SEED })
}

fn classes(bench: &Workbench) -> anyhow::Result<Finding> {
    const N_STRATA: u64 = 16;
    Ok(finding(s1(settings(bench)?, TableSize::new(N_STRATA)?, Threads::available())))
}

fn stream_length(bench: &Workbench) -> anyhow::Result<Finding> {
    Ok(finding(s2(settings(bench)?, Threads::available())?))
}

fn finding(found: Found) -> Finding {
    let verdict = if found.contradicted.is_empty() { Verdict::Holds } else { Verdict::Contradicted };
    let mut finding = Finding::new(found.ours, "", verdict);
    if !found.contradicted.is_empty() {
        finding.notes.push(format!("Not as in the paper: {}.", found.contradicted.join("; ")));
    }
    finding.notes.extend(found.notes.into_iter().map(|note| format!("{note}.")));
    finding.tables = found.tables;
    finding.plots = found.plots.into_iter().map(|(_, svg)| svg).collect();
    finding
}

/// What the replay says about one claim; `what` it means to agree with it.
fn replayed(bench: &Workbench, id: &str, what: &str) -> anyhow::Result<Finding> {
    let evidence = evidence(bench)?;
    let agreeing = evidence.agreeing.get(id).map_or(&[][..], Vec::as_slice);
    let is_at_once = |name: &StreamName| SEVERAL.iter().any(|kind| kind.to_string() == name.kind);
    let concerned: Vec<&StreamName> = evidence.streams.iter().filter(|name| id != "S8" || is_at_once(name)).collect();
    let (holds, fails): (Vec<&StreamName>, Vec<&StreamName>) =
        concerned.into_iter().partition(|name| agreeing.contains(name));
    let of_kinds = KINDS.iter().map(Kind::to_string).filter_map(|kind| {
        let n_of = |names: &[&StreamName]| names.iter().filter(|name| name.kind == kind).count();
        let (n_holding, n_failing) = (n_of(&holds), n_of(&fails));
        (n_holding + n_failing > 0).then(|| format!("{kind} {n_holding} of {}", n_holding + n_failing))
    });
    let verdict = if fails.is_empty() { Verdict::Holds } else { Verdict::Contradicted };
    let mut finding = Finding::new(format!("{what}: {}", of_kinds.collect::<Vec<_>>().join(", ")), "", verdict);
    if !fails.is_empty() {
        let fails = fails.iter().map(|name| format!("{} {}", name.program, name.kind));
        finding.notes.push(format!("Not on {}.", fails.collect::<Vec<_>>().join(", ")));
    }
    finding.notes.push(
        "All events are noted by strobe, in exact mode. Overhead is 30 cycles per message at one instruction per cycle."
            .to_owned(),
    );
    finding.plots = plots(bench, id, &evidence.streams)?;
    let tables = evidence.tables.into_iter().filter(|(claim, _)| claim == id);
    finding.tables.extend(tables.map(|(claim, table)| (format!("{claim}, all streams"), table)));
    if id == "S9" {
        finding.tables.push(("Bytes of state".to_owned(), memory_table()));
    }
    Ok(finding)
}

/// Curves of the first program of each kind, for claims that are about them.
fn plots(bench: &Workbench, id: &str, streams: &[StreamName]) -> anyhow::Result<Vec<String>> {
    let name = match id {
        "S3" => "error",
        "S6" => "sizes/error",
        "S6b" => "overhead",
        _ => return Ok(Vec::new()),
    };
    let (folder, what) = name.split_once('/').unwrap_or(("", name));
    let folder = bench.state("streams/plots")?.join(folder);
    let firsts = KINDS.iter().filter_map(|kind| streams.iter().find(|name| name.kind == kind.to_string()));
    let read = |name: &StreamName| {
        let path = folder.join(format!("{}-{what}.svg", stem(&name.program, &name.kind)));
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    firsts.map(read).collect()
}

/// The replay, which is done once.
fn evidence(bench: &Workbench) -> anyhow::Result<Evidence> {
    let path = bench.state("streams/evidence.json")?;
    if let Some(kept) = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        return Ok(kept);
    }
    let plots = bench.state("streams/plots")?;
    let programs = bench.stream_programs()?;
    let data = bench.bench(&programs)?.data;
    let wanted = KINDS.into_iter().flat_map(|kind| programs.iter().map(move |workload| (kind, workload)));
    let streams = wanted.filter_map(|(kind, workload)| stream(bench, &data, workload, kind).transpose());
    let evidence = run(streams, SEED, &plots, Threads::available())?;
    write_whole(&path, &serde_json::to_vec_pretty(&evidence)?)?;
    Ok(evidence)
}

/// What is recorded of each program.
const KINDS: [Kind; 5] = [Kind::Values, Kind::Edges, Kind::CallTargets, Kind::EdgesAndCallTargets, Kind::Targets];
/// Several kinds at once.
const SEVERAL: [Kind; 2] = [Kind::EdgesAndCallTargets, Kind::Targets];

/// The stream of a program, recorded if it is not there; `None` if the program has too few events
/// of the kind to say anything.
fn stream(bench: &Workbench, data: &Data, workload: &Workload, kind: Kind) -> anyhow::Result<Option<Stream>> {
    const LEAST: usize = 100_000;
    let wanted = match bench.set {
        Set::Smoke => Wanted { kind, skip: 100_000, n_events: 200_000 },
        Set::Quick => Wanted { kind, skip: 1_000_000, n_events: 4_000_000 },
        Set::Full => Wanted { kind, skip: 1_000_000, n_events: 16_000_000 },
    };
    let path = bench.state(&format!("streams/{}-{kind}.zst", workload.name))?;
    if !path.exists() {
        eprintln!("  {}, stream of {kind}", workload.name);
        let program = format!("'{}' {}", data.runnable(workload)?.display(), workload.arguments());
        let partial = path.with_extension("partial");
        noted::record(workload.name, &program, data.root(), wanted)?.write(&partial)?;
        fs::rename(&partial, &path)?;
    }
    Ok(Some(Stream::read(&path)?).filter(|stream| stream.events.len() >= LEAST))
}
