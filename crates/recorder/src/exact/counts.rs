//! Turns the counters of copies into a profile.
//!
//! A module's counters come with what they count ([`emit::Cell`]) and with the control flow that
//! the copy was made from. Functions are looked at one by one, in one of two ways:
//! * *by paths* ([`numbering`]): numbers become paths, and these everything else. Rests of paths
//!   count in blocks and edges only.
//! * *by blocks* ([`derive`]): edges follow from blocks and from the edges that are counted. Also
//!   functions whose paths could not be counted, in a recording of paths.
//!
//! Either way gives counts of blocks, edges and arrivals, from which calls and entries follow. A
//! direct call ran as often as its block. Whom indirect ones call is not known here; they are only
//! added up. What counters do not tell is listed in [`Gaps`].

mod derive;
mod function;
mod numbering;
#[cfg(test)]
mod tests;
mod unfinished;

use std::collections::{BTreeMap, HashMap};

use emit::{Cell, CellKind};
use flow::callgraph::FunctionId;
use flow::paths::Truncation;
use flow::{ModuleFlow, Transfer};
use image::Svma;
use profile::ModuleCode;
use profile::exact::{CodePlace, ExactBuilder, PathNumber};
use profile::model::ModuleId;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{Result, refused};

pub use numbering::{Decoded, Numbering};
pub use unfinished::{Stop, unfinished};

/// A module as it was when its copy was made.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// As the builder named it.
    pub id: ModuleId,
    pub flow: &'a ModuleFlow,
    /// [`emit::image_base`] of its image.
    pub base: Svma,
    /// Converted from `flow`.
    pub code: &'a ModuleCode,
    /// Where its paths were cut.
    pub truncation: Truncation,
}

/// What the copies of a module counted, in all threads and processes.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// [`emit::ModuleCopy::cells`].
    pub cells: &'a [Cell],
    /// Their counters, in order.
    pub counters: &'a [u64],
    /// Counts in the path table, by the function's key within the module and the number of the
    /// path.
    pub hashed: &'a HashMap<(u32, u32), u64>,
    /// Paths that began and will not end.
    pub unfinished: &'a [Unfinished],
}

/// A path that was under way when its thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The function's entry, less the image base.
    pub function: u32,
    /// The block that it had come to, or whose call had not returned, likewise.
    pub at: u32,
    /// The path register on arrival there.
    pub register: i32,
}

/// What adding the counts of a module has shown.
#[derive(Debug, Default)]
pub struct Added {
    pub gaps: Gaps,
    pub effort: Effort,
    /// Whole paths, by function and by the number that copies have for them.
    pub paths: FxHashMap<(CodePlace, u64), PathNumber>,
}

/// Additions to path registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Paths that ended and were counted.
    pub n_paths: u64,
    /// Additions to the register on the way to these ends.
    pub n_additions: u64,
}

impl std::ops::AddAssign for Effort {
    fn add_assign(&mut self, other: Effort) {
        self.n_paths = self.n_paths.saturating_add(other.n_paths);
        self.n_additions = self.n_additions.saturating_add(other.n_additions);
    }
}

/// What counters leave unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Functions with edges that are not determined, and executions of blocks before them.
    pub undetermined: Vec<Gap>,
    /// Functions with paths that are wrong in their first part, and how many.
    pub lost_paths: Vec<Gap>,
    /// Functions with numbers of paths that no path has, or more than one, and how often.
    pub unknown_paths: Vec<Gap>,
    /// Functions that ran and were counted by blocks.
    pub n_by_blocks: u64,
    /// Calls and jumps of computed addresses out of functions.
    pub n_indirect_calls: u64,
    pub n_indirect_jumps: u64,
    /// How often blocks were left before their end, as far as it shows.
    pub n_left_midway: u64,
    /// How often control arrived where no edge and no entry is.
    pub n_stray_arrivals: u64,
}

/// A function and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The function's entry.
    pub function: Svma,
    pub count: u64,
}

/// Adds the counts of a module to a profile.
///
/// # Errors
/// If the counters are not those of the cells, or the code is not that of the flow.
pub fn add(builder: &mut ExactBuilder, module: &Module<'_>, counted: &Counted<'_>) -> Result<Added> {
    let tallies = tallies(module, counted)?;
    let reached = reached_addresses(module.flow);
    let mut added = Added::default();
    for (id, tally) in tallies.iter().filter(|(_, tally)| tally.has_run()) {
        function::Adder::new(module, FunctionId(*id), &reached).add(builder, tally, &mut added)?;
    }
    Ok(added)
}

