//! A function's graph for Graphviz: blocks with their instructions, exits as small nodes, back
//! edges dashed.

use std::io::{self, Write};

use crate::report::{BlockReport, EdgeReport, FunctionReport};

pub fn print(report: &FunctionReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "digraph \"{}\" {{", escape(&report.name))?;
    writeln!(out, "  graph [label=\"{}\\n{} paths\", labelloc=t];", escape(&report.name), report.paths.count)?;
    writeln!(out, "  node [shape=box, fontname=monospace];")?;
    writeln!(out, "  edge [fontname=monospace];")?;
    for block in &report.blocks {
        print_block(block, out)?;
    }
    for edge in &report.edges {
        print_edge(edge, out)?;
    }
    writeln!(out, "}}")
}

fn print_block(block: &BlockReport, out: &mut impl Write) -> io::Result<()> {
    let mut label = format!("block {}\\l", block.id);
    for insn in &block.instructions {
        label.push_str(&format!("{}  {}\\l", insn.address.0, escape(&insn.text)));
    }
    let border = if block.entry.is_some() { ", penwidth=2" } else { "" };
    writeln!(out, "  b{} [label=\"{label}\"{border}];", block.id)
}

fn print_edge(edge: &EdgeReport, out: &mut impl Write) -> io::Result<()> {
    let label = format!("{} +{}", edge.kind, edge.value);
    let style = if edge.back { ", style=dashed" } else { "" };
    match edge.to {
        Some(to) => writeln!(out, "  b{} -> b{to} [label=\"{label}\"{style}];", edge.from),
        None => {
            let target = edge.target_name.as_deref().unwrap_or(&edge.kind);
            writeln!(out, "  x{} [label=\"{}\", shape=oval];", edge.id, escape(target))?;
            writeln!(out, "  b{} -> x{} [label=\"{label}\"];", edge.from, edge.id)
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_do_not_end_a_label() {
        assert_eq!(escape(r#"operator""_x \n"#), r#"operator\"\"_x \\n"#);
    }
}
