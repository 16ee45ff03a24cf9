//! The profile: tables whose rows refer to each other by handle.
//!
//! A row is there because it was seen (or, in code that was seen, because it could have been and
//! was not: a branch direction with count zero). Every table names things by module and address, so
//! that a profile can be shown when the program is long gone, and merged with one of another run.
//! Counts are [`Estimate`]s of the whole run, not of what was sampled.
//!
//! **Invariants**, checked by [`Profile::verify`]: handles are in range; parents come before their
//! children; no two rows have the same key; a path's consecutive blocks belong to its function, and
//! a path by context to the context's.

use std::collections::BTreeMap;

use crate::estimate::Estimate;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the handle as an array index.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

handles! {
    /// A row of [`Profile::modules`].
    ModuleId;
    /// A row of [`Profile::functions`].
    FunctionId;
    /// A row of [`Profile::blocks`].
    BlockId;
    /// A row of [`Profile::edges`].
    EdgeId;
    /// A row of [`Profile::paths`].
    PathId;
    /// A row of [`Profile::contexts`].
    ContextId;
    /// A row of [`Profile::loops`].
    LoopId;
    /// A row of [`Profile::threads`].
    ThreadId;
}

/// What a program ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Facts about the recording by name: program, settings, machine, measured cost.
    pub facts: BTreeMap<String, String>,
    /// Programs and libraries.
    pub modules: Vec<Module>,
    /// Functions with at least one block or tick.
    pub functions: Vec<Function>,
    /// Basic blocks.
    pub blocks: Vec<Block>,
    /// Steps between blocks of one function.
    pub edges: Vec<Edge>,
    /// Ball-Larus paths.
    pub paths: Vec<Path>,
    /// Calls: call sites with their callees.
    pub calls: Vec<Call>,
    /// Calling contexts: a tree whose nodes are functions, with recursion folded into it.
    pub contexts: Vec<Context>,
    /// Recursive calls: back edges of the tree of contexts.
    pub recursions: Vec<Recursion>,
    /// Paths by the calling context that they ran in; empty if that was not counted.
    pub context_paths: Vec<ContextPath>,
    /// Loops.
    pub loops: Vec<Loop>,
    /// Outcomes of conditional branches by what came before.
    pub histories: Vec<BranchHistory>,
    /// Places where the program entered the kernel.
    pub system_calls: Vec<SystemCall>,
    /// What instructions loaded, and where they went.
    pub values: Vec<NotedValue>,
    /// Threads.
    pub threads: Vec<Thread>,
    /// Ticks by their outcome.
    pub ticks: BTreeMap<String, u64>,
    /// What an event that was not seen can have counted at most, with 95 % confidence; 0 in an
    /// exact profile.
    pub unseen_at_most: f64,
    /// Standard deviation of the logarithm of a factor that all counts can be off by together; 0 in
    /// an exact profile. Estimates do not include it, because it cancels in their ratios.
    pub scale_error: f64,
    /// Standard deviation of the logarithm of the factors that counts of different phases of the
    /// program, and of regions of code within them, can be off by against each other; 0 in an exact
    /// profile. It does not cancel in shares of all counts, but in ratios within one loop or
    /// function, and between recordings of the same program.
    pub mix_error: f64,
    /// CPU time of the whole run by the kernel's account; zero if it is not known.
    pub measured_cpu: CpuTime,
    /// CPU time in user code, in nanoseconds, at ticks that started no burst: nothing is known of
    /// what ran then. It is 0 in an exact profile.
    pub unwatched_ns: f64,
    /// Path ends whose path had begun before the burst or was longer than it: counted in blocks and
    /// edges, but on no path.
    pub unobserved_flow: Estimate,
}

/// CPU time as the kernel accounts for it, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: f64,
    /// In the kernel.
    pub system_ns: f64,
}

impl CpuTime {
    /// Both together.
    #[must_use]
    pub fn total_ns(self) -> f64 {
        self.user_ns + self.system_ns
    }
}

