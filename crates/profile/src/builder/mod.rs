//! Builds a [`Profile`] from ticks and bursts, in one pass.
//!
//! The caller turns samples into ticks: where the thread was, who had called, and, if the tick
//! started a burst, the blocks that the thread reached from there. The builder keeps sums only, so
//! that its memory grows with the program's code and not with the length of the run, and can give
//! the profile of the run so far at any time.
//!
//! ```text
//! tick -> contexts, time            by ticks
//!   burst -> walk (trie, links) -> tally -> strata -> estimates
//!              paths, calls, contexts, loops    | blocks, edges      counts by bursts
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `code_map` | the code of all modules, numbered |
//! | `trie`, `links` | paths as they were met, and what each step means |
//! | `walk` | the walk through a burst: frames, paths, checks |
//! | `contexts`, `loops`, `nests`, `histories` | what else a walk counts |
//! | `events` | numbers for what is counted; the counts of a burst |
//! | `tick_places`, `suffix`, `ways`, `precision` | where ticks hit within functions, and what that says of time there |
//! | `strata`, `cell_index`, `phases`, `weights`, `path_weights`, `time` | the estimator |
//! | `chance` | how sure counts are so far |
//! | `time_model`, `predictor`, `durations`, `doubt` | native durations of bursts |
//! | `spots`, `spot_fit` | blocks that are counted in native code, and what that says of all others |
//! | `assemble` | the profile's tables |

mod assemble;
mod cell_index;
mod chance;
mod code_map;
mod contexts;
mod doubt;
mod durations;
mod events;
mod histories;
mod ids;
mod links;
mod loops;
mod nests;
mod path_weights;
mod phases;
mod pipeline;
mod precision;
mod predictor;
mod shrink;
mod spot_fit;
mod spots;
mod strata;
mod suffix;
mod tick_places;
mod time;
mod time_model;
mod trie;
mod walk;
mod ways;
mod weights;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use self::chance::Chance;
use self::code_map::{CodeMap, Region};
use self::contexts::Contexts;
use self::events::{Event, Events, Tally};
use self::histories::Histories;
use self::ids::{ContextKey, EventId, StratumId};
use self::loops::Loops;
use self::nests::Nests;
use self::pipeline::Pipeline;
use self::predictor::Predictor;
pub use self::spots::SpotCount;
use self::spots::Spots;
use self::strata::{Count, Strata};
use self::suffix::Suffix;
use self::tick_places::{Onward, TickPlaces};
use self::time::{TickTime, TotalTime};
pub use self::time_model::TimeModel;
use self::time_model::{Times, Work};
use self::trie::Trie;
use self::walk::{Ends, Walker};
use self::ways::{Habits, Visits};
use crate::code::{CodeFunction, ModuleCode};
use crate::model::{BlockEnd, ModuleId, Profile, Thread, ThreadId};

/// Bytes of code that a processor maps at once.
const PAGE: u64 = 4096;

/// Simulating takes strobe's time, and one burst is like another: one in so many is simulated both
/// with slow and with fast memory.
const BURSTS_PER_SECOND_SIMULATION: u64 = 8;

/// How a profile is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What part of the run bursts are.
    pub coverage: Coverage,
    /// Consecutive ticks that are taken together for errors: many enough for one block not to
    /// depend on the one before. Where bursts are milliseconds apart, one is enough: two recordings
    /// of a program differ as independent bursts would make them.
    pub block_of_ticks: u32,
    /// Regions of code (functions and loops) whose bursts are weighted apart; the others are by
    /// module.
    pub max_strata: usize,
    /// How long code takes, watched and not.
    pub times: TimeModel,
    /// Parts of paths that are kept apart; beyond that, new paths are not told from each other.
    pub max_path_nodes: usize,
}

/// What part of a run bursts are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coverage {
    /// Samples that ticks started: counts are estimates for the whole run.
    Sampled,
    /// Samples that a count of checks started. Each begins at a check, ends at one, and stands for
    /// as many stretches of the run as any other.
    Counted {
        /// How many stretches between two checks each one stands for that is in a burst.
        weight: f64,
    },
    /// All of it: counts are exact. Each burst begins where the one before it ended.
    Complete,
}

impl Options {
    /// For recordings at the usual rates of ticks.
    pub const SAMPLED: Options = Options {
        coverage: Coverage::Sampled,
        block_of_ticks: 1,
        max_strata: 4096,
        times: TimeModel::EXACT,
        max_path_nodes: 4_000_000,
    };
    /// For bursts that a count of checks starts, each stretch of which stands for `weight` of the
    /// run.
    #[must_use]
    pub const fn counted(weight: f64) -> Options {
        Options { coverage: Coverage::Counted { weight }, ..Options::SAMPLED }
    }

