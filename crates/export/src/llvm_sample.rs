//! LLVM's sample profile in text: execution counts by source line, for `clang -fprofile-sample-use`
//! and `llvm-profdata`.
//!
//! Lines are offsets from the first line of their function, with the base discriminator if there is
//! one. Inlined code stands nested under the line of its call. A line ran as often as the most
//! frequent of its blocks; LLVM marks code that it has multiplied itself (unrolled loops) by a
//! factor in the discriminator, and its count is that much higher. A function's samples are the sum
//! over its lines, its head samples its entries. Calls are listed with the line that makes them.
//! Lines of such a function that did not run are listed with 0: the compiler would take the count
//! of a line that is not there for unknown, and work one out. Lines are looked up byte by byte,
//! because a profile does not know where instructions begin.
//!
//! Functions that the symbols do not know, or know without a linkage name, are left out: a compiler
//! could not find them either.

use std::collections::BTreeMap;
use std::io;

use profile::model::{Block, Call, Function, ModuleId, Profile};
use profile::symbols::{SourceFrame, Symbols};

use crate::round::whole;
use crate::stacks::last_address;

/// Writes counts by line.
///
/// # Errors
/// If `out` fails.
pub fn write(profile: &Profile, symbols: &dyn Symbols, out: &mut dyn io::Write) -> io::Result<()> {
    let mut functions: BTreeMap<String, Samples> = BTreeMap::new();
    for block in &profile.blocks {
        add_block(profile, symbols, block, &mut functions);
    }
    for function in profile.functions.iter().filter(|function| function.entries.value > 0.0) {
        add_lines(symbols, function, &mut functions);
    }
    for call in &profile.calls {
        add_call(profile, symbols, call, &mut functions);
    }
    for function in &profile.functions {
        if let Some(samples) = functions.get_mut(&function.name) {
            samples.head = samples.head.saturating_add(whole(function.entries.value));
        }
    }
    let mut by_heat: Vec<(&String, &Samples)> = functions.iter().collect();
    by_heat.sort_by_key(|(_, samples)| std::cmp::Reverse(samples.total()));
    for (name, samples) in by_heat {
        writeln!(out, "{name}:{}:{}", samples.total(), samples.head)?;
        samples.write(1, out)?;
    }
    Ok(())
}

/// A line of a function: offset from its first line, and base discriminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    offset: u32,
    discriminator: u32,
}

/// What was counted in a function, or in one inlined copy of it.
#[derive(Debug, Default)]
struct Samples {
    head: u64,
    lines: BTreeMap<Line, LineSamples>,
    inlined: BTreeMap<(Line, String), Samples>,
}

#[derive(Debug, Default)]
struct LineSamples {
    count: u64,
    callees: BTreeMap<String, u64>,
}

impl Samples {
    fn total(&self) -> u64 {
        let own = self.lines.values().fold(0_u64, |sum, line| sum.saturating_add(line.count));
        self.inlined.values().fold(own, |sum, inlined| sum.saturating_add(inlined.total()))
    }

