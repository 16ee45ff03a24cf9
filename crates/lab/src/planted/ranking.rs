//! Whether what costs most is what a user sees first, and with the share that it has.
//!
//! A user reads the hottest row of a view. Here the views are of the whole program: all its paths
//! by time, or all its functions by time in their own code, whichever kind the program knows parts
//! of. For `dd` they are system calls together against functions in user mode; how much the kernel
//! took is what `getrusage` says of the run, which the ticks that are judged here do not know.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use profile::Profile;
use profile::query::{self, PathRank};
use serde::{Deserialize, Serialize};

use super::judge::{FAR_OFF, LEADS_BY, Passing, is_of, judge};
use super::truth::Thing;
use super::{Extra, KINDS, Planted, account_command, accounted, record_command, was_translated};

/// A program of which it is asked what costs most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A planted one, by its name.
    Planted(&'static str),
    /// `dd` with blocks of its usual 512 bytes: system calls, and little else.
    Dd,
}

/// All of them.
pub const SUBJECTS: [Subject; 5] = [
    Subject::Planted("rare_misses"),
    Subject::Planted("hash_misses"),
    Subject::Planted("page_faults"),
    Subject::Dd,
    Subject::Planted("threads"),
];

/// What one recording says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What costs most.
    pub what: String,
    /// Its share of CPU time.
    pub truth: f64,
    /// The share that strobe states.
    pub stated: f64,
    /// What strobe ranks first.
    pub first: String,
    /// Whether that is what costs most.
    pub is_first: bool,
}

impl Answer {
    /// Whether the share is near the truth.
    #[must_use]
    pub fn is_near(&self) -> bool {
        (self.stated - self.truth).abs() < FAR_OFF
    }

    /// Whether a user who believes it is right.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.is_first && self.is_near()
    }
}

impl Subject {
    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Subject::Planted(name) => name,
            Subject::Dd => "dd",
        }
    }

    /// Records it so many times; what strobe translates for the first time is in its cache before.
    pub fn ask(
        self,
        strobe: &Path,
        folder: &Path,
        n_runs: usize,
        is_small: bool,
        with: &[Extra],
    ) -> anyhow::Result<Vec<Answer>> {
        match self {
            Subject::Planted(name) => {
                let kind = KINDS.into_iter().find(|kind| kind.name == name).context(name)?;
                kind.compile(folder, true)?.record_until_translated(strobe, with)?;
                let planted = kind.compile(folder, is_small)?;
                (0..n_runs).map(|run| ask_planted(&planted, strobe, run, with)).collect()
            }
            Subject::Dd => {
                const MAX_TRIES: usize = 3;
                for _ in 0..MAX_TRIES {
                    if was_translated(&record_dd(strobe, folder, 0, true, with)?.0) {
                        break;
                    }
                }
                (0..n_runs)
                    .map(|run| {
                        let (profile, usage_ns) = record_dd(strobe, folder, run, is_small, with)?;
                        Ok(answer_of_dd(&profile, usage_ns))
                    })
                    .collect()
            }
        }
    }
}

fn ask_planted(planted: &Planted, strobe: &Path, run: usize, with: &[Extra]) -> anyhow::Result<Answer> {
    let recorded = planted.record(strobe, run, with)?;
    let cases = judge(planted, run, &recorded);
    let has_paths = cases.iter().any(|case| case.thing.is_path());
    let mut rivals: Vec<_> = cases.into_iter().filter(|case| case.thing.is_path() == has_paths).collect();
    rivals.sort_by(|a, b| b.truth.total_cmp(&a.truth));
    let costliest = rivals.first().with_context(|| format!("{} knows nothing", planted.kind.name))?;
    let next = rivals.get(1).map_or(0.0, |next| next.truth);
    anyhow::ensure!(costliest.truth > LEADS_BY * next, "{}: nothing costs most", planted.kind.name);
    let (first, is_first) = first_of(&recorded.profile, planted, &costliest.thing);
    Ok(Answer { what: costliest.thing.name(), truth: costliest.truth, stated: costliest.stated, first, is_first })
}

/// The first row of the view that has things of this kind, and whether it is the thing.
fn first_of(profile: &Profile, planted: &Planted, thing: &Thing) -> (String, bool) {
    let name = |id: profile::model::FunctionId| profile.functions[id.index()].name.clone();
    let nothing = || ("nothing".to_owned(), false);
    match thing {
        Thing::Function(function) => query::functions(profile)
            .first()
            .map_or_else(nothing, |row| (name(row.function), is_of(profile, planted, row.function, function))),
        Thing::Path { function, mark } => {
            let passing = Passing::new(planted, mark);
            query::paths(profile, None, PathRank::Time).first().map_or_else(nothing, |row| {
                let is_it = is_of(profile, planted, row.function, function) && passing.is_on(profile, row);
                let address = profile.blocks[profile.paths[row.path.index()].blocks[0].index()].address;
                (format!("{}, path at {address:#x}", name(row.function)), is_it)
            })
        }
    }
}

/// Records `dd`, and returns what the kernel says that it took, user and system time.
fn record_dd(
    strobe: &Path,
    folder: &Path,
    seed: usize,
    is_small: bool,
    with: &[Extra],
) -> anyhow::Result<(Profile, (f64, f64))> {
    const N_BLOCKS: u32 = 12_000_000;
    let n_blocks = if is_small { N_BLOCKS / super::SMALL } else { N_BLOCKS };
    let output = folder.join("dd.strobe");
    let account = folder.join("dd.account");
    let mut command: Command = record_command(strobe, seed, with, &output);
    account_command(&mut command, folder, &account)?;
    command.args(["/bin/dd", "if=/dev/zero", "of=/dev/null", &format!("count={n_blocks}"), "status=none"]);
    let status = command.status().context("cannot start strobe")?;
    anyhow::ensure!(status.success(), "dd: {status}");
    accounted(&output, &account)
}

