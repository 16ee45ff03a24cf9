//! Checks that a profile is well-formed, whoever made it.

use std::collections::HashSet;
use std::hash::Hash;

use crate::estimate::Estimate;
use crate::model::{ModuleId, NotedValue, Profile};

/// What is wrong, in words, with the table and the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the table.
    pub table: &'static str,
    /// Index of the row.
    pub row: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

impl Profile {
    /// All violations of the invariants in [`crate::model`]; none in a sound profile.
    #[must_use]
    pub fn verify(&self) -> Vec<Problem> {
        let mut checker = Checker { profile: self, problems: Vec::new() };
        checker.code();
        checker.flow();
        checker.contexts();
        checker.loops();
        checker.numbers();
        checker.problems
    }
}

struct Checker<'a> {
    profile: &'a Profile,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn require(&mut self, holds: bool, table: &'static str, row: usize, what: &'static str) {
        if !holds {
            self.problems.push(Problem { table, row, what });
        }
    }

    fn distinct<K: Eq + Hash>(&mut self, table: &'static str, keys: impl Iterator<Item = K>) {
        let mut seen = HashSet::new();
        for (row, key) in keys.enumerate() {
            self.require(seen.insert(key), table, row, "has the key of another row");
        }
    }

    fn code(&mut self) {
        let profile = self.profile;
        for (row, function) in profile.functions.iter().enumerate() {
            self.require(function.module.index() < profile.modules.len(), "functions", row, "is in no module");
        }
        for (row, block) in profile.blocks.iter().enumerate() {
            self.require(block.function.index() < profile.functions.len(), "blocks", row, "is in no function");
            self.require(block.last <= block.size, "blocks", row, "has its last instruction behind its end");
        }
        self.distinct("modules", profile.modules.iter().map(|row| (&row.path, &row.build_id)));
        self.distinct("functions", profile.functions.iter().map(|row| (row.module, row.address)));
        self.distinct("blocks", profile.blocks.iter().map(|row| (row.function, row.address)));
        self.distinct("threads", profile.threads.iter().map(|row| (row.pid, row.tid, &row.command)));
    }

    fn flow(&mut self) {
        let profile = self.profile;
        let n_blocks = profile.blocks.len();
        let function_of = |block: crate::model::BlockId| profile.blocks.get(block.index()).map(|row| row.function);
        for (row, edge) in profile.edges.iter().enumerate() {
            let (from, to) = (function_of(edge.from), function_of(edge.to));
            self.require(from.is_some() && from == to, "edges", row, "is not between blocks of one function");
        }
        for (row, path) in profile.paths.iter().enumerate() {
            let blocks = path.blocks.iter().chain(&path.back_to);
            let mut owners = blocks.map(|&block| function_of(block));
            self.require(owners.all(|owner| owner == Some(path.function)), "paths", row, "leaves its function");
            self.require(!path.blocks.is_empty(), "paths", row, "has no blocks");
        }
        for (row, call) in profile.calls.iter().enumerate() {
            let in_range = call.site.index() < n_blocks && call.callee.index() < profile.functions.len();
            self.require(in_range, "calls", row, "has no site or callee");
        }
        for (row, history) in profile.histories.iter().enumerate() {
            self.require(history.block.index() < n_blocks, "histories", row, "is of no block");
        }
        self.distinct("edges", profile.edges.iter().map(|row| (row.from, row.to, row.kind)));
        self.distinct("paths", profile.paths.iter().map(|row| (&row.blocks, row.back_to)));
        self.distinct("calls", profile.calls.iter().map(|row| (row.site, row.callee, row.is_tail)));
        self.distinct("histories", profile.histories.iter().map(|row| (row.block, row.history)));
    }

    fn contexts(&mut self) {
        let profile = self.profile;
        let n_contexts = profile.contexts.len();
        for (row, context) in profile.contexts.iter().enumerate() {
            let is_after = context.parent.is_none_or(|parent| parent.index() < row);
            self.require(is_after, "contexts", row, "comes before its parent");
            let in_range = context.function.index() < profile.functions.len();
            self.require(in_range, "contexts", row, "is of no function");
        }
        for (row, recursion) in profile.recursions.iter().enumerate() {
            let in_range = recursion.from.index() < n_contexts && recursion.to.index() < n_contexts;
            self.require(in_range, "recursions", row, "is between no contexts");
            let goes_up = !in_range || self.is_ancestor(recursion.to.index(), recursion.from.index());
            self.require(goes_up, "recursions", row, "does not lead to an ancestor");
        }
        for (row, context_path) in profile.context_paths.iter().enumerate() {
            let context = profile.contexts.get(context_path.context.index()).map(|context| context.function);
            let path = profile.paths.get(context_path.path.index()).map(|path| path.function);
            self.require(
                context.is_some() && context == path,
                "context_paths",
                row,
                "is not of its context's function",
            );
        }
        for (row, call) in profile.system_calls.iter().enumerate() {
            let has_module = call.module.is_none_or(|module| module.index() < profile.modules.len());
            self.require(has_module, "system_calls", row, "is in no module");
            self.require(call.context.index() < n_contexts, "system_calls", row, "is in no context");
        }
        for (row, value) in profile.values.iter().enumerate() {
            let has = |module: ModuleId| module.index() < profile.modules.len();
            self.require(has(value.module) && value.value_module.is_none_or(has), "values", row, "is in no module");
        }
        self.distinct("values", profile.values.iter().map(NotedValue::key));
        self.distinct("contexts", profile.contexts.iter().map(|row| (row.parent, row.function, row.call_site)));
        self.distinct("recursions", profile.recursions.iter().map(|row| (row.from, row.to)));
        self.distinct("context_paths", profile.context_paths.iter().map(|row| (row.context, row.path)));
        let system_calls = profile.system_calls.iter();
        self.distinct("system_calls", system_calls.map(|row| (row.context, row.module, row.address)));
    }

    /// Goes up by descending indices only, so that it ends whatever the table holds.
    fn is_ancestor(&self, ancestor: usize, of: usize) -> bool {
        let mut at = of;
        while at > ancestor {
            match self.profile.contexts.get(at).and_then(|row| row.parent) {
                Some(parent) if parent.index() < at => at = parent.index(),
                _ => return false,
            }
        }
        at == ancestor
    }

    fn loops(&mut self) {
        let profile = self.profile;
        for (row, each) in profile.loops.iter().enumerate() {
            let header = profile.blocks.get(each.header.index());
            let is_inside = header.is_some_and(|block| block.function == each.function);
            self.require(is_inside, "loops", row, "has its header in another function");
            let is_after = each.parent.is_none_or(|parent| parent.index() < row);
            self.require(is_after, "loops", row, "comes before its parent");
        }
        self.distinct("loops", profile.loops.iter().map(|row| row.header));
    }

    fn numbers(&mut self) {
        let profile = self.profile;
        let tables: [(&str, usize, Vec<Estimate>); 12] = [
            ("functions", 2, profile.functions.iter().flat_map(|row| [row.entries, row.self_ns]).collect()),
            ("blocks", 1, profile.blocks.iter().map(|row| row.count).collect()),
            ("edges", 1, profile.edges.iter().map(|row| row.count).collect()),
            ("paths", 2, profile.paths.iter().flat_map(|row| [row.count, row.self_ns]).collect()),
            ("calls", 1, profile.calls.iter().map(|row| row.count).collect()),
            (
                "contexts",
                3,
                profile.contexts.iter().flat_map(|row| [row.entries, row.self_ns, row.kernel_ns]).collect(),
            ),
            ("recursions", 1, profile.recursions.iter().map(|row| row.count).collect()),
            ("context_paths", 2, profile.context_paths.iter().flat_map(|row| [row.count, row.self_ns]).collect()),
            ("loops", 3, profile.loops.iter().flat_map(|row| [row.entries, row.iterations, row.self_ns]).collect()),
            ("system_calls", 1, profile.system_calls.iter().map(|row| row.kernel_ns).collect()),
            ("values", 1, profile.values.iter().map(|row| row.count).collect()),
            ("unobserved_flow", 1, vec![profile.unobserved_flow]),
        ];
        for (table, n_per_row, estimates) in tables {
            for (position, Estimate { value, variance, .. }) in estimates.into_iter().enumerate() {
                let is_number = value >= 0.0 && value.is_finite() && variance >= 0.0 && variance.is_finite();
                self.require(is_number, table, position / n_per_row, "has a number that is negative or none");
            }
        }
    }
}
