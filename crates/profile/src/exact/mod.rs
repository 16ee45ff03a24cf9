//! Builds a [`Profile`] from counts that are complete: every execution was counted, none was
//! sampled.
//!
//! Functions are counted in one of two ways. Where paths are known, everything else follows from
//! them: a path that ran `n` times adds `n` to each of its blocks, to each of its steps and to the
//! back edge that ends it ([`ExactBuilder::path`]), so that paths, edges and blocks cannot
//! disagree. Where they are not, the caller states blocks and edges one by one. Stretches of which
//! only a part is a path ([`ExactBuilder::stretch`]) count in blocks and edges alone.
//!
//! Paths may also be samples ([`ExactBuilder::profile_of_samples`]). Otherwise all numbers are
//! without error ([`Estimate::exact`]), and what was not seen did not happen. Tables that counters
//! of control flow say nothing about (threads, system calls; times, unless contexts or paths have
//! them) are empty; they and names are the caller's to fill in.

mod assemble;
mod contexts;
mod loops;
mod nesting;
mod rows;
mod samples;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{CodeBlock, ModuleCode};
use crate::error::Error;
use crate::estimate::Estimate;
use crate::model::{Module, ModuleId, Profile};

use contexts::CountedContexts;
pub use contexts::{ContextNumber, PathNumber};
pub use samples::Samples;

/// Builds a [`Profile`] from complete counts. Blocks and functions are named by their indices in
/// the [`ModuleCode`]; counts of the same thing add up.
///
/// ```
/// # use std::sync::Arc;
/// # use profile::code::{CodeBlock, CodeFunction, ModuleCode, NO_LOOP};
/// # use profile::model::BlockEnd;
/// # use profile::exact::ExactBuilder;
/// # let block = CodeBlock { address: 16, size: 4, last: 0, n_insns: 2, function: 0, end: BlockEnd::Return, target: 0,
/// #     innermost_loop: NO_LOOP, is_entry: true };
/// # let functions = vec![CodeFunction { address: 16, size: 4, is_stub: false }];
/// # let code = Arc::new(ModuleCode { functions, blocks: vec![block], ..ModuleCode::default() });
/// let mut builder = ExactBuilder::new();
/// let module = builder.module("/bin/true", "", code)?;
/// builder.path(module, &[0], None, 7)?;
/// builder.entries(module, 0, 7)?;
/// let profile = builder.profile();
/// assert_eq!(profile.blocks[0].count, profile::Estimate::exact(7));
/// assert!(profile.verify().is_empty());
/// # Ok::<(), profile::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ExactBuilder {
    modules: Vec<Counted>,
    module_ids: FxHashMap<(String, String), ModuleId>,
    n_unobserved: u64,
    contexts: CountedContexts,
}

/// A module and what ran in it.
#[derive(Debug)]
struct Counted {
    facts: Module,
    code: Arc<ModuleCode>,
    /// By index of the block.
    blocks: Vec<u64>,
    /// By index of the function.
    entries: Vec<u64>,
    edges: FxHashMap<(u32, u32), u64>,
    /// Edges that ended a path.
    back_edges: FxHashSet<(u32, u32)>,
    paths: FxHashMap<PathKey, CountedPath>,
    /// Times by number of the path.
    path_ns: FxHashMap<u32, f64>,
    /// Misses likewise.
    path_misses: FxHashMap<u32, u64>,
    /// Sums of squares by number of the path, if it was sampled.
    path_squares: FxHashMap<u32, f64>,
    calls: FxHashMap<CallKey, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct PathKey {
    blocks: Box<[u32]>,
    back_to: Option<u32>,
}

/// A path of a module, numbered in the order in which paths were named.
#[derive(Clone, Copy, Debug)]
struct CountedPath {
    number: u32,
    n: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CallKey {
    site: u32,
    callee: CodePlace,
    is_tail: bool,
}

/// A block or a function of a module, by its index in the [`ModuleCode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodePlace {
    /// The module.
    pub module: ModuleId,
    /// The index.
    pub index: u32,
}

const NO_MODULE: Error = Error::BadCode("counts of a module that was not named");
const NO_BLOCK: Error = Error::BadCode("a count of a block that it does not have");
const NO_FUNCTION: Error = Error::BadCode("a count of a function that it does not have");
const TWO_FUNCTIONS: Error = Error::BadCode("a count of a step from one function to another");

impl ExactBuilder {
    /// A builder that has no counts.
    #[must_use]
    pub fn new() -> ExactBuilder {
        ExactBuilder::default()
    }

