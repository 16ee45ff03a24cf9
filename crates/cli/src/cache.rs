//! `strobe cache`: what is kept from run to run, and what becomes of it.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write, stderr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use recorder::cache::{self, Entry, Kind, Maker, Removed};
use recorder::warm::{self, Module, Modules};
use recorder::{Bursts, Mode};
use serde_json::{Value, json};

use crate::figures;
use crate::numbers::thousands;
use crate::props::CacheProps;
use crate::view::table::{DIM, Table};

/// Version of the JSON.
const SCHEMA: u32 = 1;

pub fn run(props: &CacheProps, out: &mut impl Write) -> Result<()> {
    let folder = cache::folder_or_why()?;
    match props {
        CacheProps::Size { json: true } => print_json(&folder, false, out),
        CacheProps::List { json: true } => print_json(&folder, true, out),
        CacheProps::Size { json: false } => print_size(&folder, out),
        CacheProps::List { json: false } => print_list(&folder, out),
        CacheProps::Trim { limit } => {
            let limit = limit.map_or_else(cache::limit, Ok)?;
            print_removed(&cache::trim(&folder, limit), out)
        }
        CacheProps::Clear => print_removed(&cache::clear(&folder), out),
        CacheProps::Warm { binaries } => warm(binaries, &folder),
    }
}

/// Files of a kind.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    n_files: u64,
    bytes: u64,
}

impl Sum {
    fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Sum {
        let add = |sum: Sum, entry: &Entry| Sum { n_files: sum.n_files + 1, bytes: sum.bytes + entry.bytes };
        entries.into_iter().fold(Sum::default(), add)
    }
}

fn print_size(folder: &Path, out: &mut impl Write) -> Result<()> {
    let limit = cache::limit()?;
    let entries = cache::all(folder);
    let mut kinds: BTreeMap<Kind, Vec<&Entry>> = BTreeMap::new();
    entries.iter().for_each(|entry| kinds.entry(entry.kind).or_default().push(entry));
    let limited = Sum::of(entries.iter().filter(|entry| entry.kind.is_limited()));
    writeln!(out, "folder        {}", folder.display())?;
    writeln!(out, "limited       {} of {}", figures::bytes(limited.bytes), figures::bytes(limit))?;
    for (kind, entries) in kinds {
        let Sum { n_files, bytes } = Sum::of(entries);
        let files = if n_files == 1 { "file" } else { "files" };
        writeln!(out, "  {:<12}{} in {} {files}", plural(kind), figures::bytes(bytes), thousands(n_files))?;
    }
    Ok(())
}

fn print_list(folder: &Path, out: &mut impl Write) -> Result<()> {
    let now = SystemTime::now();
    let mut table = Table::new(&["SIZE", "USED", "WHAT", "OF"]);
    for entry in listed(folder) {
        let ago = now.duration_since(entry.used).unwrap_or_default();
        let maker = match entry.maker {
            Maker::Gone => ", for a strobe that is gone",
            Maker::Other => ", for another strobe",
            Maker::This | Maker::Any => "",
        };
        let of = format!("{}{maker}", entry.subject);
        table.row(DIM, [figures::bytes(entry.bytes), age(ago), name(entry.kind).to_owned(), of]);
    }
    Ok(table.print(out)?)
}

/// Those used last first.
fn listed(folder: &Path) -> Vec<Entry> {
    let mut entries = cache::all(folder);
    entries.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.path.cmp(&b.path)));
    entries
}

fn print_json(folder: &Path, with_files: bool, out: &mut impl Write) -> Result<()> {
    let entries = listed(folder);
    let limited = Sum::of(entries.iter().filter(|entry| entry.kind.is_limited()));
    let all = Sum::of(&entries);
    let mut document = json!({
        "schema": SCHEMA,
        "folder": folder.display().to_string(),
        "limit_bytes": cache::limit()?,
        "limited_bytes": limited.bytes,
        "bytes": all.bytes,
        "n_files": all.n_files,
    });
    if with_files {
        document["files"] = entries.iter().map(file).collect();
    }
    serde_json::to_writer_pretty(&mut *out, &document)?;
    Ok(writeln!(out)?)
}

