//! Small programs to build profiles of: compiled from a structured language to blocks, and run by
//! chance.

use std::sync::Arc;

use profile::code::{CodeBlock, CodeFunction, CodeInsn, CodeLoop, ModuleCode, NO_LOOP, NO_PLACE};
use profile::model::BlockEnd;

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Instructions, each of which takes so many nanoseconds.
    Work { n_insns: u32, ns: u32 },
    /// Two ways, the second with a probability in percent.
    If { percent: u32, first: Vec<Stmt>, second: Vec<Stmt> },
    /// Goes on with a probability in percent.
    While { percent: u32, body: Vec<Stmt> },
    /// One of some ways.
    Switch(Vec<Vec<Stmt>>),
    /// Calls the function with this number.
    Call { function: usize },
    /// Calls one of these.
    CallAny(Vec<usize>),
    /// Leaves to another function for good.
    TailCall { function: usize },
}

/// A program: code, and how it behaves.
#[derive(Clone, Debug)]
pub struct Program {
    pub code: Arc<ModuleCode>,
    /// By block.
    pub behaviours: Vec<Behaviour>,
}

/// What a block does besides its code.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    pub ns: u64,
    pub taken_percent: u32,
    /// Targets of jumps through tables and of indirect calls.
    pub targets: Vec<u32>,
}

/// Splitmix64.
#[derive(Clone, Debug)]
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

impl Program {
    /// Compiles functions; the first is where the program starts.
    pub fn compile(functions: &[Vec<Stmt>]) -> Program {
        let mut compiler = Compiler::default();
        for body in functions {
            compiler.function(body);
        }
        compiler.link()
    }

    /// Runs up to `max_blocks` blocks, again and again from the start of the program, as a loop
    /// outside of it would.
    pub fn run(&self, chance: &mut Chance, max_blocks: usize) -> Vec<u32> {
        let mut trace = Vec::with_capacity(max_blocks);
        let mut stack = Vec::new();
        let mut at = 0;
        while trace.len() < max_blocks {
            trace.push(at);
            match self.successor(at, &mut stack, chance) {
                Some(next) => at = next,
                None => break,
            }
        }
        trace
    }

    fn successor(&self, at: u32, stack: &mut Vec<u32>, chance: &mut Chance) -> Option<u32> {
        let (block, behaviour) = (&self.code.blocks[at as usize], &self.behaviours[at as usize]);
        let target = || self.code.block_at(block.target);
        match block.end {
            BlockEnd::Next => Some(at + 1),
            BlockEnd::Jump => target(),
            BlockEnd::Branch if chance.below(100) < u64::from(behaviour.taken_percent) => target(),
            BlockEnd::Branch => Some(at + 1),
            BlockEnd::IndirectJump => Some(behaviour.pick(chance)),
            BlockEnd::Call => {
                stack.push(at + 1);
                target()
            }
            BlockEnd::IndirectCall => {
                stack.push(at + 1);
                Some(behaviour.pick(chance))
            }
            BlockEnd::Return => stack.pop(),
            BlockEnd::Trap => None,
        }
    }
}

impl Behaviour {
    fn pick(&self, chance: &mut Chance) -> u32 {
        self.targets[chance.below(self.targets.len() as u64) as usize]
    }
}

/// Instructions of 4 bytes.
const INSN_BYTES: u32 = 4;

#[derive(Default)]
struct Compiler {
    code: ModuleCode,
    behaviours: Vec<Behaviour>,
    /// Targets as indices of blocks, and of functions.
    block_targets: Vec<(usize, usize)>,
    function_targets: Vec<(usize, usize)>,
    any_targets: Vec<(usize, Vec<usize>)>,
    first_blocks: Vec<usize>,
    loop_around: Option<u32>,
    n_insns: u32,
    ns: u64,
}

impl Compiler {
    fn function(&mut self, body: &[Stmt]) {
        let first = self.code.blocks.len();
        self.first_blocks.push(first);
        self.code.functions.push(CodeFunction { address: 0, size: 0, is_stub: false });
        self.work(1, 1);
        self.body(body);
        self.end(BlockEnd::Return);
        self.code.blocks[first].is_entry = true;
    }