    /// For complete traces.
    pub const COMPLETE: Options = Options { coverage: Coverage::Complete, ..Options::SAMPLED };
}

/// A block of any module: the number of its module's first block, as [`Builder::set_code`] returned
/// it, plus its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct BlockRef(pub u32);

impl BlockRef {
    const NONE: BlockRef = BlockRef(u32::MAX);
}

/// An address in a file, or anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file; `None` if the address is in no file.
    pub module: Option<ModuleId>,
    /// Address in the file.
    pub address: u64,
}

/// A tick.
#[derive(Clone, Copy, Debug)]
pub struct Tick<'a> {
    /// The thread that it hit.
    pub thread: ThreadId,
    /// CPU time that it stands for.
    pub cpu_ns: u64,
    /// Its outcome, by name.
    pub outcome: &'static str,
    /// Whether the thread was in the kernel; then `place` is behind the system call, and a burst is
    /// not looked at.
    pub is_kernel: bool,
    /// Where the thread was.
    pub place: Place,
    /// Callers, outermost first: return addresses less 1.
    pub stack: &'a [Place],
    /// The burst that the tick started.
    pub burst: Option<Burst<'a>>,
}

/// What a thread ran after a tick.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// The block that contains the tick's place, then the blocks that were reached, in order.
    pub blocks: &'a [BlockRef],
    /// Whether the tick hit the first block after its first instruction.
    pub starts_mid_block: bool,
    /// Whether the last block was executed. A burst that used up its checks ends before it.
    pub last_ran: bool,
    /// Which of its intervals count.
    pub taken: Taken,
    /// How long it took, system calls not included, but with the cost of watching.
    pub spent_ns: f64,
    /// System calls that it made.
    pub n_system_calls: u32,
}

/// Which of the intervals between the checks of a burst count (Arnold and Grove).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Intervals at the start that do not.
    pub n_skipped: u32,
    /// From then on, one in so many does.
    pub stride: u32,
}

impl Taken {
    /// Every interval counts.
    pub const ALL: Taken = Taken { n_skipped: 0, stride: 1 };

    /// Whether the interval with this number counts.
    fn takes(self, interval: u32) -> bool {
        interval.checked_sub(self.n_skipped).is_some_and(|number| number.is_multiple_of(self.stride.max(1)))
    }

    /// How many of the first `n` count.
    fn count(self, n: u32) -> u32 {
        n.saturating_sub(self.n_skipped).div_ceil(self.stride.max(1))
    }
}

/// Builds a [`Profile`] from ticks and bursts, in the order of time.
#[derive(Debug)]
pub struct Builder {
    options: Options,
    tables: Tables,
    walker: Walker,
    strata: Strata,
    chance: Chance,
    path_weights: Tally,
    /// CPU time of all ticks, and of those that were not in the kernel.
    total: TotalTime,
    user: TotalTime,
    region_time: FxHashMap<Region, TickTime>,
    tick_places: TickPlaces,
    habits: Habits,
    spots: Spots,
    /// Time of ticks in user code that started no burst.
    unwatched_ns: f64,
    system_calls: FxHashMap<(ContextKey, Option<ModuleId>, u64), TickTime>,
    threads: Vec<Thread>,
    thread_ids: FxHashMap<(u32, u32, String), ThreadId>,
    outcomes: BTreeMap<&'static str, u64>,
    n_ticks_in_block: u32,
    n_records: u64,
    n_simulated: u64,
    /// Pages of code of the latest burst.
    pages: FxHashSet<(ModuleId, u64)>,
}

/// What walking a burst reads and extends.
#[derive(Debug)]
struct Tables {
    known: Known,
    trie: Trie,
    contexts: Contexts,
    loops: Loops,
    predictor: Predictor,
    pipeline: Pipeline,
    /// Forwards what was stored at once.
    eager_pipeline: Pipeline,
    tally: Tally,
}

/// What is known of the code and the events in it.
#[derive(Debug, Default)]
struct Known {
    code: CodeMap,
    events: Events,
    histories: Histories,
    nests: Nests,
    /// Edges that end paths.
    back_edges: FxHashSet<EventId>,
}