fn file(entry: &Entry) -> Value {
    json!({
        "path": entry.path.display().to_string(),
        "kind": name(entry.kind).replace(' ', "_"),
        "of": entry.subject,
        "bytes": entry.bytes,
        "used": entry.used.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs(),
        "made_by": match entry.maker {
            Maker::Any => Value::Null,
            Maker::This => json!("this"),
            Maker::Other => json!("other"),
            Maker::Gone => json!("gone"),
        },
    })
}

fn print_removed(removed: &Removed, out: &mut impl Write) -> Result<()> {
    let Removed { n_files, bytes, .. } = *removed;
    let files = if n_files == 1 { "file" } else { "files" };
    Ok(writeln!(out, "removed {} in {} {files}", figures::bytes(bytes), thousands(n_files))?)
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Copy => "copy",
        Kind::ControlFlow => "control flow",
        Kind::Names => "names",
        Kind::DebugFile => "debug file",
        Kind::Runtime => "runtime",
        Kind::Note => "note",
        Kind::Unfinished => "unfinished",
    }
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Copy => "copies",
        Kind::DebugFile => "debug files",
        Kind::Runtime => "runtimes",
        Kind::Note => "notes",
        Kind::ControlFlow | Kind::Names | Kind::Unfinished => name(kind),
    }
}

/// `3 min`.
fn age(time: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3600, "h"), (60, "min")];
    let seconds = time.as_secs();
    let unit = UNITS.into_iter().find(|&(length, _)| 2 * length <= seconds);
    unit.map_or_else(|| format!("{seconds} s"), |(length, name)| format!("{} {name}", seconds / length))
}

/// Translates what is missing. A library that cannot be translated is not recorded either, and does
/// not keep the others from being warm.
fn warm(binaries: &[PathBuf], folder: &Path) -> Result<()> {
    let started = SystemTime::now();
    let limit = cache::limit()?;
    let mode = Mode::Bursts(Bursts::new(None, None, None));
    let mut modules = Modules::default();
    binaries.iter().try_for_each(|binary| modules.add(binary))?;
    for (program, library) in &modules.missing {
        warn(&format!("{}: {library}, which it needs, is not found", program.display()));
    }
    let progress = Progress::new(modules.modules.len());
    let mut problems = Vec::new();
    let mut n_new = 0;
    for module in &modules.modules {
        progress.start(module);
        match warm::warm(module, &mode) {
            Ok(is_new) => n_new += u64::from(is_new),
            Err(error) => problems.push(error.to_string()),
        }
    }
    warm::install_runtime()?;
    let removed = cache::trim(folder, limit);
    progress.finish(&format!("{} modules are warm, {n_new} of them new", modules.modules.len() - problems.len()));
    problems.iter().for_each(|problem| warn(problem));
    if removed.last_used.is_some_and(|used| started <= used) {
        bail!(
            "the cache is too small for all of it, which takes more than {}; set {} to more",
            figures::bytes(limit),
            cache::LIMIT_VARIABLE
        );
    }
    if problems.len() == modules.modules.len() {
        bail!("nothing was translated");
    }
    Ok(())
}

/// A line on a terminal; nothing in a pipe.
struct Progress(ProgressBar);

impl Progress {
    fn new(n_modules: usize) -> Progress {
        if !stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(n_modules as u64);
        if let Ok(style) = ProgressStyle::with_template("translating {bar:30} {pos}/{len} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Progress(bar)
    }

    fn start(&self, module: &Module) {
        let name = module.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.0.set_message(name);
        self.0.inc(1);
    }

    fn finish(&self, text: &str) {
        self.0.finish_and_clear();
        if stderr().is_terminal() {
            let _ = writeln!(stderr(), "strobe: {text}");
        }
    }
}

fn warn(text: &str) {
    let _ = writeln!(stderr(), "strobe: warning: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_whole_units() {
        for (seconds, text) in [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (864_000, "10 days")] {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }
}