/// A file with code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Where it was loaded from.
    pub path: String,
    /// Build-id in hexadecimal; empty if the file has none.
    pub build_id: String,
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its module.
    pub module: ModuleId,
    /// First address in the file.
    pub address: u64,
    /// Bytes from the first address to the end of its main part.
    pub size: u64,
    /// Linkage name, as it is in the symbol table; empty if the file has none for it.
    pub name: String,
    /// How often it was entered.
    pub entries: Estimate,
    /// User CPU time in the function itself, in nanoseconds.
    pub self_ns: Estimate,
}

/// A run of instructions that is entered at its first and left at its last.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Its function.
    pub function: FunctionId,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub size: u32,
    /// Offset of the last instruction from the first.
    pub last: u32,
    /// Instructions.
    pub n_insns: u32,
    /// What the last instruction does.
    pub end: BlockEnd,
    /// How often it ran.
    pub count: Estimate,
    /// User CPU time in it, in nanoseconds.
    pub self_ns: Estimate,
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum BlockEnd {
    /// Another block begins.
    Next = 0,
    /// A direct jump.
    Jump = 1,
    /// A conditional branch.
    Branch = 2,
    /// A jump to a computed address.
    IndirectJump = 3,
    /// A call of a fixed address.
    Call = 4,
    /// A call of a computed address.
    IndirectCall = 5,
    /// A return.
    Return = 6,
    /// Control does not go on.
    Trap = 7,
}

/// A step from one block to another of the same function. A call and its return are one step, from
/// the calling block to the return site.
#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The block that is left.
    pub from: BlockId,
    /// The block that is reached.
    pub to: BlockId,
    /// How control flows along it.
    pub kind: EdgeKind,
    /// Whether paths end here: a back edge of a loop.
    pub is_back: bool,
    /// How often.
    pub count: Estimate,
}

/// How control flows along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EdgeKind {
    /// To the next instruction.
    FallThrough = 0,
    /// Along a direct jump, or a conditional one that is taken.
    Taken = 1,
    /// Along a computed jump.
    Table = 2,
    /// Past a call.
    PastCall = 3,
    /// By an exception or a longjmp.
    NonLocal = 4,
}

/// An acyclic path: from an entry of the function or a loop header to an exit or a back edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Its function.
    pub function: FunctionId,
    /// Its blocks in order; never empty.
    pub blocks: Vec<BlockId>,
    /// The block that the final back edge leads to, or the edge into a loop if paths were cut
    /// there; nothing if the path ends at an exit.
    pub back_to: Option<BlockId>,
    /// Conditional and computed branches on it.
    pub n_branches: u32,
    /// How often it ran.
    pub count: Estimate,
    /// User CPU time in its blocks, callees not included, in nanoseconds.
    pub self_ns: Estimate,
    /// Misses of a simulated data cache on it, callees not included; 0 if there was none.
    pub misses: u64,
}

/// A call site and one of its callees.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The block that ends in the call, or in the jump of a tail call.
    pub site: BlockId,
    /// The function that is entered.
    pub callee: FunctionId,
    /// Whether the caller's frame is gone.
    pub is_tail: bool,
    /// How often.
    pub count: Estimate,
}

/// A function as called by its parent. A function that is already among the ancestors gets no new
/// node: see [`Recursion`].
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// Who called; nothing at the root of a thread or signal handler.
    pub parent: Option<ContextId>,
    /// The function.
    pub function: FunctionId,
    /// Address of the call in the module of the parent; nothing where calls from different places
    /// lead to the same context.
    pub call_site: Option<u64>,
    /// How often it was entered from the parent.
    pub entries: Estimate,
    /// User CPU time in this function in this context, callees not included, in nanoseconds.
    pub self_ns: Estimate,
    /// Kernel CPU time in this function in this context, in nanoseconds.
    pub kernel_ns: Estimate,
    /// Misses of a simulated data cache, callees not included; 0 if none was simulated.
    pub misses: u64,
}

/// Calls from a context to a function among its own ancestors.
#[derive(Clone, Debug, PartialEq)]
pub struct Recursion {
    /// The caller.
    pub from: ContextId,
    /// The ancestor (or itself) that is entered again.
    pub to: ContextId,
    /// How often.
    pub count: Estimate,
}

/// How often a path ran in a context of its function, and what it took there.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextPath {
    /// The context.
    pub context: ContextId,
    /// The path.
    pub path: PathId,
    /// How often.
    pub count: Estimate,
    /// User CPU time in its blocks, callees not included, in nanoseconds.
    pub self_ns: Estimate,
    /// Misses of a simulated data cache likewise; 0 if there was none.
    pub misses: u64,
}

