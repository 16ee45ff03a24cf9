//! The path numbering of a function.

use std::io::{self, Write};

use flow::FunctionFlow;
use flow::graph::EdgeId;
use flow::paths::{EdgeAction, PathId};
use image::Svma;

use crate::module::Module;
use crate::props::NumberingProps;
use crate::report::Numbering;

/// Most paths that are listed one by one.
const MAX_LISTED: u64 = 10_000;

pub fn print(
    module: &Module<'_>,
    function: &FunctionFlow,
    props: NumberingProps,
    list_paths: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let entry = function.entry;
    let numbering = Numbering::new(function, props);
    let plan = &numbering.plan;
    let (n_paths, log2, name) = (plan.n_paths(), plan.log2_paths_before_extra_cuts(), module.name(function));
    let n_extra = plan.extra_cuts().len();
    writeln!(out, "{entry} paths {n_paths} log2-before-cuts={log2:.2} extra-cuts={n_extra} {name}")?;
    for (start, register) in plan.starts().iter().zip(numbering.placement.start_registers()) {
        writeln!(out, "{entry} start block={} first-id={} register={register}", start.block.0, start.value)?;
    }
    for edge in plan.graph().edge_ids() {
        print_edge(entry, &numbering, edge, out)?;
    }
    if list_paths {
        print_paths(entry, &numbering, out)?;
    }
    Ok(())
}

fn print_edge(entry: Svma, numbering: &Numbering, id: EdgeId, out: &mut impl Write) -> io::Result<()> {
    let plan = &numbering.plan;
    let edge = plan.graph().edge(id);
    let to = edge.to.map_or_else(|| "out".to_owned(), |block| block.0.to_string());
    let cut = match (plan.is_cut(id), plan.extra_cuts().binary_search(&id)) {
        (true, Ok(_)) => " extra-cut",
        (true, Err(_)) => " cut",
        (false, _) => "",
    };
    let action = match numbering.placement.action(id) {
        EdgeAction::Pass => "pass".to_owned(),
        EdgeAction::Add(amount) => format!("add {amount}"),
        EdgeAction::End { id_offset, restart: None } => format!("end id-offset={id_offset}"),
        EdgeAction::End { id_offset, restart: Some(restart) } => format!("end id-offset={id_offset} restart={restart}"),
    };
    writeln!(out, "{entry} edge {} {}->{to} value={}{cut} {action}", id.0, edge.from.0, plan.value(id))
}

fn print_paths(entry: Svma, numbering: &Numbering, out: &mut impl Write) -> io::Result<()> {
    let plan = &numbering.plan;
    for id in 0..plan.n_paths().min(MAX_LISTED) {
        if let Some(path) = plan.decode(PathId(id)) {
            let blocks: Vec<String> = path.blocks.iter().map(|block| block.0.to_string()).collect();
            writeln!(out, "{entry} path {id} blocks={} end={}", blocks.join(","), path.end.0)?;
        }
    }
    match plan.n_paths().saturating_sub(MAX_LISTED) {
        0 => Ok(()),
        more => writeln!(out, "{entry} path ... {more} more"),
    }
}
