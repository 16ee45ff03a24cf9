//! Loops around the blocks that were seen.

use std::collections::BTreeMap;

use super::flow::FlowRows;
use crate::builder::events::Event;
use crate::builder::ids::LoopKey;
use crate::estimate::Estimate;
use crate::model::{Block, Loop, LoopId, Profile};

/// Executed instructions, and the variance of their number.
#[derive(Clone, Copy, Debug, Default)]
struct Insns {
    n: f64,
    variance: f64,
}

impl Insns {
    fn add(&mut self, block: &Block) {
        let n_insns = f64::from(block.n_insns);
        self.n += block.count.value * n_insns;
        self.variance += block.count.variance * n_insns * n_insns;
    }
}

/// Makes the rows; those of functions and blocks are there.
pub(super) fn fill(rows: &FlowRows<'_>, profile: &mut Profile) {
    let mut of_function = vec![Insns::default(); profile.functions.len()];
    let mut of_loop: BTreeMap<LoopKey, Insns> = BTreeMap::new();
    for (located, block) in rows.blocks().zip(&profile.blocks) {
        of_function[block.function.index()].add(block);
        for (key, _) in located.loops() {
            of_loop.entry(key).or_default().add(block);
        }
    }
    let tables = &rows.builder.tables;
    let mut ids: BTreeMap<LoopKey, LoopId> = BTreeMap::new();
    for (&key, &insns) in &of_loop {
        let Some((header, parent)) = tables.known.code.loop_facts(key) else { continue };
        let header = rows.id(header);
        let Some(block) = profile.blocks.get(header.index()) else { continue };
        let visits = tables.loops.get(key);
        let function_time = profile.functions[block.function.index()].self_ns;
        ids.insert(key, LoopId(profile.loops.len() as u32));
        profile.loops.push(Loop {
            function: block.function,
            header,
            parent: ids.get(&parent).copied(),
            entries: rows.estimate(Event::LoopEntry(key)),
            iterations: block.count,
            trips: visits.map_or_else(Vec::new, |visits| visits.trips.clone()),
            n_partial_visits: visits.map_or(0, |visits| visits.n_partial),
            self_ns: time_of_part(function_time, insns, of_function[block.function.index()]),
        });
    }
}

/// The time of a part of a function, by its share of the instructions; the share's variance is that of a ratio of sums.
fn time_of_part(time: Estimate, part: Insns, whole: Insns) -> Estimate {
    if whole.n <= 0.0 {
        return Estimate { seen: time.seen, ..Estimate::default() };
    }
    let share = part.n / whole.n;
    let of_others = (whole.variance - part.variance).max(0.0);
    let share_variance =
        ((1.0 - share) * (1.0 - share) * part.variance + share * share * of_others) / (whole.n * whole.n);
    Estimate {
        value: time.value * share,
        variance: time.variance * share * share + time.value * time.value * share_variance,
        seen: time.seen,
    }
}
