//! Several builds of one program, compared: branches taken, instructions, CPU time.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, ensure};

use crate::pgo::judge::{Executed, judge};
use crate::pgo::speed::{self, Ratio};
use crate::pgo::subject::Workload;
use crate::resample::{interval, mean};
use crate::table::{Table, grouped};

/// Share of the reference's reduction of taken branches that ours must reach.
const MIN_SHARE: f64 = 0.95;

/// One build. The first of several is the one that others are compared with, the second the same
/// again, the third the reference, and what is called ours has to come near to it. Builds of the
/// same name differ by chance.
#[derive(Clone, Debug)]
pub struct Arm {
    pub name: &'static str,
    pub program: PathBuf,
    /// What the optimizer says.
    pub note: String,
}

/// What was found.
#[derive(Debug)]
pub struct Comparison {
    arms: Vec<Arm>,
    executed: Vec<Executed>,
    ratios: Vec<Ratio>,
}

impl Comparison {
    /// Runs all builds. Their output must be the same.
    pub fn of(arms: Vec<Arm>, judging: &Workload, n_rounds: usize) -> anyhow::Result<Comparison> {
        let mut executed = Vec::new();
        let mut expected = None;
        for arm in &arms {
            let output = judging.command(&[], &arm.program)?.stdout(Stdio::piped()).output()?;
            ensure!(output.status.success(), "{} fails: {}", arm.program.display(), output.status);
            let expected = expected.get_or_insert_with(|| output.stdout.clone());
            ensure!(*expected == output.stdout, "{} puts out something else than the base", arm.program.display());
            executed.push(judge(&arm.program, judging).with_context(|| arm.name)?);
        }
        let programs: Vec<PathBuf> = arms.iter().map(|arm| arm.program.clone()).collect();
        let ratios = speed::measure(&programs, judging, n_rounds)?;
        Ok(Comparison { arms, executed, ratios })
    }

    /// Whether one of ours comes near enough to the reference: several builds of one name by their
    /// mean.
    pub fn holds(&self) -> bool {
        self.shares().iter().any(|(name, shares)| name.starts_with("ours") && mean(shares) >= MIN_SHARE)
    }

    /// What builds reach of the reference's reduction, by their name, in order.
    fn shares(&self) -> Vec<(&'static str, Vec<f64>)> {
        let mut shares: Vec<(&'static str, Vec<f64>)> = Vec::new();
        for (index, arm) in self.arms.iter().enumerate() {
            let Some(share) = self.share(index) else { continue };
            match shares.iter_mut().find(|(name, _)| *name == arm.name) {
                Some((_, shares)) => shares.push(share),
                None => shares.push((arm.name, vec![share])),
            }
        }
        shares
    }

    /// Means of builds of which there are several, a line each.
    pub fn means(&self) -> String {
        let several = self.shares().into_iter().filter(|(_, shares)| shares.len() > 1);
        let line = |(name, shares): (&str, Vec<f64>)| {
            let (low, high) = interval(&shares, mean);
            let [mean, low, high] = [mean(&shares), low, high].map(|share| 100.0 * share);
            format!(
                "{name}: {mean:.1} % of the reference's reduction, mean of {} (95 % interval {low:.1} to {high:.1} %).\n",
                shares.len()
            )
        };
        several.map(line).collect()
    }

    /// Reduction of taken branches, relative to the reference's.
    fn share(&self, index: usize) -> Option<f64> {
        const REFERENCE: usize = 2;
        let reduction = |index: usize| self.executed[0].n_taken as f64 - self.executed[index].n_taken as f64;
        (index >= REFERENCE && reduction(REFERENCE) > 0.0).then(|| reduction(index) / reduction(REFERENCE))
    }

    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            "build",
            "taken branches",
            "change",
            "of the reference's",
            "instructions",
            "CPU time",
            "interval",
            "the optimizer's claim",
        ]);
        let base = self.executed[0].n_taken as f64;
        for (index, (arm, (executed, ratio))) in
            self.arms.iter().zip(self.executed.iter().zip(&self.ratios)).enumerate()
        {
            table.row([
                arm.name.to_owned(),
                grouped(executed.n_taken),
                format!("{:+.2} %", 100.0 * (executed.n_taken as f64 / base - 1.0)),
                self.share(index).map_or_else(String::new, |share| format!("{:.1} %", 100.0 * share)),
                grouped(executed.n_insns),
                format!("{:.4}", ratio.median),
                ratio.interval.clone(),
                arm.note.clone(),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(taken: [u64; 4]) -> Comparison {
        let arm = |name| Arm { name, program: PathBuf::new(), note: String::new() };
        Comparison {
            arms: ["base", "base again", "reference", "ours"].map(arm).into(),
            executed: taken.map(|n_taken| Executed { n_taken, n_insns: 1 }).into(),
            ratios: vec![Ratio { median: 1.0, interval: String::new() }; 4],
        }
    }

    #[test]
    fn builds_of_one_name_count_by_their_mean() {
        let mut several = comparison([1000, 1000, 500, 560]);
        several.arms.push(Arm { name: "ours", ..several.arms[3].clone() });
        several.executed.push(Executed { n_taken: 480, n_insns: 1 });
        several.ratios.push(several.ratios[3].clone());
        assert!(several.holds(), "88 % and 104 %");
        assert!(
            several.means().starts_with("ours: 96.0 % of the reference's reduction, mean of 2 ("),
            "{}",
            several.means()
        );
        assert_eq!(comparison([1000, 1000, 500, 560]).means(), "");
    }

    #[test]
    fn ours_must_reach_most_of_the_reduction() {
        assert!(comparison([1000, 1000, 500, 525]).holds());
        assert!(!comparison([1000, 1000, 500, 526]).holds());
        assert!(!comparison([1000, 1000, 1000, 900]).holds(), "nothing to reach");
        let table = comparison([1000, 1000, 500, 525]).table().to_markdown();
        assert!(table.contains("| ours | 525 | -47.50 % | 95.0 % |"), "{table}");
    }
}