fn answer_of_dd(profile: &Profile, (user_ns, system_ns): (f64, f64)) -> Answer {
    const WHAT: &str = "system calls";
    let totals = query::totals(profile);
    let calls_ns = totals.system_calls_ns.value;
    let rows = query::functions(profile);
    let rival = rows.first().filter(|row| row.self_ns.value >= calls_ns);
    Answer {
        what: WHAT.to_owned(),
        truth: system_ns / (user_ns + system_ns).max(1.0),
        stated: query::share(totals.system_calls_ns, totals.cpu_ns).value,
        first: rival.map_or(WHAT.to_owned(), |row| profile.functions[row.function.index()].name.clone()),
        is_first: rival.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use profile::estimate::Estimate;
    use profile::model::{Block, BlockEnd, BlockId, Context, Function, FunctionId, Module, ModuleId, Path as Taken};

    use super::super::Marks;
    use super::*;

    fn function(name: &str, self_ns: f64) -> Function {
        Function {
            module: ModuleId(0),
            address: 0,
            size: 64,
            name: name.to_owned(),
            entries: Estimate::default(),
            self_ns: Estimate::measured(self_ns),
        }
    }

    fn block(function: u32, address: u64) -> Block {
        Block {
            function: FunctionId(function),
            address,
            size: 8,
            last: 0,
            n_insns: 2,
            end: BlockEnd::Jump,
            count: Estimate::exact(1),
            self_ns: Estimate::default(),
        }
    }

    fn path(function: u32, block: u32, self_ns: f64) -> Taken {
        Taken {
            function: FunctionId(function),
            blocks: vec![BlockId(block)],
            back_to: None,
            n_branches: 0,
            count: Estimate::exact(1),
            self_ns: Estimate::measured(self_ns),
            misses: 0,
        }
    }

    fn context(function: u32, self_ns: f64, kernel_ns: f64) -> Context {
        Context {
            parent: None,
            function: FunctionId(function),
            call_site: None,
            entries: Estimate::default(),
            self_ns: Estimate::measured(self_ns),
            kernel_ns: Estimate::measured(kernel_ns),
            misses: 0,
        }
    }

    /// Two functions of a planted program: the mark is on the block at 16.
    fn profile(times: [f64; 3]) -> (Profile, Planted) {
        let program = std::path::PathBuf::from("/planted");
        let profile = Profile {
            modules: vec![Module { path: "/planted".to_owned(), build_id: String::new() }],
            functions: vec![function("step", times[0] + times[1]), function("prepare", times[2])],
            blocks: vec![block(0, 0), block(0, 16), block(1, 32)],
            paths: vec![path(0, 0, times[0]), path(0, 1, times[1]), path(1, 2, times[2])],
            contexts: vec![context(0, times[0] + times[1], 0.0), context(1, times[2], 0.0)],
            ..Profile::default()
        };
        let marks = Marks::parse(&[&20_u64.to_le_bytes()[..], b"slow\0"].concat()).unwrap();
        (profile, Planted { kind: KINDS[0], program, marks, rounds: 1 })
    }

    #[test]
    fn the_first_row_of_the_whole_program_counts() {
        let slow = Thing::Path { function: "step".to_owned(), mark: "slow".to_owned() };
        let others = Thing::Path { function: "step".to_owned(), mark: "!slow".to_owned() };
        let step = Thing::Function("step".to_owned());
        let asked = |times, thing: &Thing| {
            let (profile, planted) = profile(times);
            first_of(&profile, &planted, thing).1
        };
        assert!(asked([1.0, 5.0, 2.0], &slow) && !asked([1.0, 5.0, 2.0], &others));
        assert!(!asked([6.0, 5.0, 2.0], &slow) && asked([6.0, 5.0, 2.0], &others));
        assert!(!asked([1.0, 5.0, 9.0], &slow), "another function's path is first");
        assert!(asked([1.0, 5.0, 3.0], &step));
        assert!(!asked([1.0, 5.0, 9.0], &step));
    }

    #[test]
    fn an_answer_is_right_if_it_is_first_and_near() {
        let answer =
            |stated, is_first| Answer { what: String::new(), truth: 0.7, stated, first: String::new(), is_first };
        assert!(answer(0.65, true).is_right() && answer(0.79, true).is_right());
        assert!(!answer(0.65, false).is_right() && !answer(0.59, true).is_right() && !answer(0.81, true).is_right());
    }

    #[test]
    fn system_calls_of_dd_are_those_of_its_ticks() {
        let (mut profile, _) = profile([1.0, 1.0, 1.0]);
        profile.contexts[0].kernel_ns = Estimate::measured(7.0);
        let answer = answer_of_dd(&profile, (20.0, 80.0));
        assert_eq!((answer.truth, answer.stated, answer.is_first), (0.8, 0.7, true));
        profile.contexts[0].kernel_ns = Estimate::measured(1.5);
        let wrong = answer_of_dd(&profile, (20.0, 80.0));
        assert_eq!((wrong.first.as_str(), wrong.is_first, wrong.is_right()), ("step", false, false));
    }
}
