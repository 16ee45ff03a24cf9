//! Live registers where nothing is known of callers and callees.

use flow::ModuleFlow;
use image::Image;

use super::Registers;
use super::effects::{Effect, Effects};
use super::guards::Guards;
use super::set::Set;

/// Works out what is live: all registers at calls, system calls and ways out.
pub(super) fn registers(image: &Image<'_>, flow: &ModuleFlow) -> Registers {
    let mut effects = Effects::new();
    let (mut at_start, mut at_end) = (Vec::new(), Vec::new());
    for function in &flow.functions {
        let graph = &function.cfg.graph;
        let guards = Guards::new(image, function);
        let of_blocks: Vec<Effect> = graph
            .blocks()
            .map(|block| {
                effects.begin();
                let insns = function.cfg.instructions(image, block);
                insns.fold(Effect::default(), |all, insn| all.then(effects.of(&insn).reading(guards.reads(&insn))))
            })
            .collect();
        let mut starts = vec![Set::NONE; of_blocks.len()];
        let mut ends = starts.clone();
        loop {
            let mut changed = false;
            for block in graph.blocks().rev() {
                let behind = graph.out_edges(block).map(|edge| match graph.edge(edge).to {
                    Some(next) => starts[next.index()],
                    None => Set::REGISTERS,
                });
                ends[block.index()] = behind.fold(Set::NONE, |all, set| all | set) & Set::REGISTERS;
                let live = of_blocks[block.index()].before(ends[block.index()]) & Set::REGISTERS;
                changed |= std::mem::replace(&mut starts[block.index()], live) != live;
            }
            if !changed {
                break;
            }
        }
        at_start.push(starts);
        at_end.push(ends);
    }
    Registers { at_start, at_end }
}