    fn write(&self, depth: usize, out: &mut dyn io::Write) -> io::Result<()> {
        for (line, samples) in &self.lines {
            write!(out, "{:depth$}{line}: {}", "", samples.count)?;
            for (callee, count) in &samples.callees {
                write!(out, " {callee}:{count}")?;
            }
            writeln!(out)?;
        }
        for ((line, name), inlined) in &self.inlined {
            writeln!(out, "{:depth$}{line}: {name}:{}", "", inlined.total())?;
            inlined.write(depth + 1, out)?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.discriminator {
            0 => write!(f, "{}", self.offset),
            discriminator => write!(f, "{}.{discriminator}", self.offset),
        }
    }
}

fn add_block(profile: &Profile, symbols: &dyn Symbols, block: &Block, functions: &mut BTreeMap<String, Samples>) {
    let count = whole(block.count.value);
    let function = &profile.functions[block.function.index()];
    if count == 0 || function.name.is_empty() {
        return;
    }
    for_each_line(symbols, function.module, block.address, block.size.into(), |frames| {
        if let Some(line) = line_samples(functions, &function.name, frames) {
            let factor = duplication_factor(frames.first().map_or(0, |frame| frame.discriminator));
            line.count = line.count.max(count.saturating_mul(factor));
        }
    });
}

/// All lines of a function of which some were counted.
fn add_lines(symbols: &dyn Symbols, function: &Function, functions: &mut BTreeMap<String, Samples>) {
    if functions.contains_key(&function.name) {
        for_each_line(symbols, function.module, function.address, function.size, |frames| {
            line_samples(functions, &function.name, frames);
        });
    }
}

fn for_each_line(
    symbols: &dyn Symbols,
    module: ModuleId,
    start: u64,
    n_bytes: u64,
    mut visit: impl FnMut(&[SourceFrame]),
) {
    let mut previous = Vec::new();
    for address in start..start.saturating_add(n_bytes) {
        let frames = symbols.frames(module, address);
        if frames != previous {
            visit(&frames);
            previous = frames;
        }
    }
}

fn add_call(profile: &Profile, symbols: &dyn Symbols, call: &Call, functions: &mut BTreeMap<String, Samples>) {
    let (count, block) = (whole(call.count.value), &profile.blocks[call.site.index()]);
    let (caller, callee) = (&profile.functions[block.function.index()], &profile.functions[call.callee.index()]);
    if count == 0 || caller.name.is_empty() || !is_writable(&callee.name) {
        return;
    }
    let frames = symbols.frames(caller.module, last_address(block));
    if let Some(line) = line_samples(functions, &caller.name, &frames) {
        let calls = line.callees.entry(callee.name.clone()).or_default();
        *calls = calls.saturating_add(count);
    }
}

/// The samples of the innermost frame's line, below those of the functions that it was inlined
/// into.
fn line_samples<'a>(
    functions: &'a mut BTreeMap<String, Samples>,
    name: &str,
    frames: &[SourceFrame],
) -> Option<&'a mut LineSamples> {
    let (innermost, outer) = frames.split_first()?;
    let names = frames.iter().take(outer.len()).map(linkage_name);
    if !is_writable(name) || !names.clone().all(is_writable) || frames.iter().any(|frame| frame.line == 0) {
        return None;
    }
    let mut samples = functions.entry(name.to_owned()).or_default();
    for (caller, inlined) in outer.iter().zip(names).rev() {
        samples = samples.inlined.entry((line(caller), inlined.to_owned())).or_default();
    }
    Some(samples.lines.entry(line(innermost)).or_default())
}

/// Of C functions, debug information has only the name.
fn linkage_name(frame: &SourceFrame) -> &str {
    if frame.linkage_name.is_empty() { &frame.function } else { &frame.linkage_name }
}

/// LLVM keeps 16 bits of the offset; a line above the function's first, as macros make them, wraps.
fn line(frame: &SourceFrame) -> Line {
    let offset = frame.line.wrapping_sub(frame.function_line) & 0xffff;
    Line { offset, discriminator: component(frame.discriminator) }
}

/// Whether the format can hold a name.
fn is_writable(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == ':')
}

/// The first component of a discriminator: LLVM packs base discriminator, duplication factor and
/// copy, each in 1, 7 or 14 bits.
fn component(discriminator: u32) -> u32 {
    let bits = discriminator >> 1;
    match discriminator {
        d if d & 1 == 1 => 0,
        _ if bits & 0x20 == 0 => bits & 0x1f,
        _ => (bits >> 1 & 0xfe0) | (bits & 0x1f),
    }
}

fn duplication_factor(discriminator: u32) -> u64 {
    let n_bits = match discriminator {
        d if d & 1 == 1 => 1,
        d if d & 0x40 == 0 => 7,
        _ => 14,
    };
    u64::from(component(discriminator >> n_bits)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LLVM's way of packing a component.
    fn packed(component: u32) -> u32 {
        match component {
            0 => 1,
            1..=0x1f => component << 1,
            _ => ((component & 0xfe0) << 1 | component & 0x1f | 0x20) << 1,
        }
    }

    #[test]
    fn discriminators_are_unpacked() {
        assert!((0..0x1000).all(|value| component(packed(value)) == value));
        assert_eq!(duplication_factor(2), 1);
        assert_eq!(duplication_factor(packed(1) | packed(4) << 7), 4);
        assert_eq!(duplication_factor(packed(100) | packed(4) << 14), 4);
        assert_eq!(duplication_factor(packed(0) | packed(3) << 1), 3);
    }
}
