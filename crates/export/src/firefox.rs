//! The processed profile format of the Firefox Profiler, version 55, which its front end upgrades
//! to its own.
//!
//! One thread holds one sample per context and block, weighted by CPU time in milliseconds
//! (`tracing-ms`) and laid out on a made-up time line on which it lasts as long as it weighs.
//! Stacks have addresses, lines and inlined functions: a frame per level, `inlineDepth` counting
//! from the function that the code belongs to.

use std::io;

use profile::model::{FunctionId, Profile};
use profile::symbols::{SourceFrame, Symbols};
use rustc_hash::FxHashMap;
use serde_json::json;

use crate::costs::Costs;
use crate::labels::{KERNEL, Labels, file_name, program};
use crate::stacks::{Place, Stacks, own_ns};

mod tables;

use tables::{Frame, FrameIndex, StackIndex, Tables};

const VERSION: u32 = 55;
const USER: u32 = 0;
const KERNEL_CATEGORY: u32 = 1;

/// Writes CPU time by context.
///
/// # Errors
/// If `out` fails.
pub fn write(profile: &Profile, symbols: &dyn Symbols, out: &mut dyn io::Write) -> io::Result<()> {
    let mut builder = Builder {
        profile,
        symbols,
        labels: Labels::new(profile, symbols),
        frames_at: FxHashMap::default(),
        tables: Tables::new(profile),
    };
    builder.samples();
    let (pid, tid) = profile.threads.first().map_or((1, 1), |thread| (thread.pid, thread.tid));
    let thread = builder.tables.finish(program(profile), pid, tid);
    let libs: Vec<_> = profile.modules.iter().map(|module| library(&module.path, &module.build_id)).collect();
    let file = json!({ "meta": meta(profile), "libs": libs, "pages": [], "counters": [], "profilerOverhead": [] });
    let mut text = serde_json::to_string(&file)?;
    text.pop();
    write!(out, "{text},\"threads\":[")?;
    serde_json::to_writer(&mut *out, &thread)?;
    write!(out, "]}}")
}

fn meta(profile: &Profile) -> serde_json::Value {
    json!({
        "categories": [
            { "name": "User", "color": "yellow", "subcategories": ["Other"] },
            { "name": "Kernel", "color": "orange", "subcategories": ["Other"] },
        ],
        "debug": false,
        "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
        "interval": 1.0,
        "preprocessedProfileVersion": VERSION,
        "processType": 0,
        "product": program(profile),
        "importedFrom": "strobe",
        "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" },
        "startTime": 0.0,
        "symbolicated": true,
        "pausedRanges": [],
        "version": 24,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "markerSchema": [],
        "extra": [{
            "label": "Recording",
            "entries": profile.facts.iter().map(|(name, value)| {
                json!({ "label": name, "format": "string", "value": value })
            }).collect::<Vec<_>>(),
        }],
    })
}

/// A library. Its breakpad id is the start of the build-id read as a GUID of mixed byte order,
/// followed by an age of 0.
fn library(path: &str, build_id: &str) -> serde_json::Value {
    let name = file_name(path);
    json!({
        "name": name,
        "path": path,
        "debugName": name,
        "debugPath": path,
        "breakpadId": breakpad_id(build_id),
        "codeId": Some(build_id).filter(|id| !id.is_empty()),
        "arch": "x86_64",
    })
}

fn breakpad_id(build_id: &str) -> String {
    let digits = build_id.bytes().filter(u8::is_ascii_hexdigit).chain(std::iter::repeat(b'0'));
    let hex: Vec<char> = digits.take(32).map(|digit| char::from(digit.to_ascii_uppercase())).collect();
    let byte = |index: usize| hex.iter().skip(2 * index).take(2);
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    order.into_iter().flat_map(byte).chain(['0'].iter()).collect()
}

struct Builder<'a> {
    profile: &'a Profile,
    symbols: &'a dyn Symbols,
    labels: Labels,
    frames_at: FxHashMap<Place, Vec<FrameIndex>>,
    tables: Tables,
}

impl Builder<'_> {
    fn samples(&mut self) {
        let (stacks, costs) = (Stacks::new(self.profile), Costs::new(self.profile));
        let mut callers: Vec<Option<StackIndex>> = Vec::with_capacity(self.profile.contexts.len());
        for context in &self.profile.contexts {
            let caller = stacks.call_site(context).and_then(|(parent, place)| {
                let below = callers[parent.index()];
                self.stack(below, place)
            });
            callers.push(caller);
            let (user_ns, kernel_ns) = own_ns(context);
            let by_block = costs.divide_roughly(context.function, user_ns);
            let entry = stacks.entry(context);
            if by_block.is_empty() {
                self.sample(caller, entry, user_ns);
            }
            for (block, ns) in by_block {
                let address = self.profile.blocks[block.index()].address;
                self.sample(caller, Place::Code { function: context.function, address }, ns);
            }
            if kernel_ns != 0 {
                let below = self.stack(caller, entry);
                self.sample(below, Place::Kernel, kernel_ns);
            }
        }
    }

    fn sample(&mut self, caller: Option<StackIndex>, place: Place, ns: u64) {
        if ns != 0 {
            let stack = self.stack(caller, place);
            self.tables.sample(stack, ns);
        }
    }

    /// The stack with the frames of a place on top.
    fn stack(&mut self, caller: Option<StackIndex>, place: Place) -> Option<StackIndex> {
        if !self.frames_at.contains_key(&place) {
            let frames = self.frames(place);
            self.frames_at.insert(place, frames);
        }
        let frames = self.frames_at.get(&place)?;
        frames.iter().fold(caller, |below, &frame| Some(self.tables.stack(below, frame)))
    }

    /// The frames of a place, outermost first.
    fn frames(&mut self, place: Place) -> Vec<FrameIndex> {
        let Place::Code { function, address } = place else {
            return vec![self.tables.frame(&Frame { name: KERNEL, category: KERNEL_CATEGORY, ..Frame::default() })];
        };
        let mut sources = self.symbols.frames(self.profile.functions[function.index()].module, address);
        if sources.is_empty() {
            sources.push(SourceFrame { function: self.labels.function(function).to_owned(), ..SourceFrame::default() });
        }
        let outermost_first = sources.iter().rev().enumerate();
        outermost_first.map(|(depth, source)| self.frame(function, address, depth, source)).collect()
    }

    fn frame(&mut self, function: FunctionId, address: u64, depth: usize, source: &SourceFrame) -> FrameIndex {
        let row = &self.profile.functions[function.index()];
        self.tables.frame(&Frame {
            name: &source.function,
            module: Some(row.module),
            address: Some(address),
            symbol: Some((row.address, row.size, self.labels.function(function))),
            inline_depth: depth,
            category: USER,
            file: &source.file,
            line: source.line,
            function_line: source.function_line,
        })
    }
}