/// A loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// Its function.
    pub function: FunctionId,
    /// Its header.
    pub header: BlockId,
    /// The loop around it.
    pub parent: Option<LoopId>,
    /// How often it was entered from outside.
    pub entries: Estimate,
    /// How often its header ran.
    pub iterations: Estimate,
    /// Visits that were seen from entry to exit, by the number of iterations: `trips[k]` counts
    /// those of `2^k` to `2^(k+1) - 1`.
    pub trips: Vec<u64>,
    /// Visits that were seen in part only.
    pub n_partial_visits: u64,
    /// User CPU time in its blocks, nested loops included, callees not, in nanoseconds.
    pub self_ns: Estimate,
}

/// Outcomes of one conditional branch after one history. Raw counts of what bursts saw, for the
/// entropy of the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchHistory {
    /// The block that ends in the branch.
    pub block: BlockId,
    /// Outcomes of the last [`HISTORY_BITS`] conditional branches, the latest in bit 0; 1 is taken.
    pub history: u8,
    /// Times taken.
    pub n_taken: u64,
    /// Times not taken.
    pub n_not_taken: u64,
}

/// Outcomes that a [`BranchHistory`] remembers.
pub const HISTORY_BITS: u32 = 6;

/// A place where the program entered the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemCall {
    /// The context.
    pub context: ContextId,
    /// Module of the instruction, if it is in one.
    pub module: Option<ModuleId>,
    /// Address of the instruction behind `syscall`.
    pub address: u64,
    /// Kernel CPU time, from ticks, in nanoseconds.
    pub kernel_ns: Estimate,
}

/// What a noted value is to its instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueKind {
    /// The instruction loaded it.
    #[default]
    Load,
    /// The instruction accessed memory at this address.
    Address,
    /// An indirect call went there.
    CallTarget,
    /// An indirect jump went there.
    JumpTarget,
    /// A call took its target from this table.
    MethodTable,
    /// A conditional jump went on there.
    BranchTarget,
    /// The function that starts there got it as this argument, from 0, in a register.
    Argument(u8),
}

impl ValueKind {
    /// Returns the number that stands for it in files.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            ValueKind::Load => 0,
            ValueKind::Address => 1,
            ValueKind::CallTarget => 2,
            ValueKind::JumpTarget => 3,
            ValueKind::MethodTable => 4,
            ValueKind::BranchTarget => 5,
            ValueKind::Argument(index) => 8 + u32::from(index),
        }
    }

    /// Returns the kind with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<ValueKind> {
        Some(match number {
            0 => ValueKind::Load,
            1 => ValueKind::Address,
            2 => ValueKind::CallTarget,
            3 => ValueKind::JumpTarget,
            4 => ValueKind::MethodTable,
            5 => ValueKind::BranchTarget,
            8..=13 => ValueKind::Argument(number as u8 - 8),
            _ => return None,
        })
    }
}

/// How often an instruction loaded a value, or had to do with it in another way.
#[derive(Clone, Debug, PartialEq)]
pub struct NotedValue {
    /// Module of the instruction.
    pub module: ModuleId,
    /// Address of the instruction.
    pub address: u64,
    /// What the value is.
    pub kind: ValueKind,
    /// The value; `None` for the row that counts all values, also those too rare for a row of their
    /// own.
    pub value: Option<u64>,
    /// The module in which the value is an address, if it is a place in a program.
    pub value_module: Option<ModuleId>,
    /// How often.
    pub count: Estimate,
}

impl NotedValue {
    /// Returns what makes a row different from all others.
    #[must_use]
    pub fn key(&self) -> ValueKey {
        (self.module, self.address, self.kind, self.value, self.value_module)
    }
}

/// [`NotedValue::key`].
pub type ValueKey = (ModuleId, u64, ValueKind, Option<u64>, Option<ModuleId>);

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Its id.
    pub tid: u32,
    /// Command line of the process.
    pub command: String,
    /// CPU time, user and kernel, in nanoseconds.
    pub cpu_ns: u64,
}
