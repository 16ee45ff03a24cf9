//! Everything the analysis can do with a file, done to one input.

use std::collections::BTreeMap;

use flow::paths::verify::{verify_placement, verify_plan};
use flow::paths::{DEFAULT_MAX_PATHS, EdgeOrder, PathPlan, Placement, PlanOptions, Truncation, estimate_weights};
use flow::{FunctionFlow, Sequential};
use image::{DebugLinks, Image, LineSections};

/// How the analysis coped with an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It refused the file, for this reason.
    Refused(String),
    /// It took the file; what it left out is counted by kind.
    Analyzed {
        /// Damage found, with its extent.
        problems: BTreeMap<String, u64>,
    },
}

/// Parses and analyses an input, asking for everything that is computed only when asked for.
///
/// # Panics
/// If the analysis does, or if its own verifier rejects a result.
#[must_use]
pub fn exercise(bytes: &[u8]) -> Outcome {
    let image = match Image::parse(bytes) {
        Ok(image) => image,
        Err(error) => return Outcome::Refused(variant(&error)),
    };
    let mut problems: BTreeMap<String, u64> = BTreeMap::new();
    for problem in image.problems() {
        *problems.entry(variant(&problem.kind)).or_default() += problem.count;
    }
    let mut failed = |part: &str, error: image::Error| {
        *problems.entry(format!("{part}: {}", variant(&error))).or_default() += 1;
    };
    for frame in image.frames() {
        image.unwind_rows(frame).err().into_iter().for_each(|error| failed("unwind rows", error));
        image.call_sites(frame).err().into_iter().for_each(|error| failed("call sites", error));
    }
    DebugLinks::of_file(bytes).err().into_iter().for_each(|error| failed("debug links", error));
    let look_up = |sections: LineSections<'_>| {
        let lines = sections.table()?;
        image.functions().iter().for_each(|function| drop(lines.frames_at(function.start)));
        Ok(())
    };
    match LineSections::read(bytes, None).and_then(look_up) {
        Ok(()) | Err(image::Error::NoLines) => {}
        Err(error) => failed("lines", error),
    }
    for function in image.functions() {
        let name = image.name_of(function.start);
        let _ = image.lookup(&name.demangled());
    }
    let module = flow::analyze(&image, &Sequential);
    module.functions.iter().for_each(number);
    let _ = image.with_debug_file(bytes);
    Outcome::Analyzed { problems }
}

fn number(function: &FunctionFlow) {
    let graph = &function.cfg.graph;
    let weights = estimate_weights(graph, &function.loops);
    for (truncation, order) in
        [(Truncation::BackEdges, EdgeOrder::Smart(&weights)), (Truncation::LoopHeaders, EdgeOrder::Classic)]
    {
        let plan = PathPlan::new(graph, &PlanOptions { truncation, order, max_paths: DEFAULT_MAX_PATHS });
        let placement = Placement::spanning_tree(&plan, &weights);
        let verified = verify_plan(&plan).and_then(|()| verify_placement(&plan, &placement));
        if let Err(fault) = verified {
            panic!("the numbering of the function at {} is wrong: {fault:?}", function.entry);
        }
    }
}

/// The name of an enum's variant, without its fields.
fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
