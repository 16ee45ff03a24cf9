//! Random profiles that satisfy the model's invariants.
//!
//! All of them take their rows from one universe of functions, so that two have many in common, but
//! never in the same order. Figures are whole numbers: sums of them are exact in any order.

use std::collections::BTreeSet;

use profile::model::{
    Block, BlockEnd, BlockId, BranchHistory, Call, Context, ContextId, ContextPath, CpuTime, Edge, EdgeKind, Function,
    FunctionId, Loop, LoopId, Module, ModuleId, Path, PathId, Recursion, SystemCall, Thread,
};
use profile::{Estimate, Profile};

/// How large a profile is. Numbers of rows are upper limits, since rows that come up twice are
/// there once.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub n_modules: u32,
    pub n_functions: u32,
    pub blocks_per_function: u32,
    pub n_edges: u32,
    pub n_paths: u32,
    pub n_contexts: u32,
}

impl Size {
    pub const SMALL: Size =
        Size { n_modules: 3, n_functions: 6, blocks_per_function: 5, n_edges: 20, n_paths: 15, n_contexts: 12 };
}

/// The profile of a seed.
pub fn profile(seed: u64, size: Size) -> Profile {
    let mut random = Random(seed);
    let mut profile = Profile::default();
    add_code(&mut profile, &mut random, size);
    if !profile.functions.is_empty() {
        add_flow(&mut profile, &mut random, size);
        add_contexts(&mut profile, &mut random, size);
        add_loops(&mut profile, &mut random);
    }
    profile.facts.insert("program".to_owned(), "sort".to_owned());
    profile.facts.insert("host".to_owned(), format!("host {}", random.below(3)));
    profile.ticks.insert("burst".to_owned(), random.below(1000).into());
    profile.ticks.insert(format!("outcome {}", random.below(3)), 1);
    profile.threads.push(Thread { pid: 1 + random.below(2), tid: 7, command: "sort -n".to_owned(), cpu_ns: 1 << 40 });
    profile.unseen_at_most = random.below(100).into();
    profile.scale_error = f64::from(random.below(100)) / 100.0;
    profile.mix_error = f64::from(random.below(100)) / 100.0;
    profile.unobserved_flow = random.estimate();
    profile.measured_cpu = CpuTime { user_ns: random.below(1000).into(), system_ns: random.below(2).into() };
    profile.unwatched_ns = random.below(100).into();
    profile
}

/// Numbers by the generator SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit)) as u32
    }

    fn shuffled(&mut self, n: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..n).collect();
        for last in (1..n).rev() {
            numbers.swap(last as usize, self.below(last + 1) as usize);
        }
        numbers
    }

    fn estimate(&mut self) -> Estimate {
        let value = self.below(100_000).into();
        Estimate { value, variance: self.below(10_000).into(), seen: self.below(1000).into() }
    }
}

fn add_code(profile: &mut Profile, random: &mut Random, size: Size) {
    let order = random.shuffled(size.n_modules);
    for &number in &order {
        let build_id = if number == 0 { String::new() } else { format!("{number:040x}") };
        profile.modules.push(Module { path: format!("/lib/{number}.so"), build_id });
    }
    for number in random.shuffled(size.n_functions) {
        if random.below(4) == 0 {
            continue;
        }
        let module = order.iter().position(|&module| module == number % size.n_modules).unwrap_or(0);
        let function = FunctionId(profile.functions.len() as u32);
        let address = 0x1000 * u64::from(number + 1);
        profile.functions.push(Function {
            module: ModuleId(module as u32),
            address,
            size: 16 * u64::from(size.blocks_per_function),
            name: if number % 5 == 4 { String::new() } else { format!("function_{number}") },
            entries: random.estimate(),
            self_ns: random.estimate(),
        });
        for block in random.shuffled(size.blocks_per_function) {
            let end = if block.is_multiple_of(2) { BlockEnd::Branch } else { BlockEnd::Call };
            let address = address + 16 * u64::from(block);
            profile.blocks.push(Block {
                function,
                address,
                size: 16,
                last: 12,
                n_insns: 4,
                end,
                count: random.estimate(),
                self_ns: random.estimate(),
            });
        }
    }
}

/// The blocks of a function are consecutive.
fn block_of(random: &mut Random, function: u32, size: Size) -> BlockId {
    BlockId(function * size.blocks_per_function + random.below(size.blocks_per_function))
}

/// Each function has this many paths in all profiles together.
const PATHS_PER_FUNCTION: u32 = 64;

/// Blocks and target of the back edge of a path of the universe.
fn path_of(profile: &Profile, function: u32, number: u32, size: Size) -> (Vec<BlockId>, Option<BlockId>) {
    let address = profile.functions[function as usize].address;
    let mut random = Random(address ^ u64::from(number));
    let first = function * size.blocks_per_function;
    let mut block = || {
        let wanted = address + 16 * u64::from(random.below(size.blocks_per_function));
        let is_wanted = |id: &BlockId| profile.blocks[id.index()].address == wanted;
        (first..).map(BlockId).find(is_wanted).unwrap_or(BlockId(first))
    };
    let blocks = (0..1 + number % 8).map(|_| block()).collect();
    (blocks, number.is_multiple_of(2).then(block))
}

