//! The command line.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use lab::compress::report;
use lab::compress::stream::{Kind, Stream};
use lab::compress::synthetic::{self, Zipf};
use lab::corpus::{self, Data, Size, Workload};
use lab::{accuracy, bench, claims, fuzz, pgo, stratified};
use sampling::{Expression, Rate, TableSize};

/// Evaluates strobe: corpus, oracle, completeness, speed, fuzzing.
#[derive(Debug, Parser)]
#[command(name = "strobe-lab", version, max_term_width = 100, before_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    pub job: Job,
}

const EXAMPLES: &str = "Examples:
  strobe-lab corpus install             install the Debian packages of the corpus
  strobe-lab oracle --program gzip      check the analysis against what gzip executes
  strobe-lab oracle                     the same for all 25 programs (about 3 minutes)
  strobe-lab exact-oracle --program go  compare exact counts with callgrind's
  strobe-lab complete --markdown        completeness of control-flow graphs, as a document
  strobe-lab transparency --verify      same output under recording, every trace checked
  strobe-lab claims                     everything that is claimed, measured (90 minutes)
  strobe-lab accuracy --size full       sampled profiles against exact ones
  strobe-lab pgo sqlite                 what a sampled profile is worth to BOLT and clang
  strobe-lab stratified                 the Monte Carlo experiments of stratified sampling
  strobe-lab stream edges --program gcc record 16 million branches of gcc
  strobe-lab compress target/streams/gcc-edges.zst --expr 'H[P256]2048 A16'
  strobe-lab bench analysis             speed of the analysis against objdump
  strobe-lab fuzz --iterations 100000   damaged files through the real parsers";

#[derive(Debug, Subcommand)]
pub enum Job {
    /// List the programs, install their packages, or make their inputs.
    #[command(subcommand)]
    Corpus(CorpusJob),
    /// Check instructions, jumps and calls executed under callgrind against the analysis.
    Oracle {
        #[command(flatten)]
        selection: Selection,
        /// Examine the recordings of an earlier run instead of running the programs again.
        #[arg(long)]
        reuse: bool,
    },
    /// Compare exact counts with callgrind's: every instruction, edge and direct call.
    ExactOracle {
        #[command(flatten)]
        selection: Selection,
        /// Compare the recordings of an earlier run instead of running the programs again.
        #[arg(long)]
        reuse: bool,
        /// Print JSON: every count that is not equal.
        #[arg(long)]
        json: bool,
    },
    /// Count functions with complete control flow, in the programs of the corpus and their
    /// libraries.
    Complete {
        /// Print Markdown.
        #[arg(long)]
        markdown: bool,
    },
    /// Compare what programs put out with and without `strobe record`.
    Transparency {
        #[command(flatten)]
        selection: Selection,
        /// Settings to record at: default, long, short, and kinds of exact counting [default: all].
        #[arg(long = "setting", value_name = "NAME", num_args = 1..)]
        settings: Vec<String>,
        /// Have every burst checked against the control flow of the code.
        #[arg(long)]
        verify: bool,
        /// Print Markdown.
        #[arg(long)]
        markdown: bool,
    },
    /// Measure the claims of the papers and our own, and write a report; what was measured before
    /// is kept.
    Claims(ClaimsArguments),
    /// Compare sampled profiles with exact ones, program by program.
    Accuracy(AccuracyArguments),
    /// Run programs under other profilers, in turn, and compare cost and features.
    Peers(PeersArguments),
    /// Optimize programs by sampled, exact and flipped profiles, and compare the results.
    Pgo(PgoArguments),
    /// Repeat the Monte Carlo experiments of stratified sampling (claims S1 and S2).
    Stratified(StratifiedArguments),
    /// Record events of programs for `compress`, as `strobe record` notes them.
    Stream(StreamArguments),
    /// Replay event streams through stream compressors; errors and messages as they go (claims S3
    /// to S9).
    Compress(CompressArguments),
    /// Measure speed and memory.
    #[command(subcommand)]
    Bench(BenchJob),
    /// Run damaged files through the parsers and the analysis.
    Fuzz(FuzzArguments),
    #[command(name = bench::PROBE_COMMAND, hide = true)]
    BenchProbe {
        path: PathBuf,
        #[arg(long)]
        threads: NonZeroUsize,
    },
    #[command(name = fuzz::WORKER_COMMAND, hide = true)]
    FuzzWorker { base_dir: PathBuf, seed: u64, from: u64, to: u64, step: u64 },
}