impl Builder {
    /// A builder that has seen nothing.
    #[must_use]
    pub fn new(options: Options) -> Builder {
        let tables = Tables {
            known: Known::default(),
            trie: Trie::new(options.max_path_nodes),
            contexts: Contexts::default(),
            loops: Loops::default(),
            predictor: Predictor::new(),
            pipeline: Pipeline::new(),
            eager_pipeline: Pipeline::eager(),
            tally: Tally::default(),
        };
        Builder {
            options,
            tables,
            walker: Walker::new(),
            strata: Strata::new(options.max_strata),
            chance: Chance::default(),
            path_weights: Tally::default(),
            total: TotalTime::default(),
            user: TotalTime::default(),
            region_time: FxHashMap::default(),
            tick_places: TickPlaces::default(),
            habits: Habits::default(),
            spots: Spots::default(),
            unwatched_ns: 0.0,
            system_calls: FxHashMap::default(),
            threads: Vec::new(),
            thread_ids: FxHashMap::default(),
            outcomes: BTreeMap::new(),
            n_ticks_in_block: 0,
            n_records: 0,
            n_simulated: 0,
            pages: FxHashSet::default(),
        }
    }

    /// The module with this path and build id, which is the same each time.
    pub fn module(&mut self, path: &str, build_id: &str) -> ModuleId {
        self.tables.known.code.module(path, build_id)
    }

    /// Gives a module its code and returns the number of its first block. Only the first code
    /// counts. Ticks can come before it, bursts in it not. Nothing is returned if the module is
    /// unknown, or if all numbers are taken.
    pub fn set_code(&mut self, module: ModuleId, code: Arc<ModuleCode>) -> Option<BlockRef> {
        let first = self.tables.known.code.set_code(module, code)?;
        // Functions that only ticks have met so far get their rows by this.
        for address in self.tick_places.addresses(module) {
            self.tables.known.code.place(Place { module: Some(module), address });
        }
        Some(first)
    }

    /// Modules that ticks have met and whose functions are not known, because their code never
    /// came.
    #[must_use]
    pub fn modules_without_functions(&self) -> Vec<ModuleId> {
        self.tables.known.code.modules_without_functions()
    }

    /// Says where the functions of a module without code are, so that its ticks can be told apart.
    pub fn set_functions(&mut self, module: ModuleId, functions: Vec<CodeFunction>) {
        self.tables.known.code.set_functions(module, functions);
    }

    /// The thread with this process, id and command line, which is the same each time.
    pub fn thread(&mut self, pid: u32, tid: u32, command: &str) -> ThreadId {
        let threads = &mut self.threads;
        *self.thread_ids.entry((pid, tid, command.to_owned())).or_insert_with(|| {
            threads.push(Thread { pid, tid, command: command.to_owned(), cpu_ns: 0 });
            ThreadId(threads.len() as u32 - 1)
        })
    }

    /// Takes a tick in. Ticks of all threads come in the order of time.
    pub fn tick(&mut self, tick: &Tick<'_>) {
        *self.outcomes.entry(tick.outcome).or_default() += 1;
        if let Some(thread) = self.threads.get_mut(tick.thread.index()) {
            thread.cpu_ns = thread.cpu_ns.saturating_add(tick.cpu_ns);
        }
        let cpu_ns = tick.cpu_ns as f64;
        self.total.add(cpu_ns);
        let (context, region) = self.find_context(tick);
        if tick.is_kernel {
            let module = tick.place.module.filter(|&module| self.tables.known.code.has(module));
            let place = (context, module, tick.place.address);
            self.system_calls.entry(place).or_default().add(cpu_ns);
            if let Some(row) = self.tables.contexts.get_mut(context) {
                row.kernel.add(cpu_ns);
            }
        } else {
            self.user.add(cpu_ns);
            self.region_time.entry(region).or_default().add(cpu_ns);
            if let Some(module) = tick.place.module.filter(|&module| self.tables.known.code.has(module)) {
                let code = &self.tables.known.code;
                let onward = tick.burst.as_ref().and_then(|burst| {
                    let suffix = Suffix::follow(code, burst.blocks)?;
                    let visits = Visits::follow(code, burst.blocks);
                    self.habits.learn(*burst.blocks.first()?, &visits);
                    Some(Onward { suffix, sequel: visits.sequel() })
                });
                self.tick_places.add(module, tick.place.address, onward, cpu_ns);
            }
            if let Some(row) = self.tables.contexts.get_mut(context) {
                row.user.add(cpu_ns);
            }
            if let Some(burst) = &tick.burst {
                self.burst(burst, context, region, cpu_ns);
            } else {
                self.unwatched_ns += cpu_ns;
            }
        }
        self.n_ticks_in_block += 1;
        if self.n_ticks_in_block >= self.options.block_of_ticks {
            self.n_ticks_in_block = 0;
            self.strata.close_block();
        }
    }

    /// The profile of all that was taken in so far. Functions have no names.
    #[must_use]
    pub fn profile(&self) -> Profile {
        assemble::profile(self)
    }

