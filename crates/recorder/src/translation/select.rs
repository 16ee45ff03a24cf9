//! `--select`: from what a user has written to the places of a module that note events.
//!
//! Functions are looked up by their names in the module's own symbol tables, mangled or not, or by
//! an address in them.

use std::path::Path;

use emit::{Candidate, Events, Selection};
use flow::callgraph::FunctionId;
use flow::{Executor, ModuleFlow};
use image::{Image, Svma};
use rustc_hash::FxHashMap;
use sampling::selector::{self, Classes, Selector};

/// The places of a module that a selector selects.
pub fn places(
    selector: &Selector,
    path: &Path,
    image: &Image<'_>,
    flow: &ModuleFlow,
    events: Events,
    executor: &impl Executor,
) -> Selection {
    let module = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names: FxHashMap<FunctionId, Vec<&str>> = FxHashMap::default();
    for name in selector.function_names() {
        let starts = address(name).map_or_else(|| image.lookup(name), |at| vec![at]);
        for function in starts.into_iter().filter_map(|start| flow.function_containing(start)) {
            names.entry(function).or_default().push(name);
        }
    }
    Selection::choose(image, flow, events, executor, |candidate| {
        selector.selects(&selector::Candidate {
            pc: candidate.at.0,
            classes: classes(candidate),
            bytes: candidate.bytes,
            module: &module,
            functions: names.get(&candidate.function).map_or(&[], Vec::as_slice),
        })
    })
}

/// Returns the address that a text with `0x` before hexadecimal digits is.
fn address(text: &str) -> Option<Svma> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(Svma)
}

fn classes(candidate: &Candidate) -> Classes {
    let by_event = [
        (Events::LOADS, Classes::VALUE),
        (Events::ARGUMENTS, Classes::ARGUMENT),
        (Events::ADDRESSES, Classes::ADDRESS),
        (Events::CALL_TARGETS, Classes::TARGET | Classes::CALL),
        (Events::JUMP_TARGETS, Classes::TARGET | Classes::JUMP),
        (Events::BRANCH_TARGETS, Classes::TARGET | Classes::BRANCH),
        (Events::METHOD_TABLES, Classes::TYPE | Classes::CALL),
    ];
    let of_event = by_event.into_iter().filter(|&(event, _)| candidate.event.has(event)).map(|(_, classes)| classes);
    let read = candidate.reads.then_some(Classes::LOAD);
    let written = candidate.writes.then_some(Classes::STORE);
    of_event.chain(read).chain(written).fold(Classes::NONE, |all, classes| all | classes)
}
