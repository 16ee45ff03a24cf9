//! Planted costs: programs whose time is known, because they measure their own parts.
//!
//! Their sources are in `crates/lab/planted`, and are compiled when they are needed. `planted.h`
//! says how a program comes to know what a part costs, without any profiler: by the thread's CPU
//! clock, in units of work with and without the part. [`Truth`] is what it prints, [`judge`]
//! compares it with a profile of the same run, and [`verdict`] says what all of that comes to.

mod judge;
mod ranking;
mod truth;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use profile::Profile;

use crate::accuracy::Extra;
use crate::corpus::{Data, Workload};

pub use judge::{Case, Summary, judge, verdict};
pub use ranking::{Answer, SUBJECTS, Subject};
pub use truth::{Marks, Part, Thing, Truth};

/// A program with something planted.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Short name, and that of its source.
    pub name: &'static str,
    /// What costs.
    pub what: &'static str,
    /// Ending of the source's name, which says the language.
    language: Language,
    source: &'static str,
    /// What makes it run for some seconds.
    rounds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
    Rust,
}

impl Language {
    fn ending(self) -> &'static str {
        match self {
            Language::C => "c",
            Language::Cpp => "cc",
            Language::Rust => "rs",
        }
    }
}

macro_rules! kind {
    ($name:literal, $language:ident, $ending:literal, $rounds:literal, $what:literal) => {
        Kind {
            name: $name,
            what: $what,
            language: Language::$language,
            source: include_str!(concat!("../../planted/", $name, ".", $ending)),
            rounds: $rounds,
        }
    };
}

/// What time is judged by.
pub const KINDS: [Kind; 16] = [
    kind!("rare_misses", C, "c", 500, "dependent cache misses behind a rare branch"),
    kind!("one_arm", C, "c", 500, "a shared load that misses after one arm of a branch"),
    kind!("arm_by_chance", C, "c", 500, "the same, where chance chooses the arm"),
    kind!("arm_of_four", Rust, "rs", 500, "a shared load that misses after one or two of four arms"),
    kind!("arm_faults", C, "c", 500, "a shared store that faults after one arm of a branch"),
    kind!("dividing_end", C, "c", 2400, "a division that ends its block"),
    kind!("divisions", C, "c", 450, "dependent divisions"),
    kind!("page_faults", C, "c", 500, "page faults"),
    kind!("system_calls", C, "c", 1100, "system calls"),
    kind!("store_forwarding", C, "c", 550, "loads of what two smaller stores wrote"),
    kind!("false_sharing", C, "c", 700, "two threads in one cache line"),
    kind!("mispredicted", Cpp, "cc", 2000, "branches that depend on chance"),
    kind!("threads", Rust, "rs", 700, "two threads with 4 : 1 of the work"),
    kind!("hash_misses", Cpp, "cc", 500, "a hash table that is larger than the caches"),
    kind!("virtual_calls", Cpp, "cc", 800, "virtual calls with 1 : 2 : 4 of the work"),
    kind!("exceptions", Cpp, "cc", 1100, "exceptions"),
];

/// The program whose split into user and kernel time is known; it has nothing else to tell.
pub const SPLIT: Kind = kind!("split", C, "c", 1500, "reads of a megabyte each, and a computation");

/// Runs a program, waits for it and writes down its resources.
const ACCOUNTED: Kind = kind!("accounted", C, "c", 0, "nothing");

/// Files that sources include.
const HEADERS: [(&str, &str); 2] =
    [("planted.h", include_str!("../../planted/planted.h")), ("planted.rs", include_str!("../../planted/planted.rs"))];

/// A smaller size is so many times smaller.
const SMALL: u32 = 20;

/// A compiled program.
#[derive(Clone, Debug)]
pub struct Planted {
    /// Which it is.
    pub kind: Kind,
    /// The file.
    pub program: PathBuf,
    /// Where its marks are.
    pub marks: Marks,
    rounds: u32,
}

/// A recorded run.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What the program says.
    pub truth: Truth,
    /// What strobe says.
    pub profile: Profile,
}

impl Kind {
    /// Compiles the program into a folder.
    pub fn compile(self, folder: &Path, is_small: bool) -> anyhow::Result<Planted> {
        let program = compile(self, folder)?;
        let marks = Marks::read(&program)?;
        Ok(Planted { kind: self, program, marks, rounds: if is_small { self.rounds / SMALL } else { self.rounds } })
    }
}

impl Planted {
    /// Runs it by itself.
    pub fn run(&self) -> anyhow::Result<Truth> {
        self.run_by(Command::new(&self.program))
    }

    /// Runs it under `strobe record` at the default budget, with a seed and these options.
    pub fn record(&self, strobe: &Path, seed: usize, with: &[Extra]) -> anyhow::Result<Recorded> {
        let path = self.program.with_extension("strobe");
        let mut command = record_command(strobe, seed, with, &path);
        command.arg(&self.program);
        let truth = self.run_by(command)?;
        Ok(Recorded { truth, profile: store::open(&path)? })
    }

    /// Counts all that it runs.
    pub fn count(&self, strobe: &Path) -> anyhow::Result<Profile> {
        let path = self.program.with_extension("counted.strobe");
        let mut command = Command::new(strobe);
        command.args(["count", "-q", "-o"]).arg(&path).arg("--").arg(&self.program);
        self.run_by(command)?;
        Ok(store::open(&path)?)
    }

