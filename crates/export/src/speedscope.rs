//! The file format of speedscope.app: a table of frames, and stacks with weights.
//!
//! Two profiles share the frames: CPU time in nanoseconds, and entries, which have no unit. Stacks
//! are those of calling contexts; a frame has the file and line at which its function begins.

use std::io;

use profile::model::Context;
use profile::{Profile, Symbols};
use serde::Serialize;

use crate::labels::{KERNEL, Labels, program};
use crate::round::whole;
use crate::stacks::{functions_from_root, own_ns};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes CPU time and entries by context.
///
/// # Errors
/// If `out` fails.
pub fn write(profile: &Profile, symbols: &dyn Symbols, out: &mut dyn io::Write) -> io::Result<()> {
    let kernel_frame = profile.functions.len() as u32;
    let mut time = Sampled::new("CPU time", "nanoseconds");
    let mut entries = Sampled::new("Entries", "none");
    for context in &profile.contexts {
        let (user_ns, kernel_ns) = own_ns(context);
        let n_entries = whole(context.entries.value);
        if user_ns == 0 && kernel_ns == 0 && n_entries == 0 {
            continue;
        }
        let stack = stack(profile, context);
        let mut kernel_stack = stack.clone();
        kernel_stack.push(kernel_frame);
        time.push(kernel_stack, kernel_ns);
        time.push(stack.clone(), user_ns);
        entries.push(stack, n_entries);
    }
    let file = File {
        schema: SCHEMA,
        exporter: "strobe",
        name: program(profile),
        shared: Shared { frames: frames(profile, symbols) },
        profiles: [time, entries],
        active_profile_index: 0,
    };
    Ok(serde_json::to_writer(out, &file)?)
}

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    shared: Shared,
    profiles: [Sampled; 2],
    #[serde(rename = "activeProfileIndex")]
    active_profile_index: u32,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "sampled", rename_all = "camelCase")]
struct Sampled {
    name: &'static str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    /// Frames from the root.
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

impl Sampled {
    fn new(name: &'static str, unit: &'static str) -> Sampled {
        Sampled { name, unit, start_value: 0, end_value: 0, samples: Vec::new(), weights: Vec::new() }
    }

    fn push(&mut self, stack: Vec<u32>, weight: u64) {
        if weight != 0 {
            self.samples.push(stack);
            self.weights.push(weight);
            self.end_value = self.end_value.saturating_add(weight);
        }
    }
}

fn stack(profile: &Profile, context: &Context) -> Vec<u32> {
    functions_from_root(profile, context).into_iter().map(|function| function.0).collect()
}

/// A frame for each function, in the order of handles, then one for the kernel.
fn frames(profile: &Profile, symbols: &dyn Symbols) -> Vec<Frame> {
    let labels = Labels::new(profile, symbols);
    let mut frames = Vec::with_capacity(profile.functions.len() + 1);
    for (function, name) in profile.functions.iter().zip(labels.all()) {
        let source = symbols.frames(function.module, function.address).pop().unwrap_or_default();
        let line = Some(source.function_line).filter(|&line| line != 0);
        frames.push(Frame { name: name.clone(), file: source.file, line });
    }
    frames.push(Frame { name: KERNEL.to_owned(), file: String::new(), line: None });
    frames
}
