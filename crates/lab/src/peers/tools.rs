//! Other profilers: how each is put in front of a command, what it shows and what it needs.

use std::path::Path;
use std::process::{Command, Stdio};

/// What a tool shows and needs; the words of the feature table.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// Counts of edges, or branch biases.
    pub edges: &'static str,
    /// Paths through functions.
    pub paths: &'static str,
    /// Calling contexts.
    pub contexts: &'static str,
    /// Values and addresses.
    pub values: &'static str,
    /// Source code, or a build of one's own.
    pub source: &'static str,
    /// Rights.
    pub root: &'static str,
    /// A hardware counter.
    pub pmu: &'static str,
    /// Whether the program must be started under it.
    pub restart: &'static str,
}

/// A profiler that takes a command behind it.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// What tables call it.
    pub name: &'static str,
    /// What is put in front; `$OUT` is a file for its findings (and `$OUT.cpu` one for the
    /// CPU seconds of a program that is no child of the tool), `$STROBE` our program, `$LAB` a
    /// folder with the scripts of the lab.
    pub prefix: &'static str,
    /// A command that succeeds if the tool is there.
    pub test: &'static str,
    /// A command that gets it, or what it needs.
    pub install: &'static str,
    /// Slows programs down so much that short inputs do.
    pub is_heavy: bool,
    /// For the feature table.
    pub features: Features,
}

/// No command, but what a shell takes for a comment.
const NEEDS_BRANCH_RECORDS: &str = "# needs a PMU with branch records";

const SAMPLED: Features = Features {
    edges: "no",
    paths: "no",
    contexts: "no",
    values: "no",
    source: "no",
    root: "no",
    pmu: "no",
    restart: "no",
};

/// Stacks need frame pointers or unwinding of copied stacks.
const SAMPLED_STACKS: Features = Features { contexts: "sampled", ..SAMPLED };

const VALGRIND: Features = Features { restart: "yes", ..SAMPLED };

/// All tools; ours first.
pub const TOOLS: [Tool; 14] = [
    Tool {
        name: "strobe",
        prefix: "'$STROBE' record -q -o '$OUT' --",
        test: "true",
        install: "",
        is_heavy: false,
        features: Features {
            edges: "yes",
            paths: "yes",
            contexts: "sampled",
            values: "sampled",
            restart: "yes",
            ..SAMPLED
        },
    },
    Tool {
        name: "strobe --exact=paths",
        prefix: "'$STROBE' record -q --exact=paths -o '$OUT' --",
        test: "true",
        install: "",
        is_heavy: true,
        features: Features { edges: "exact", paths: "exact", contexts: "exact", values: "exact", ..VALGRIND },
    },
    Tool {
        name: "perf record",
        prefix: "perf record -q -e cpu-clock -F 250 -o '$OUT' --",
        test: "perf --version",
        install: "apt-get install --yes linux-perf",
        is_heavy: false,
        features: SAMPLED,
    },
    Tool {
        name: "perf record -F 1000",
        prefix: "perf record -q -e cpu-clock -F 1000 -o '$OUT' --",
        test: "perf --version",
        install: "apt-get install --yes linux-perf",
        is_heavy: false,
        features: SAMPLED,
    },
    Tool {
        name: "perf record -g",
        prefix: "perf record -q -e cpu-clock -F 250 -g -o '$OUT' --",
        test: "perf --version",
        install: "apt-get install --yes linux-perf",
        is_heavy: false,
        features: SAMPLED_STACKS,
    },
    Tool {
        name: "perf record --call-graph dwarf",
        prefix: "perf record -q -e cpu-clock -F 250 --call-graph dwarf -o '$OUT' --",
        test: "perf --version",
        install: "apt-get install --yes linux-perf",
        is_heavy: false,
        features: SAMPLED_STACKS,
    },
    Tool {
        name: "perf record -b",
        prefix: "perf record -q -b -o '$OUT' --",
        test: "perf record -q -b -o /dev/null -- true",
        install: NEEDS_BRANCH_RECORDS,
        is_heavy: false,
        features: Features { edges: "sampled", pmu: "yes", ..SAMPLED },
    },
    Tool {
        name: "samply",
        prefix: "samply record --save-only --rate 250 -o '$OUT' --",
        // Where it may not run, it is not worth minutes of compiling.
        test: "test $(cat /proc/sys/kernel/perf_event_paranoid) -le 1 && samply --version",
        install: "test $(cat /proc/sys/kernel/perf_event_paranoid) -le 1 && cargo install --locked samply",
        is_heavy: false,
        features: Features { root: "or perf_event_paranoid 1", ..SAMPLED_STACKS },
    },
    Tool {
        name: "valgrind none",
        prefix: "valgrind -q --tool=none",
        test: "valgrind --version",
        install: "apt-get install --yes valgrind",
        is_heavy: true,
        features: VALGRIND,
    },
    Tool {
        name: "cachegrind",
        prefix: "valgrind -q --tool=cachegrind --cache-sim=yes --branch-sim=yes --cachegrind-out-file='$OUT'",
        test: "valgrind --version",
        install: "apt-get install --yes valgrind",
        is_heavy: true,
        features: Features { edges: "mispredictions", values: "simulated cache", ..VALGRIND },
    },
    Tool {
        name: "callgrind",
        prefix: "valgrind -q --tool=callgrind --callgrind-out-file='$OUT'",
        test: "valgrind --version",
        install: "apt-get install --yes valgrind",
        is_heavy: true,
        features: Features { contexts: "call pairs", ..VALGRIND },
    },
    Tool {
        name: "callgrind with jumps",
        prefix: "valgrind -q --tool=callgrind --dump-instr=yes --collect-jumps=yes --callgrind-out-file='$OUT'",
        test: "valgrind --version",
        install: "apt-get install --yes valgrind",
        is_heavy: true,
        features: Features { edges: "exact", contexts: "call pairs", ..VALGRIND },
    },
    Tool {
        name: "uftrace",
        prefix: "uftrace record --no-pager --force -P . -d '$OUT'",
        test: "uftrace --version",
        install: "apt-get install --yes uftrace",
        is_heavy: true,
        features: Features { contexts: "of known functions", source: "for all functions", ..VALGRIND },
    },
    Tool {
        name: "frida Stalker",
        prefix: "python3 '$LAB/stalk.py' '$OUT.cpu'",
        test: "python3 -c 'import frida'",
        install: "python3 -m pip install frida",
        is_heavy: true,
        features: Features { edges: "with a script", contexts: "call pairs", values: "with a script", ..SAMPLED },
    },
];