    /// Returns how far shares of edges or of calling contexts are expected to be from full overlap
    /// with the true ones by chance, whichever is further; nothing if no burst has seen any.
    #[must_use]
    pub fn expected_lack(&self) -> Option<f64> {
        self.chance.lack()
    }

    /// Finds the context of a tick, and prepares its frames for a walk.
    fn find_context(&mut self, tick: &Tick<'_>) -> (ContextKey, Region) {
        let Tables { known, contexts, .. } = &mut self.tables;
        self.walker.reset();
        let mut context = ContextKey::NONE;
        for &caller in tick.stack {
            let facts = known.code.place(caller);
            context = contexts.descend(&mut known.events, context, facts.region.function).to;
            self.walker.push_frame(context, facts.return_site);
        }
        let region = known.code.place(tick.place).region;
        (contexts.descend(&mut known.events, context, region.function).to, region)
    }

    fn burst(&mut self, burst: &Burst<'_>, context: ContextKey, region: Region, cpu_ns: f64) {
        let Burst { starts_mid_block, last_ran, .. } = *burst;
        self.n_records += burst.blocks.len() as u64;
        let taken = (self.options.coverage == Coverage::Sampled).then_some(burst.taken);
        let ends = Ends { starts_mid_block, taken, last_ran };
        let walked = self.walker.walk(&mut self.tables, context, burst.blocks, ends);
        let (first_check, n_checks) = (walked.first_check, walked.n_checks.max(1));
        let n_intervals = match self.options.coverage {
            Coverage::Sampled => Some(burst.taken.count(walked.n_checks.saturating_sub(u32::from(!last_ran)))),
            // The last check is the one that the burst ends at.
            Coverage::Counted { .. } => Some(walked.n_checks),
            Coverage::Complete => None,
        };
        path_weights::weigh(&mut self.tables, &walked, n_intervals, &mut self.path_weights);
        let code = &self.tables.known.code;
        let of_check = first_check.and_then(|block| code.block(block)?.region());
        let stratum = self.strata.of_burst(of_check.unwrap_or(region), code);
        self.strata.add_time(region, stratum, cpu_ns);
        let work = match self.options.times.is_modelled() {
            true => Work { n_system_calls: burst.n_system_calls, ..self.work(burst.blocks) },
            false => Work::default(),
        };
        let times = match self.options.coverage {
            // Length is what bursts have in common, and checks are its measure.
            Coverage::Counted { .. } => Times { model_ns: f64::from(n_checks), ..Times::default() },
            Coverage::Sampled | Coverage::Complete => self.options.times.times(burst.spent_ns, &work),
        };
        self.record(stratum, times);
    }

    /// What a burst did that was just walked.
    fn work(&mut self, blocks: &[BlockRef]) -> Work {
        let Tables { known, tally, predictor, pipeline, eager_pipeline, .. } = &mut self.tables;
        self.n_simulated += 1;
        let is_simulated_twice = self.n_simulated % BURSTS_PER_SECOND_SIMULATION == 1;
        let mut work = Work {
            n_records: blocks.len() as f64,
            n_cycles: pipeline.run(&known.code, blocks),
            n_cycles_at_least: is_simulated_twice.then(|| eager_pipeline.run(&known.code, blocks)),
            n_surprises: f64::from(predictor.n_surprises()),
            ..Work::default()
        };
        self.pages.clear();
        for &event in tally.touched() {
            let Event::Block(number) = known.events.get(event) else { continue };
            let Some(located) = known.code.block(number) else { continue };
            work.n_blocks += 1.0;
            work.n_pages += f64::from(u8::from(self.pages.insert((located.module, located.block.address / PAGE))));
            if matches!(located.block.end, BlockEnd::Return | BlockEnd::IndirectCall | BlockEnd::IndirectJump) {
                work.n_transfers += tally.get(event);
            }
        }
        work
    }

    /// Moves the counts of a burst to its stratum.
    fn record(&mut self, stratum: StratumId, times: Times) {
        let Builder { tables: Tables { known, tally, .. }, path_weights, strata, chance, .. } = self;
        let counts = tally.drain().filter_map(|(event, seen)| {
            let what = known.events.get(event);
            let is_counted = !matches!(what, Event::Tail(_) | Event::Piece(_));
            chance.add(event, what, seen);
            let weighted = seen + path_weights.get(event);
            (is_counted && (seen, weighted) != (0.0, 0.0)).then_some(Count { event, weighted, seen })
        });
        strata.record(stratum, times, counts);
        path_weights.clear();
    }
}
