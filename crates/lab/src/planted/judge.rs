//! What strobe says of planted costs, against what the programs say themselves.

use profile::estimate::Estimate;
use profile::model::{FunctionId, Profile};
use profile::query::{self, PathRank};
use serde::{Deserialize, Serialize};

use super::truth::Thing;
use super::{Planted, Recorded};

/// One thing in one recording; shares are of CPU time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The program.
    pub kind: String,
    /// Which of its recordings.
    pub run: usize,
    /// The thing.
    pub thing: Thing,
    /// What it has, by the program's own clocks.
    pub truth: f64,
    /// The standard error of that, where it was found by removal.
    pub truth_error: f64,
    /// What strobe says that it has.
    pub stated: f64,
    /// Half the width of the 95 % interval that strobe states.
    pub margin: f64,
}

/// What cases come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Things of 5 % or more in all recordings.
    pub n_judged: usize,
    /// Of these, those that the interval holds.
    pub n_held: usize,
    /// Pairs of paths of one recording that differ by a factor of two,
    pub n_pairs: usize,
    /// and are ranked the wrong way.
    pub n_inverted: usize,
    /// Recordings in which one thing costs most by far,
    pub n_ranked: usize,
    /// and is not ranked first,
    pub n_not_first: usize,
    /// or is wrong by ten points or more.
    pub n_far_off: usize,
}

/// Things with less are not judged.
const LEAST_SHARE: f64 = 0.05;
/// Intervals that have to hold the truth.
const LEAST_HELD: f64 = 0.93;
/// Paths that differ by less can be ranked either way.
const DIFFERENT: f64 = 2.0;
/// What costs most costs so much more than the next: ties are ties.
pub(super) const LEADS_BY: f64 = 1.25;
/// So far off is far.
pub(super) const FAR_OFF: f64 = 0.10;
/// Standard deviations on either side that hold 95 %.
const Z_95: f64 = 1.96;

impl Case {
    /// Whether the interval holds the truth. A truth that is itself uncertain is held if the two
    /// differ by no more than both errors together make likely.
    #[must_use]
    pub fn is_held(&self) -> bool {
        (self.stated - self.truth).abs() <= self.margin.hypot(Z_95 * self.truth_error)
    }

    /// Whether it is large enough to be judged.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.truth >= LEAST_SHARE
    }
}

impl Summary {
    /// Whether everything that is required was found.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.n_judged > 0
            && self.held() >= LEAST_HELD
            && (self.n_inverted, self.n_not_first, self.n_far_off) == (0, 0, 0)
    }

    /// Share of intervals that hold the truth.
    #[must_use]
    pub fn held(&self) -> f64 {
        self.n_held as f64 / self.n_judged.max(1) as f64
    }
}

/// What a recording says of the parts that its program knows.
#[must_use]
pub fn judge(planted: &Planted, run: usize, recorded: &Recorded) -> Vec<Case> {
    let profile = &recorded.profile;
    let cpu_ns = query::totals(profile).cpu_ns;
    let case = |part: &super::Part| {
        let stated = match &part.thing {
            Thing::Function(name) => function_ns(profile, planted, name),
            Thing::Path { function, mark } => paths_ns(profile, planted, function, mark),
        };
        let stated = query::share(stated, cpu_ns);
        let (truth, truth_error) = recorded.truth.share(part);
        Case {
            kind: planted.kind.name.to_owned(),
            run,
            thing: part.thing.clone(),
            truth,
            truth_error,
            stated: stated.value,
            margin: stated.margin(),
        }
    };
    recorded.truth.parts.iter().map(case).collect()
}

/// What cases come to.
#[must_use]
pub fn verdict(cases: &[Case]) -> Summary {
    let mut summary = Summary::default();
    for case in cases.iter().filter(|case| case.is_judged()) {
        summary.n_judged += 1;
        summary.n_held += usize::from(case.is_held());
    }
    let is_same_run = |a: &Case, b: &Case| a.kind == b.kind && a.run == b.run;
    for group in cases.chunk_by(is_same_run) {
        let paths: Vec<&Case> = group.iter().filter(|case| case.thing.is_path()).collect();
        for slow in paths.iter().filter(|case| case.is_judged()) {
            for fast in paths.iter().filter(|fast| slow.truth >= DIFFERENT * fast.truth) {
                summary.n_pairs += 1;
                summary.n_inverted += usize::from(slow.stated <= fast.stated);
            }
        }
        // A function has at least what its paths have, so that they are not compared.
        let mut rivals: Vec<&Case> = if paths.is_empty() { group.iter().collect() } else { paths };
        rivals.sort_by(|a, b| b.truth.total_cmp(&a.truth));
        if let [first, others @ ..] = &rivals[..]
            && others.first().is_none_or(|next| first.truth > LEADS_BY * next.truth)
        {
            summary.n_ranked += 1;
            summary.n_not_first += usize::from(others.iter().any(|other| other.stated >= first.stated));
            summary.n_far_off += usize::from((first.stated - first.truth).abs() >= FAR_OFF);
        }
    }
    summary
}

