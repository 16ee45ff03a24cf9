//! A small program: `main` calls `work` ten times, whose loop turns ten times each and sometimes
//! calls `leaf`.
//!
//! ```text
//! main:  m0 -call work-> m1
//! work:  w0 -taken-> w2, w0 -> w1 -> w2; w2 -taken, back-> w0; w2 -> w3      (w1 ends in a call of leaf)
//! leaf:  l0
//! ```

use profile::model::{
    Block, BlockEnd, BlockId, BranchHistory, Call, Context, ContextId, Edge, EdgeKind, Function, FunctionId, Loop,
    Module, ModuleId, Path, Recursion, SystemCall, Thread,
};
use profile::{Estimate, Profile};

pub const MAIN: FunctionId = FunctionId(0);
pub const WORK: FunctionId = FunctionId(1);
pub const LEAF: FunctionId = FunctionId(2);
pub const M0: BlockId = BlockId(0);
pub const M1: BlockId = BlockId(1);
pub const W0: BlockId = BlockId(2);
pub const W1: BlockId = BlockId(3);
pub const W2: BlockId = BlockId(4);
pub const W3: BlockId = BlockId(5);
pub const L0: BlockId = BlockId(6);

pub fn program() -> Profile {
    let exact = Estimate::exact;
    let function = |address, name: &str, entries, self_ns| Function {
        module: ModuleId(0),
        address,
        size: 0x40,
        name: name.to_owned(),
        entries: exact(entries),
        self_ns: exact(self_ns),
    };
    let block = |function, address, n_insns, end, count, self_ns| {
        let (count, self_ns) = (exact(count), exact(self_ns));
        Block { function, address, size: 16, last: 12, n_insns, end, count, self_ns }
    };
    let edge = |from, to, kind, is_back, count| Edge { from, to, kind, is_back, count: exact(count) };
    let path = |blocks: &[BlockId], back_to, count, self_ns| Path {
        function: WORK,
        blocks: blocks.to_vec(),
        back_to,
        n_branches: 2,
        count: exact(count),
        self_ns: exact(self_ns),
        misses: 0,
    };
    let context = |parent: Option<u32>, function, entries, self_ns, kernel_ns| Context {
        parent: parent.map(ContextId),
        function,
        call_site: None,
        entries: exact(entries),
        self_ns: exact(self_ns),
        kernel_ns: exact(kernel_ns),
        misses: 0,
    };
    let history = |history, n_taken, n_not_taken| BranchHistory { block: W0, history, n_taken, n_not_taken };
    let system_call = |context| SystemCall {
        context: ContextId(context),
        module: Some(ModuleId(0)),
        address: 0x3005,
        kernel_ns: exact(50),
    };
    let thread = |tid, cpu_ns| Thread { pid: 7, tid, command: "program".to_owned(), cpu_ns };
    Profile {
        modules: vec![Module { path: "/bin/program".to_owned(), build_id: "aa".to_owned() }],
        functions: vec![
            function(0x1000, "main", 1, 100),
            function(0x2000, "work", 12, 600),
            function(0x3000, "leaf", 5, 200),
        ],
        blocks: vec![
            block(MAIN, 0x1000, 4, BlockEnd::Call, 10, 60),
            block(MAIN, 0x1010, 4, BlockEnd::Return, 10, 40),
            block(WORK, 0x2000, 4, BlockEnd::Branch, 100, 350),
            block(WORK, 0x2010, 2, BlockEnd::Call, 30, 110),
            block(WORK, 0x2020, 1, BlockEnd::Branch, 100, 90),
            block(WORK, 0x2030, 4, BlockEnd::Return, 10, 50),
            block(LEAF, 0x3000, 1, BlockEnd::Return, 5, 200),
        ],
        edges: vec![
            edge(M0, M1, EdgeKind::PastCall, false, 10),
            edge(W0, W1, EdgeKind::FallThrough, false, 30),
            edge(W0, W2, EdgeKind::Taken, false, 70),
            edge(W1, W2, EdgeKind::PastCall, false, 30),
            edge(W2, W0, EdgeKind::Taken, true, 90),
            edge(W2, W3, EdgeKind::FallThrough, false, 10),
        ],
        paths: vec![
            path(&[W0, W2], Some(W0), 63, 300),
            path(&[W0, W1, W2], Some(W0), 27, 250),
            path(&[W0, W2, W3], None, 7, 20),
            path(&[W0, W1, W2, W3], None, 3, 30),
        ],
        calls: vec![
            Call { site: M0, callee: WORK, is_tail: false, count: exact(10) },
            Call { site: W1, callee: LEAF, is_tail: false, count: exact(5) },
            Call { site: L0, callee: WORK, is_tail: false, count: exact(2) },
        ],
        contexts: vec![
            context(None, MAIN, 1, 100, 50),
            context(Some(0), WORK, 10, 600, 0),
            context(Some(1), LEAF, 5, 200, 50),
        ],
        recursions: vec![Recursion { from: ContextId(2), to: ContextId(1), count: exact(2) }],
        loops: vec![Loop {
            function: WORK,
            header: W0,
            parent: None,
            entries: exact(10),
            iterations: exact(100),
            trips: vec![0, 0, 1, 8],
            n_partial_visits: 1,
            self_ns: exact(450),
        }],
        histories: vec![history(0, 8, 0), history(1, 4, 4)],
        system_calls: vec![system_call(0), system_call(2)],
        threads: vec![thread(1, 400), thread(2, 600)],
        ..Profile::default()
    }
}
