//! The formats: their names, what they are for, how their files are called.

use std::fmt;
use std::str::FromStr;

use crate::error::UnknownName;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// [`crate::pprof`].
    Pprof,
    /// [`crate::folded`].
    Folded,
    /// [`crate::perf_script`].
    PerfScript,
    /// [`crate::callgrind`].
    Callgrind,
    /// [`crate::firefox`].
    Firefox,
    /// [`crate::speedscope`].
    Speedscope,
    /// [`crate::chrome_trace`].
    ChromeTrace,
    /// [`crate::bolt_fdata`].
    BoltFdata,
    /// [`crate::bolt_preagg`].
    BoltPreagg,
    /// [`crate::llvm_sample`].
    LlvmSample,
    /// [`crate::propeller::write_clusters`].
    PropellerBb,
    /// [`crate::propeller::write_paths`].
    PropellerPaths,
    /// [`crate::csv`].
    Csv,
}

impl Format {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: [Format; 13] = [
        Format::Pprof,
        Format::Folded,
        Format::PerfScript,
        Format::Callgrind,
        Format::Firefox,
        Format::Speedscope,
        Format::ChromeTrace,
        Format::BoltFdata,
        Format::BoltPreagg,
        Format::LlvmSample,
        Format::PropellerBb,
        Format::PropellerPaths,
        Format::Csv,
    ];

    /// What one types.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// Extension of its files, without a dot in front.
    #[must_use]
    pub fn extension(self) -> &'static str {
        self.facts().1
    }

    /// One line for people.
    #[must_use]
    pub fn description(self) -> &'static str {
        self.facts().2
    }

    /// Whether files of the format are not text.
    #[must_use]
    pub fn is_binary(self) -> bool {
        self == Format::Pprof
    }

    fn facts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Format::Pprof => {
                ("pprof", "pb.gz", "CPU time and entries by context, lines and inlines, for go tool pprof")
            }
            Format::Folded => {
                ("folded", "folded", "CPU time by context in microseconds, for flamegraph.pl and inferno")
            }
            Format::PerfScript => ("perf-script", "perf", "CPU time by context as `perf script` prints samples"),
            Format::Callgrind => ("callgrind", "callgrind", "costs by line and instruction, for KCachegrind"),
            Format::Firefox => ("firefox", "json", "CPU time by context, lines and inlines, for profiler.firefox.com"),
            Format::Speedscope => {
                ("speedscope", "speedscope.json", "CPU time and entries by context, for speedscope.app")
            }
            Format::ChromeTrace => ("chrome-trace", "trace.json", "contexts as nested events, for Perfetto"),
            Format::BoltFdata => ("bolt-fdata", "fdata", "branches by symbol, for llvm-bolt"),
            Format::BoltPreagg => {
                ("bolt-preagg", "preagg", "branches and fall-through ranges by address, for perf2bolt -pa")
            }
            Format::LlvmSample => ("llvm-sample", "prof", "counts by line, for clang -fprofile-sample-use"),
            Format::PropellerBb => ("propeller-bb", "propeller", "block order, for clang -fbasic-block-sections=list="),
            Format::PropellerPaths => ("propeller-paths", "propeller", "block order with hot paths cloned, likewise"),
            Format::Csv => ("csv", "csv", "one table of the profile with its intervals"),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Format, UnknownName> {
        let found = Format::ALL.into_iter().find(|format| format.name() == word);
        found.ok_or_else(|| UnknownName {
            what: "format",
            word: word.to_owned(),
            valid: Format::ALL.map(Format::name).join(", "),
        })
    }
}
