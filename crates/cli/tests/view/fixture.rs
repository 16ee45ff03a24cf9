//! Profiles to look at, and ways to run `strobe` on them.
//!
//! The program of [`program`] is the one of the profile crate's own tests: `main` calls `work` ten
//! times, whose loop turns ten times each and sometimes calls `leaf`, which enters the kernel and
//! sometimes calls `work` again.

use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Output};

use fixtures::Folder;
pub use fixtures::run;
use profile::model::{
    Block, BlockEnd, BlockId, BranchHistory, Call, Context, ContextId, ContextPath, CpuTime, Edge, EdgeKind, Function,
    FunctionId, Loop, Module, ModuleId, Path as ProfilePath, PathId, Recursion, SystemCall, Thread,
};
use profile::{Estimate, Profile};

/// A temporary folder, with what these tests make there.
pub struct Workshop(Folder);

impl Deref for Workshop {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.0
    }
}

impl Workshop {
    pub fn new() -> Workshop {
        Workshop(Folder::new())
    }

    pub fn save(&self, profile: &Profile) -> String {
        assert_eq!(profile.verify(), [], "a sound profile");
        store::save(&self.path("x.strobe"), profile).expect("a writable folder");
        self.name("x.strobe")
    }

    pub fn strobe(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
        command.args(arguments).env_remove("NO_COLOR").env("XDG_CACHE_HOME", self.path("cache"));
        command.output().expect("strobe starts")
    }

    /// Standard output and error of a run that must succeed.
    #[track_caller]
    pub fn outputs(&self, arguments: &[&str]) -> (String, String) {
        let output = self.strobe(arguments);
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        assert!(output.status.success(), "strobe {arguments:?}: {stderr}");
        (stdout, stderr)
    }

    #[track_caller]
    pub fn stdout(&self, arguments: &[&str]) -> String {
        self.outputs(arguments).0
    }

    /// Compiles a program and returns its path.
    #[track_caller]
    pub fn build(&self, compiler: &str, source_name: &str, source: &str, options: &[&str]) -> String {
        let (source_path, program) = (self.write(source_name, source), self.name("program"));
        run(compiler, &[&["-o", &program, &source_path, "-Wl,--build-id=sha1"][..], options].concat());
        program
    }
}

const MAIN: FunctionId = FunctionId(0);
const WORK: FunctionId = FunctionId(1);
const LEAF: FunctionId = FunctionId(2);
const M0: BlockId = BlockId(0);
const M1: BlockId = BlockId(1);
const W0: BlockId = BlockId(2);
const W1: BlockId = BlockId(3);
const W2: BlockId = BlockId(4);
const W3: BlockId = BlockId(5);
const L0: BlockId = BlockId(6);

/// A count with an error of 5 %.
fn about(value: u64) -> Estimate {
    let value = value as f64;
    Estimate { value, variance: (0.05 * value / 1.96).powi(2), seen: (value / 10.0).ceil() as u64 }
}

/// Times in milliseconds.
fn about_ms(milliseconds: u64) -> Estimate {
    about(milliseconds).scaled(1e6)
}

/// A program whose file is nowhere.
pub fn program() -> Profile {
    Profile {
        mix_error: 0.0,
        values: Vec::new(),
        facts: facts(),
        modules: vec![Module { path: "/no/such/program".to_owned(), build_id: "aabb".to_owned() }],
        functions: vec![
            function(0x1000, "main", 1, 100),
            function(0x2000, "_ZN2ns4workEi", 12, 600),
            function(0x3000, "leaf", 5_000, 200),
        ],
        blocks: vec![
            block(MAIN, 0x1000, 4, BlockEnd::Call, 10, 60),
            block(MAIN, 0x1010, 4, BlockEnd::Return, 10, 40),
            block(WORK, 0x2000, 4, BlockEnd::Branch, 100_000, 90),
            block(WORK, 0x2010, 2, BlockEnd::Call, 30_000, 240),
            block(WORK, 0x2020, 1, BlockEnd::Branch, 100_000, 220),
            block(WORK, 0x2038, 4, BlockEnd::Return, 10_000, 50),
            block(LEAF, 0x3000, 1, BlockEnd::Return, 5_000, 200),
        ],
        edges: vec![
            edge(M0, M1, EdgeKind::PastCall, false, 10),
            edge(W0, W1, EdgeKind::FallThrough, false, 30_000),
            edge(W0, W2, EdgeKind::Taken, false, 70_000),
            edge(W1, W2, EdgeKind::PastCall, false, 30_000),
            edge(W2, W0, EdgeKind::Taken, true, 90_000),
            edge(W2, W3, EdgeKind::FallThrough, false, 10_000),
        ],
        paths: vec![
            path(&[W0, W2], Some(W0), 63_000, 300),
            path(&[W0, W1, W2], Some(W0), 27_000, 250),
            path(&[W0, W2, W3], None, 7_000, 20),
            path(&[W0, W1, W2, W3], None, 3_000, 30),
        ],
        calls: vec![
            Call { site: M0, callee: WORK, is_tail: false, count: about(10_000) },
            Call { site: W1, callee: LEAF, is_tail: false, count: about(5_000) },
            Call { site: L0, callee: WORK, is_tail: true, count: about(2_000) },
        ],
        contexts: vec![
            context(None, MAIN, 1, 100, 50),
            context(Some(0), WORK, 10, 600, 0),
            context(Some(1), LEAF, 5_000, 200, 50),
        ],
        recursions: vec![Recursion { from: ContextId(2), to: ContextId(1), count: about(2_000) }],
        context_paths: Vec::new(),
        loops: vec![Loop {
            function: WORK,
            header: W0,
            parent: None,
            entries: about(10_000),
            iterations: about(100_000),
            trips: vec![0, 0, 1, 8],
            n_partial_visits: 1,
            self_ns: about_ms(450),
        }],
        histories: vec![history(0, 8, 0), history(1, 4, 4)],
        system_calls: vec![system_call(0), system_call(2)],
        threads: vec![Thread { pid: 7, tid: 7, command: "program".to_owned(), cpu_ns: 1_000_000_000 }],
        ticks: [("burst", 90), ("in the kernel", 10)].map(|(name, n)| (name.to_owned(), n)).into(),
        unseen_at_most: 1_234.0,
        scale_error: 0.3,
        measured_cpu: CpuTime { user_ns: 900e6, system_ns: 130e6 },
        unwatched_ns: 18e6,
        unobserved_flow: about(5_000),
    }
}

