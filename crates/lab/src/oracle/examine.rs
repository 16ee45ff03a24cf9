//! One file: everything that ran in it, judged.

use std::collections::{BTreeMap, HashMap};

use flow::Transfer;
use flow::indirect::Reason;
use image::Svma;

use super::index::Index;
use super::judge::{Exception, Known, Target, Verdict, judge};
use crate::callgrind::{Object, ObjectId, Recording, UNKNOWN_OBJECT};

/// What the oracle found in one file.
#[derive(Debug, Default)]
pub struct ObjectReport {
    /// Path of the file.
    pub path: String,
    /// Instructions that ran.
    pub instructions: Tally,
    /// Jumps, calls and fall-throughs that ran, by verdict; distinct pairs of addresses.
    pub transitions: BTreeMap<Verdict, Tally>,
    /// Indirect jumps that ran and that the analysis declares to be unresolved: why, and how many
    /// targets they went to.
    pub unresolved: BTreeMap<Svma, Unresolved>,
    /// Disagreements, by address.
    pub findings: Vec<Finding>,
}

/// An indirect jump that ran and is declared to be unresolved.
#[derive(Clone, Debug)]
pub struct Unresolved {
    /// Why.
    pub reason: Reason,
    /// Targets it went to.
    pub targets: Tally,
    /// Its address and function.
    pub description: String,
}

/// How many distinct things ran, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Distinct addresses or pairs of addresses.
    pub distinct: u64,
    /// Executions.
    pub executions: u64,
}

impl Tally {
    fn add(&mut self, executions: u64) {
        self.distinct += 1;
        self.executions += executions;
    }
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::default(), |a, b| Tally {
            distinct: a.distinct + b.distinct,
            executions: a.executions + b.executions,
        })
    }
}

/// A disagreement between what ran and the analysis.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What is wrong.
    pub exception: Exception,
    /// The instruction.
    pub from: Svma,
    /// Where it led, in the same file.
    pub to: Option<Svma>,
    /// How often.
    pub executions: u64,
    /// The two addresses with the functions they belong to.
    pub description: String,
}

impl ObjectReport {
    /// Transitions whose verdict is chosen by `choose`.
    pub fn tally(&self, choose: impl Fn(Verdict) -> bool) -> Tally {
        self.transitions.iter().filter(|&(&verdict, _)| choose(verdict)).map(|(_, &tally)| tally).sum()
    }

    /// Indirect jumps that went to a listed target, or out of the function as a tail call.
    #[must_use]
    pub fn listed_indirect_jumps(&self) -> Tally {
        self.tally(|verdict| matches!(verdict, Verdict::Known(Known::TableEntry | Known::TailCall)))
    }

    /// All indirect jumps that ran.
    #[must_use]
    pub fn indirect_jumps(&self) -> Tally {
        self.tally(|verdict| match verdict {
            Verdict::Known(known) => matches!(known, Known::TableEntry | Known::TailCall),
            Verdict::Unresolved(_) => true,
            Verdict::Exception(exception) => {
                matches!(exception, Exception::UnlistedTarget | Exception::TailCallInside)
            }
            Verdict::Artefact(_) => false,
        })
    }
}

/// Judges everything that ran in one object of a recording.
#[must_use]
pub fn examine(id: ObjectId, recording: &Recording, index: &Index<'_>) -> ObjectReport {
    let object = recording.object(id);
    let mut report = ObjectReport { path: object.path.clone(), ..ObjectReport::default() };
    for (&at, &executions) in &object.executed {
        report.instructions.add(executions);
        if !index.is_instruction(at) {
            report.find(index, Exception::NotAnInstruction, at, None, executions);
        }
    }
    for ((from, target), executions) in transitions(id, recording, index) {
        let verdict = judge(index, from, target);
        report.transitions.entry(verdict).or_default().add(executions);
        match verdict {
            Verdict::Exception(exception) => report.find(index, exception, from, target.here(), executions),
            Verdict::Unresolved(reason) => {
                let new = || Unresolved { reason, targets: Tally::default(), description: index.describe(from) };
                report.unresolved.entry(from).or_insert_with(new).targets.add(executions);
            }
            Verdict::Known(_) | Verdict::Artefact(_) => {}
        }
    }
    for (call, executions) in returns_denied(id, object, index) {
        report.find(index, Exception::Returned, call, None, executions);
    }
    report.findings.sort_by_key(|finding| (finding.from, finding.to, finding.exception));
    report
}

impl ObjectReport {
    fn find(&mut self, index: &Index<'_>, exception: Exception, from: Svma, to: Option<Svma>, executions: u64) {
        let target = to.map(|to| format!(" -> {}", index.describe(to))).unwrap_or_default();
        let description = format!("{}{target}", index.describe(from));
        self.findings.push(Finding { exception, from, to, executions, description });
    }
}

/// Jumps and calls together, since callgrind shows some jumps as calls, and the fall-throughs of
/// conditional jumps.
fn transitions(id: ObjectId, recording: &Recording, index: &Index<'_>) -> HashMap<(Svma, Target), u64> {
    let object = recording.object(id);
    let mut all: HashMap<(Svma, Target), u64> = HashMap::new();
    let mut add = |from: Svma, target: Target, executions: u64| {
        if executions != 0 {
            *all.entry((from, target)).or_default() += executions;
        }
    };
    let target = |to_object: Option<ObjectId>, to: Svma| match to_object {
        Some(other) if other == id => Target::Here(to),
        Some(other) if recording.object(other).path != UNKNOWN_OBJECT => Target::OtherFile,
        Some(_) | None => Target::NoFile,
    };
    for (jump, count) in &object.jumps {
        add(jump.from, target(jump.to_object, jump.to), count.taken);
        let not_taken = count.executed_conditionally.map_or(0, |executed| executed.saturating_sub(count.taken));
        if let Some(insn) = index.instruction(jump.from)
            && let Transfer::Branch(_) = Transfer::of(&insn)
        {
            add(jump.from, Target::Here(Svma(insn.next_ip())), not_taken);
        }
    }
    for (call, &count) in &object.calls {
        add(call.from, target(call.to_object, call.to), count);
    }
    all
}

/// Calls that came back although the analysis says they do not: their return site ran more often
/// than jumps led to it.
fn returns_denied(id: ObjectId, object: &Object, index: &Index<'_>) -> Vec<(Svma, u64)> {
    let mut arrivals: HashMap<Svma, u64> = HashMap::new();
    let jumps = object.jumps.iter().map(|(jump, count)| (jump, count.taken));
    let calls = object.calls.iter().map(|(call, &count)| (call, count));
    for (transition, count) in jumps.chain(calls) {
        if transition.to_object == Some(id) {
            *arrivals.entry(transition.to).or_default() += count;
        }
    }
    let executed = |at: Svma| object.executed.get(&at).copied().unwrap_or(0);
    let refuted = index.calls_without_return().filter_map(|(call, return_site)| {
        let came_back = executed(return_site).saturating_sub(arrivals.get(&return_site).copied().unwrap_or(0));
        (came_back != 0 && executed(call) != 0).then_some((call, came_back))
    });
    refuted.collect()
}
