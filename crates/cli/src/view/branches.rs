//! `strobe branches`: which way conditional branches go, and how predictable they are.

use std::io::{self, Write};

use profile::Estimate;
use profile::model::{BlockId, FunctionId};
use profile::query::{self, BranchRow};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::figures::Figure;
use crate::view::props::BranchOrder;
use crate::view::subject::{FunctionLabel, Spot, Subject};
use crate::view::table::{HOT, Table, WARM};
use crate::view::{View, nothing, title};

/// Entropy left from which on a branch is hard or rather hard to predict.
const HARD_BITS: f64 = 0.5;
const RATHER_HARD_BITS: f64 = 0.2;

#[derive(Debug, Serialize)]
pub struct BranchesView {
    pub n_branches: usize,
    pub branches: Vec<BranchLine>,
}

#[derive(Debug, Serialize)]
pub struct BranchLine {
    pub function: FunctionLabel,
    pub spot: Spot,
    pub executions: Figure,
    /// Share of executions that take it.
    pub bias: Figure,
    pub entropy_bits: f64,
    /// Entropy given the branches before it.
    pub conditional_entropy_bits: Option<f64>,
    /// Outcomes that the entropies rest on.
    pub n_outcomes: u64,
    /// Instructions since the branch before it: the value of a code region.
    pub n_insns: f64,
}

pub fn view(subject: &mut Subject, function: Option<FunctionId>, by: BranchOrder, n: usize) -> BranchesView {
    let mut rows = query::branches(&subject.profile, function);
    if by == BranchOrder::Entropy {
        rows.sort_by(|a, b| surprise(b).total_cmp(&surprise(a)));
    }
    let n_branches = rows.len();
    rows.truncate(n);
    let places: Vec<_> = rows.iter().map(|row| subject.end_of(row.block)).collect();
    subject.resolve(rows.iter().map(|row| row.function), places);
    let regions = query::regions(&subject.profile, function).into_iter();
    let n_insns: FxHashMap<BlockId, f64> = regions.map(|row| (row.block, row.n_insns)).collect();
    let branches = rows.iter().map(|row| BranchLine {
        function: subject.label(row.function),
        spot: subject.spot(subject.end_of(row.block)),
        executions: executions(row).into(),
        bias: row.bias.into(),
        entropy_bits: row.entropy_bits,
        conditional_entropy_bits: row.conditional_entropy_bits,
        n_outcomes: row.n_outcomes,
        n_insns: n_insns.get(&row.block).copied().unwrap_or(0.0),
    });
    BranchesView { n_branches, branches: branches.collect() }
}

fn executions(row: &BranchRow) -> Estimate {
    row.taken + row.not_taken
}

/// Returns the bits of entropy of all executions together.
fn surprise(row: &BranchRow) -> f64 {
    executions(row).value * row.conditional_entropy_bits.unwrap_or(row.entropy_bits)
}

impl View for BranchesView {
    const KIND: &'static str = "branches";

    fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.branches.is_empty() {
            return nothing(out, "branches");
        }
        title(out, "Conditional branches", self.branches.len(), self.n_branches)?;
        writeln!(
            out,
            "entropy in bits per execution: 0 always the same way, 1 a coin; LEFT is what the last branches do not tell;\n\
             INSNS are the instructions since the branch before"
        )?;
        let mut table = Table::new(&["LEFT", "ENTROPY", "TAKEN", "EXECUTIONS", "INSNS", "SEEN", "BRANCH"]);
        for line in &self.branches {
            let left = line.conditional_entropy_bits;
            let style = match left {
                Some(bits) if HARD_BITS <= bits => HOT,
                Some(bits) if RATHER_HARD_BITS <= bits => WARM,
                _ => anstyle::Style::new(),
            };
            let cells = [
                left.map_or_else(|| "-".to_owned(), |bits| format!("{bits:.2}")),
                format!("{:.2}", line.entropy_bits),
                line.bias.percent(),
                line.executions.count(),
                format!("{:.1}", line.n_insns),
                line.n_outcomes.to_string(),
                format!("{}  {}", line.spot.text(), line.function.text()),
            ];
            table.row(style, cells);
        }
        table.print(out)
    }
}
