//! How many functions have a complete graph: one without unresolved indirect jumps.
//!
//! Linkage stubs are left out of the count: each is one jump through a known slot, and there are
//! many.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flow::indirect::{Reason, Resolution};
use flow::{FunctionFlow, ModuleFlow};
use image::{Image, Sources};
use recorder::Threads;

use crate::corpus::workloads;
use crate::module::{short_name, with_analysis};
use crate::table::{Table, grouped, percent};

/// Libraries that are examined beside the programs of the corpus.
const LIBRARIES: [&str; 5] = ["ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libsqlite3.so.0", "libstdc++.so.6"];
const LIBRARY_DIR: &str = "/usr/lib/x86_64-linux-gnu";

/// Completeness of one file.
#[derive(Debug)]
pub struct Completeness {
    /// The file.
    pub path: PathBuf,
    /// Functions, without linkage stubs.
    pub n_functions: u64,
    /// Functions with an unresolved indirect jump: names, and the reason of the first such jump.
    pub incomplete: Vec<(String, Reason)>,
    /// Jumps resolved to a table.
    pub n_tables: u64,
    /// Indirect tail calls.
    pub n_tail_calls: u64,
}

impl Completeness {
    /// 99 % of functions; in files of fewer than 200 functions, all but one.
    #[must_use]
    pub fn is_sufficient(&self) -> bool {
        let n_incomplete = self.incomplete.len() as u64;
        if self.n_functions < 200 { n_incomplete <= 1 } else { n_incomplete * 100 <= self.n_functions }
    }
}

/// Measures every program of the corpus and the libraries beside them.
pub fn measure_all(threads: Threads) -> anyhow::Result<Vec<Completeness>> {
    let programs = workloads().into_iter().map(|workload| (workload.program().to_owned(), workload.package.to_owned()));
    let libraries =
        LIBRARIES.map(|name| (Path::new(LIBRARY_DIR).join(name), "libc6 libsqlite3-0 libstdc++6".to_owned()));
    let mut files = BTreeSet::new();
    for (path, package) in programs.chain(libraries) {
        let file = path.canonicalize();
        files.insert(file.with_context(|| format!("{}: run `apt-get install {package}`", path.display()))?);
    }
    files.iter().map(|path| with_analysis(path, &threads, |image, module| measure(path, image, module))).collect()
}

fn measure(path: &Path, image: &Image<'_>, module: &ModuleFlow) -> Completeness {
    let functions = || module.functions.iter().filter(|function| !function.sources.contains(Sources::PLT));
    let jumps = || functions().flat_map(|function| &function.indirect_jumps);
    let count = |choose: fn(&Resolution) -> bool| jumps().filter(|jump| choose(&jump.resolution)).count() as u64;
    let incomplete = |function: &FunctionFlow| {
        let reason = function.indirect_jumps.iter().find_map(|jump| match jump.resolution {
            Resolution::Unresolved(reason) => Some(reason),
            Resolution::Table(_) | Resolution::TailCall { .. } => None,
        })?;
        Some((image.name_of(function.entry).demangled(), reason))
    };
    Completeness {
        path: path.to_owned(),
        n_functions: functions().count() as u64,
        incomplete: functions().filter_map(incomplete).collect(),
        n_tables: count(|resolution| matches!(resolution, Resolution::Table(_))),
        n_tail_calls: count(|resolution| matches!(resolution, Resolution::TailCall { .. })),
    }
}

/// One row per file.
#[must_use]
pub fn table(files: &[Completeness]) -> Table {
    let mut table = Table::new(&[
        "file",
        "functions",
        "incomplete",
        "complete",
        "jump tables",
        "indirect tail calls",
        "target met",
    ]);
    for file in files {
        let n_incomplete = file.incomplete.len() as u64;
        table.row([
            short_name(&file.path),
            grouped(file.n_functions),
            grouped(n_incomplete),
            percent(file.n_functions - n_incomplete, file.n_functions),
            grouped(file.n_tables),
            grouped(file.n_tail_calls),
            if file.is_sufficient() { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    table
}

/// Why functions are incomplete, with their number over all files.
#[must_use]
pub fn reasons(files: &[Completeness]) -> Table {
    let mut table = Table::new(&["reason", "functions"]);
    for reason in Reason::ALL {
        let n = files.iter().flat_map(|file| &file.incomplete).filter(|&&(_, why)| why == reason).count();
        table.row([reason.to_string(), grouped(n as u64)]);
    }
    table
}
