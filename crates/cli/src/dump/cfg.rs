//! The control flow of a function.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flow::cfg::EntryKind;
use flow::graph::BlockId;
use flow::indirect::{IndirectJump, Resolution};
use flow::loops::LoopId;
use flow::order::Order;
use flow::{Callee, FunctionFlow};
use image::Svma;

use crate::module::Module;

pub fn print(module: &Module<'_>, function: &FunctionFlow, out: &mut impl Write) -> io::Result<()> {
    let entry = function.entry;
    print_function(module, function, out)?;
    for part in &function.parts {
        writeln!(out, "{entry} part {part:?}")?;
    }
    let cfg = &function.cfg;
    let entries: BTreeMap<BlockId, EntryKind> =
        cfg.graph.entries().iter().copied().zip(cfg.entry_kinds.iter().copied()).collect();
    for block in cfg.graph.blocks() {
        print_block(function, block, entries.get(&block), out)?;
    }
    print_edges(module, function, out)?;
    for id in function.loops.ids() {
        print_loop(function, id, out)?;
    }
    for jump in &function.indirect_jumps {
        writeln!(out, "{entry} jump {} {}", jump.at, describe_jump(jump))?;
    }
    for call in &function.calls {
        writeln!(out, "{entry} call {} {}", call.at, describe_callee(module, call.callee))?;
    }
    Ok(())
}

fn print_function(module: &Module<'_>, function: &FunctionFlow, out: &mut impl Write) -> io::Result<()> {
    let FunctionFlow { entry, cfg, n_insns, sources, called, address_taken, returns, .. } = function;
    let (n_blocks, n_edges) = (cfg.blocks.len(), cfg.edges.len());
    let complete = function.is_complete();
    writeln!(
        out,
        "{entry} function {} blocks={n_blocks} edges={n_edges} insns={n_insns} complete={complete} returns={returns} \
         called={called} address-taken={address_taken} sources={sources}",
        module.name(function)
    )
}

fn print_block(
    function: &FunctionFlow,
    id: BlockId,
    entry: Option<&EntryKind>,
    out: &mut impl Write,
) -> io::Result<()> {
    let block = function.cfg.block(id);
    let live: Vec<&str> = function.liveness.live_in(id).names().collect();
    write!(out, "{} block {} {:?} insns={}", function.entry, id.0, block.range, block.n_insns)?;
    if let Some(kind) = entry {
        write!(out, " entry={kind}")?;
    }
    if let Some(innermost) = function.loops.innermost(id) {
        write!(out, " loop={}", innermost.0)?;
    }
    writeln!(out, " live={}", live.join(","))
}

fn print_edges(module: &Module<'_>, function: &FunctionFlow, out: &mut impl Write) -> io::Result<()> {
    let graph = &function.cfg.graph;
    let order = Order::new(graph);
    for id in graph.edge_ids() {
        let (edge, facts) = (graph.edge(id), function.cfg.edge_facts(id));
        let to = edge.to.map_or_else(|| "out".to_owned(), |block| block.0.to_string());
        let back = if order.is_retreating(graph, id) { " back" } else { "" };
        let target = facts.target.filter(|_| edge.to.is_none()).map_or(String::new(), |at| named(module, at));
        writeln!(out, "{} edge {} {}->{to} {}{back}{target}", function.entry, id.0, edge.from.0, facts.kind)?;
    }
    Ok(())
}

fn print_loop(function: &FunctionFlow, id: LoopId, out: &mut impl Write) -> io::Result<()> {
    let found = function.loops.get(id);
    let shape = if found.irreducible { " irreducible" } else { "" };
    let mut blocks: Vec<BlockId> = function.loops.blocks(id).to_vec();
    blocks.sort_unstable();
    let blocks: Vec<String> = blocks.iter().map(|block| block.0.to_string()).collect();
    let (header, depth, blocks) = (found.header.0, found.depth, blocks.join(","));
    writeln!(out, "{} loop {} header={header} depth={depth}{shape} blocks={blocks}", function.entry, id.0)
}

fn describe_jump(jump: &IndirectJump) -> String {
    match &jump.resolution {
        Resolution::Table(table) => {
            let targets: Vec<String> = table.targets.iter().map(Svma::to_string).collect();
            format!("jump-table entries={} bound={:?} targets={}", table.n_entries, table.bound, targets.join(","))
        }
        Resolution::TailCall { slot } => {
            format!("tail-call{}", slot.map_or(String::new(), |slot| format!(" slot={slot}")))
        }
        Resolution::Unresolved(reason) => format!("unresolved: {reason}"),
    }
}

fn describe_callee(module: &Module<'_>, callee: Callee) -> String {
    match callee {
        Callee::Direct(at) => format!("direct{}", named(module, at)),
        Callee::Slot(at) => format!("slot{}", named(module, at)),
        Callee::Computed => "computed".to_owned(),
    }
}

fn named(module: &Module<'_>, at: Svma) -> String {
    let name = module.describe(at).map_or(String::new(), |name| format!(" {name}"));
    format!(" {at}{name}")
}