    /// The module with this path and build id, which is the same each time; only the first code
    /// counts.
    ///
    /// # Errors
    /// If the code contradicts itself.
    pub fn module(&mut self, path: &str, build_id: &str, code: Arc<ModuleCode>) -> Result<ModuleId, Error> {
        let key = (path.to_owned(), build_id.to_owned());
        if let Some(&known) = self.module_ids.get(&key) {
            return Ok(known);
        }
        code.check()?;
        let id = ModuleId(self.modules.len() as u32);
        self.modules.push(Counted {
            facts: Module { path: key.0.clone(), build_id: key.1.clone() },
            blocks: vec![0; code.blocks.len()],
            entries: vec![0; code.functions.len()],
            code,
            edges: FxHashMap::default(),
            back_edges: FxHashSet::default(),
            paths: FxHashMap::default(),
            path_ns: FxHashMap::default(),
            path_misses: FxHashMap::default(),
            path_squares: FxHashMap::default(),
            calls: FxHashMap::default(),
        });
        self.module_ids.insert(key, id);
        Ok(id)
    }

    /// A block ran `n` times.
    ///
    /// # Errors
    /// If there is no such block.
    pub fn block(&mut self, module: ModuleId, block: u32, n: u64) -> Result<(), Error> {
        let count = self.counted(module)?.blocks.get_mut(block as usize).ok_or(NO_BLOCK)?;
        *count = count.saturating_add(n);
        Ok(())
    }

    /// Control went `n` times from one block to another of the same function; past a call, if the
    /// first ends in one.
    ///
    /// # Errors
    /// If there are no such blocks, or if they are of different functions.
    pub fn edge(&mut self, module: ModuleId, from: u32, to: u32, n: u64) -> Result<(), Error> {
        let counted = self.counted(module)?;
        counted.check_function([from, to].into_iter())?;
        counted.add_edge(from, to, n);
        Ok(())
    }

    /// A path ran `n` times, and with it its blocks and edges. `back_to` is where the back edge
    /// leads that ended it; nothing if it ended at an exit.
    ///
    /// # Errors
    /// If there are no such blocks, or none at all, or if they are of different functions.
    pub fn path(
        &mut self,
        module: ModuleId,
        blocks: &[u32],
        back_to: Option<u32>,
        n: u64,
    ) -> Result<PathNumber, Error> {
        self.stretch(module, blocks, back_to, n)?;
        let paths = &mut self.counted(module)?.paths;
        let next = CountedPath { number: paths.len() as u32, n: 0 };
        let path = paths.entry(PathKey { blocks: blocks.into(), back_to }).or_insert(next);
        path.n = path.n.saturating_add(n);
        Ok(PathNumber { module, number: path.number })
    }

    /// So much time was spent on a path itself.
    ///
    /// # Errors
    /// If there is no such module.
    pub fn path_time(&mut self, path: PathNumber, ns: f64) -> Result<(), Error> {
        if ns > 0.0 {
            *self.counted(path.module)?.path_ns.entry(path.number).or_default() += ns;
        }
        Ok(())
    }

    /// There were `n` misses of a simulated data cache on a path itself.
    ///
    /// # Errors
    /// If there is no such module.
    pub fn path_misses(&mut self, path: PathNumber, n: u64) -> Result<(), Error> {
        if n > 0 {
            let misses = self.counted(path.module)?.path_misses.entry(path.number).or_default();
            *misses = misses.saturating_add(n);
        }
        Ok(())
    }

