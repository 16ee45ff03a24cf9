//! Exact counts against callgrind's: every instruction, edge and direct call.
//!
//! Each program runs twice under callgrind, and several times under each kind of
//! `strobe record --exact`, under the same [`conditions`] but for the size of the environment
//! (which is why the program is driven and not the engine: commands in front make the conditions).
//! What callgrind counts the same each time, strobe must count the same, unless there is a
//! [`reason`]. The rest is listed by function: what is not stable under callgrind, and what is not
//! stable under strobe (callgrind gives a program the same addresses each time, the kernel does
//! not).
//!
//! A program whose hash tables depend on the time has counts that a few runs agree on by chance. So
//! where counts differ the program runs again, up to [`MAX_ROUNDS`] times as often: an error of
//! strobe is there in all runs, and chance is not.

mod compare;
mod conditions;
mod counts;
mod reason;
mod report;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use image::Image;
use profile::Profile;
use profile::model::ModuleId;
use recorder::Threads;

pub use compare::{Compared, Finding, Kind, Reason, Runs, Tally, Verdict, compare};
pub use conditions::Conditions;
pub use counts::{Counts, Place, of_callgrind, of_profile};
pub use reason::Explainer;
pub use report::{FileReport, ProgramReport, Report};

use crate::callgrind::{self, ObjectId, Recording};
use crate::corpus::{Data, Workload};
use crate::module::{short_name, with_analysis};
use crate::oracle::{Index, Recordings};

/// What strobe counts, as `--exact` names it.
pub const COUNTINGS: [&str; 2] = ["blocks", "paths"];

/// Lengths of a variable that is there to move what is on the stack. callgrind runs with the first
/// two: valgrind has the program's arguments at a multiple of 8, so that these two lead to
/// different remainders by 16. The others lead to odd ones under strobe.
const PADDINGS: [usize; 4] = [16, 1368, 2709, 4055];
/// Runs of one round.
const N_CALLGRIND: usize = 2;
/// By counting.
const N_STROBE: [usize; 2] = [4, 2];
const MAX_ROUNDS: usize = 4;

/// Compares all programs.
pub fn run(
    strobe: &Path,
    data: &Data,
    workloads: &[Workload],
    recordings: Recordings,
    threads: Threads,
) -> anyhow::Result<Report> {
    let dir = data.root().join("exact-oracle");
    let session = Session { strobe, data, recordings, conditions: Conditions::prepare(data.root(), &dir)?, dir };
    let mut report = Report::default();
    for workload in workloads {
        report.programs.push(session.compare(workload, threads)?);
    }
    Ok(report)
}

struct Session<'a> {
    strobe: &'a Path,
    data: &'a Data,
    recordings: Recordings,
    conditions: Conditions,
    dir: PathBuf,
}

/// All runs of a program.
#[derive(Default)]
struct Observed {
    callgrind: Vec<Recording>,
    /// By counting.
    strobe: [Vec<Profile>; COUNTINGS.len()],
}

impl Session<'_> {
    fn compare(&self, workload: &Workload, threads: Threads) -> anyhow::Result<ProgramReport> {
        let mut observed = Observed::default();
        let mut rounds = 0;
        loop {
            self.observe(workload, &mut observed)?;
            rounds += 1;
            let report = observed.compare(workload, threads)?;
            let n_different = report.n_different();
            if n_different == 0 || rounds == MAX_ROUNDS {
                eprintln!("{}: {n_different} counts differ", workload.name);
                return Ok(report);
            }
            eprintln!("{}: {n_different} counts differ; it runs again", workload.name);
        }
    }

    /// Runs the program once more under everything.
    fn observe(&self, workload: &Workload, observed: &mut Observed) -> anyhow::Result<()> {
        for run in next_runs(&observed.callgrind, N_CALLGRIND) {
            observed.callgrind.push(self.callgrind(workload, run)?);
        }
        for ((counting, runs), n) in COUNTINGS.into_iter().zip(&mut observed.strobe).zip(N_STROBE) {
            for run in next_runs(runs, n) {
                runs.push(self.strobe(workload, counting, run)?);
            }
        }
        Ok(())
    }

    fn callgrind(&self, workload: &Workload, run: usize) -> anyhow::Result<Recording> {
        let path = self.dir.join(format!("{}.{run}.callgrind", workload.name));
        if self.is_wanted(&path) {
            let in_front = self.conditions.in_front_of_valgrind(PADDINGS[run % N_CALLGRIND]);
            callgrind::record(self.data, workload, &in_front, &path)?;
        }
        callgrind::read(&path)
    }

    fn strobe(&self, workload: &Workload, counting: &str, run: usize) -> anyhow::Result<Profile> {
        let path = self.dir.join(format!("{}.{counting}.{run}.strobe", workload.name));
        if self.is_wanted(&path) {
            if path.exists() {
                fs::remove_file(&path)?;
            }
            let in_front = self.conditions.in_front_of_strobe(PADDINGS[run % PADDINGS.len()])?;
            let (strobe, profile) = (self.strobe.display(), path.display());
            let prefix = format!("{in_front} '{strobe}' record -q --exact={counting} -o '{profile}' --");
            let mut command = self.data.command(workload, &prefix)?;
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            ensure!(status.success(), "{} under strobe: {status}", workload.name);
        }
        let profile = store::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let is_zero = |name: &str| profile.facts.get(name).is_none_or(|value| value == "0");
        ensure!(
            !profile.modules.is_empty() && is_zero("abandoned_processes") && is_zero("native_excursions"),
            "{} did not count all of {}; is the machine busy?",
            path.display(),
            workload.name
        );
        Ok(profile)
    }

    fn is_wanted(&self, path: &Path) -> bool {
        self.recordings == Recordings::Make || !path.exists()
    }
}