/// Whether a function is the one of that name in the planted program.
pub(super) fn is_of(profile: &Profile, planted: &Planted, id: FunctionId, name: &str) -> bool {
    let function = &profile.functions[id.index()];
    let module = &profile.modules[function.module.index()];
    function.name == name && planted.program.as_os_str() == module.path.as_str()
}

/// Paths through a mark, or not through it.
pub(super) struct Passing<'a> {
    marks: &'a [u64],
    is_through: bool,
}

impl<'a> Passing<'a> {
    /// By the name of the mark, with a `!` in front of it for the others.
    pub fn new(planted: &'a Planted, mark: &str) -> Passing<'a> {
        let (is_through, mark) = match mark.strip_prefix('!') {
            Some(mark) => (false, mark),
            None => (true, mark),
        };
        Passing { marks: planted.marks.of(mark), is_through }
    }

    /// Whether a path of the mark's function is one of them.
    pub fn is_on(&self, profile: &Profile, row: &query::PathRow) -> bool {
        let blocks = profile.paths[row.path.index()].blocks.iter().map(|id| &profile.blocks[id.index()]);
        let mut ranges = blocks.map(|block| block.address..block.address + u64::from(block.size));
        ranges.any(|range| self.marks.iter().any(|mark| range.contains(mark))) == self.is_through
    }
}

fn function_ns(profile: &Profile, planted: &Planted, name: &str) -> Estimate {
    let rows = query::functions(profile);
    rows.iter().filter(|row| is_of(profile, planted, row.function, name)).map(|row| row.total_ns).sum()
}

fn paths_ns(profile: &Profile, planted: &Planted, function: &str, mark: &str) -> Estimate {
    let passing = Passing::new(planted, mark);
    let rows = query::paths(profile, None, PathRank::Time);
    let own = rows.iter().filter(|row| is_of(profile, planted, row.function, function));
    own.filter(|row| passing.is_on(profile, row)).map(|row| row.self_ns).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(run: usize, mark: &str, truth: f64, stated: f64, margin: f64) -> Case {
        let thing = Thing::Path { function: "f".to_owned(), mark: mark.to_owned() };
        Case { kind: "k".to_owned(), run, thing, truth, truth_error: 0.0, stated, margin }
    }

    #[test]
    fn true_intervals_in_the_right_order_hold() {
        let runs = (0..10).flat_map(|run| [case(run, "slow", 0.6, 0.62, 0.05), case(run, "fast", 0.3, 0.28, 0.05)]);
        let summary = verdict(&runs.collect::<Vec<_>>());
        assert!(summary.holds(), "{summary:?}");
        assert_eq!((summary.n_judged, summary.n_held, summary.n_pairs, summary.n_ranked), (20, 20, 10, 10));
    }

    #[test]
    fn intervals_that_are_too_narrow_miss() {
        let held = (0..9).map(|run| case(run, "slow", 0.6, 0.62, 0.05));
        let cases: Vec<Case> = held.chain([case(9, "slow", 0.6, 0.66, 0.05)]).collect();
        let summary = verdict(&cases);
        assert_eq!((summary.n_held, summary.n_judged, summary.holds()), (9, 10, false));
        assert!(verdict(&cases[..9]).holds());
        let unsure = Case { truth_error: 0.03, ..cases[9].clone() };
        assert!(unsure.is_held(), "a truth that is not known to 3 points does not contradict 6");
    }

    #[test]
    fn a_cheap_path_before_a_dear_one_misses_however_wide_the_interval() {
        let summary = verdict(&[case(0, "slow", 0.4, 0.15, 0.5), case(0, "fast", 0.2, 0.45, 0.5)]);
        assert_eq!((summary.n_held, summary.n_inverted, summary.n_not_first), (2, 1, 1));
        assert!(!summary.holds());
    }

    #[test]
    fn the_costliest_has_to_be_near_the_truth() {
        let wide = verdict(&[case(0, "slow", 0.8, 0.65, 0.5)]);
        assert_eq!((wide.n_held, wide.n_far_off, wide.holds()), (1, 1, false));
    }

    #[test]
    fn small_things_and_ties_say_nothing() {
        let summary =
            verdict(&[case(0, "a", 0.44, 0.40, 0.05), case(0, "b", 0.42, 0.44, 0.05), case(0, "c", 0.04, 0.0, 0.0)]);
        assert_eq!((summary.n_judged, summary.n_ranked, summary.n_pairs), (2, 0, 2));
        assert!(summary.holds(), "{summary:?}");
        assert!(!verdict(&[]).holds(), "nothing shows nothing");
    }
}
