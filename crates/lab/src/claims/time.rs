//! Time: planted costs, and the kernel's account.

use serde::{Deserialize, Serialize};

use super::{Claim, Experiment, Finding, Set, Verdict, Workbench, block_times, counts, ranking};
use crate::planted::{self, Case, KINDS, Kind, Recorded, SPLIT, Summary, Thing};
use crate::resample::{interval, mean};
use crate::table::Table;
use crate::{chart, transparency};
use profile::query;

/// What we promise of time.
pub const CLAIMS: [Claim; 5] = [
    Claim {
        id: "T1",
        statement: "planted costs: time shares of paths and functions of 5 % or more, where programs know them by construction or by removal",
        published: "not published",
        required: "95 % intervals hold the truth in >= 93 % of cases; no paths that differ by 2x ranked the wrong way; the costliest first, and \
                   within 10 points",
        experiment: Experiment::Measured { run: planted_costs, minutes: 5.0 },
    },
    Claim {
        id: "T1b",
        statement: "what costs most: the slow path behind a rare branch, the hash table that misses, page faults, dd, two threads of 4:1 work",
        published: "not published",
        required: "ranked first and within 10 points of the truth in 48 of 50 recordings",
        experiment: Experiment::Measured { run: ranking::costliest, minutes: 5.0 },
    },
    Claim {
        id: "T2",
        statement: "times of blocks against three pooled runs of perf record -F 3989",
        published: "not published",
        required: "overlap of shares not lower by more than 2 points than that of perf with as many samples, on 22 of 25 programs",
        experiment: Experiment::Measured { run: block_times::against_perf, minutes: 15.0 },
    },
    Claim {
        id: "T3",
        statement: "absolute counts: estimated against exact number of executed blocks, and 95 % intervals of counts",
        published: "not published",
        required: "within 1.25 on 23 of 25 programs and on all planted ones; >= 93 % of intervals hold; with options of recordings, the score \
                   of intervals no worse than without",
        experiment: Experiment::Measured { run: counts::absolute_counts, minutes: 6.0 },
    },
    Claim {
        id: "T4",
        statement: "total CPU time and its split into user and kernel time",
        published: "not published",
        required: "total equal to rusage; split within 1 point or 2 standard errors of the kernel's, and of the truth where it is known",
        experiment: Experiment::Measured { run: account, minutes: 1.0 },
    },
];

/// What a recording of a planted program came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    cases: Vec<Case>,
    account: Account,
    n_ticks: u64,
}

/// CPU time of one run in nanoseconds, as strobe states it and as others do.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Account {
    program: String,
    stated_ns: f64,
    /// Share of the kernel, with its standard error.
    stated_kernel: (f64, f64),
    /// User and system time by `getrusage`.
    usage_ns: Option<(f64, f64)>,
    /// Share of the kernel by the program's own clock, with its standard error.
    known_kernel: Option<(f64, f64)>,
}

/// What a program still runs after it has asked what it took: its end.
const END_NS: f64 = 5e6;
/// Accounts are in microseconds, of which there are some for each process.
const ROUNDING_NS: f64 = 1e4;

impl Account {
    fn of(program: &str, profile: &profile::Profile) -> Account {
        let totals = query::totals(profile);
        let kernel = query::share(totals.kernel_ns, totals.cpu_ns);
        Account {
            program: program.to_owned(),
            stated_ns: totals.cpu_ns.value,
            stated_kernel: (kernel.value, kernel.error()),
            usage_ns: None,
            known_kernel: None,
        }
    }

    /// What is missing or too much of the total, where it is known.
    fn excess_ns(&self) -> Option<f64> {
        self.usage_ns.map(|(user, system)| self.stated_ns - user - system)
    }

    fn is_equal(&self) -> Option<bool> {
        self.excess_ns().map(|excess| (-ROUNDING_NS..=END_NS).contains(&excess))
    }

    /// Whether the split is right by each of the two that know it.
    fn splits(&self) -> [Option<bool>; 2] {
        const POINT: f64 = 0.01;
        let (stated, error) = self.stated_kernel;
        let is_near =
            |share: f64, share_error: f64| (stated - share).abs() <= POINT.max(2.0 * error.hypot(share_error));
        let by_usage = self.usage_ns.map(|(user, system)| is_near(system / (user + system).max(1.0), 0.0));
        [by_usage, self.known_kernel.map(|(share, share_error)| is_near(share, share_error))]
    }
}

fn n_runs(set: Set) -> usize {
    match set {
        Set::Smoke => 1,
        Set::Quick => 3,
        Set::Full => 10,
    }
}