/// Numbers of the runs of a round.
fn next_runs<T>(so_far: &[T], n: usize) -> std::ops::Range<usize> {
    so_far.len()..so_far.len() + n
}

impl Observed {
    fn compare(&self, workload: &Workload, threads: Threads) -> anyhow::Result<ProgramReport> {
        let mut report = ProgramReport { name: workload.name, files: Vec::new() };
        for path in self.files() {
            let compare = |index: &Index<'_>| self.compare_file(&path, index);
            report.files.push(with_analysis(&path, &threads, |image, module| compare(&Index::new(image, module)))?);
        }
        Ok(report)
    }

    /// Files that both observers have seen, most executed first.
    fn files(&self) -> Vec<PathBuf> {
        let [blocks, _] = &self.strobe;
        let modules = blocks.first().map(modules).unwrap_or_default();
        let objects = self.callgrind.iter().flat_map(|recording| &recording.objects);
        let mut executions: HashMap<PathBuf, u64> = HashMap::new();
        for object in objects {
            if let Some(path) = real_path(&object.path).filter(|path| modules.contains_key(path)) {
                *executions.entry(path).or_default() += object.executed.values().sum::<u64>();
            }
        }
        let mut files: Vec<(u64, PathBuf)> = executions.into_iter().map(|(path, n)| (n, path)).collect();
        files.sort_by(|a, b| b.cmp(a));
        files.into_iter().map(|(_, path)| path).collect()
    }

    fn compare_file(&self, path: &Path, index: &Index<'_>) -> FileReport {
        let of_callgrind = |recording: &Recording| {
            let is_file = |object: &callgrind::Object| real_path(&object.path).as_deref() == Some(path);
            let id = recording.objects.iter().position(is_file);
            id.map(|id| of_callgrind(recording, ObjectId(id), index)).unwrap_or_default()
        };
        let of_strobe = |profile: &Profile| {
            modules(profile).get(path).map(|&id| of_profile(profile, id, index)).unwrap_or_default()
        };
        let callgrind: Vec<Counts> = self.callgrind.iter().map(of_callgrind).collect();
        let strobe = self.strobe.each_ref().map(|runs| runs.iter().map(of_strobe).collect::<Vec<Counts>>());
        let (name, names) = (short_name(path), self.names(path));
        let nothing = Counts::new();
        let compared = [0, 1].map(|counting| {
            let runs = Runs { callgrind: &callgrind, strobe: &strobe[counting], also_strobe: &strobe[1 - counting] };
            let [first, own] = [&callgrind, &strobe[counting]].map(|runs| runs.first().unwrap_or(&nothing));
            let explainer = Explainer::new(index, &name, &names, [first, own], COUNTINGS[counting] == "paths");
            compare(runs, |finding| explainer.reason(finding))
        });
        FileReport::new(name, compared, |at| {
            let known = index.function(at).and_then(|function| names.get(&function.entry.0)?.first().cloned());
            known.or_else(|| index.function_name(at)).unwrap_or_else(|| "outside every function".to_owned())
        })
    }

    /// Names of functions of a file by address: as strobe found them, and as the file's debug
    /// information has them.
    fn names(&self, path: &Path) -> HashMap<u64, Vec<String>> {
        let mut names: HashMap<u64, Vec<String>> = HashMap::new();
        for profile in self.strobe.iter().flatten() {
            let modules = modules(profile);
            let is_own = |module: ModuleId| modules.get(path) == Some(&module);
            let own = profile.functions.iter().filter(|function| is_own(function.module) && !function.name.is_empty());
            own.for_each(|function| names.entry(function.address).or_default().push(function.name.clone()));
        }
        for (address, name) in debug_names(path).unwrap_or_default() {
            names.entry(address).or_default().push(name);
        }
        names
    }
}

/// Symbols of the debug file that is installed for a file, if there is one.
fn debug_names(path: &Path) -> Option<Vec<(u64, String)>> {
    let bytes = fs::read(path).ok()?;
    let id = Image::parse(&bytes).ok()?.build_id()?.to_string();
    let (folder, file) = id.split_at_checked(2)?;
    let debug = fs::read(format!("/usr/lib/debug/.build-id/{folder}/{file}.debug")).ok()?;
    let image = Image::parse(&debug).ok()?;
    Some(image.symbols().iter().map(|symbol| (symbol.address.0, symbol.name.to_string())).collect())
}

fn modules(profile: &Profile) -> HashMap<PathBuf, ModuleId> {
    let named = profile.modules.iter().zip((0..).map(ModuleId));
    named.filter_map(|(module, id)| Some((real_path(&module.path)?, id))).collect()
}

fn real_path(path: &str) -> Option<PathBuf> {
    Path::new(path).canonicalize().ok()
}
