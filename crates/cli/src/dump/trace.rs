//! A trace as text: paths as they ended, or blocks as they ran.
//!
//! Every line of a path has the thread, the number of the line in the thread, the function, the
//! number of the path and its blocks. What is under way at the end of a thread comes last.

use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use rustc_hash::FxHashMap;
use wire::path_trace::Mark;

use crate::props::TraceRange;
use store::path_trace::facts::{End, PathFact, Start};
use store::path_trace::file::{Process, Trace};
use store::path_trace::order;

pub fn print(path: &Path, range: TraceRange, out: &mut impl Write) -> Result<()> {
    // Millions of lines, each of which would cost a look for colors.
    let mut out = BufWriter::with_capacity(1 << 16, out);
    print_all(path, range, &mut out)?;
    Ok(out.flush()?)
}

fn print_all(path: &Path, range: TraceRange, out: &mut impl Write) -> Result<()> {
    let trace = Trace::open(path)?;
    for (&number, process) in &trace.processes {
        let Process { pid, command, .. } = process;
        let lost = process.n_lost.map_or_else(|| "unfinished".to_owned(), |lost| format!("lost={lost}"));
        writeln!(out, "process {number} pid={pid} {lost} {command}")?;
    }
    let threads: Vec<(u32, u32)> =
        trace.threads().filter(|&(_, thread)| range.thread.is_none_or(|wanted| wanted == thread)).collect();
    if let (Some(wanted), true) = (range.thread, threads.is_empty()) {
        let known: Vec<String> = trace.threads().map(|(_, thread)| thread.to_string()).collect();
        bail!("{}: no thread {wanted}; there are {}", path.display(), known.join(", "));
    }
    for thread in threads {
        let Some(process) = trace.processes.get(&thread.0) else { continue };
        let names =
            process.functions.iter().map(|(&key, (module, entry))| (key, name(&trace, module, *entry))).collect();
        let printer = Printer { trace: &trace, process, thread: thread.1, names };
        writeln!(out, "thread {} process={} records={}", thread.1, thread.0, trace.n_words(thread))?;
        if range.by_block {
            printer.print_blocks(thread, range, out)?;
        } else {
            printer.print_paths(thread, range, out)?;
        }
    }
    match &trace.damage {
        Some(damage) => bail!("{}: {damage}", path.display()),
        None => Ok(()),
    }
}

struct Printer<'a> {
    trace: &'a Trace,
    process: &'a Process,
    thread: u32,
    /// Of functions, by key.
    names: FxHashMap<u32, String>,
}

impl Printer<'_> {
    fn print_paths(&self, thread: (u32, u32), range: TraceRange, out: &mut impl Write) -> Result<()> {
        let mut left = range.limit.unwrap_or(u64::MAX);
        self.trace.for_each_part(thread, range.from, |first, words| -> Result<bool> {
            for (index, &word) in (first..).zip(words) {
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                self.print_word(index, word, out)?;
            }
            Ok(left != 0)
        })?;
        if left == 0 {
            return Ok(());
        }
        for path in self.process.underway.get(&thread.1).into_iter().flatten() {
            writeln!(out, "{} under way {} {}", self.thread, self.function_name(path.word), blocks_text(path))?;
        }
        Ok(())
    }

    fn print_word(&self, index: u64, word: u64, out: &mut impl Write) -> Result<()> {
        let thread = self.thread;
        if let Some(mark) = Mark::from_word(word) {
            return Ok(writeln!(out, "{thread} {index} {}", mark_text(mark))?);
        }
        let name = self.function_name(word);
        let number = word as u32;
        match self.process.paths.get(&word) {
            Some(path) => {
                writeln!(out, "{thread} {index} {name} path={number} {} {}", blocks_text(path), end_text(path))?;
            }
            None => writeln!(out, "{thread} {index} {name} path={number}")?,
        }
        Ok(())
    }

    /// Blocks in the order in which they ran.
    fn print_blocks(&self, thread: (u32, u32), range: TraceRange, out: &mut impl Write) -> Result<()> {
        let ran = order::blocks(self.trace, self.process, thread)?;
        let end = range.limit.map_or(u64::MAX, |limit| range.from.saturating_add(limit));
        for (index, step) in (0..).zip(ran.steps()).take_while(|&(index, _)| index < end) {
            if index < range.from {
                continue;
            }
            match step {
                order::Step::Block { word, at } => {
                    writeln!(out, "{} {index} {} {at:#x}", self.thread, self.function_name(word))?;
                }
                order::Step::Unknown(word) => {
                    writeln!(out, "{} {index} {} path={}", self.thread, self.function_name(word), word as u32)?;
                }
                order::Step::Mark(mark) => writeln!(out, "{} {index} {}", self.thread, mark_text(mark))?,
            }
        }
        writeln!(out, "thread {} displaced={}", self.thread, ran.n_displaced())?;
        Ok(())
    }

    fn function_name(&self, word: u64) -> &str {
        self.names.get(&((word >> 32) as u32)).map_or("?", String::as_str)
    }
}

fn name(trace: &Trace, module: &str, entry: u64) -> String {
    let file = module.rsplit('/').next().unwrap_or(module);
    match trace.names.get(&(module.to_owned(), entry)) {
        Some(name) => format!("{file}!{name}"),
        None => format!("{file}+{entry:#x}"),
    }
}

fn mark_text(mark: Mark) -> &'static str {
    match mark {
        Mark::Thread(_) => "thread",
        Mark::Handler => "handler",
        Mark::HandlerEnd => "handler end",
        Mark::BurstEnd => "burst end",
    }
}

fn end_text(path: &PathFact) -> String {
    match path.end {
        End::Return => "end=return".to_owned(),
        End::Cut(to) => format!("end=back-to:{to:#x}"),
        End::Jump(0) => "end=jump".to_owned(),
        End::Jump(to) => format!("end=jump:{to:#x}"),
        End::Stop => "end=stop".to_owned(),
    }
}

fn blocks_text(path: &PathFact) -> String {
    let rest = if path.start == Start::Middle { "...," } else { "" };
    let blocks: Vec<String> = path.blocks.iter().map(|block| format!("{:#x}", block.at)).collect();
    format!("blocks={rest}{}", blocks.join(","))
}
