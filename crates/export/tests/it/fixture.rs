//! A profile by hand: two modules, a loop, recursion, inlined code, and names that formats must
//! take care with.

use std::collections::BTreeMap;

use export::{Format, NoBinaryFacts, Options, csv};
use profile::model::{
    Block, BlockEnd, BlockId, Call, Context, ContextId, Edge, EdgeKind, Function, FunctionId, Loop, Module, ModuleId,
    Path, Recursion, Thread,
};
use profile::symbols::{SourceFrame, Symbols};
use profile::{Estimate, Profile};

pub const SERVER: ModuleId = ModuleId(0);
pub const LIBRARY: ModuleId = ModuleId(1);

const MAIN: FunctionId = FunctionId(0);
const FIND: FunctionId = FunctionId(1);
const FIB: FunctionId = FunctionId(2);
const UNNAMED: FunctionId = FunctionId(3);
const MEMCPY: FunctionId = FunctionId(4);
const ANONYMOUS: FunctionId = FunctionId(5);

/// An estimate with an error of a tenth.
pub fn about(value: f64) -> Estimate {
    Estimate { value, variance: value * value / 100.0, seen: 10 }
}

pub fn profile() -> Profile {
    Profile {
        facts: BTreeMap::from([
            ("command".to_owned(), "server --port 80".to_owned()),
            ("machine".to_owned(), "\"big\"; naïve".to_owned()),
        ]),
        modules: vec![
            Module { path: "/opt/app/server".into(), build_id: "00112233445566778899aabbccddeeff01234567".into() },
            Module { path: "/opt/my libs/libcopy.so".into(), build_id: String::new() },
        ],
        functions: functions(),
        blocks: blocks(),
        edges: edges(),
        paths: paths(),
        calls: calls(),
        contexts: contexts(),
        recursions: vec![Recursion { from: ContextId(3), to: ContextId(3), count: about(40.0) }],
        loops: vec![Loop {
            function: MAIN,
            header: BlockId(1),
            parent: None,
            entries: Estimate::exact(1),
            iterations: about(1000.0),
            trips: vec![0, 0, 1],
            n_partial_visits: 2,
            self_ns: about(30_000.0),
        }],
        threads: vec![Thread { pid: 41, tid: 42, command: "/opt/app/server --port 80".into(), cpu_ns: 9_000_000 }],
        ..Profile::default()
    }
}

fn functions() -> Vec<Function> {
    let function = |module, address, size, name: &str, entries, self_ns| Function {
        module,
        address,
        size,
        name: name.to_owned(),
        entries: about(entries),
        self_ns: about(self_ns),
    };
    vec![
        function(SERVER, 0x1000, 0x30, "main", 1.0, 50_000.4),
        function(SERVER, 0x2000, 0x34, "_ZN3app4findERKSs", 1000.0, 4_000_000.0),
        function(SERVER, 0x3000, 0x28, "fib", 41.0, 1_000_000.0),
        function(SERVER, 0x4000, 0x10, "", 7.0, 300.0),
        function(LIBRARY, 0x1000, 0x40, "memcpy", 300.0, 2_000_000.0),
        function(SERVER, 0x5000, 0x10, "_ZN12_GLOBAL__N_11gEc", 100.0, 0.2),
    ]
}

fn blocks() -> Vec<Block> {
    let block = |function, address, size, last, n_insns, end, count| Block {
        function,
        address,
        size,
        last,
        n_insns,
        end,
        count: about(count),
        self_ns: Estimate::default(),
    };
    vec![
        block(MAIN, 0x1000, 0x10, 0xc, 4, BlockEnd::Branch, 1.0),
        block(MAIN, 0x1010, 0x10, 0xb, 3, BlockEnd::Call, 1000.0),
        block(MAIN, 0x1020, 0x8, 0x6, 2, BlockEnd::Branch, 1000.0),
        block(MAIN, 0x1028, 0x8, 0x7, 3, BlockEnd::Return, 1.0),
        block(FIND, 0x2000, 0x20, 0x1e, 9, BlockEnd::Branch, 1000.0),
        block(FIND, 0x2020, 0x10, 0xe, 4, BlockEnd::IndirectCall, 400.0),
        block(FIND, 0x2030, 0x4, 0x3, 2, BlockEnd::Return, 1000.0),
        block(FIB, 0x3000, 0x18, 0x13, 6, BlockEnd::Call, 41.0),
        block(FIB, 0x3018, 0x8, 0x7, 2, BlockEnd::Return, 41.0),
        block(MEMCPY, 0x1000, 0x40, 0x3f, 12, BlockEnd::Return, 300.0),
        block(ANONYMOUS, 0x5000, 0x10, 0xf, 5, BlockEnd::Return, 100.0),
    ]
}

