//! What the oracle prints.

use std::fmt;
use std::path::Path;

use super::examine::{ObjectReport, Tally, Unresolved};
use super::judge::{Artefact, Known, Verdict};
use crate::module::short_name;
use crate::table::{Table, grouped, percent};

/// What the oracle found in all files.
#[derive(Debug, Default)]
pub struct Report {
    /// Files, most executed first.
    pub objects: Vec<ObjectReport>,
    /// Instructions executed in all.
    pub total_instructions: u64,
    /// Of these, in code that belongs to no file: linkage stubs, start-up sections, generated code.
    pub instructions_without_file: u64,
}

impl Report {
    /// Number of disagreements.
    #[must_use]
    pub fn n_findings(&self) -> usize {
        self.objects.iter().map(|object| object.findings.len()).sum()
    }

    /// Indirect jumps that went where the analysis says, and all that ran.
    #[must_use]
    pub fn listed_indirect_jumps(&self) -> (Tally, Tally) {
        let listed = self.objects.iter().map(ObjectReport::listed_indirect_jumps).sum();
        (listed, self.objects.iter().map(ObjectReport::indirect_jumps).sum())
    }

    /// Whether everything that ran is as the analysis says, and 99.9 % of executed indirect jumps
    /// go to a listed target.
    #[must_use]
    pub fn holds(&self) -> bool {
        let (listed, all) = self.listed_indirect_jumps();
        let unlisted = all.executions - listed.executions;
        self.n_findings() == 0 && u128::from(unlisted) * 1000 <= u128::from(all.executions)
    }

    fn coverage(&self) -> Table {
        let mut table =
            Table::new(&["object", "instructions", "executions", "transfers", "calls", "artefacts", "exceptions"]);
        for object in &self.objects {
            let known_call =
                |known| matches!(known, Known::Call | Known::ThroughPlt | Known::IntoStartup | Known::IndirectCall);
            let count = |choose: &dyn Fn(Verdict) -> bool| grouped(object.tally(choose).distinct);
            table.row([
                short_name(Path::new(&object.path)),
                grouped(object.instructions.distinct),
                grouped(object.instructions.executions),
                count(&|_| true),
                count(&|verdict| matches!(verdict, Verdict::Known(known) if known_call(known))),
                count(&|verdict| matches!(verdict, Verdict::Artefact(_))),
                grouped(object.findings.len() as u64),
            ]);
        }
        table
    }

    fn indirect_jumps(&self) -> Table {
        let mut table = Table::new(&[
            "object",
            "indirect jumps (pairs)",
            "table",
            "tail call",
            "unresolved",
            "unlisted",
            "listed, by pairs",
            "listed, by executions",
        ]);
        for object in &self.objects {
            let all = object.indirect_jumps();
            if all.distinct != 0 {
                table.row(std::iter::once(short_name(Path::new(&object.path))).chain(indirect_cells(object, all)));
            }
        }
        let (listed, all) = self.listed_indirect_jumps();
        let shares = [percent(listed.distinct, all.distinct), percent(listed.executions, all.executions)];
        let blanks = [(); 4].map(|()| String::new());
        table.row(["all".to_owned(), grouped(all.distinct)].into_iter().chain(blanks).chain(shares));
        table
    }

    fn artefacts(&self) -> String {
        let count = |artefact| {
            let tallies =
                self.objects.iter().map(|object| object.tally(|verdict| verdict == Verdict::Artefact(artefact)));
            grouped(tallies.sum::<Tally>().distinct)
        };
        format!(
            "artefacts of callgrind, not judged: {} repeated string instructions, {} returns to other than the caller, \
             {} functions that run on into the next",
            count(Artefact::Repeat),
            count(Artefact::ReturnElsewhere),
            count(Artefact::RunsOn)
        )
    }
}

fn indirect_cells(object: &ObjectReport, all: Tally) -> [String; 7] {
    let listed = object.listed_indirect_jumps();
    let of = |wanted: Known| object.tally(|verdict| verdict == Verdict::Known(wanted)).distinct;
    let unresolved = object.tally(|verdict| matches!(verdict, Verdict::Unresolved(_))).distinct;
    [
        grouped(all.distinct),
        grouped(of(Known::TableEntry)),
        grouped(of(Known::TailCall)),
        grouped(unresolved),
        grouped(all.distinct - listed.distinct - unresolved),
        percent(listed.distinct, all.distinct),
        percent(listed.executions, all.executions),
    ]
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}", self.coverage(), self.indirect_jumps())?;
        writeln!(f, "{}", self.artefacts())?;
        writeln!(
            f,
            "{} of {} executed instructions ({}) are in code without a file (linkage stubs, start-up sections): not judged",
            grouped(self.instructions_without_file),
            grouped(self.total_instructions),
            percent(self.instructions_without_file, self.total_instructions)
        )?;
        for object in &self.objects {
            for Unresolved { reason, targets, description } in object.unresolved.values() {
                writeln!(
                    f,
                    "{}: declared unresolved ({reason}), {} targets, {} times: {description}",
                    object.path,
                    grouped(targets.distinct),
                    grouped(targets.executions)
                )?;
            }
        }
        for object in &self.objects {
            for finding in &object.findings {
                writeln!(
                    f,
                    "{}: {} ({} times): {}",
                    object.path,
                    finding.exception,
                    grouped(finding.executions),
                    finding.description
                )?;
            }
        }
        match self.n_findings() {
            0 => writeln!(f, "no exceptions"),
            n => writeln!(f, "{n} exceptions"),
        }
    }
}
