//! The whole analysis on programs and libraries as they are installed: every graph and every
//! numbering verified.

use flow::Sequential;
use flow::order::Order;
use flow::paths::verify::{verify_placement, verify_plan};
use flow::paths::{EdgeOrder, PathPlan, Placement, PlanOptions, Truncation, estimate_weights};
use flow::verify::verify_cfg;
use image::Image;

fn verify(path: &str) {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let image = Image::parse(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
    let module = flow::analyze(&image, &Sequential);
    assert!(module.functions.len() > 20, "{path}: {} functions", module.functions.len());
    for function in &module.functions {
        let name = image.name_of(function.entry).raw;
        verify_cfg(&image, function).unwrap_or_else(|fault| panic!("{path} {name}: {fault}"));
        let graph = &function.cfg.graph;
        let weights = estimate_weights(graph, &function.loops);
        let order = Order::new(graph);
        for truncation in [Truncation::BackEdges, Truncation::LoopHeaders] {
            for edges in [EdgeOrder::Classic, EdgeOrder::Smart(&weights)] {
                let options = PlanOptions { truncation, order: edges, max_paths: 1 << 32 };
                let plan = PathPlan::with_order(graph, &order, &options);
                verify_plan(&plan).unwrap_or_else(|fault| panic!("{path} {name}: {fault}"));
                let placement = Placement::spanning_tree(&plan, &weights);
                verify_placement(&plan, &placement).unwrap_or_else(|fault| panic!("{path} {name}: {fault}"));
            }
        }
    }
    let n_incomplete = module.functions.iter().filter(|function| !function.is_complete()).count();
    assert!(n_incomplete * 100 <= module.functions.len(), "{path}: {n_incomplete} functions with unresolved jumps");
}

#[test]
fn a_small_program() {
    verify("/bin/true");
}

#[test]
fn a_compressor() {
    verify("/bin/gzip");
}

#[test]
fn the_c_library() {
    verify("/lib/x86_64-linux-gnu/libc.so.6");
}
