//! Each table of the model as a table of the file.

use profile::Profile;
use profile::model::{
    Block, BlockEnd, BlockId, BranchHistory, Call, Context, ContextId, ContextPath, Edge, EdgeKind, Function,
    FunctionId, HISTORY_BITS, Loop, LoopId, Module, ModuleId, NotedValue, Path, PathId, Recursion, SystemCall, Thread,
    ValueKind,
};

use crate::fields::{Columns, Damage, Fields};
use crate::varint;

/// A row of the model that has a table in the file.
pub(crate) trait Record: Sized {
    /// Its table.
    const TABLE: &'static str;
    /// Its columns after `id`, in the order in which they are encoded and decoded.
    const COLUMNS: &'static str;

    /// What to read in a file of some version, in the same order; constants where the version has
    /// no such column.
    fn columns_of(_version: i32) -> &'static str {
        Self::COLUMNS
    }

    /// The rows of a profile.
    fn rows(profile: &Profile) -> &Vec<Self>;
    /// The same, to be filled.
    fn rows_mut(profile: &mut Profile) -> &mut Vec<Self>;
    /// The values of all columns.
    fn encode<'a>(&'a self, fields: &mut Fields<'a>);
    /// The row, if its values are possible.
    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage>;
    /// Whether the handles of row `index` point to what they should.
    fn is_sound(&self, index: usize, tables: &Tables<'_>) -> bool;
}

/// What handles point into.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    profile: &'a Profile,
    /// By block: blocks themselves are too large to be looked up once per edge.
    function_of_block: Vec<FunctionId>,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(profile: &'a Profile) -> Tables<'a> {
        Tables { profile, function_of_block: profile.blocks.iter().map(|row| row.function).collect() }
    }

    fn has_module(&self, id: ModuleId) -> bool {
        id.index() < self.profile.modules.len()
    }

    fn has_function(&self, id: FunctionId) -> bool {
        id.index() < self.profile.functions.len()
    }

    fn has_block(&self, id: BlockId) -> bool {
        id.index() < self.function_of_block.len()
    }

    fn has_context(&self, id: ContextId) -> bool {
        id.index() < self.profile.contexts.len()
    }

    fn is_path_of(&self, path: PathId, context: ContextId) -> bool {
        let context = self.profile.contexts.get(context.index()).map(|row| row.function);
        context.is_some() && context == self.profile.paths.get(path.index()).map(|row| row.function)
    }

    fn is_block_of(&self, id: BlockId, function: FunctionId) -> bool {
        self.function_of_block.get(id.index()) == Some(&function)
    }
}

/// Calls a macro for each type of record.
macro_rules! for_each_record {
    ($do:ident) => {
        $do! { Module, Function, Block, Edge, Path, Call, Context, Recursion, ContextPath, Loop, BranchHistory, SystemCall, NotedValue, Thread }
    };
}
pub(crate) use for_each_record;

macro_rules! stored_in {
    ($table:literal, $field:ident) => {
        const TABLE: &'static str = $table;

        fn rows(profile: &Profile) -> &Vec<Self> {
            &profile.$field
        }

        fn rows_mut(profile: &mut Profile) -> &mut Vec<Self> {
            &mut profile.$field
        }
    };
}

impl Record for Module {
    stored_in!("module", modules);
    const COLUMNS: &'static str = "path, build_id";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.text(&self.path);
        fields.text(&self.build_id);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(Module { path: columns.text()?.to_owned(), build_id: columns.text()?.to_owned() })
    }

    fn is_sound(&self, _index: usize, _tables: &Tables<'_>) -> bool {
        true
    }
}

