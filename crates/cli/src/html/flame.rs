//! The flame graph, roots at the top.
//!
//! Every frame is an `svg` element of its own inside the picture: its position and width are
//! percentages, which the script changes to zoom, and it clips its name by itself.

use std::io::{self, Write};

use profile::query::{ContextOptions, context_tree, totals};

use crate::figures::{duration, share};
use crate::html::{Report, Text};

/// Frames with a smaller share of CPU time could not be seen.
const MIN_SHARE: f64 = 0.000_5;
const ROW_HEIGHT: u32 = 18;

/// A box of the picture, in shares of its width.
struct Frame {
    left: f64,
    width: f64,
    depth: u32,
    is_kernel: bool,
    name: String,
    title: String,
}

pub fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let frames = frames(report);
    if frames.is_empty() {
        return writeln!(out, "<p>No calling contexts were seen.</p>");
    }
    let n_rows = frames.iter().map(|frame| frame.depth + 1).max().unwrap_or(0);
    writeln!(
        out,
        "<p><input id=\"search\" placeholder=\"find a function\"> <small>Width is CPU time in a function and"
    )?;
    writeln!(
        out,
        "what it called, [kernel] what it spent in the kernel. Click a frame to zoom, a root to return.</small></p>"
    )?;
    writeln!(out, "<svg id=\"frames\" width=\"100%\" height=\"{}\">", n_rows * ROW_HEIGHT)?;
    for frame in &frames {
        write_frame(frame, out)?;
    }
    writeln!(out, "</svg>")
}

fn write_frame(frame: &Frame, out: &mut dyn Write) -> io::Result<()> {
    let Frame { left, width, depth, .. } = *frame;
    let class = if frame.is_kernel { " class=\"kernel\"" } else { "" };
    write!(out, "<svg{class} x=\"{:.4}%\" y=\"{}\"", 100.0 * left, depth * ROW_HEIGHT)?;
    write!(out, " width=\"{:.4}%\" height=\"{ROW_HEIGHT}\" data-x=\"{left:.8}\" data-w=\"{width:.8}\"", 100.0 * width)?;
    write!(out, "><title>{}</title>", Text(&frame.title))?;
    write!(out, "<rect width=\"100%\" height=\"100%\" style=\"--o:{:.2}\"/>", opacity(&frame.name))?;
    writeln!(out, "<text x=\"4\" y=\"13\">{}</text></svg>", Text(&frame.name))
}

/// In preorder the next sibling begins where the last one ended, and the first child where its
/// parent does, behind kernel time.
fn frames(report: &Report<'_>) -> Vec<Frame> {
    let cpu_ns = totals(report.profile).cpu_ns.value;
    let mut next_left: Vec<f64> = vec![0.0];
    let mut frames = Vec::new();
    for node in context_tree(report.profile, ContextOptions { min_share: MIN_SHARE, root: None }) {
        let depth = node.depth as usize;
        next_left.resize(depth + 2, 0.0);
        let left = next_left[depth];
        let name = report.names.short(node.function);
        let title = format!("{name}: {}, {}", duration(node.total_ns.value), share(node.share));
        frames.push(Frame { left, width: node.share.value, depth: node.depth, is_kernel: false, name, title });
        let kernel_share = node.kernel_ns.value / cpu_ns;
        if MIN_SHARE <= kernel_share {
            let (name, depth) = ("[kernel]".to_owned(), node.depth + 1);
            let title = format!("[kernel]: {}", duration(node.kernel_ns.value));
            frames.push(Frame { left, width: kernel_share, depth, is_kernel: true, name, title });
        }
        next_left[depth] = left + node.share.value;
        next_left[depth + 1] = left + kernel_share.max(0.0);
    }
    frames
}

/// Neighbours should differ, and the same function look the same everywhere.
fn opacity(name: &str) -> f64 {
    0.55 + f64::from(crc32fast::hash(name.as_bytes()) % 100) / 250.0
}
