//! Calling contexts of an [`ExactBuilder`]: a tree that is named from the root on, recursion, and
//! paths by context.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{CodePlace, ExactBuilder, NO_FUNCTION};
use crate::error::Error;
use crate::model::ModuleId;

/// A calling context of an [`ExactBuilder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextNumber(pub(super) u32);

/// A function as called from a context.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedContext {
    pub parent: Option<ContextNumber>,
    pub function: CodePlace,
    pub call_site: Option<u64>,
    pub n_calls: u64,
    pub self_ns: f64,
    pub misses: u64,
}

/// A path of an [`ExactBuilder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathNumber {
    pub(super) module: ModuleId,
    pub(super) number: u32,
}

/// How often a path ran in a context, and what it took there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountedHere {
    pub n: u64,
    pub self_ns: f64,
    pub misses: u64,
}

/// What was counted by context.
#[derive(Debug, Default)]
pub(super) struct CountedContexts {
    pub rows: Vec<CountedContext>,
    numbers: FxHashMap<(Option<ContextNumber>, CodePlace, Option<u64>), ContextNumber>,
    pub recursions: BTreeMap<(ContextNumber, ContextNumber), u64>,
    pub paths: FxHashMap<(ContextNumber, PathNumber), CountedHere>,
}

const NO_CONTEXT: Error = Error::BadCode("a count of a context that was not named");
const NO_PATH: Error = Error::BadCode("a count of a path that was not named");

impl ExactBuilder {
    /// A function was called `n` times from a context; nothing is the start of a thread or handler.
    /// Calls from different addresses lead to different contexts, if addresses are given.
    ///
    /// # Errors
    /// If there is no such function or context.
    pub fn context(
        &mut self,
        parent: Option<ContextNumber>,
        function: CodePlace,
        call_site: Option<u64>,
        n: u64,
    ) -> Result<ContextNumber, Error> {
        if self.counted(function.module)?.entries.get(function.index as usize).is_none() {
            return Err(NO_FUNCTION);
        }
        parent.map_or(Ok(()), |parent| self.check_context(parent))?;
        let contexts = &mut self.contexts.rows;
        let number = *self.contexts.numbers.entry((parent, function, call_site)).or_insert_with(|| {
            contexts.push(CountedContext { parent, function, call_site, n_calls: 0, self_ns: 0.0, misses: 0 });
            ContextNumber(contexts.len() as u32 - 1)
        });
        if let Some(row) = self.contexts.rows.get_mut(number.0 as usize) {
            row.n_calls = row.n_calls.saturating_add(n);
        }
        Ok(number)
    }

    /// So much time was spent in a context itself.
    ///
    /// # Errors
    /// If there is no such context.
    pub fn context_time(&mut self, context: ContextNumber, ns: f64) -> Result<(), Error> {
        self.contexts.rows.get_mut(context.0 as usize).ok_or(NO_CONTEXT)?.self_ns += ns;
        Ok(())
    }

    /// There were `n` misses of a simulated data cache in a context itself.
    ///
    /// # Errors
    /// If there is no such context.
    pub fn context_misses(&mut self, context: ContextNumber, n: u64) -> Result<(), Error> {
        let row = self.contexts.rows.get_mut(context.0 as usize).ok_or(NO_CONTEXT)?;
        row.misses = row.misses.saturating_add(n);
        Ok(())
    }

    /// From one context, the function of another one around it (or of itself) was called `n` times.
    ///
    /// # Errors
    /// If there are no such contexts.
    pub fn recursion(&mut self, from: ContextNumber, to: ContextNumber, n: u64) -> Result<(), Error> {
        self.check_context(from)?;
        self.check_context(to)?;
        let count = self.contexts.recursions.entry((from, to)).or_default();
        *count = count.saturating_add(n);
        Ok(())
    }

    /// A path ran `n` times in a context of its function. The path itself must be counted besides.
    ///
    /// # Errors
    /// If there is no such context, or no such path.
    pub fn context_path(&mut self, context: ContextNumber, path: PathNumber, n: u64) -> Result<(), Error> {
        let here = self.counted_here(context, path)?;
        here.n = here.n.saturating_add(n);
        Ok(())
    }

    /// So much of the time on a path was spent in this context.
    ///
    /// # Errors
    /// If there is no such context, or no such path.
    pub fn context_path_time(&mut self, context: ContextNumber, path: PathNumber, ns: f64) -> Result<(), Error> {
        self.counted_here(context, path)?.self_ns += ns;
        Ok(())
    }

    /// So many of the misses on a path were in this context.
    ///
    /// # Errors
    /// If there is no such context, or no such path.
    pub fn context_path_misses(&mut self, context: ContextNumber, path: PathNumber, n: u64) -> Result<(), Error> {
        let here = self.counted_here(context, path)?;
        here.misses = here.misses.saturating_add(n);
        Ok(())
    }

    fn counted_here(&mut self, context: ContextNumber, path: PathNumber) -> Result<&mut CountedHere, Error> {
        self.check_context(context)?;
        let paths = &self.counted(path.module)?.paths;
        if path.number as usize >= paths.len() {
            return Err(NO_PATH);
        }
        Ok(self.contexts.paths.entry((context, path)).or_default())
    }

    fn check_context(&self, number: ContextNumber) -> Result<(), Error> {
        self.contexts.rows.get(number.0 as usize).map(drop).ok_or(NO_CONTEXT)
    }
}
