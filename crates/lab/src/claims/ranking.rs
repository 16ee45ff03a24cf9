//! What costs most, as a user asks: the first row of a view, and its share.

use super::{Finding, Set, Verdict, Workbench};
use crate::planted::{Answer, SUBJECTS, Subject};
use crate::table::Table;
use crate::transparency;

/// Right answers of so many.
const LEAST_RIGHT: (usize, usize) = (48, 50);

/// Measures the claim.
pub fn costliest(bench: &Workbench) -> anyhow::Result<Finding> {
    let mut rows = Vec::new();
    for subject in SUBJECTS {
        let answers: Vec<Answer> = bench.kept(&format!("ranking/{}.json", subject.name()), || {
            eprintln!("  {}, what costs most", subject.name());
            let strobe = transparency::strobe_program()?;
            let (n_runs, is_small) = if bench.set == Set::Smoke { (1, true) } else { (10, false) };
            subject.ask(&strobe, &bench.dir.join("planted"), n_runs, is_small, &bench.with)
        })?;
        rows.push((subject, answers));
    }
    Ok(judge(&rows))
}

fn judge(rows: &[(Subject, Vec<Answer>)]) -> Finding {
    let all = || rows.iter().flat_map(|(_, answers)| answers);
    let (n_right, n) = (all().filter(|answer| answer.is_right()).count(), all().count());
    let (least, of) = LEAST_RIGHT;
    let holds = n > 0 && n_right * of >= least * n;
    let n_of = |is: fn(&Answer) -> bool| all().filter(|answer| is(answer)).count();
    let ours = format!(
        "{n_right} of {n}; ranked first in {}, within 10 points in {}",
        n_of(|answer| answer.is_first),
        n_of(Answer::is_near)
    );
    let mut finding = Finding::new(ours, "", Verdict::of(holds));
    finding.notes.push(
        "First is what the first row of a view of the whole program shows: of all paths by time, or of all functions by time in their own code. The \
         truth is by the thread's clock, by removal where a part cannot be timed alone (as in T1); for dd, the kernel's share by getrusage, against \
         system calls as ticks find them."
            .to_owned(),
    );
    let mut table = Table::new(&[
        "program",
        "costliest",
        "recordings",
        "truth %",
        "stated %",
        "lowest",
        "highest",
        "first",
        "within 10",
        "right",
        "first instead",
    ]);
    for (subject, answers) in rows {
        let count = |is: fn(&Answer) -> bool| answers.iter().filter(|answer| is(answer)).count().to_string();
        let mean =
            |figure: fn(&Answer) -> f64| 100.0 * answers.iter().map(figure).sum::<f64>() / answers.len().max(1) as f64;
        let stated = || answers.iter().map(|answer| 100.0 * answer.stated);
        let mut instead: Vec<&str> =
            answers.iter().filter(|answer| !answer.is_first).map(|answer| answer.first.as_str()).collect();
        instead.sort_unstable();
        instead.dedup();
        table.row([
            subject.name().to_owned(),
            answers.first().map_or_else(String::new, |answer| answer.what.clone()),
            answers.len().to_string(),
            format!("{:.1}", mean(|answer| answer.truth)),
            format!("{:.1}", mean(|answer| answer.stated)),
            format!("{:.1}", stated().fold(f64::INFINITY, f64::min)),
            format!("{:.1}", stated().fold(f64::NEG_INFINITY, f64::max)),
            count(|answer| answer.is_first),
            count(Answer::is_near),
            count(Answer::is_right),
            instead.join("; "),
        ]);
    }
    finding.tables.push(("By program".to_owned(), table));
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(n_right: usize, n_second: usize) -> Vec<(Subject, Vec<Answer>)> {
        let answer = |is_first: bool| Answer {
            what: "f".to_owned(),
            truth: 0.7,
            stated: 0.72,
            first: if is_first { "f" } else { "g" }.to_owned(),
            is_first,
        };
        let all = (0..n_right).map(|_| answer(true)).chain((0..n_second).map(|_| answer(false)));
        vec![(Subject::Dd, all.collect())]
    }

    #[test]
    fn two_of_fifty_may_be_wrong() {
        assert_eq!(judge(&answers(48, 2)).verdict, Verdict::Holds);
        let missed = judge(&answers(47, 3));
        assert_eq!(missed.verdict, Verdict::Misses);
        assert!(missed.ours.starts_with("47 of 50"), "{}", missed.ours);
        assert!(missed.tables[0].1.to_markdown().contains("| 47 | 50 | 47 | g |"));
        assert_eq!(judge(&[]).verdict, Verdict::Misses, "nothing shows nothing");
    }
}
