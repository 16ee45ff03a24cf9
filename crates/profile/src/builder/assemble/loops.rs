//! Loops around the blocks that were seen.

use std::collections::BTreeMap;

use super::flow::FlowRows;
use super::times::Times;
use crate::builder::events::Event;
use crate::builder::ids::LoopKey;
use crate::model::{BlockId, Loop, LoopId, Profile};

/// Makes the rows; those of functions and blocks are there.
pub(super) fn fill(rows: &FlowRows<'_>, times: &Times, profile: &mut Profile) {
    let mut of_loop: BTreeMap<LoopKey, Vec<BlockId>> = BTreeMap::new();
    for (located, index) in rows.blocks().zip(0..) {
        for (key, _) in located.loops() {
            of_loop.entry(key).or_default().push(BlockId(index));
        }
    }
    let tables = &rows.builder.tables;
    let mut ids: BTreeMap<LoopKey, LoopId> = BTreeMap::new();
    for (&key, blocks) in &of_loop {
        let Some((header, parent)) = tables.known.code.loop_facts(key) else { continue };
        let header = rows.id(header);
        let Some(block) = profile.blocks.get(header.index()) else { continue };
        let visits = tables.loops.get(&tables.known.nests, key);
        ids.insert(key, LoopId(profile.loops.len() as u32));
        profile.loops.push(Loop {
            function: block.function,
            header,
            parent: ids.get(&parent).copied(),
            entries: rows.estimate(Event::LoopEntry(key)),
            iterations: block.count,
            trips: visits.map_or_else(Vec::new, |visits| visits.trips.clone()),
            n_partial_visits: visits.map_or(0, |visits| visits.n_partial),
            self_ns: times.of_blocks(profile, block.function, blocks),
        });
    }
}