impl Record for Function {
    stored_in!("function", functions);
    const COLUMNS: &'static str = "module, address, size, name, entries, entries_variance, entries_seen, self_ns, \
                                   self_ns_variance, self_ns_seen";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.module.0);
        fields.integer(self.address);
        fields.integer(self.size);
        fields.text(&self.name);
        fields.estimate(self.entries);
        fields.estimate(self.self_ns);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(Function {
            module: ModuleId(columns.integer()?),
            address: columns.address()?,
            size: columns.address()?,
            name: columns.text()?.to_owned(),
            entries: columns.estimate()?,
            self_ns: columns.estimate()?,
        })
    }

    fn is_sound(&self, _index: usize, tables: &Tables<'_>) -> bool {
        tables.has_module(self.module)
    }
}

impl Record for Block {
    stored_in!("block", blocks);
    const COLUMNS: &'static str = "function, address, size, last_offset, n_insns, ending, count, count_variance, \
                                   count_seen, self_ns, self_ns_variance, self_ns_seen";

    fn columns_of(version: i32) -> &'static str {
        const WITH_TIMES: i32 = 10;
        match version < WITH_TIMES {
            true => {
                "function, address, size, last_offset, n_insns, ending, count, count_variance, count_seen, 0.0, 0.0, 0"
            }
            false => Self::COLUMNS,
        }
    }

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.function.0);
        fields.integer(self.address);
        fields.integer(self.size);
        fields.integer(self.last);
        fields.integer(self.n_insns);
        fields.integer(self.end as u8);
        fields.estimate(self.count);
        fields.estimate(self.self_ns);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(Block {
            function: FunctionId(columns.integer()?),
            address: columns.address()?,
            size: columns.integer()?,
            last: columns.integer()?,
            n_insns: columns.integer()?,
            end: BLOCK_ENDS[columns.below(BLOCK_ENDS.len())? as usize],
            count: columns.estimate()?,
            self_ns: columns.estimate()?,
        })
    }

    fn is_sound(&self, _index: usize, tables: &Tables<'_>) -> bool {
        tables.has_function(self.function)
    }
}

/// By number in the file.
const BLOCK_ENDS: [BlockEnd; 8] = [
    BlockEnd::Next,
    BlockEnd::Jump,
    BlockEnd::Branch,
    BlockEnd::IndirectJump,
    BlockEnd::Call,
    BlockEnd::IndirectCall,
    BlockEnd::Return,
    BlockEnd::Trap,
];

/// By number in the file.
const EDGE_KINDS: [EdgeKind; 5] =
    [EdgeKind::FallThrough, EdgeKind::Taken, EdgeKind::Table, EdgeKind::PastCall, EdgeKind::NonLocal];

impl Record for Edge {
    stored_in!("edge", edges);
    const COLUMNS: &'static str = "from_block, to_block, kind, is_back, count, count_variance, count_seen";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.from.0);
        fields.integer(self.to.0);
        fields.integer(self.kind as u8);
        fields.integer(self.is_back);
        fields.estimate(self.count);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(Edge {
            from: BlockId(columns.integer()?),
            to: BlockId(columns.integer()?),
            kind: EDGE_KINDS[columns.below(EDGE_KINDS.len())? as usize],
            is_back: columns.flag()?,
            count: columns.estimate()?,
        })
    }

    fn is_sound(&self, _index: usize, tables: &Tables<'_>) -> bool {
        tables.function_of_block.get(self.from.index()).is_some_and(|&function| tables.is_block_of(self.to, function))
    }
}

impl Record for Path {
    stored_in!("path", paths);
    const COLUMNS: &'static str = "function, blocks, back_to, n_branches, count, count_variance, count_seen, self_ns, \
                                   self_ns_variance, self_ns_seen, misses";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.function.0);
        fields.bytes(varint::pack(self.blocks.iter().map(|id| id.0)));
        fields.optional(self.back_to.map(|id| id.0));
        fields.integer(self.n_branches);
        fields.estimate(self.count);
        fields.estimate(self.self_ns);
        fields.integer(self.misses);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        let function = FunctionId(columns.integer()?);
        let blocks = varint::unpack(columns.bytes()?).ok_or_else(|| columns.damage())?;
        Ok(Path {
            function,
            blocks: blocks.into_iter().map(BlockId).collect(),
            back_to: columns.optional()?.map(BlockId),
            n_branches: columns.integer()?,
            count: columns.estimate()?,
            self_ns: columns.estimate()?,
            misses: columns.integer()?,
        })
    }

    fn is_sound(&self, _index: usize, tables: &Tables<'_>) -> bool {
        !self.blocks.is_empty()
            && self.blocks.iter().chain(&self.back_to).all(|&id| tables.is_block_of(id, self.function))
    }
}