#[derive(Debug, Subcommand)]
pub enum CorpusJob {
    /// Print the programs.
    List,
    /// Install missing Debian packages with apt-get (as root).
    Install,
    /// Make the inputs; those that are current are kept.
    Gen(Selection),
    /// Run the programs as they are and compare what they put out with the hashes of the corpus.
    Run(Selection),
}

#[derive(Debug, Subcommand)]
pub enum BenchJob {
    /// Time of the whole analysis of gcc's cc1 against `objdump -d`, and of files from 10 KB to 90
    /// MB of text.
    Analysis {
        /// Number of interleaved rounds.
        #[arg(long, default_value = "5")]
        rounds: NonZeroUsize,
        /// Number of threads of the analysis.
        #[arg(long, default_value = "2")]
        threads: NonZeroUsize,
    },
    /// Speed of translating gcc's cc1 into an instrumented copy, on one thread.
    Emit {
        /// Number of rounds.
        #[arg(long, default_value = "3")]
        rounds: NonZeroUsize,
    },
    /// Cost of `strobe record` at its defaults, with and without the work that bursts do for the
    /// program (20 minutes).
    Net {
        /// Programs to use, by name [default: all].
        #[arg(long = "program", value_name = "NAME", num_args = 1..)]
        programs: Vec<String>,
        /// Directory of inputs and outputs.
        #[arg(long, value_name = "DIR", default_value = corpus::DEFAULT_DIR)]
        dir: PathBuf,
    },
    /// CPU time of programs under `strobe record --exact`, against their own.
    Exact {
        #[command(flatten)]
        selection: Selection,
        /// Runs of each kind, of which the fastest counts.
        #[arg(long, default_value = "3")]
        rounds: NonZeroUsize,
        /// What is counted, such as blocks or paths [default: all kinds, with callgrind and
        /// cachegrind beside them].
        #[arg(long = "kind", value_name = "NAME", num_args = 1..)]
        kinds: Vec<String>,
    },
    /// CPU time of programs in PEP mode: path register alone, sampled, every path, against copies
    /// that count nothing; and by numbering.
    Pep {
        #[command(flatten)]
        selection: Selection,
        /// Runs of each kind, of which the fastest counts.
        #[arg(long, default_value = "3")]
        rounds: NonZeroUsize,
    },
    /// CPU time of programs and of strobe when values of all loads are noted: compressed in the
    /// program, and not.
    Values {
        #[command(flatten)]
        selection: Selection,
        /// Runs of each kind, of which the cheapest counts.
        #[arg(long, default_value = "3")]
        rounds: NonZeroUsize,
    },
    /// Cost of `strobe record`, by short units of work inside python, perl, lua and sqlite3 (4
    /// minutes); and of strobe that never ticks, by processes in turn.
    Units {
        /// Rounds of three units.
        #[arg(long, default_value = "200")]
        rounds: NonZeroUsize,
        /// Processes of each kind for strobe that never ticks.
        #[arg(long, default_value = "12")]
        processes: usize,
        /// Directory of scripts and profiles.
        #[arg(long, value_name = "DIR", default_value = "target/units")]
        dir: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct Selection {
    /// Programs to use, by name [default: all].
    #[arg(long = "program", value_name = "NAME", num_args = 1..)]
    pub programs: Vec<String>,
    /// Directory of inputs and outputs.
    #[arg(long, value_name = "DIR", default_value = corpus::DEFAULT_DIR)]
    pub dir: PathBuf,
    /// How much work the inputs make.
    #[arg(long, value_enum, default_value_t = Size::Short)]
    pub size: Size,
}

impl Selection {
    /// The chosen programs, and their inputs, made if need be.
    pub fn prepare(&self) -> anyhow::Result<(Data, Vec<Workload>)> {
        let programs = corpus::select(&self.programs)?;
        Ok((Data::generate(&self.dir, self.size, &programs)?, programs))
    }
}

#[derive(Debug, Args)]
pub struct ClaimsArguments {
    /// Claims to measure, such as P2 F3 [default: all].
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// How much to measure.
    #[arg(long, value_enum, default_value_t = claims::Set::Quick)]
    pub set: claims::Set,
    /// Programs of the corpus to use, by name [default: by set].
    #[arg(long = "program", value_name = "NAME", num_args = 1..)]
    pub programs: Vec<String>,
    /// Options of recordings at the default budget; what is measured with them is kept apart.
    #[arg(long = "with", value_enum, value_name = "OPTION", num_args = 1..)]
    pub with: Vec<accuracy::Extra>,
    /// Measure anew what was measured before.
    #[arg(long)]
    pub fresh: bool,
    /// Install packages and other profilers that are missing, which takes root.
    #[arg(long)]
    pub install: bool,
    /// Directory of inputs and exact profiles.
    #[arg(long, value_name = "DIR", default_value = corpus::DEFAULT_DIR)]
    pub dir: PathBuf,
    /// Directory of sources and of programs built from them.
    #[arg(long, value_name = "DIR", default_value = "target/pgo")]
    pub source_dir: PathBuf,
    /// Directory of the report, and of what it is made of.
    #[arg(long, value_name = "DIR", default_value = "report")]
    pub report: PathBuf,
    /// Also write the report as a document of the project.
    #[arg(long, value_name = "FILE")]
    pub document: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct AccuracyArguments {
    #[command(flatten)]
    pub selection: Selection,
    /// Ticks per CPU second; several make several rows [default: as `strobe record` chooses].
    #[arg(long = "rate", value_name = "HZ", num_args = 1..)]
    pub rates: Vec<f64>,
    /// Lengths of bursts, in checks [default: as `strobe record` chooses].
    #[arg(long = "burst", value_name = "CHECKS", num_args = 1..)]
    pub bursts: Vec<u32>,
    /// What a tick leads to: burst, or SAMPLES,STRIDE (PEP), or SAMPLES,STRIDE,full (Arnold and
    /// Grove).
    #[arg(long = "policy", value_name = "POLICY", num_args = 1..)]
    pub policies: Vec<accuracy::Policy>,
    /// Options of recordings, at all settings.
    #[arg(long = "with", value_enum, value_name = "OPTION", num_args = 1..)]
    pub with: Vec<accuracy::Extra>,
    /// Recordings that are added up before they are judged.
    #[arg(long, value_name = "N", default_value = "1")]
    pub runs: NonZeroUsize,
    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct PeersArguments {
    /// Programs of the corpus to use, by name [default: all].
    #[arg(long = "program", value_name = "NAME", num_args = 1..)]
    pub programs: Vec<String>,
    /// Programs to build from source for tools that need that: sqlite, lua, cppcheck; several, or
    /// `none`.
    #[arg(long = "built", value_name = "NAME", num_args = 1.., default_values = ["lua", "sqlite"])]
    pub built: Vec<String>,
    /// Rounds in which every tool runs once.
    #[arg(long, value_name = "N", default_value = "3")]
    pub rounds: NonZeroUsize,
    /// Directory of inputs and outputs.
    #[arg(long, value_name = "DIR", default_value = corpus::DEFAULT_DIR)]
    pub dir: PathBuf,
    /// Directory of sources and of programs built from them.
    #[arg(long, value_name = "DIR", default_value = "target/pgo")]
    pub source_dir: PathBuf,
    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,
}

#[derive(Debug, Args)]
pub struct PgoArguments {
    /// Programs to use: sqlite, lua, cppcheck [default: all].
    #[arg(value_name = "PROGRAM")]
    pub programs: Vec<String>,
    /// Use only this optimizer.
    #[arg(long, value_enum)]
    pub optimizer: Option<pgo::Optimizer>,
    /// Interleaved rounds of the measurement of time.
    #[arg(long, value_name = "N", default_value = "40")]
    pub rounds: NonZeroUsize,
    /// Recorded runs that make our profile, at least; more if they see less than 100,000 edges.
    #[arg(long, value_name = "N", default_value = "1")]
    pub runs: NonZeroUsize,
    /// Profiles of ours that clang is given, one by one: what it makes of them varies by chance.
    #[arg(long, value_name = "N", default_value = "5")]
    pub recordings: NonZeroUsize,
    /// Options of `strobe record` for the reference of clang.
    #[arg(long, value_name = "OPTIONS", default_value = pgo::DEFAULT_REFERENCE, allow_hyphen_values = true)]
    pub reference: String,
    /// Directory of sources, programs and profiles.
    #[arg(long, value_name = "DIR", default_value = "target/pgo")]
    pub dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct StratifiedArguments {
    /// Random streams for each length.
    #[arg(long, default_value = "2500")]
    pub trials: NonZeroU32,
    /// Strata in the comparison of all samplers.
    #[arg(long, default_value = "16")]
    pub strata: u64,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Directory of the plots.
    #[arg(long, value_name = "DIR", default_value = "target/stratified")]
    pub dir: PathBuf,
    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,
}

impl StratifiedArguments {
    /// The same as plain options.
    pub fn options(self) -> anyhow::Result<stratified::report::Options> {
        let settings = stratified::Settings { trials: self.trials.get(), rate: Rate::new(10)?, seed: self.seed };
        let strata = TableSize::new(self.strata).context("--strata")?;
        Ok(stratified::report::Options { settings, strata, dir: self.dir, markdown: self.markdown })
    }
}

#[derive(Debug, Args)]
pub struct StreamArguments {
    /// Which events.
    #[arg(value_enum)]
    pub kind: Kind,
    #[command(flatten)]
    pub selection: Selection,
    /// Events to record, at most.
    #[arg(long, value_name = "N", default_value = "16M", value_parser = synthetic::count)]
    pub events: u64,
    /// Events to let pass before.
    #[arg(long, value_name = "N", default_value = "0", value_parser = synthetic::count)]
    pub skip: u64,
    /// Directory of the streams.
    #[arg(long, value_name = "DIR", default_value = "target/streams")]
    pub out: PathBuf,
    /// A command to record instead of programs of the corpus.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct CompressArguments {
    /// Streams that `strobe-lab stream` has recorded.
    #[arg(value_name = "STREAM", required_unless_present = "synthetic")]
    pub streams: Vec<PathBuf>,
    /// A made-up stream: zipf:PLACES:EXPONENT:EVENTS.
    #[arg(long, value_name = "FORMULA")]
    pub synthetic: Vec<Zipf>,
    /// A compressor, such as `H[P256]2048 A16`; repeatable [default: those of the paper].
    #[arg(long = "expr", value_name = "EXPRESSION", value_parser = expression)]
    pub expressions: Vec<Expression>,
    /// Print the tables of the claims S3 to S9 instead.
    #[arg(long, conflicts_with = "expressions")]
    pub claims: bool,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Directory of the plots.
    #[arg(long, value_name = "DIR", default_value = "target/compress")]
    pub dir: PathBuf,
    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,
}

fn expression(text: &str) -> Result<Expression, sampling::ParseError> {
    text.parse()
}

impl CompressArguments {
    /// The streams, read or made one after the other.
    pub fn load(&self) -> impl Iterator<Item = anyhow::Result<Stream>> {
        let recorded = self.streams.iter().map(|path| Stream::read(path));
        recorded.chain(self.synthetic.iter().map(|formula| Ok(formula.stream(self.seed))))
    }

    /// The compressors, chosen or not.
    pub fn expressions(&self) -> anyhow::Result<Vec<Expression>> {
        if !self.expressions.is_empty() {
            return Ok(self.expressions.clone());
        }
        report::DEFAULT_EXPRESSIONS.iter().map(|text| Ok(text.parse()?)).collect()
    }
}

#[derive(Debug, Args)]
pub struct FuzzArguments {
    /// Number of inputs.
    #[arg(long, default_value_t = 10_000)]
    pub iterations: u64,
    /// Seed; the same seed gives the same inputs.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Workers at a time.
    #[arg(long, default_value = "2")]
    pub jobs: NonZeroUsize,
    /// Longest time that one input may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub time_limit: u64,
    /// Most address space of a worker, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub memory_limit: u64,
    /// Directory for base files and failing inputs.
    #[arg(long, value_name = "DIR", default_value = "target/fuzz")]
    pub dir: PathBuf,
    /// Run only the input with this index, in this process, so that a panic shows its backtrace.
    #[arg(long)]
    pub index: Option<u64>,
}

impl FuzzArguments {
    /// The same as plain options.
    pub fn options(self) -> fuzz::Options {
        fuzz::Options {
            iterations: self.iterations,
            seed: self.seed,
            jobs: self.jobs,
            time_limit: Duration::from_secs(self.time_limit),
            memory_limit_mib: self.memory_limit,
            dir: self.dir,
        }
    }
}
