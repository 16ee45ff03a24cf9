//! Loops around the blocks of a profile.
//!
//! The header of a loop runs when the loop is entered, and when an edge from inside leads back to
//! it; so entries are its count less that of those edges. An irreducible loop can also be entered
//! elsewhere: by edges from outside to another of its blocks. How entries and iterations go
//! together is not counted, so there are no trips.

use std::collections::BTreeMap;

use super::nesting::around;
use super::rows::ModuleRows;
use crate::estimate::Estimate;
use crate::model::{Loop, LoopId, Profile};

/// Ways into a loop.
#[derive(Clone, Copy, Debug, Default)]
struct Ways {
    /// From inside to the header.
    n_back: u64,
    /// From outside to another block than the header.
    n_aside: u64,
}

/// Makes the rows; those of blocks are there.
pub(super) fn fill(rows: &ModuleRows<'_>, profile: &mut Profile) {
    let counted = rows.counted;
    let mut loops: BTreeMap<u32, Ways> = BTreeMap::new();
    for (block, _) in rows.blocks() {
        loops.extend(around(&counted.code, block).map(|(index, _)| (index, Ways::default())));
    }
    for (&(from, to), &n) in &rows.edges {
        for (index, header) in around(&counted.code, to) {
            let Some(ways) = loops.get_mut(&index) else { continue };
            let stays_inside = around(&counted.code, from).any(|(other, _)| other == index);
            match (stays_inside, to == header) {
                (true, true) => ways.n_back = ways.n_back.saturating_add(n),
                (false, false) => ways.n_aside = ways.n_aside.saturating_add(n),
                _ => {}
            }
        }
    }
    let mut ids: BTreeMap<u32, LoopId> = BTreeMap::new();
    for (index, ways) in loops {
        let Some(each) = counted.code.loops.get(index as usize) else { continue };
        let Some(header) = rows.id(each.header) else { continue };
        let Some(function) = profile.blocks.get(header.index()).map(|block| block.function) else { continue };
        let n_iterations = counted.count(each.header);
        let n_entries = n_iterations.saturating_sub(ways.n_back).saturating_add(ways.n_aside);
        ids.insert(index, LoopId(profile.loops.len() as u32));
        profile.loops.push(Loop {
            function,
            header,
            parent: ids.get(&each.parent).copied(),
            entries: Estimate::exact(n_entries),
            iterations: Estimate::exact(n_iterations),
            trips: Vec::new(),
            n_partial_visits: 0,
            self_ns: Estimate::default(),
        });
    }
}
