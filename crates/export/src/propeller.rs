//! Block order for clang's basic-block sections (`-fbasic-block-sections=list=`), as Propeller
//! writes it, version 1.
//!
//! `f name` names a function, `c 0 2 1` says that these machine basic blocks go into one section in
//! this order; what is not listed becomes cold. `p 1 3 4` asks for clones of 3 and 4 on the way
//! from 1; `3.1` is then the first clone of 3. Ids are the compiler's, which only the binary knows:
//! [`BinaryFacts::basic_block_id`](crate::BinaryFacts::basic_block_id). A machine basic block goes
//! on past calls, so several blocks of a profile can have one id.
//!
//! Order is by chains: edges are taken from hot to cold, and each joins two chains if it leads from
//! the end of one to the start of the other. The chain of the entry comes first. Of functions with
//! equal names only the hottest is written, because the reader refuses two.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use profile::Profile;
use profile::model::{BlockEnd, BlockId, FunctionId, Path};

use crate::error::Error;
use crate::options::Options;

mod chains;

use chains::{Flow, Node};

/// Paths of a function that are cloned at most.
const MAX_CLONED_PATHS: usize = 4;
/// Blocks of a path that are cloned at most.
const MAX_CLONED_BLOCKS: usize = 4;
/// What a path must have of the flow of its function's hottest path to be cloned.
const MIN_CLONED_SHARE: f64 = 0.1;

/// Writes the order of blocks.
///
/// # Errors
/// If `out` fails, if the profile has no module, or if no block has an id.
pub fn write_clusters(profile: &Profile, options: &Options<'_>, out: &mut dyn io::Write) -> Result<(), Error> {
    write(profile, options, false, out)
}

/// Writes the order of blocks, with clones for hot paths: a path that enters a join by another edge
/// than the join's hottest gets its own copy of what follows.
///
/// # Errors
/// If `out` fails, if the profile has no module, or if no block has an id.
pub fn write_paths(profile: &Profile, options: &Options<'_>, out: &mut dyn io::Write) -> Result<(), Error> {
    write(profile, options, true, out)
}

fn write(profile: &Profile, options: &Options<'_>, with_clones: bool, out: &mut dyn io::Write) -> Result<(), Error> {
    let graphs = graphs(profile, options)?;
    let mut paths: BTreeMap<FunctionId, Vec<&Path>> = BTreeMap::new();
    for path in profile.paths.iter().filter(|_| with_clones) {
        paths.entry(path.function).or_default().push(path);
    }
    writeln!(out, "v1")?;
    for (function, mut graph) in graphs {
        let clones = paths.get(&function).map(|paths| graph.clone_paths(paths)).unwrap_or_default();
        writeln!(out, "f {}", profile.functions[function.index()].name)?;
        for path in clones {
            writeln!(out, "p {}", spaced(path))?;
        }
        writeln!(out, "c {}", spaced(graph.flow.order(graph.entry)))?;
    }
    Ok(())
}

fn spaced(items: impl IntoIterator<Item: ToString>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(" ")
}

/// A function in terms of the compiler's blocks.
#[derive(Debug, Default)]
struct Graph {
    entry: Node,
    flow: Flow,
    ids: BTreeMap<BlockId, u32>,
    /// Ids of blocks that end in computed jumps: nothing may be cloned behind them.
    indirect: BTreeSet<u32>,
}

/// The functions of the module that ran, hottest first, each name once.
fn graphs(profile: &Profile, options: &Options<'_>) -> Result<Vec<(FunctionId, Graph)>, Error> {
    let module = options.module_of(profile)?;
    let mut graphs: BTreeMap<FunctionId, Graph> = BTreeMap::new();
    for (handle, block) in (0..).map(BlockId).zip(&profile.blocks) {
        let function = &profile.functions[block.function.index()];
        let is_writable = !function.name.is_empty() && !function.name.contains(|c: char| c.is_whitespace());
        let id = options.facts.basic_block_id(handle).filter(|_| function.module == module && is_writable);
        let Some(id) = id else { continue };
        let graph = graphs.entry(block.function).or_default();
        graph.ids.insert(handle, id);
        graph.flow.add_node(Node::original(id), block.count.value);
        if block.address == function.address {
            graph.entry = Node::original(id);
        }
        if block.end == BlockEnd::IndirectJump {
            graph.indirect.insert(id);
        }
    }
    if graphs.is_empty() {
        return Err(Error::NoBlockIds { module: profile.modules[module.index()].path.clone() });
    }
    for edge in &profile.edges {
        let function = profile.blocks[edge.from.index()].function;
        let Some(graph) = graphs.get_mut(&function) else { continue };
        if let (Some(&from), Some(&to)) = (graph.ids.get(&edge.from), graph.ids.get(&edge.to)) {
            graph.flow.add_edge(Node::original(from), Node::original(to), edge.count.value);
        }
    }
    Ok(hottest_by_name(profile, graphs))
}

fn hottest_by_name(profile: &Profile, graphs: BTreeMap<FunctionId, Graph>) -> Vec<(FunctionId, Graph)> {
    let mut graphs: Vec<_> = graphs.into_iter().filter(|(_, graph)| 0.0 < graph.flow.heat()).collect();
    graphs.sort_by(|a, b| b.1.flow.heat().total_cmp(&a.1.flow.heat()).then(a.0.cmp(&b.0)));
    let mut names = BTreeSet::new();
    graphs.retain(|(function, _)| names.insert(profile.functions[function.index()].name.as_str()));
    graphs
}

impl Graph {
    /// Chooses paths to clone, and moves their flow to the clones.
    fn clone_paths(&mut self, paths: &[&Path]) -> Vec<Vec<u32>> {
        let mut paths = paths.to_vec();
        paths.sort_by(|a, b| b.count.value.total_cmp(&a.count.value));
        let least = paths.first().map_or(0.0, |path| path.count.value * MIN_CLONED_SHARE);
        let mut chosen: Vec<Vec<u32>> = Vec::new();
        let mut n_clones: BTreeMap<u32, u32> = BTreeMap::new();
        for path in paths {
            if path.count.value <= 0.0 || path.count.value < least || chosen.len() == MAX_CLONED_PATHS {
                break;
            }
            let Some(clone) = self.stretch_to_clone(path) else { continue };
            if chosen.iter().any(|other| other[..2] == clone[..2]) {
                continue;
            }
            self.flow.divert(&clone, path.count.value, &mut n_clones);
            chosen.push(clone);
        }
        chosen
    }

    /// The edge by which a path enters its first join, if that is not the join's hottest, and what
    /// follows.
    fn stretch_to_clone(&self, path: &Path) -> Option<Vec<u32>> {
        let mut ids: Vec<u32> = Vec::new();
        for block in &path.blocks {
            let id = *self.ids.get(block)?;
            if ids.last() != Some(&id) {
                ids.push(id);
            }
        }
        let joins = |pair: &[u32]| {
            let (from, to) = (Node::original(pair[0]), Node::original(pair[1]));
            to != self.entry && self.flow.hottest_into(to).is_some_and(|hottest| hottest != from)
        };
        let start = ids.windows(2).position(joins)?;
        let mut stretch: Vec<u32> = ids[start..].iter().copied().take(1 + MAX_CLONED_BLOCKS).collect();
        let end = stretch.iter().position(|id| self.indirect.contains(id)).map_or(stretch.len(), |last| last + 1);
        stretch.truncate(end);
        let distinct: BTreeSet<u32> = stretch.iter().copied().collect();
        (2 <= stretch.len() && distinct.len() == stretch.len()).then_some(stretch)
    }
}
