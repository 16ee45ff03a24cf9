//! The bursts of a profile as text, in the order in which they were kept.
//!
//! Every line has the number of the burst and its thread. A burst is one line: its process, why it
//! ended, how many blocks it reached, where it started and where it ended; or, by block, a line for
//! each block with its function. Addresses are those of the modules' files.

use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Result, bail};
use profile::Profile;
use recorder::end_reason_name;
use rustc_hash::FxHashMap;
use store::burst_log::{LogPlace, LoggedBurst, LoggedProcess, for_each_burst};
use wire::sample::EndReason;

use crate::props::TraceRange;

pub fn print(path: &Path, range: TraceRange, out: &mut impl Write) -> Result<()> {
    let profile = store::open(path)?;
    // Millions of lines, each of which would cost a look for colors.
    let mut printer = Printer { names: Names::new(&profile), range, out: BufWriter::with_capacity(1 << 16, out) };
    let mut n_of_thread: FxHashMap<(u64, u32), u64> = FxHashMap::default();
    let (mut number, mut n_printed) = (0_u64, 0_u64);
    let mut result = Ok(());
    for_each_burst(path, &mut |process, burst| {
        let index = number;
        number += 1;
        let thread = burst.thread;
        if range.thread.is_some_and(|wanted| wanted != thread) {
            return ControlFlow::Continue(());
        }
        let of_thread = n_of_thread.entry((process.number, thread)).or_default();
        let is_wanted = *of_thread >= range.from && range.limit.is_none_or(|limit| *of_thread - range.from < limit);
        *of_thread += 1;
        if !is_wanted {
            return ControlFlow::Continue(());
        }
        n_printed += 1;
        match printer.burst(index, process, &burst) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                result = Err(error);
                ControlFlow::Break(())
            }
        }
    })?;
    result?;
    printer.out.flush()?;
    if number == 0 {
        bail!("{}: no bursts are kept in it; record with --keep-trace", path.display());
    }
    if let (0, Some(thread)) = (n_printed, range.thread.filter(|_| n_of_thread.is_empty())) {
        bail!("{}: no burst of thread {thread}", path.display());
    }
    Ok(())
}

struct Printer<W: Write> {
    names: Names,
    range: TraceRange,
    out: BufWriter<W>,
}

impl<W: Write> Printer<W> {
    fn burst(&mut self, number: u64, process: &LoggedProcess, burst: &LoggedBurst) -> Result<()> {
        let thread = burst.thread;
        if self.range.by_block {
            for &block in &burst.blocks {
                writeln!(self.out, "{number} {thread} {} {:#x}", self.names.of(block), block.address())?;
            }
            return Ok(());
        }
        let ended = EndReason::from_u8(burst.end_reason).map_or("for no known reason", end_reason_name);
        let skipped = if burst.n_to_skip == 0 { String::new() } else { format!(" skips={}", burst.n_to_skip) };
        writeln!(
            self.out,
            "{number} {thread} process={} pid={} blocks={}{skipped} start={} end={} ended={}",
            process.number,
            process.pid,
            burst.blocks.len(),
            self.names.place(burst.start),
            self.names.place(burst.end),
            ended.replace(' ', "-")
        )?;
        Ok(())
    }
}

/// Names of functions by the addresses of their blocks.
struct Names {
    modules: Vec<String>,
    functions: FxHashMap<LogPlace, String>,
}

impl Names {
    fn new(profile: &Profile) -> Names {
        let file = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let modules: Vec<String> = profile.modules.iter().map(|module| file(&module.path)).collect();
        let blocks = profile.blocks.iter().filter_map(|block| {
            let function = profile.functions.get(block.function.index())?;
            let name = match function.name.as_str() {
                "" => format!("{}+{:#x}", modules.get(function.module.index())?, function.address),
                name => format!("{}!{name}", modules.get(function.module.index())?),
            };
            Some((LogPlace::new(Some(function.module.0), block.address), name))
        });
        let functions = blocks.collect();
        Names { modules, functions }
    }

    /// Returns the name of the function that a block is of.
    fn of(&self, block: LogPlace) -> String {
        self.functions.get(&block).cloned().unwrap_or_else(|| self.place(block))
    }

    fn place(&self, place: LogPlace) -> String {
        let module = place.module().and_then(|module| self.modules.get(module as usize));
        format!("{}+{:#x}", module.map_or("?", String::as_str), place.address())
    }
}