    /// The sum, over ticks, of the squares of how often a path was sampled at each.
    ///
    /// # Errors
    /// If there is no such module.
    pub fn path_squares(&mut self, path: PathNumber, sum: u64) -> Result<(), Error> {
        *self.counted(path.module)?.path_squares.entry(path.number).or_default() += sum as f64;
        Ok(())
    }

    /// Blocks ran one after the other `n` times, on a path that is not known as a whole.
    ///
    /// # Errors
    /// As for [`ExactBuilder::path`].
    pub fn stretch(&mut self, module: ModuleId, blocks: &[u32], back_to: Option<u32>, n: u64) -> Result<(), Error> {
        let counted = self.counted(module)?;
        let &last = blocks.last().ok_or(NO_BLOCK)?;
        counted.check_function(blocks.iter().copied().chain(back_to))?;
        for &block in blocks {
            if let Some(count) = counted.blocks.get_mut(block as usize) {
                *count = count.saturating_add(n);
            }
        }
        for pair in blocks.windows(2) {
            if let &[from, to] = pair {
                counted.add_edge(from, to, n);
            }
        }
        if let Some(to) = back_to {
            counted.add_edge(last, to, n);
            counted.back_edges.insert((last, to));
        }
        Ok(())
    }

    /// `n` paths ended that are not known.
    pub fn unobserved(&mut self, n: u64) {
        self.n_unobserved = self.n_unobserved.saturating_add(n);
    }

    /// A function was entered `n` times.
    ///
    /// # Errors
    /// If there is no such function.
    pub fn entries(&mut self, module: ModuleId, function: u32, n: u64) -> Result<(), Error> {
        let count = self.counted(module)?.entries.get_mut(function as usize).ok_or(NO_FUNCTION)?;
        *count = count.saturating_add(n);
        Ok(())
    }

    /// The call, or the jump of a tail call, at the end of a block entered a function `n` times.
    ///
    /// # Errors
    /// If there is no such block or function.
    pub fn call(&mut self, site: CodePlace, callee: CodePlace, is_tail: bool, n: u64) -> Result<(), Error> {
        if self.counted(callee.module)?.entries.get(callee.index as usize).is_none() {
            return Err(NO_FUNCTION);
        }
        let counted = self.counted(site.module)?;
        counted.block(site.index)?;
        if n != 0 {
            let count = counted.calls.entry(CallKey { site: site.index, callee, is_tail }).or_default();
            *count = count.saturating_add(n);
        }
        Ok(())
    }

    /// The profile of all counts so far. Functions have no names.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let mut profile = assemble::profile(&self.modules, &self.contexts);
        profile.unobserved_flow = Estimate::exact(self.n_unobserved);
        profile
    }

    /// Returns the profile if all paths were sampled: counts are numbers of samples, good for
    /// shares of each other.
    #[must_use]
    pub fn profile_of_samples(&self, samples: Samples) -> Profile {
        let mut profile = self.profile();
        samples::spread(&mut profile, samples);
        profile
    }

    fn counted(&mut self, module: ModuleId) -> Result<&mut Counted, Error> {
        self.modules.get_mut(module.index()).ok_or(NO_MODULE)
    }
}

impl Counted {
    fn block(&self, block: u32) -> Result<&CodeBlock, Error> {
        self.code.blocks.get(block as usize).ok_or(NO_BLOCK)
    }

    fn count(&self, block: u32) -> u64 {
        self.blocks.get(block as usize).copied().unwrap_or(0)
    }

    fn edge(&self, from: u32, to: u32) -> u64 {
        self.edges.get(&(from, to)).copied().unwrap_or(0)
    }

    /// Whether blocks are there, and of one function.
    fn check_function(&self, mut blocks: impl Iterator<Item = u32>) -> Result<(), Error> {
        let Some(first) = blocks.next() else { return Ok(()) };
        let function = self.block(first)?.function;
        for block in blocks {
            if self.block(block)?.function != function {
                return Err(TWO_FUNCTIONS);
            }
        }
        Ok(())
    }

    fn add_edge(&mut self, from: u32, to: u32, n: u64) {
        if n != 0 {
            let count = self.edges.entry((from, to)).or_default();
            *count = count.saturating_add(n);
        }
    }
}
