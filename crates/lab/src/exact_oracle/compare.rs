//! Runs under callgrind and under strobe, place by place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::counts::{Counts, Place};

/// What all runs say of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All have the same count.
    Equal,
    /// callgrind counted differently when the environment was larger.
    Unstable,
    /// strobe did; not callgrind, which gives every program the same addresses.
    Moving,
    /// callgrind has one count and strobe another, for a known reason.
    Explained(Reason),
    /// callgrind has one count and strobe another.
    Different,
}

/// Why a stable count is not the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The program ended in the middle of the block: strobe counts all of it, callgrind nothing.
    End,
    /// Block counts do not determine where the jump went, and strobe has no counter for it; its
    /// edges do not add up to its executions.
    Undetermined,
    /// A path that never ended: the program ended, or the function was left by `longjmp`. Not more
    /// are missing than calls did not return.
    Unfinished,
    /// An indirect call that callgrind says was executed more often than what is before it in the
    /// same block: it went to a stub of the linkage table, whose jump callgrind charges to the
    /// call.
    Stub,
    /// valgrind hides the kernel's library (vDSO), and with it a file that the dynamic linker keeps
    /// a list of.
    Vdso,
    /// strobe's runtime stands before the function, or has it do more.
    Runtime,
    /// The function asks which processor it runs on, or is called by such functions alone, and
    /// valgrind shows another.
    Processor,
    /// The function computes with x87 instructions, which have 80 bits, but 64 under valgrind.
    Precision,
    /// A string function of libc, called as often, chooses its way by the alignment or length of
    /// its strings: valgrind aligns the program's arguments otherwise, and prints other numbers
    /// where [`Reason::Precision`] matters.
    Alignment,
    /// valgrind lets the heap grow to 8 MB only. From then on `malloc` asks for other memory, and
    /// finds other chunks in it.
    Heap,
}

impl Reason {
    /// All, in order.
    pub const ALL: [Reason; 10] = [
        Reason::End,
        Reason::Undetermined,
        Reason::Unfinished,
        Reason::Stub,
        Reason::Vdso,
        Reason::Runtime,
        Reason::Processor,
        Reason::Precision,
        Reason::Alignment,
        Reason::Heap,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reason::End => "the program ended here",
            Reason::Undetermined => "undetermined edge",
            Reason::Unfinished => "unfinished path",
            Reason::Stub => "stub charged to its caller",
            Reason::Vdso => "no vDSO under valgrind",
            Reason::Runtime => "strobe's runtime",
            Reason::Processor => "valgrind's processor",
            Reason::Precision => "precision under valgrind",
            Reason::Alignment => "alignment of strings",
            Reason::Heap => "end of valgrind's heap",
        })
    }
}

/// Instructions, edges or calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// [`Place::Instruction`].
    Instruction,
    /// [`Place::Edge`].
    Edge,
    /// [`Place::Call`].
    Call,
}

impl Kind {
    /// All, in order.
    pub const ALL: [Kind; 3] = [Kind::Instruction, Kind::Edge, Kind::Call];

    /// The kind of a place.
    #[must_use]
    pub fn of(place: Place) -> Kind {
        match place {
            Place::Instruction(_) => Kind::Instruction,
            Place::Edge(..) => Kind::Edge,
            Place::Call(..) => Kind::Call,
        }
    }
}

/// The runs to compare.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a> {
    /// Under callgrind, with different sizes of the environment.
    pub callgrind: &'a [Counts],
    /// Under strobe, likewise; the first is compared.
    pub strobe: &'a [Counts],
    /// Under strobe, counting otherwise, only to see what moves.
    pub also_strobe: &'a [Counts],
}

/// A place whose counts are not equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was counted.
    pub place: Place,
    /// Why the counts are not equal, as far as it is known.
    pub verdict: Verdict,
    /// In the first run.
    pub callgrind: u64,
    /// In the first run.
    pub strobe: u64,
}

/// Places and their executions under callgrind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Distinct places.
    pub places: u64,
    /// Executions of all.
    pub executions: u64,
}