    fn work(&mut self, n_insns: u32, ns: u32) {
        self.n_insns += n_insns;
        self.ns += u64::from(n_insns) * u64::from(ns);
    }

    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Work { n_insns, ns } => self.work(*n_insns, *ns),
            Stmt::If { percent, first, second } => {
                let branch = self.end(BlockEnd::Branch);
                self.behaviours[branch].taken_percent = *percent;
                self.body(first);
                let over = self.end(BlockEnd::Jump);
                self.block_targets.push((branch, self.code.blocks.len()));
                self.body(second);
                self.end(BlockEnd::Next);
                self.block_targets.push((over, self.code.blocks.len()));
            }
            Stmt::While { percent, body } => self.loop_while(*percent, body),
            Stmt::Switch(arms) => {
                let switch = self.end(BlockEnd::IndirectJump);
                let mut jumps = Vec::new();
                for arm in arms {
                    let start = self.code.blocks.len() as u32;
                    self.behaviours[switch].targets.push(start);
                    self.body(arm);
                    jumps.push(self.end(BlockEnd::Jump));
                }
                for jump in jumps {
                    self.block_targets.push((jump, self.code.blocks.len()));
                }
            }
            Stmt::Call { function } => {
                let site = self.end(BlockEnd::Call);
                self.function_targets.push((site, *function));
            }
            Stmt::CallAny(functions) => {
                let site = self.end(BlockEnd::IndirectCall);
                self.any_targets.push((site, functions.clone()));
            }
            Stmt::TailCall { function } => {
                let site = self.end(BlockEnd::Jump);
                self.function_targets.push((site, *function));
            }
        }
    }

    fn loop_while(&mut self, percent: u32, body: &[Stmt]) {
        self.end(BlockEnd::Next);
        let around = self.loop_around;
        let header = self.code.blocks.len();
        self.loop_around = Some(self.code.loops.len() as u32);
        self.code.loops.push(CodeLoop { header: header as u32, parent: around.unwrap_or(NO_LOOP) });
        let branch = self.end(BlockEnd::Branch);
        self.behaviours[branch].taken_percent = 100 - percent;
        self.body(body);
        let back = self.end(BlockEnd::Jump);
        self.block_targets.push((back, header));
        self.code.cuts.push((back as u32, header as u32));
        self.block_targets.push((branch, self.code.blocks.len()));
        self.loop_around = around;
    }

    /// Ends a block, which has at least the instruction that ends it.
    fn end(&mut self, end: BlockEnd) -> usize {
        self.work(1, 1);
        let address = self.code.blocks.last().map_or(0x1000, CodeBlock::end_address);
        let size = self.n_insns * INSN_BYTES;
        self.code.blocks.push(CodeBlock {
            address,
            size,
            last: size - INSN_BYTES,
            n_insns: self.n_insns,
            function: self.first_blocks.len() as u32 - 1,
            end,
            target: 0,
            innermost_loop: self.loop_around.unwrap_or(NO_LOOP),
            is_entry: false,
        });
        self.behaviours.push(Behaviour { ns: self.ns, ..Behaviour::default() });
        (self.n_insns, self.ns) = (0, 0);
        self.code.blocks.len() - 1
    }

    fn link(mut self) -> Program {
        let calls = self.function_targets.iter().map(|&(from, function)| (from, self.first_blocks[function]));
        let targets: Vec<_> = self.block_targets.iter().copied().chain(calls).collect();
        for (from, to) in targets {
            self.code.blocks[from].target = self.code.blocks[to].address;
        }
        for (site, functions) in self.any_targets {
            let targets = functions.iter().map(|&function| self.first_blocks[function] as u32);
            self.behaviours[site].targets = targets.collect();
        }
        let n_blocks = self.code.blocks.len();
        for (index, &first) in self.first_blocks.iter().enumerate() {
            let end = self.first_blocks.get(index + 1).copied().unwrap_or(n_blocks) - 1;
            let (start, end) = (self.code.blocks[first].address, self.code.blocks[end].end_address());
            self.code.functions[index] = CodeFunction { address: start, size: end - start, is_stub: false };
        }
        self.code.cuts.sort_unstable();
        self.code.check().expect("the compiler makes sound code");
        // Each instruction waits for the one before.
        let none = NO_PLACE;
        let insn = CodeInsn { inputs: [0, none, none, none], outputs: [0, none, none], latency: 1 };
        self.code.insns = self.code.blocks.iter().flat_map(|block| vec![insn; block.n_insns as usize]).collect();
        Program { code: Arc::new(self.code), behaviours: self.behaviours }
    }
}