fn edges() -> Vec<Edge> {
    let edge = |from, to, kind, is_back, count| Edge {
        from: BlockId(from),
        to: BlockId(to),
        kind,
        is_back,
        count: about(count),
    };
    vec![
        edge(0, 1, EdgeKind::FallThrough, false, 1.0),
        edge(0, 3, EdgeKind::Taken, false, 0.0),
        edge(1, 2, EdgeKind::PastCall, false, 1000.0),
        edge(2, 1, EdgeKind::Taken, true, 999.0),
        edge(2, 3, EdgeKind::FallThrough, false, 1.0),
        edge(4, 5, EdgeKind::FallThrough, false, 400.0),
        edge(4, 6, EdgeKind::Taken, false, 600.0),
        edge(5, 6, EdgeKind::PastCall, false, 400.0),
        edge(7, 8, EdgeKind::PastCall, false, 41.0),
    ]
}

fn paths() -> Vec<Path> {
    let path = |function, blocks: &[u32], back_to: Option<u32>, n_branches, count, self_ns| Path {
        function,
        blocks: blocks.iter().copied().map(BlockId).collect(),
        back_to: back_to.map(BlockId),
        n_branches,
        count: about(count),
        self_ns: about(self_ns),
        misses: 0,
    };
    vec![
        path(MAIN, &[1, 2], Some(1), 1, 999.0, 49_000.0),
        path(FIND, &[4, 6], None, 1, 600.0, 2_000_000.0),
        path(FIND, &[4, 5, 6], None, 1, 400.0, 2_000_000.0),
    ]
}

fn calls() -> Vec<Call> {
    let call = |site, callee, count| Call { site: BlockId(site), callee, is_tail: false, count: about(count) };
    vec![
        call(1, FIND, 1000.0),
        call(5, MEMCPY, 300.0),
        call(5, ANONYMOUS, 100.0),
        call(7, FIB, 40.0),
        call(0, UNNAMED, 0.0),
    ]
}

fn contexts() -> Vec<Context> {
    let context = |parent: Option<u32>, function, entries, self_ns, kernel_ns| Context {
        parent: parent.map(ContextId),
        function,
        call_site: None,
        entries: about(entries),
        self_ns: about(self_ns),
        kernel_ns: about(kernel_ns),
        misses: 0,
    };
    vec![
        context(None, MAIN, 1.0, 50_000.4, 0.0),
        context(Some(0), FIND, 1000.0, 4_000_000.0, 0.0),
        context(Some(1), MEMCPY, 300.0, 2_000_000.0, 700_000.0),
        context(Some(0), FIB, 1.0, 1_000_000.0, 0.0),
        context(Some(1), ANONYMOUS, 100.0, 0.2, 0.0),
        context(None, UNNAMED, 7.0, 300.0, 0.0),
    ]
}

/// Knows the source of the server, nothing of the library.
#[derive(Debug)]
pub struct Source;

impl Symbols for Source {
    fn frames(&self, module: ModuleId, address: u64) -> Vec<SourceFrame> {
        let frame = |function: &str, linkage_name: &str, file: &str, line, function_line| SourceFrame {
            function: function.to_owned(),
            linkage_name: linkage_name.to_owned(),
            file: file.to_owned(),
            line,
            discriminator: 0,
            function_line,
        };
        let find = |line| frame("app::find(std::string const&) [u8; 4]", "_ZN3app4findERKSs", "src/find.cc", line, 20);
        if module != SERVER {
            return Vec::new();
        }
        match address {
            0x1000..0x1010 => vec![frame("main", "", "src/main.c", 11, 10)],
            0x1010..0x1020 => vec![frame("main", "", "src/main.c", 13, 10)],
            0x1020..0x1030 => vec![frame("main", "", "src/main.c", 14, 10)],
            0x2000..0x2010 => vec![find(21)],
            0x2010..0x2030 => vec![
                SourceFrame { discriminator: 2, ..frame("hash<\"a\">", "_Z4hash", "src/hash é.h", 7, 5) },
                find(23),
            ],
            0x2030..0x2034 => vec![find(25)],
            0x3000..0x3020 => vec![frame("fib", "", "src/main.c", 3, 2)],
            // No block of it ran.
            0x3020..0x3028 => vec![frame("fib", "", "src/main.c", 5, 2)],
            0x5000..0x5010 => {
                vec![frame("(anonymous namespace)::g(char)", "_ZN12_GLOBAL__N_11gEc", "src/find.cc", 4, 3)]
            }
            _ => Vec::new(),
        }
    }
}

/// Exports with the profile's own facts.
pub fn export(format: Format, profile: &Profile, symbols: &dyn Symbols) -> Vec<u8> {
    export_table(format, profile, symbols, csv::Table::Functions)
}

pub fn export_table(format: Format, profile: &Profile, symbols: &dyn Symbols, table: csv::Table) -> Vec<u8> {
    let facts = NoBinaryFacts::new(profile);
    let mut bytes = Vec::new();
    export::write(format, profile, symbols, &Options { module: None, table, facts: &facts }, &mut bytes)
        .expect("memory takes everything");
    bytes
}

pub fn text(format: Format, profile: &Profile, symbols: &dyn Symbols) -> String {
    String::from_utf8(export(format, profile, symbols)).expect("a text format")
}
