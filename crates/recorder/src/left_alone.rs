//! Programs that run as if strobe were not there, because they would not survive it.
//!
//! Most are recognised before their first tick and never join; the others had been recorded until
//! they did what gave them away. Either way the user is told the program, the reason and what else
//! there is, because an empty profile explains nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use wire::hello::LeftAlone;

/// Processes that were left alone, by program and reason.
#[derive(Debug, Default, Clone)]
pub struct LeftAlonePrograms {
    counts: BTreeMap<(String, LeftAlone), u64>,
}

impl LeftAlonePrograms {
    pub fn add(&mut self, program: &OsStr, reason: LeftAlone) {
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
        *self.counts.entry((name, reason)).or_default() += 1;
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    pub fn n_processes(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns programs, reasons and numbers of processes.
    pub fn all(&self) -> impl Iterator<Item = (&str, LeftAlone, u64)> {
        self.counts.iter().map(|((name, reason), &n)| (name.as_str(), *reason, n))
    }
}