fn facts() -> std::collections::BTreeMap<String, String> {
    let facts = [
        ("command", "program --fast"),
        ("cpu_s", "1.000"),
        ("elapsed_s", "1.500"),
        ("bursts", "90"),
        ("hit_percent", "97.83"),
        ("cost_percent", "0.812"),
        ("cost_ticks_percent", "0.112"),
        ("cost_bursts_percent", "0.700"),
        ("agent_cpu_s", "0.250"),
    ];
    facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn function(address: u64, name: &str, entries: u64, milliseconds: u64) -> Function {
    let (entries, self_ns) = (about(entries), about_ms(milliseconds));
    Function { module: ModuleId(0), address, size: 0x48, name: name.to_owned(), entries, self_ns }
}

fn block(function: FunctionId, address: u64, n_insns: u32, end: BlockEnd, count: u64, milliseconds: u64) -> Block {
    let (count, self_ns) = (about(count), about_ms(milliseconds));
    Block { function, address, size: 16, last: 12, n_insns, end, count, self_ns }
}

fn edge(from: BlockId, to: BlockId, kind: EdgeKind, is_back: bool, count: u64) -> Edge {
    Edge { from, to, kind, is_back, count: about(count) }
}

fn path(blocks: &[BlockId], back_to: Option<BlockId>, count: u64, milliseconds: u64) -> ProfilePath {
    let (count, self_ns) = (about(count), about_ms(milliseconds));
    ProfilePath { function: WORK, blocks: blocks.to_vec(), back_to, n_branches: 2, count, self_ns, misses: 0 }
}

fn context(parent: Option<u32>, function: FunctionId, entries: u64, user_ms: u64, kernel_ms: u64) -> Context {
    Context {
        parent: parent.map(ContextId),
        function,
        call_site: None,
        entries: about(entries),
        self_ns: about_ms(user_ms),
        kernel_ns: about_ms(kernel_ms),
        misses: 0,
    }
}

fn history(history: u8, n_taken: u64, n_not_taken: u64) -> BranchHistory {
    BranchHistory { block: W0, history, n_taken, n_not_taken }
}

fn system_call(context: u32) -> SystemCall {
    let context = ContextId(context);
    SystemCall { context, module: Some(ModuleId(0)), address: 0x3005, kernel_ns: about_ms(50) }
}

/// The build-id of a file, as the profile has it.
pub fn build_id(program: &str) -> String {
    let output = Command::new("readelf").args(["-n", program]).output().expect("readelf; run `cargo xtask packages`");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let id = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    id.expect("a build-id").to_owned()
}

/// A profile in which one function of a real program ran, as one block from its start.
pub fn of_function(program: &Path, symbol: &str) -> Profile {
    let listing = Command::new("nm").args(["-S", program.to_str().expect("UTF-8")]).output().expect("nm");
    let listing = String::from_utf8(listing.stdout).expect("UTF-8");
    let row = listing.lines().find(|line| line.ends_with(&format!(" {symbol}"))).expect("the symbol");
    let mut numbers = row.split(' ').map(|number| u64::from_str_radix(number, 16).expect("hexadecimal"));
    let (address, size) = (numbers.next().expect("an address"), numbers.next().expect("a size"));
    let program = program.to_str().expect("UTF-8");
    Profile {
        modules: vec![Module { path: program.to_owned(), build_id: build_id(program) }],
        functions: vec![Function { address, size, ..function(0, symbol, 10, 100) }],
        blocks: vec![Block {
            address,
            size: size as u32,
            last: size as u32 - 1,
            ..block(MAIN, 0, 4, BlockEnd::Return, 10, 100)
        }],
        paths: vec![ProfilePath { function: MAIN, ..path(&[M0], None, 10, 100) }],
        contexts: vec![context(None, MAIN, 10, 100, 0)],
        ..Profile::default()
    }
}

/// [`program`] with paths by context.
pub fn with_paths_by_context() -> Profile {
    let mut profile = program();
    let paths = (0..).map(PathId).zip(&profile.paths);
    profile.context_paths = paths
        .map(|(path, row)| ContextPath {
            context: ContextId(1),
            path,
            count: row.count,
            self_ns: row.self_ns,
            misses: 7,
        })
        .collect();
    profile
}
