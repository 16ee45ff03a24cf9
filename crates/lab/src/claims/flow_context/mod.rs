//! Flow and context sensitive profiling (Ammons, Ball, Larus): exact counts of paths and calling
//! contexts, with metrics.
//!
//! The paper's metric is misses of the processor's data cache of 16 KB; here it is a simulated one
//! of the same shape. Recordings are kept by [`crate::accuracy`], what is found of a program in a
//! file per claim and program.

mod code;
mod hot;
mod overhead;
mod perturbation;
mod tree;

use super::{Claim, Experiment};
use crate::corpus::Workload;

/// The claims of the paper.
pub const CLAIMS: [Claim; 5] = [
    Claim {
        id: "F1",
        statement: "overhead of exact flow+metrics, context+metrics and context+flow",
        published: "about 1.8x, 1.6x, 1.7x",
        required: "below callgrind and cachegrind by 5x or more",
        experiment: Experiment::Measured { run: overhead::exact_overhead, minutes: 8.0 },
    },
    Claim {
        id: "F2",
        statement: "a handful of paths (>= 1 % of L1D misses each) carries most misses",
        published: "3-28 paths, 9-98 % of misses",
        required: "table per program",
        experiment: Experiment::Measured { run: hot::hot_paths, minutes: 2.5 },
    },
    Claim {
        id: "F3",
        statement: "hot procedures run many more paths than cold ones; blocks on hot paths lie on many paths",
        published: "tables 4, 5, section 6.4",
        required: "same tables",
        experiment: Experiment::Measured { run: hot::hot_procedures, minutes: 0.1 },
    },
    Claim {
        id: "F4",
        statement: "calling context tree statistics",
        published: "table 3",
        required: "same table",
        experiment: Experiment::Measured { run: tree::statistics, minutes: 3.0 },
    },
    Claim {
        id: "F5",
        statement: "perturbation: metric totals with and without profiling",
        published: "table 2",
        required: "same table",
        experiment: Experiment::Measured { run: perturbation::table_2, minutes: 7.0 },
    },
];

/// What was found of programs.
struct Judged<T> {
    found: Vec<T>,
    /// Says which programs are left out, if any.
    left_out: Option<String>,
}

/// Looks at programs, of which those are left out whose own code was not counted.
fn judged<T>(
    programs: &[Workload],
    measure: impl Fn(&Workload) -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Judged<T>> {
    let (mut found, mut names) = (Vec::new(), Vec::new());
    for workload in programs {
        match measure(workload)? {
            Some(each) => found.push(each),
            None => names.push(workload.name),
        }
    }
    let left_out = (!names.is_empty())
        .then(|| format!("Left out, because their copies found no room beside the program: {}.", names.join(", ")));
    Ok(Judged { found, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_were_not_counted_are_named() {
        let programs = crate::corpus::select(&["gzip".to_owned(), "gcc".to_owned()]).expect("programs");
        let Judged { found, left_out } =
            judged(&programs, |workload| Ok((workload.name == "gzip").then_some(1))).expect("no error");
        assert_eq!(found, [1]);
        assert!(left_out.is_some_and(|text| text.contains("gcc") && !text.contains("gzip")));
        let all = judged(&programs, |_| Ok(Some(1))).expect("no error");
        assert_eq!((all.found.len(), all.left_out), (2, None));
    }
}
