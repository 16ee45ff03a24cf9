//! The `strobe-lab` command: arguments in, one job out.
//!
//! Exit codes: 0 if everything holds, 1 if something does not or a job fails, 2 for wrong usage.
#![forbid(unsafe_code)]

mod arguments;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use lab::compress::{self, noted, report};
use lab::corpus::Data;
use lab::oracle::Recordings;
use lab::{
    accuracy, bench, claims, complete, corpus, exact_oracle, exact_speed, fuzz, net, oracle, peers, pep, pgo,
    stratified, table, transparency, units, values_cost,
};
use recorder::Threads;

use arguments::{
    AccuracyArguments, Arguments, BenchJob, ClaimsArguments, CompressArguments, CorpusJob, FuzzArguments, Job,
    PeersArguments, PgoArguments, Selection, StreamArguments,
};

fn main() -> ExitCode {
    match run(Arguments::parse().job) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("strobe-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does the job; the answer is whether everything held.
fn run(job: Job) -> anyhow::Result<bool> {
    match job {
        Job::Corpus(job) => corpus_job(&job),
        Job::Oracle { selection, reuse } => {
            let (data, programs) = selection.prepare()?;
            let recordings = if reuse { Recordings::Reuse } else { Recordings::Make };
            let report = oracle::run(&data, &programs, recordings, Threads::available())?;
            show(&report)?;
            Ok(report.holds())
        }
        Job::ExactOracle { selection, reuse, json } => {
            let (data, programs) = selection.prepare()?;
            let recordings = if reuse { Recordings::Reuse } else { Recordings::Make };
            let strobe = transparency::strobe_program()?;
            let report = exact_oracle::run(&strobe, &data, &programs, recordings, Threads::available())?;
            show(if json { format!("{:#}\n", report.to_json()) } else { report.to_string() })?;
            Ok(report.holds())
        }
        Job::Complete { markdown } => {
            let files = complete::measure_all(Threads::available())?;
            let tables = [complete::table(&files), complete::reasons(&files)];
            for table in tables {
                show(if markdown { table.to_markdown() } else { table.to_string() })?;
                show("\n")?;
            }
            Ok(files.iter().all(complete::Completeness::is_sufficient))
        }
        Job::Transparency { selection, settings, verify, markdown } => {
            let (data, programs) = selection.prepare()?;
            let mut chosen = transparency::settings();
            if let Some(unknown) = settings.iter().find(|&name| chosen.iter().all(|setting| setting.name != *name)) {
                let names: Vec<&str> = chosen.iter().map(|setting| setting.name.as_str()).collect();
                anyhow::bail!("there is no setting {unknown}; there are {}", names.join(", "));
            }
            chosen.retain(|setting| settings.is_empty() || settings.contains(&setting.name));
            let extra = if verify { "--verify" } else { "" };
            let outcomes = transparency::run(&data, &programs, &chosen, extra, |outcome| {
                let verdict = outcome.difference.as_deref().unwrap_or("same");
                eprintln!("{} {}: {verdict}", outcome.program, outcome.setting);
            })?;
            let table = transparency::table(&outcomes);
            show(if markdown { table.to_markdown() } else { table.to_string() })?;
            Ok(outcomes.iter().all(transparency::Outcome::holds))
        }
        Job::Claims(arguments) => claims_job(arguments),
        Job::Accuracy(arguments) => accuracy_job(&arguments),
        Job::Peers(arguments) => peers_job(&arguments),
        Job::Pgo(arguments) => pgo_job(arguments),
        Job::Stratified(arguments) => {
            show(stratified::report::run(&arguments.options()?, Threads::available())?).map(|()| true)
        }
        Job::Stream(arguments) => stream_job(&arguments),
        Job::Compress(arguments) => compress_job(&arguments),
        Job::Bench(BenchJob::Analysis { rounds, threads }) => show(bench::analysis(rounds, threads)?).map(|()| true),
        Job::Bench(BenchJob::Emit { rounds }) => show(bench::emit(rounds)?).map(|()| true),
        Job::Bench(BenchJob::Net { programs, dir }) => {
            let programs = corpus::select(&programs)?;
            let [short, full] = [corpus::Size::Short, corpus::Size::Full];
            let (short, full) = (Data::generate(&dir, short, &programs)?, Data::generate(&dir, full, &programs)?);
            show(net::measure(&short, &full, &programs)?).map(|()| true)
        }
        Job::Bench(BenchJob::Exact { selection, rounds, kinds }) => {
            let (data, programs) = selection.prepare()?;
            let strobe = transparency::strobe_program()?;
            let arms = exact_speed::Arms::named(&kinds)?;
            show(exact_speed::measure(&strobe, &data, &programs, &arms, rounds.get())?).map(|()| true)
        }
        Job::Bench(BenchJob::Pep { selection, rounds }) => {
            let (data, programs) = selection.prepare()?;
            let strobe = transparency::strobe_program()?;
            let measure = |workload| pep::measure(&strobe, &data, workload, rounds.get());
            let costs: Vec<pep::Costs> = programs.iter().map(measure).collect::<anyhow::Result<_>>()?;
            let tables = [pep::times(&costs), pep::parts(&costs), pep::numberings(&costs), pep::placements(&costs)];
            show(tables.map(|table| table.to_string()).join("\n")).map(|()| true)
        }
        Job::Bench(BenchJob::Values { selection, rounds }) => {
            let (data, programs) = selection.prepare()?;
            let strobe = transparency::strobe_program()?;
            show(values_cost::measure(&strobe, &data, &programs, rounds.get())?).map(|()| true)
        }
        Job::Bench(BenchJob::Units { rounds, processes, dir }) => {
            let strobe = transparency::strobe_program()?;
            show(units::table(&units::measure(&strobe, &dir, rounds.get())?))?;
            show(units::measure_idle(&strobe, &dir, processes)?).map(|()| true)
        }
        Job::BenchProbe { path, threads } => show(bench::probe(&path, Threads(threads))?.to_line()).map(|()| true),
        Job::Fuzz(arguments) => fuzz_job(arguments),
        Job::FuzzWorker { base_dir, seed, from, to, step } => {
            fuzz::run_worker(&base_dir, fuzz::Share { seed, from, to, step }).map(|()| true)
        }
    }
}

fn corpus_job(job: &CorpusJob) -> anyhow::Result<bool> {
    match job {
        CorpusJob::List => show(corpus::table())?,
        CorpusJob::Install => match corpus::install_packages()?.as_slice() {
            [] => show("nothing is missing\n")?,
            installed => show(format!("installed {}\n", installed.join(", ")))?,
        },
        CorpusJob::Gen(selection) => {
            let (data, programs) = selection.prepare()?;
            show(format!("inputs of {} programs are in {}\n", programs.len(), data.root().display()))?;
        }
        CorpusJob::Run(selection) => {
            let (data, programs) = selection.prepare()?;
            let checked = corpus::outputs::check(&data, selection.size, &programs, |row| {
                eprintln!("{}: {:.2} s", row.name, row.cpu_seconds);
            })?;
            show(corpus::outputs::table(&checked))?;
            return Ok(checked.iter().all(corpus::outputs::Checked::holds));
        }
    }
    Ok(true)
}

fn claims_job(arguments: ClaimsArguments) -> anyhow::Result<bool> {
    let ClaimsArguments { ids, set, programs, with, fresh, install, dir, source_dir, report, document } = arguments;
    let chosen = claims::select(&ids)?;
    let bench = claims::Workbench { set, dir, source_dir, report_dir: report, programs, with };
    if install {
        corpus::install_packages()?;
        pgo::install()?;
        peers::install();
    }
    if fresh {
        bench.forget()?;
    }
    let failures = claims::run(&bench, &chosen)?;
    claims::report::write(&bench)?;
    if let Some(path) = document {
        claims::report::write_document(&bench, &path)?;
    }
    show(claims::report::summary(&bench))?;
    eprintln!("the report is {}", bench.report_dir.join("index.html").display());
    failures.iter().for_each(|failure| eprintln!("not measured: {failure}"));
    Ok(failures.is_empty())
}

fn accuracy_job(arguments: &AccuracyArguments) -> anyhow::Result<bool> {
    let Selection { programs, dir, size } = &arguments.selection;
    let programs = corpus::select(programs)?;
    let settings = accuracy::cross(&arguments.rates, &arguments.bursts, &arguments.policies);
    let settings: Vec<_> = settings.into_iter().map(|setting| setting.with(&arguments.with)).collect();
    let bench = accuracy::Bench::open(dir, *size, &programs, arguments.runs.get())?;
    let observations = accuracy::run(&bench, &programs, &settings, |row| eprintln!("{}", row.cells().join("  ")))?;
    let table = accuracy::table(&observations);
    show(if arguments.markdown { table.to_markdown() } else { table.to_string() })?;
    Ok(true)
}

fn peers_job(arguments: &PeersArguments) -> anyhow::Result<bool> {
    let PeersArguments { programs, built, rounds, dir, source_dir, markdown } = arguments;
    let strobe = transparency::strobe_program()?;
    let mut costs = peers::measure(&strobe, dir, &corpus::select(programs)?, rounds.get())?;
    if !built.iter().any(|name| name == "none") {
        pgo::check()?;
        for subject in pgo::subject::select(built)? {
            costs.join(peers::rebuilt::measure(source_dir, &subject, rounds.get())?);
        }
    }
    for table in [costs.table(), peers::features()] {
        show(if *markdown { table.to_markdown() } else { table.to_string() })?;
        show("\n")?;
    }
    Ok(true)
}

fn pgo_job(arguments: PgoArguments) -> anyhow::Result<bool> {
    pgo::check()?;
    let PgoArguments { programs, optimizer, rounds, runs, recordings, reference, dir } = arguments;
    let options = pgo::Options {
        dir,
        n_rounds: rounds.get(),
        n_runs: runs.get(),
        n_recordings: recordings.get(),
        reference,
        strobe: transparency::strobe_program()?,
    };
    let optimizers = optimizer.map_or_else(|| vec![pgo::Optimizer::Bolt, pgo::Optimizer::Clang], |one| vec![one]);
    let mut holds = true;
    for subject in pgo::subject::select(&programs)? {
        for &optimizer in &optimizers {
            let (text, is_good) = pgo::run(&subject, optimizer, &options)?;
            show(text)?;
            holds &= is_good;
        }
    }
    Ok(holds)
}

fn stream_job(arguments: &StreamArguments) -> anyhow::Result<bool> {
    let StreamArguments { kind, selection, events, skip, out, command } = arguments;
    std::fs::create_dir_all(out)?;
    let wanted = noted::Wanted { kind: *kind, skip: *skip, n_events: *events };
    let record = |name: &str, program: &str, dir: &Path| -> anyhow::Result<()> {
        let stream = noted::record(name, program, dir, wanted)?;
        let path = out.join(format!("{name}-{kind}.zst"));
        stream.write(&path)?;
        show(format!("{}: {} events\n", path.display(), table::grouped(stream.events.len() as u64)))
    };
    if let [program, ..] = command.as_slice() {
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        let quoted: Vec<String> = command.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        record(&name, &quoted.join(" "), Path::new("."))?;
        return Ok(true);
    }
    let (data, programs) = selection.prepare()?;
    for workload in programs {
        let program = format!("'{}' {}", data.runnable(&workload)?.display(), workload.arguments());
        record(workload.name, &program, data.root())?;
    }
    Ok(true)
}

fn compress_job(arguments: &CompressArguments) -> anyhow::Result<bool> {
    let (seed, dir, threads) = (arguments.seed, &arguments.dir, Threads::available());
    let print = |table: &table::Table| {
        show(if arguments.markdown { table.to_markdown() } else { table.to_string() })?;
        show("\n")
    };
    if arguments.claims {
        let found = compress::claims::run(arguments.load(), seed, dir, threads)?;
        found.tables.iter().try_for_each(|(_, table)| print(table))?;
        print(&compress::claims::memory_table())?;
    } else {
        let expressions = arguments.expressions()?;
        for stream in arguments.load() {
            print(&report::run(&stream?, &expressions, seed, dir, threads)?)?;
        }
    }
    Ok(true)
}

fn fuzz_job(arguments: FuzzArguments) -> anyhow::Result<bool> {
    if let Some(index) = arguments.index {
        show(fuzz::run_one(&arguments.dir, arguments.seed, index)? + "\n")?;
        return Ok(true);
    }
    let options = arguments.options();
    let summary = fuzz::run(&options)?;
    show(&summary)?;
    if summary.failures.is_empty() {
        return Ok(true);
    }
    show(format!(
        "the inputs that failed are in {}; `strobe-lab fuzz --seed {} --index N` runs one again\n",
        options.dir.display(),
        options.seed
    ))?;
    Ok(false)
}

/// Prints; a reader that has seen enough and closed the pipe is no error.
fn show(what: impl Display) -> anyhow::Result<()> {
    match write!(io::stdout().lock(), "{what}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