    /// Records it until all of its code comes from strobe's cache.
    pub fn record_until_translated(&self, strobe: &Path, with: &[Extra]) -> anyhow::Result<()> {
        const MAX_TRIES: usize = 3;
        for _ in 0..MAX_TRIES {
            if was_translated(&self.record(strobe, 0, with)?.profile) {
                break;
            }
        }
        Ok(())
    }

    fn run_by(&self, mut command: Command) -> anyhow::Result<Truth> {
        let output = command.arg(self.rounds.to_string()).output().context(self.kind.name)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}: {complaint}", self.kind.name, output.status);
        Truth::parse(&String::from_utf8(output.stdout)?).context(self.kind.name)
    }
}

/// Whether all code came from strobe's cache.
fn was_translated(profile: &Profile) -> bool {
    let n_translated = profile.facts.get("modules_translated");
    n_translated.is_some_and(|n| n != "0") && n_translated == profile.facts.get("modules_from_cache")
}

/// `strobe record` at the default budget, up to the program.
fn record_command(strobe: &Path, seed: usize, with: &[Extra], output: &Path) -> Command {
    let mut command = Command::new(strobe);
    command.args(["record", "-q", "--seed", &(seed + 1).to_string()]).args(with.iter().map(|extra| extra.option()));
    command.arg("-o").arg(output).arg("--");
    command
}

/// Records a program of the corpus through one that waits for it and asks the kernel what both
/// took; returns that, user and system time in nanoseconds, with the profile.
pub fn record_accounted(
    strobe: &Path,
    folder: &Path,
    data: &Data,
    workload: &Workload,
    with: &[Extra],
) -> anyhow::Result<(Profile, (f64, f64))> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let folder = &folder.canonicalize()?;
    let output = folder.join(format!("{}.strobe", workload.name));
    let account = folder.join(format!("{}.account", workload.name));
    let mut recorder = record_command(strobe, 0, with, &output);
    account_command(&mut recorder, folder, &account)?;
    let words = std::iter::once(recorder.get_program()).chain(recorder.get_args());
    let prefix: String = words.map(|word| format!("'{}' ", word.display())).collect();
    let status = data.quiet_command(workload, &prefix)?.status().context("cannot start a shell")?;
    ensure!(status.code().is_some(), "{}: {status}", workload.name);
    accounted(&output, &account)
}

/// Has a command run what comes next through the program that asks the kernel what it took.
fn account_command(command: &mut Command, folder: &Path, account: &Path) -> anyhow::Result<()> {
    command.arg(compile(ACCOUNTED, folder)?).arg(account);
    Ok(())
}

/// A profile, and user and system time of the same run in nanoseconds.
fn accounted(output: &Path, account: &Path) -> anyhow::Result<(Profile, (f64, f64))> {
    let text = fs::read_to_string(account).with_context(|| account.display().to_string())?;
    let usage = Truth::parse(&format!("cpu 1\n{text}"))?.usage;
    Ok((store::open(output)?, usage.with_context(|| format!("{}: {text}", account.display()))?))
}

fn compile(kind: Kind, folder: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let folder = folder.canonicalize()?;
    for (name, text) in HEADERS {
        fs::write(folder.join(name), text)?;
    }
    let source = folder.join(format!("{}.{}", kind.name, kind.language.ending()));
    fs::write(&source, kind.source)?;
    let program = folder.join(kind.name);
    let (name, arguments) = match kind.language {
        Language::C => ("gcc", &["-O2", "-pthread"][..]),
        Language::Cpp => ("g++", &["-O2", "-std=c++17"][..]),
        Language::Rust => ("rustc", &["-O", "--edition", "2024"][..]),
    };
    let mut compiler = Command::new(name);
    compiler.args(arguments).arg(&source).arg("-o").arg(&program);
    if kind.language == Language::C {
        compiler.arg("-lm");
    }
    let output = compiler.output().with_context(|| format!("cannot start {name}, which compiles {}", kind.name))?;
    if !output.status.success() {
        bail!("{name} cannot compile {}: {}", kind.name, String::from_utf8_lossy(&output.stderr));
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs compile and run, and what they say of themselves can be true.
    #[test]
    fn every_program_tells_a_truth() {
        let dir = tempfile::tempdir().unwrap();
        for kind in KINDS.into_iter().chain([SPLIT]) {
            let planted = kind.compile(dir.path(), true).unwrap();
            let planted = Planted { rounds: 2, ..planted };
            let truth = planted.run().unwrap();
            assert!(truth.cpu_ns > 0.0 && !truth.parts.is_empty(), "{truth:?}");
            for part in &truth.parts {
                // What is found by removal can be anything if another program disturbs it.
                assert!(part.ns <= truth.cpu_ns || part.error_ns > 0.0, "{}: {part:?} of {truth:?}", kind.name);
                if let Thing::Path { mark, .. } = &part.thing {
                    let mark = mark.trim_start_matches('!');
                    assert!(!planted.marks.of(mark).is_empty(), "{}: {mark} is nowhere", kind.name);
                }
            }
        }
    }

    #[test]
    fn a_program_that_does_not_compile_is_an_error_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let broken = Kind { source: "int main(void) { return nothing; }", ..SPLIT };
        let error = format!("{:#}", broken.compile(dir.path(), true).unwrap_err());
        assert!(error.contains("split") && error.contains("nothing"), "{error}");
    }
}
