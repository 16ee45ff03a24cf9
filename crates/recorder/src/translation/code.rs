//! Control flow as profiles need it: from what `flow` knows of a module to what `profile` wants to
//! know.
//!
//! Blocks are listed once, by address, with the function that owns them; where functions share
//! code, the one that [`flow::ModuleFlow::function_containing`] names, as in copies. Paths are cut
//! where Ball-Larus numbering cuts them, extra cuts of functions with too many paths included, so
//! that sampled and exact profiles speak of the same paths.

use flow::callgraph::FunctionId;
use flow::graph::BlockId;
use flow::paths::{EdgeOrder, PathPlan, PlanOptions, Truncation, max_paths_with_restarts};
use flow::timing::{Timing, Timings};
use flow::{Executor, FunctionFlow, ModuleFlow, Transfer};
use image::{FunctionSeed, Image, Sources};
use profile::code::{CodeBlock, CodeFunction, CodeInsn, CodeLoop, ModuleCode, NO_LOOP};
use profile::model::BlockEnd;
use rustc_hash::FxHashMap;

/// Converts a module.
pub fn module_code(image: &Image<'_>, flow: &ModuleFlow, executor: &impl Executor) -> ModuleCode {
    let ids: Vec<u32> = (0..flow.functions.len() as u32).collect();
    let cuts = executor.map(&ids, |&id| cut_edges(&flow.functions[id as usize]));
    let mut code = ModuleCode { functions: flow.functions.iter().map(function).collect(), ..ModuleCode::default() };
    let mut owned: Vec<(u32, BlockId)> = Vec::new();
    for (id, function) in flow.functions.iter().enumerate() {
        let is_owned = |block: &BlockId| {
            flow.function_containing(function.cfg.block(*block).range.start) == Some(FunctionId(id as u32))
        };
        owned.extend(function.cfg.graph.blocks().filter(is_owned).map(|block| (id as u32, block)));
    }
    let start = |&(id, block): &(u32, BlockId)| flow.functions[id as usize].cfg.block(block).range.start;
    owned.sort_by_key(start);
    owned.dedup_by_key(|each| start(each));
    let index_of: FxHashMap<(u32, BlockId), u32> = owned.iter().copied().zip(0..).collect();
    let first_loops = add_loops(&mut code, flow, &index_of);
    for &(id, block) in &owned {
        let function = &flow.functions[id as usize];
        let innermost = function.loops.innermost(block);
        let innermost_loop = innermost.and_then(|each| first_loops.get(&(id, each.0)).copied());
        code.blocks.push(code_block(function, id, block, innermost_loop.unwrap_or(NO_LOOP)));
    }
    for (&id, cuts) in ids.iter().zip(&cuts) {
        let index = |block: BlockId| index_of.get(&(id, block)).copied();
        code.cuts.extend(cuts.iter().filter_map(|&(from, to)| Some((index(from)?, index(to)?))));
    }
    code.cuts.sort_unstable();
    code.insns = executor.map(&owned.chunks(CHUNK).collect::<Vec<_>>(), |chunk| insns(image, flow, chunk)).concat();
    code
}

/// The functions of a module whose control flow is not known, as far as its symbols and unwind
/// entries state them. One of unknown size reaches to the next.
pub fn stated_functions(image: &Image<'_>) -> Vec<CodeFunction> {
    let seeds = image.functions();
    let next_starts = seeds.iter().skip(1).map(|seed| Some(seed.start.0)).chain([None]);
    let function = |(seed, next): (&FunctionSeed, Option<u64>)| CodeFunction {
        address: seed.start.0,
        size: seed.size.unwrap_or_else(|| next.map_or(1, |next| next.saturating_sub(seed.start.0))),
        is_stub: seed.sources.contains(Sources::PLT),
    };
    seeds.iter().zip(next_starts).map(function).collect()
}

const _: () =
    assert!(flow::timing::FIRST_WORD == profile::code::FIRST_WORD && flow::timing::LOAD == profile::code::LOAD_CYCLES);

/// Blocks whose instructions are looked at together.
const CHUNK: usize = 1024;