impl Tally {
    /// Adds one place.
    pub fn add(&mut self, executions: u64) {
        self.places += 1;
        self.executions += executions;
    }
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::default(), |a, b| Tally {
            places: a.places + b.places,
            executions: a.executions + b.executions,
        })
    }
}

/// What the comparison of a file has shown.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// All places.
    pub tallies: BTreeMap<(Kind, Verdict), Tally>,
    /// Everything but what is equal, by place.
    pub findings: Vec<Finding>,
}

/// Compares all places of a file; `explain` gives reasons for what is different.
#[must_use]
pub fn compare(runs: Runs<'_>, explain: impl Fn(&Finding) -> Option<Reason>) -> Compared {
    let all = runs.callgrind.iter().chain(runs.strobe);
    let places: BTreeSet<Place> = all.flat_map(|counts| counts.keys().copied()).collect();
    let mut compared = Compared::default();
    for place in places {
        let first = |runs: &[Counts]| runs.first().map_or(0, |counts| count(counts, place));
        let is_steady = |runs: &[Counts]| runs.iter().all(|counts| count(counts, place) == first(runs));
        let verdict = if !is_steady(runs.callgrind) {
            Verdict::Unstable
        } else if !is_steady(runs.strobe) || !is_steady(runs.also_strobe) {
            Verdict::Moving
        } else if first(runs.callgrind) == first(runs.strobe) {
            Verdict::Equal
        } else {
            Verdict::Different
        };
        let mut finding = Finding { place, verdict, callgrind: first(runs.callgrind), strobe: first(runs.strobe) };
        if verdict == Verdict::Different
            && let Some(reason) = explain(&finding)
        {
            finding.verdict = Verdict::Explained(reason);
        }
        compared.tallies.entry((Kind::of(place), finding.verdict)).or_default().add(finding.callgrind);
        if verdict != Verdict::Equal {
            compared.findings.push(finding);
        }
    }
    compared
}

fn count(counts: &Counts, place: Place) -> u64 {
    counts.get(&place).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use image::Svma;

    use super::*;

    fn runs(counts: &[u64]) -> Vec<Counts> {
        counts.iter().map(|&count| Counts::from([(Place::Instruction(Svma(16)), count)])).collect()
    }

    fn verdict(callgrind: &[u64], strobe: &[u64], also_strobe: &[u64]) -> Verdict {
        let (callgrind, strobe, also_strobe) = (runs(callgrind), runs(strobe), runs(also_strobe));
        let runs = Runs { callgrind: &callgrind, strobe: &strobe, also_strobe: &also_strobe };
        let explain = |finding: &Finding| (finding.strobe == 0).then_some(Reason::Unfinished);
        let compared = compare(runs, explain);
        let (&(kind, verdict), tally) = compared.tallies.first_key_value().expect("a place");
        assert_eq!((kind, tally.places, compared.tallies.len()), (Kind::Instruction, 1, 1));
        assert_eq!(compared.findings.len(), usize::from(verdict != Verdict::Equal));
        verdict
    }

    #[test]
    fn only_what_is_steady_everywhere_can_differ() {
        assert_eq!(verdict(&[7, 7], &[7, 7], &[7]), Verdict::Equal);
        assert_eq!(verdict(&[7, 8], &[7, 7], &[7]), Verdict::Unstable);
        assert_eq!(verdict(&[7, 7], &[7, 8], &[7]), Verdict::Moving);
        assert_eq!(verdict(&[7, 7], &[6, 6], &[6, 7]), Verdict::Moving);
        assert_eq!(verdict(&[7, 7], &[6, 6], &[7, 7]), Verdict::Different);
    }

    #[test]
    fn only_what_differs_needs_a_reason() {
        assert_eq!(verdict(&[7, 7], &[0, 0], &[]), Verdict::Explained(Reason::Unfinished));
        assert_eq!(verdict(&[7, 8], &[0, 0], &[]), Verdict::Unstable);
    }
}
