//! Times of blocks against perf's.

use super::{Finding, Set, Verdict, Workbench};
use crate::block_times::{self, Compared, Places};
use crate::chart;
use crate::resample::{interval, mean};
use crate::table::Table;

/// Points that strobe may have less than perf with as many samples.
const MAX_LACKING: f64 = 2.0;
/// Programs on which it has not, of so many.
const LEAST: (usize, usize) = (22, 25);

/// Measures the claim.
pub fn against_perf(bench: &Workbench) -> anyhow::Result<Finding> {
    let n_recordings = if bench.set == Set::Smoke { 1 } else { 3 };
    let mut rows = Vec::new();
    let mut places = Places::default();
    for workload in bench.programs()? {
        rows.push(bench.kept(&format!("block-times/{}.json", workload.name), || {
            eprintln!("  {}, times of blocks", workload.name);
            let setting = bench.default_setting();
            block_times::compare(&bench.bench(&[workload])?, &mut places, &workload, &setting, n_recordings)
        })?);
    }
    Ok(judge(&rows))
}

fn judge(rows: &[Compared]) -> Finding {
    let n_near = rows.iter().filter(|row| row.lacks_points() <= MAX_LACKING).count();
    let (least, of) = LEAST;
    let holds = !rows.is_empty() && n_near * of >= least * rows.len();
    let column = |figure: &dyn Fn(&Compared) -> f64| rows.iter().map(|row| 100.0 * figure(row)).collect::<Vec<f64>>();
    let (strobe, perf) = (column(&|row| row.blocks().0), column(&|row| row.blocks().1));
    let lacking: Vec<f64> = rows.iter().map(Compared::lacks_points).collect();
    let ours = format!(
        "{n_near} of {} programs; overlap with the reference {:.1} %, of perf with as many samples {:.1} % (functions {:.1} and {:.1} %)",
        rows.len(),
        mean(&strobe),
        mean(&perf),
        mean(&column(&|row| row.functions().0)),
        mean(&column(&|row| row.functions().1))
    );
    let (low, high) = if lacking.is_empty() { (0.0, 0.0) } else { interval(&lacking, mean) };
    let mut finding = Finding::new(ours, format!("lacks {low:.1} to {high:.1} points"), Verdict::of(holds));
    finding.notes.push(
        "Reference: three runs of perf record -F 3989 (cpu-clock, user mode) together. *strobe* is the overlap of block times of recordings with it, \
         *perf* that of other runs of perf, thinned out to as many samples as the recording had ticks in user code (mean of 20 draws for each \
         recording), *all* that of the same runs with all their samples. All runs take turns. A sample belongs to the block of its address, which is \
         that of the next instruction; strobe gives ticks at the *first address* of a block to the block before. The column of that name is the share \
         of the reference that is there, about which the two disagree by construction; the reference is not corrected. perf's samples are in user \
         mode; strobe's ticks cannot tell a page fault from its instruction, and have it there. *No block*: the share of perf's samples, and of \
         strobe's times, that is in no block of the control flow."
            .to_owned(),
    );
    let mut table = Table::new(&[
        "program",
        "samples",
        "ticks",
        "strobe %",
        "perf %",
        "lacks",
        "all %",
        "functions: strobe %",
        "functions: perf %",
        "first address %",
        "no block: perf %",
        "no block: strobe %",
        "load",
    ]);
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    for row in rows {
        let ticks: Vec<f64> = row.strobe.iter().map(|one| one.n as f64).collect();
        table.row([
            row.program.clone(),
            row.n_reference.to_string(),
            format!("{:.0}", mean(&ticks)),
            percent(row.blocks().0),
            percent(row.blocks().1),
            format!("{:.1}", row.lacks_points()),
            percent(row.all_samples),
            percent(row.functions().0),
            percent(row.functions().1),
            percent(row.at_starts),
            percent(row.in_no_block.0),
            percent(row.in_no_block.1),
            row.load.map_or_else(|| "-".to_owned(), |load| format!("{load:.1}")),
        ]);
    }
    finding.tables.push(("By program".to_owned(), table));
    let labels: Vec<String> = rows.iter().map(|row| row.program.clone()).collect();
    let title = "Overlap of block times with three runs of perf, %";
    finding.plots.push(chart::bars(title, &labels, &[("strobe", strobe), ("perf, as many samples", perf)], 0.0, None));
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_times::Overlapped;

    fn compared(strobe: [f64; 2], perf: f64) -> Compared {
        let overlapped = |blocks: f64| Overlapped { n: 400, blocks, functions: 0.9 };
        Compared {
            program: "p".to_owned(),
            n_reference: 40_000,
            strobe: strobe.map(overlapped).to_vec(),
            perf: vec![overlapped(perf); 2],
            all_samples: 0.98,
            at_starts: 0.05,
            in_no_block: (0.0, 0.01),
            load: None,
        }
    }

    #[test]
    fn two_points_less_are_allowed_on_the_mean_of_recordings() {
        let near = compared([0.80, 0.84], 0.839);
        assert!((near.lacks_points() - 1.9).abs() < 1e-9);
        let finding = judge(&[near]);
        assert_eq!(finding.verdict, Verdict::Holds);
        assert!(finding.ours.starts_with("1 of 1"), "{}", finding.ours);
    }

    #[test]
    fn three_programs_of_25_may_lack_more() {
        let of = |n_far: usize| {
            let row = |index| if index < n_far { compared([0.80, 0.80], 0.83) } else { compared([0.9, 0.9], 0.8) };
            judge(&(0..25).map(row).collect::<Vec<_>>()).verdict
        };
        assert_eq!([of(3), of(4)], [Verdict::Holds, Verdict::Misses]);
        assert_eq!(judge(&[]).verdict, Verdict::Misses, "nothing shows nothing");
    }
}