fn insns(image: &Image<'_>, flow: &ModuleFlow, blocks: &[(u32, BlockId)]) -> Vec<CodeInsn> {
    let mut timings = Timings::default();
    let mut insns = Vec::new();
    for &(id, block) in blocks {
        let timing = flow.functions[id as usize].cfg.instructions(image, block).map(|insn| timings.of(&insn));
        insns.extend(timing.map(|Timing { inputs, outputs, latency }| CodeInsn { inputs, outputs, latency }));
    }
    insns
}

fn function(flow: &FunctionFlow) -> CodeFunction {
    let main = flow.parts.iter().find(|part| part.start <= flow.entry && flow.entry < part.end);
    CodeFunction {
        address: flow.entry.0,
        size: main.map_or(0, |part| part.end - flow.entry),
        is_stub: flow.sources.contains(Sources::PLT),
    }
}

/// Edges inside the function at which paths end.
fn cut_edges(function: &FunctionFlow) -> Vec<(BlockId, BlockId)> {
    if function.loops.all().is_empty() && function.cfg.graph.n_blocks() < 32 {
        return Vec::new();
    }
    let weights = function.path_weights();
    let (truncation, order) = (Truncation::BackEdges, EdgeOrder::Smart(&weights));
    let max_paths = max_paths_with_restarts(function.cfg.return_sites().len());
    let plan = PathPlan::new(&function.cfg.graph, &PlanOptions { truncation, order, max_paths });
    let graph = plan.graph();
    let cuts = graph.edge_ids().filter(|&edge| plan.is_cut(edge)).map(|edge| graph.edge(edge));
    cuts.filter_map(|edge| Some((edge.from, edge.to?))).collect()
}

/// Adds all loops. Their indices by function and number in it; a loop whose header another function
/// owns has none.
fn add_loops(
    code: &mut ModuleCode,
    flow: &ModuleFlow,
    index_of: &FxHashMap<(u32, BlockId), u32>,
) -> FxHashMap<(u32, u32), u32> {
    let mut indices = FxHashMap::default();
    for (id, function) in flow.functions.iter().enumerate() {
        for (each, number) in function.loops.all().iter().zip(0..) {
            let Some(&header) = index_of.get(&(id as u32, each.header)) else { continue };
            let parent = each.parent.and_then(|parent| indices.get(&(id as u32, parent.0)).copied());
            indices.insert((id as u32, number), code.loops.len() as u32);
            code.loops.push(CodeLoop { header, parent: parent.unwrap_or(NO_LOOP) });
        }
    }
    indices
}

fn code_block(function: &FunctionFlow, id: u32, block: BlockId, innermost_loop: u32) -> CodeBlock {
    let facts = function.cfg.block(block);
    let (end, target) = match facts.transfer {
        Transfer::Next => (BlockEnd::Next, 0),
        Transfer::Jump(target) => (BlockEnd::Jump, target.0),
        Transfer::Branch(target) => (BlockEnd::Branch, target.0),
        Transfer::IndirectJump => (BlockEnd::IndirectJump, 0),
        Transfer::Call(target) => (BlockEnd::Call, target.0),
        Transfer::IndirectCall => (BlockEnd::IndirectCall, 0),
        Transfer::Return => (BlockEnd::Return, 0),
        Transfer::Trap => (BlockEnd::Trap, 0),
    };
    CodeBlock {
        address: facts.range.start.0,
        size: facts.range.len() as u32,
        last: (facts.last() - facts.range.start) as u32,
        n_insns: facts.n_insns,
        function: id,
        end,
        target,
        innermost_loop,
        is_entry: function.cfg.graph.is_entry(block),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_converted_and_survives_storage() {
        let program = std::fs::read("/bin/sh").expect("every system has a shell");
        let image = Image::parse(&program).expect("an ELF file");
        let flow = flow::analyze(&image, &flow::Sequential);
        let code = module_code(&image, &flow, &flow::Sequential);
        code.check().expect("a conversion keeps all promises");
        assert_eq!(code.functions.len(), flow.functions.len());
        assert!(code.blocks.len() > 1000 && code.loops.len() > 10 && code.cuts.len() >= code.loops.len());
        let here = code.blocks.iter().filter(|block| block.is_entry).count();
        assert!(here >= code.functions.len() / 2, "{here} entries");
        assert_eq!(ModuleCode::from_bytes(&code.to_bytes()).expect("own bytes"), code);
    }
}