impl Record for Call {
    stored_in!("call", calls);
    const COLUMNS: &'static str = "site, callee, is_tail, count, count_variance, count_seen";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.site.0);
        fields.integer(self.callee.0);
        fields.integer(self.is_tail);
        fields.estimate(self.count);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(Call {
            site: BlockId(columns.integer()?),
            callee: FunctionId(columns.integer()?),
            is_tail: columns.flag()?,
            count: columns.estimate()?,
        })
    }

    fn is_sound(&self, _index: usize, tables: &Tables<'_>) -> bool {
        tables.has_block(self.site) && tables.has_function(self.callee)
    }
}

impl Record for Context {
    stored_in!("context", contexts);
    const COLUMNS: &'static str = "parent, function, call_site, entries, entries_variance, entries_seen, self_ns, \
                                   self_ns_variance, self_ns_seen, kernel_ns, kernel_ns_variance, kernel_ns_seen, \
                                   misses";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.optional(self.parent.map(|id| id.0));
        fields.integer(self.function.0);
        fields.integer(self.call_site.unwrap_or(0));
        fields.estimate(self.entries);
        fields.estimate(self.self_ns);
        fields.estimate(self.kernel_ns);
        fields.integer(self.misses);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(Context {
            parent: columns.optional()?.map(ContextId),
            function: FunctionId(columns.integer()?),
            call_site: Some(columns.integer()?).filter(|&address: &u64| address != 0),
            entries: columns.estimate()?,
            self_ns: columns.estimate()?,
            kernel_ns: columns.estimate()?,
            misses: columns.integer()?,
        })
    }

    fn is_sound(&self, index: usize, tables: &Tables<'_>) -> bool {
        tables.has_function(self.function) && self.parent.is_none_or(|parent| parent.index() < index)
    }
}

impl Record for Recursion {
    stored_in!("recursion", recursions);
    const COLUMNS: &'static str = "from_context, to_context, count, count_variance, count_seen";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.from.0);
        fields.integer(self.to.0);
        fields.estimate(self.count);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(Recursion {
            from: ContextId(columns.integer()?),
            to: ContextId(columns.integer()?),
            count: columns.estimate()?,
        })
    }

    fn is_sound(&self, _index: usize, tables: &Tables<'_>) -> bool {
        tables.has_context(self.from) && tables.has_context(self.to)
    }
}

impl Record for ContextPath {
    stored_in!("context_path", context_paths);
    const COLUMNS: &'static str = "context, path, count, count_variance, count_seen, self_ns, self_ns_variance, \
                                   self_ns_seen, misses";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.context.0);
        fields.integer(self.path.0);
        fields.estimate(self.count);
        fields.estimate(self.self_ns);
        fields.integer(self.misses);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(ContextPath {
            context: ContextId(columns.integer()?),
            path: PathId(columns.integer()?),
            count: columns.estimate()?,
            self_ns: columns.estimate()?,
            misses: columns.integer()?,
        })
    }

    fn is_sound(&self, _index: usize, tables: &Tables<'_>) -> bool {
        tables.is_path_of(self.path, self.context)
    }
}