/// Builds with counters of their own: name, features.
pub const REBUILT: [(&str, Features); 4] = [
    ("gcc -pg (gprof)", Features { contexts: "call pairs", source: "yes", restart: "yes", ..SAMPLED }),
    ("gcc -fprofile-generate", Features { edges: "exact", values: "some", source: "yes", restart: "yes", ..SAMPLED }),
    ("clang -fprofile-generate", Features { edges: "exact", values: "some", source: "yes", restart: "yes", ..SAMPLED }),
    ("BOLT -instrument", Features { edges: "exact", source: "relinked with -q", restart: "yes", ..SAMPLED }),
];

impl Tool {
    /// Whether the tool can be used here.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let mut shell = Command::new("sh");
        shell.args(["-c", self.test]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.status().is_ok_and(|status| status.success())
    }

    /// Installs the tool. That some cannot be had on a machine is no failure: tables say so.
    pub fn try_install(&self) {
        // What the command has to say is on the terminal; whether it worked, [`Tool::is_there`]
        // tells.
        let _ = Command::new("sh").args(["-c", self.install]).stdin(Stdio::null()).status();
    }

    /// What is put in front of a command.
    #[must_use]
    pub fn prefix(&self, strobe: &Path, out: &Path, lab: &Path) -> String {
        let names = [("$STROBE", strobe), ("$OUT", out), ("$LAB", lab)];
        names.iter().fold(self.prefix.to_owned(), |text, (name, path)| text.replace(name, &path.display().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_prefixes_are_replaced() {
        for tool in TOOLS {
            let prefix = tool.prefix(Path::new("/s"), Path::new("/o"), Path::new("/l"));
            assert!(!prefix.contains('$'), "{prefix}");
        }
    }

    #[test]
    fn a_tool_that_is_not_there_is_not_used() {
        let missing = Tool { test: "no-such-profiler --version", ..TOOLS[0] };
        assert!(TOOLS[0].is_there() && !missing.is_there());
    }
}