/// What was counted in one function.
#[derive(Debug, Default)]
pub struct Tally {
    /// By address of the block; empty if it is counted by paths.
    pub blocks: FxHashMap<Svma, u64>,
    pub edges: FxHashMap<(Svma, Svma), u64>,
    /// Numbers and counts.
    pub paths: Vec<(u64, u64)>,
    pub n_lost: u64,
    pub unfinished: Vec<(Svma, i32)>,
}

impl Tally {
    fn has_run(&self) -> bool {
        self.n_lost != 0
            || !self.paths.is_empty()
            || !self.unfinished.is_empty()
            || self.blocks.values().any(|&count| count != 0)
    }
}

/// Sorts counters by function.
fn tallies(module: &Module<'_>, counted: &Counted<'_>) -> Result<BTreeMap<u32, Tally>> {
    let n_counters: u64 = counted.cells.iter().map(|cell| u64::from(cell.n_cells())).sum();
    if n_counters != counted.counters.len() as u64 {
        return refused(format!("{} counters for cells with {n_counters}", counted.counters.len()));
    }
    let mut hashed: FxHashMap<u32, Vec<(u64, u64)>> = FxHashMap::default();
    for (&(key, id), &count) in counted.hashed.iter().filter(|&(_, &count)| count != 0) {
        hashed.entry(key).or_default().push((u64::from(id), count));
    }
    let mut tallies: BTreeMap<u32, Tally> = BTreeMap::new();
    let mut rest = counted.counters;
    for cell in counted.cells {
        let (own, behind) = rest.split_at_checked(cell.n_cells() as usize).unwrap_or((rest, &[]));
        rest = behind;
        let at = module.base.offset(u64::from(cell.at));
        let owner = match cell.kind {
            CellKind::Target | CellKind::CallSite | CellKind::Callees | CellKind::PathMisses => continue,
            CellKind::Block | CellKind::Edge | CellKind::InnerEdge => module.flow.function_containing(at),
            CellKind::Paths | CellKind::HashedPaths | CellKind::LostPaths | CellKind::Context => {
                function_entered_at(module.flow, at)
            }
        };
        let Some(owner) = owner else { continue };
        let tally = tallies.entry(owner.0).or_default();
        let count = own.first().copied().unwrap_or(0);
        let with_numbers = || (0..).zip(own.iter().copied()).filter(|&(_, count)| count != 0);
        match cell.kind {
            CellKind::Block => *tally.blocks.entry(at).or_default() += count,
            CellKind::Edge | CellKind::InnerEdge => {
                let to = module.base.offset(u64::from(cell.to));
                *tally.edges.entry((at, to)).or_default() += count;
                if cell.kind == CellKind::InnerEdge {
                    *tally.blocks.entry(to).or_default() += count;
                }
            }
            CellKind::Paths => tally.paths.extend(with_numbers()),
            CellKind::HashedPaths | CellKind::Context => {
                tally.paths.extend(hashed.remove(&cell.to).into_iter().flatten())
            }
            CellKind::LostPaths => tally.n_lost = tally.n_lost.saturating_add(count),
            CellKind::Target | CellKind::CallSite | CellKind::Callees | CellKind::PathMisses => {}
        }
    }
    for path in counted.unfinished {
        let [entry, at] = [path.function, path.at].map(|offset| module.base.offset(u64::from(offset)));
        if let Some(owner) = function_entered_at(module.flow, entry) {
            tallies.entry(owner.0).or_default().unfinished.push((at, path.register));
        }
    }
    Ok(tallies)
}

pub fn function_entered_at(flow: &ModuleFlow, entry: Svma) -> Option<FunctionId> {
    let index = flow.functions.binary_search_by_key(&entry, |function| function.entry).ok()?;
    Some(FunctionId(index as u32))
}

/// Addresses that functions call, or go to outside of what they own.
fn reached_addresses(flow: &ModuleFlow) -> FxHashSet<Svma> {
    let mut reached = FxHashSet::default();
    for (function, id) in flow.functions.iter().zip((0..).map(FunctionId)) {
        let cfg = &function.cfg;
        let owns = |at: Svma| flow.function_containing(at) == Some(id);
        for block in cfg.graph.blocks().filter(|&block| owns(cfg.block(block).range.start)) {
            if let Transfer::Call(target) = cfg.block(block).transfer {
                reached.insert(target);
            }
            reached.extend(cfg.graph.out_edges(block).filter_map(|edge| match cfg.graph.edge(edge).to {
                Some(to) => Some(cfg.block(to).range.start).filter(|&start| !owns(start)),
                None => cfg.edge_facts(edge).target,
            }));
        }
    }
    reached
}
