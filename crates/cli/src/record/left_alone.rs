//! Programs that run as if strobe were not there, because they would not survive it.
//!
//! Most are recognised before their first tick and never join; the others had been recorded until they did what gave them away. Either way the
//! user is told the program, the reason and what else there is, because an empty profile explains nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use wire::hello::LeftAlone;

/// Processes that were left alone, by program and reason.
#[derive(Debug, Default, Clone)]
pub struct Loners {
    counts: BTreeMap<(String, LeftAlone), u64>,
}

impl Loners {
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

    /// A line for each program, without advice.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.counts.iter().map(|((name, reason), n)| {
            let times = if *n == 1 { String::new() } else { format!(" ({n} processes)") };
            format!("{name}{times}: {}", why(*reason))
        })
    }

    /// The same with what to do.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.counts.keys().map(|(name, reason)| format!("{name} is left alone: {}; {}", why(*reason), advice(*reason)))
    }
}

fn why(reason: LeftAlone) -> &'static str {
    match reason {
        LeftAlone::Go => "it contains Go's runtime, which ends the program at a signal of strobe",
        LeftAlone::Lisp => "it is SBCL, whose runtime ends the program at a signal of strobe",
        LeftAlone::Filter => "it installs a seccomp filter, which may forbid what strobe does in the program",
        LeftAlone::TickSignal => "it handles SIGURG, the signal of ticks, behind strobe's back",
    }
}

fn advice(reason: LeftAlone) -> &'static str {
    match reason {
        LeftAlone::Go => "it ran as if strobe were not there; profile it with runtime/pprof or perf",
        LeftAlone::Lisp => "it ran as if strobe were not there; profile it with sb-sprof or perf",
        LeftAlone::Filter => {
            "from then on it ran as if strobe were not there; record it with its sandbox turned off, or use perf"
        }
        LeftAlone::TickSignal => "from then on it ran as if strobe were not there; use perf",
    }
}