fn add_flow(profile: &mut Profile, random: &mut Random, size: Size) {
    let n_functions = profile.functions.len() as u32;
    let mut known = BTreeSet::new();
    for _ in 0..size.n_edges {
        let function = random.below(n_functions);
        let (from, to) = (block_of(random, function, size), block_of(random, function, size));
        let kind = if random.below(2) == 0 { EdgeKind::Taken } else { EdgeKind::FallThrough };
        if known.insert((from, to, kind)) {
            let is_back = profile.blocks[to.index()].address <= profile.blocks[from.index()].address;
            profile.edges.push(Edge { from, to, kind, is_back, count: random.estimate() });
        }
    }
    let mut known = BTreeSet::new();
    for _ in 0..size.n_paths {
        let function = random.below(n_functions);
        let (blocks, back_to) = path_of(profile, function, random.below(PATHS_PER_FUNCTION), size);
        if known.insert((blocks.clone(), back_to)) {
            profile.paths.push(Path {
                function: FunctionId(function),
                n_branches: blocks.len() as u32 - 1,
                blocks,
                back_to,
                count: random.estimate(),
                self_ns: random.estimate(),
                misses: 0,
            });
        }
    }
    let mut known = BTreeSet::new();
    for _ in 0..size.n_edges / 4 {
        let caller = random.below(n_functions);
        let site = block_of(random, caller, size);
        let callee = FunctionId(random.below(n_functions));
        if known.insert((site, callee)) {
            profile.calls.push(Call { site, callee, is_tail: false, count: random.estimate() });
        }
        let history = random.below(64) as u8;
        if profile.histories.iter().rev().take(100).all(|row| (row.block, row.history) != (site, history)) {
            let (n_taken, n_not_taken) = (random.below(50).into(), random.below(50).into());
            profile.histories.push(BranchHistory { block: site, history, n_taken, n_not_taken });
        }
    }
}

fn add_contexts(profile: &mut Profile, random: &mut Random, size: Size) {
    let mut known = BTreeSet::new();
    for _ in 0..size.n_contexts {
        let n_contexts = profile.contexts.len() as u32;
        let parent = random.below(n_contexts + 1).checked_sub(1).map(ContextId);
        let function = FunctionId(random.below(profile.functions.len() as u32));
        let above = ancestors(profile, parent);
        if let Some(&to) = above.iter().find(|id| profile.contexts[id.index()].function == function) {
            if let Some(from) =
                parent.filter(|&from| profile.recursions.iter().rev().all(|row| (row.from, row.to) != (from, to)))
            {
                profile.recursions.push(Recursion { from, to, count: random.estimate() });
            }
        } else if known.insert((parent, function)) {
            let (entries, self_ns, kernel_ns) = (random.estimate(), random.estimate(), random.estimate());
            let own = (0..).map(PathId).zip(&profile.paths).find(|(_, path)| path.function == function);
            if let Some((path, _)) = own {
                let context = ContextId(n_contexts);
                let (count, self_ns) = (random.estimate(), random.estimate());
                profile.context_paths.push(ContextPath {
                    context,
                    path,
                    count,
                    self_ns,
                    misses: u64::from(random.below(100)),
                });
            }
            profile.contexts.push(Context {
                parent,
                function,
                call_site: None,
                entries,
                self_ns,
                kernel_ns,
                misses: 0,
            });
        }
    }
    for context in (0..profile.contexts.len() as u32).step_by(5).map(ContextId) {
        let module = (random.below(3) != 0).then_some(ModuleId(0));
        let address = u64::from(random.below(4));
        profile.system_calls.push(SystemCall { context, module, address, kernel_ns: random.estimate() });
    }
}

fn ancestors(profile: &Profile, context: Option<ContextId>) -> Vec<ContextId> {
    std::iter::successors(context, |id| profile.contexts[id.index()].parent).collect()
}

/// The first blocks of a function head loops in each other.
fn add_loops(profile: &mut Profile, random: &mut Random) {
    for (index, function) in profile.functions.iter().enumerate() {
        let mut parent = None;
        for depth in 0..u64::from(random.below(4)) {
            let address = function.address + 16 * depth;
            let is_header = |row: &Block| row.function.index() == index && row.address == address;
            let Some(header) = profile.blocks.iter().position(is_header) else { break };
            profile.loops.push(Loop {
                function: FunctionId(index as u32),
                header: BlockId(header as u32),
                parent,
                entries: random.estimate(),
                iterations: random.estimate(),
                trips: (0..random.below(4)).map(|_| random.below(10).into()).collect(),
                n_partial_visits: random.below(10).into(),
                self_ns: random.estimate(),
            });
            parent = Some(LoopId(profile.loops.len() as u32 - 1));
        }
    }
}