/// Recordings of a planted program: from files of an earlier run, or made.
fn recordings(bench: &Workbench, kind: Kind) -> anyhow::Result<Vec<Kept>> {
    bench.kept(&format!("planted/{}.json", kind.name), || {
        eprintln!("  {}", kind.name);
        let strobe = transparency::strobe_program()?;
        let folder = bench.dir.join("planted");
        // What strobe translates for the first time is in its cache afterwards.
        kind.compile(&folder, true)?.record_until_translated(&strobe, &bench.with)?;
        let planted = kind.compile(&folder, bench.set == Set::Smoke)?;
        (0..n_runs(bench.set))
            .map(|run| {
                let recorded = planted.record(&strobe, run, &bench.with)?;
                Ok(Kept {
                    cases: planted::judge(&planted, run, &recorded),
                    account: account_of(kind.name, &recorded),
                    n_ticks: recorded.profile.ticks.values().sum(),
                })
            })
            .collect()
    })
}

fn account_of(name: &str, recorded: &Recorded) -> Account {
    let Recorded { truth, profile } = recorded;
    let known_kernel = truth.kernel.map(|(ns, error_ns)| (ns / truth.cpu_ns, error_ns / truth.cpu_ns));
    Account { usage_ns: truth.usage, known_kernel, ..Account::of(name, profile) }
}

fn planted_costs(bench: &Workbench) -> anyhow::Result<Finding> {
    let mut cases = Vec::new();
    let mut of_kinds = Table::new(&[
        "kind",
        "recordings",
        "ticks",
        "held",
        "judged",
        "pairs",
        "inverted",
        "not first",
        "10 points off",
    ]);
    let mut held_of_kinds = Vec::new();
    for kind in KINDS {
        let kept = recordings(bench, kind)?;
        let own: Vec<Case> = kept.iter().flat_map(|one| one.cases.clone()).collect();
        let summary = planted::verdict(&own);
        let n_ticks: u64 = kept.iter().map(|one| one.n_ticks).sum();
        let Summary { n_judged, n_held, n_pairs, n_inverted, n_not_first, n_far_off, .. } = summary;
        let numbers = [kept.len(), n_ticks as usize, n_held, n_judged, n_pairs, n_inverted, n_not_first, n_far_off];
        of_kinds.row([kind.what.to_owned()].into_iter().chain(numbers.map(|n| n.to_string())));
        held_of_kinds.push((kind.name.to_owned(), 100.0 * summary.held()));
        cases.extend(own);
    }
    let summary = planted::verdict(&cases);
    let held: Vec<f64> = held_of_kinds.iter().map(|&(_, held)| held).collect();
    let (low, high) = interval(&held, mean);
    let ours = format!(
        "{:.1} % of {} intervals; {} of {} pairs inverted; in {} recordings the costliest is not first {} times, 10 points off {} times",
        100.0 * summary.held(),
        summary.n_judged,
        summary.n_inverted,
        summary.n_pairs,
        summary.n_ranked,
        summary.n_not_first,
        summary.n_far_off
    );
    let mut finding =
        Finding::new(ours, format!("{low:.0}-{high:.0} %, kinds drawn anew"), Verdict::of(summary.holds()));
    finding.notes.push(
        "A program knows what a part costs by the thread's CPU clock, in the same process and run: a part is all that a unit of work does, or units \
         with and without it alternate, and the difference is what it costs. Functions are judged by all that they and their callees take, user and \
         kernel; paths by user time. A truth by removal has a standard error of its own; a case is held if truth and statement differ by no more \
         than both errors make likely. The costliest counts where it leads by a quarter."
            .to_owned(),
    );
    finding.tables.push(("By kind".to_owned(), of_kinds));
    finding.tables.push(("By thing, means of recordings, % of CPU time".to_owned(), by_thing(&cases)));
    let labels: Vec<String> = held_of_kinds.into_iter().map(|(name, _)| name).collect();
    finding.plots.push(chart::bars(
        "95 % intervals that hold the truth, %",
        &labels,
        &[("held", held)],
        0.0,
        Some(93.0),
    ));
    Ok(finding)
}

fn by_thing(cases: &[Case]) -> Table {
    let mut table = Table::new(&["kind", "thing", "truth", "±", "stated", "lowest", "highest", "±", "held", "of"]);
    let mut things: Vec<(&str, &Thing)> = Vec::new();
    for case in cases {
        if !things.contains(&(&case.kind, &case.thing)) {
            things.push((&case.kind, &case.thing));
        }
    }
    for (kind, thing) in things {
        let own: Vec<&Case> = cases.iter().filter(|case| case.kind == kind && case.thing == *thing).collect();
        let mean_of =
            |figure: fn(&Case) -> f64| 100.0 * own.iter().map(|case| figure(case)).sum::<f64>() / own.len() as f64;
        let stated = own.iter().map(|case| 100.0 * case.stated);
        let is_path = matches!(thing, Thing::Path { .. });
        let [n_held, n_judged] = [Case::is_held, Case::is_judged]
            .map(|is: fn(&Case) -> bool| own.iter().filter(|case| case.is_judged() && is(case)).count().to_string());
        table.row([
            kind.to_owned(),
            format!("{}{}", if is_path { "path " } else { "" }, thing.name()),
            format!("{:.1}", mean_of(|case| case.truth)),
            format!("{:.1}", 1.96 * mean_of(|case| case.truth_error)),
            format!("{:.1}", mean_of(|case| case.stated)),
            format!("{:.1}", stated.clone().fold(f64::INFINITY, f64::min)),
            format!("{:.1}", stated.fold(f64::NEG_INFINITY, f64::max)),
            format!("{:.1}", mean_of(|case| case.margin)),
            n_held,
            n_judged,
        ]);
    }
    table
}