impl Record for Loop {
    stored_in!("loop", loops);
    const COLUMNS: &'static str = "function, header, parent, entries, entries_variance, entries_seen, iterations, \
                                   iterations_variance, iterations_seen, trips, n_partial_visits, self_ns, \
                                   self_ns_variance, self_ns_seen";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.function.0);
        fields.integer(self.header.0);
        fields.optional(self.parent.map(|id| id.0));
        fields.estimate(self.entries);
        fields.estimate(self.iterations);
        fields.numbers(&self.trips);
        fields.integer(self.n_partial_visits);
        fields.estimate(self.self_ns);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(Loop {
            function: FunctionId(columns.integer()?),
            header: BlockId(columns.integer()?),
            parent: columns.optional()?.map(LoopId),
            entries: columns.estimate()?,
            iterations: columns.estimate()?,
            trips: columns.numbers()?,
            n_partial_visits: columns.address()?,
            self_ns: columns.estimate()?,
        })
    }

    fn is_sound(&self, index: usize, tables: &Tables<'_>) -> bool {
        tables.is_block_of(self.header, self.function) && self.parent.is_none_or(|parent| parent.index() < index)
    }
}

impl Record for BranchHistory {
    stored_in!("history", histories);
    const COLUMNS: &'static str = "block, history, n_taken, n_not_taken";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.block.0);
        fields.integer(self.history);
        fields.integer(self.n_taken);
        fields.integer(self.n_not_taken);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(BranchHistory {
            block: BlockId(columns.integer()?),
            history: columns.below(1 << HISTORY_BITS)? as u8,
            n_taken: columns.address()?,
            n_not_taken: columns.address()?,
        })
    }

    fn is_sound(&self, _index: usize, tables: &Tables<'_>) -> bool {
        tables.has_block(self.block)
    }
}

impl Record for SystemCall {
    stored_in!("system_call", system_calls);
    const COLUMNS: &'static str = "context, module, address, kernel_ns, kernel_ns_variance, kernel_ns_seen";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.context.0);
        fields.optional(self.module.map(|id| id.0));
        fields.integer(self.address);
        fields.estimate(self.kernel_ns);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(SystemCall {
            context: ContextId(columns.integer()?),
            module: columns.optional()?.map(ModuleId),
            address: columns.address()?,
            kernel_ns: columns.estimate()?,
        })
    }

    fn is_sound(&self, _index: usize, tables: &Tables<'_>) -> bool {
        tables.has_context(self.context) && self.module.is_none_or(|module| tables.has_module(module))
    }
}

impl Record for NotedValue {
    stored_in!("value", values);
    const COLUMNS: &'static str = "module, address, kind, is_any, value, value_module, n, n_variance, n_seen";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.module.0);
        fields.integer(self.address);
        fields.integer(self.kind.number());
        fields.integer(u32::from(self.value.is_none()));
        fields.integer(self.value.unwrap_or(0));
        fields.optional(self.value_module.map(|id| id.0));
        fields.estimate(self.count);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        let (module, address) = (ModuleId(columns.integer()?), columns.address()?);
        let kind = ValueKind::from_number(columns.integer()?).ok_or_else(|| columns.damage())?;
        let (is_any, value) = (columns.flag()?, columns.address()?);
        let value_module = columns.optional()?.map(ModuleId);
        let count = columns.estimate()?;
        Ok(NotedValue { module, address, kind, value: (!is_any).then_some(value), value_module, count })
    }

    fn is_sound(&self, _index: usize, tables: &Tables<'_>) -> bool {
        tables.has_module(self.module) && self.value_module.is_none_or(|module| tables.has_module(module))
    }
}

impl Record for Thread {
    stored_in!("thread", threads);
    const COLUMNS: &'static str = "pid, tid, command, cpu_ns";

    fn encode<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.integer(self.pid);
        fields.integer(self.tid);
        fields.text(&self.command);
        fields.integer(self.cpu_ns);
    }

    fn decode(columns: &mut Columns<'_>) -> Result<Self, Damage> {
        Ok(Thread {
            pid: columns.integer()?,
            tid: columns.integer()?,
            command: columns.text()?.to_owned(),
            cpu_ns: columns.address()?,
        })
    }

    fn is_sound(&self, _index: usize, _tables: &Tables<'_>) -> bool {
        true
    }
}