fn account(bench: &Workbench) -> anyhow::Result<Finding> {
    let mut accounts = Vec::new();
    for kind in KINDS.into_iter().chain([SPLIT]) {
        accounts.extend(recordings(bench, kind)?.into_iter().map(|kept| kept.account));
    }
    for workload in bench.few_programs()? {
        accounts.push(bench.kept(&format!("account/{}.json", workload.name), || {
            eprintln!("  {}", workload.name);
            let strobe = transparency::strobe_program()?;
            let data = bench.bench(&[workload])?.data;
            let folder = bench.dir.join("planted");
            let (profile, usage_ns) = planted::record_accounted(&strobe, &folder, &data, &workload, &bench.with)?;
            Ok(Account { usage_ns: Some(usage_ns), ..Account::of(workload.name, &profile) })
        })?);
    }
    let finding = judge_accounts(&accounts);
    Ok(finding)
}

fn judge_accounts(accounts: &[Account]) -> Finding {
    let count = |answers: &[Option<bool>]| {
        let known = answers.iter().flatten();
        (known.clone().filter(|&&is_right| is_right).count(), known.count())
    };
    let totals = count(&accounts.iter().map(Account::is_equal).collect::<Vec<_>>());
    let by_usage = count(&accounts.iter().map(|one| one.splits()[0]).collect::<Vec<_>>());
    let by_clock = count(&accounts.iter().map(|one| one.splits()[1]).collect::<Vec<_>>());
    let holds = [totals, by_usage, by_clock].iter().all(|&(n_right, n)| n > 0 && n_right == n);
    let of = |(n_right, n): (usize, usize)| format!("{n_right} of {n}");
    let ours = format!(
        "totals equal in {} runs; splits as the kernel's in {}, as known in {}",
        of(totals),
        of(by_usage),
        of(by_clock)
    );
    let mut finding = Finding::new(ours, "", Verdict::of(holds));
    finding.notes.push(format!(
        "A program asks for its usage before it ends, so that up to {:.0} ms may be missing from what it was told. The kernel splits time by looking \
         at a processor 250 times per second; what a program of known units says of its split is by the thread's CPU clock.",
        END_NS / 1e6
    ));
    let mut table = Table::new(&["program", "stated s", "rusage s", "kernel %", "±", "rusage %", "known %", "right"]);
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", 100.0 * share));
    for one in accounts {
        let usage = one.usage_ns;
        let answers = one.splits().into_iter().chain([one.is_equal()]).flatten().collect::<Vec<_>>();
        table.row([
            one.program.clone(),
            format!("{:.3}", one.stated_ns / 1e9),
            usage.map_or_else(|| "-".to_owned(), |(user, system)| format!("{:.3}", (user + system) / 1e9)),
            percent(Some(one.stated_kernel.0)),
            percent(Some(1.96 * one.stated_kernel.1)),
            percent(usage.map(|(user, system)| system / (user + system).max(1.0))),
            percent(one.known_kernel.map(|(share, _)| share)),
            if answers.iter().all(|&is_right| is_right) { "yes" } else { "no" }.to_owned(),
        ]);
    }
    finding.tables.push(("By run".to_owned(), table));
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(stated_s: f64, stated_kernel: f64) -> Account {
        Account {
            program: "p".to_owned(),
            stated_ns: stated_s * 1e9,
            stated_kernel: (stated_kernel, 0.004),
            usage_ns: Some((1.5e9, 0.5e9)),
            known_kernel: Some((0.25, 0.0)),
        }
    }

    #[test]
    fn equal_totals_and_splits_hold() {
        assert_eq!(judge_accounts(&[account(2.0, 0.25), account(2.004, 0.259)]).verdict, Verdict::Holds);
    }

    #[test]
    fn one_wrong_total_or_split_misses() {
        for wrong in [account(1.9, 0.25), account(2.02, 0.25), account(2.0, 0.28), account(2.0, 0.2)] {
            assert_eq!(judge_accounts(&[account(2.0, 0.25), wrong]).verdict, Verdict::Misses);
        }
        let unknown = Account { known_kernel: None, ..account(2.0, 0.25) };
        assert_eq!(judge_accounts(&[unknown]).verdict, Verdict::Misses, "somewhere the split has to be known");
    }
}
