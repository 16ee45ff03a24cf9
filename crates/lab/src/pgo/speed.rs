//! CPU time of programs that do the same work, by many short runs in turn.
//!
//! Each round runs every program once, in changing order; the ratios to the first within a round
//! are what counts, as in [`crate::units`].

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::cpu_time::cpu_seconds;
use crate::pgo::subject::Workload;
use crate::units::{interval, median};

/// How long a program takes, relative to the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// Median over rounds.
    pub median: f64,
    /// The middle 95 % of the median when rounds are drawn anew.
    pub interval: String,
}

/// Measures all programs.
pub fn measure(programs: &[PathBuf], workload: &Workload, n_rounds: usize) -> anyhow::Result<Vec<Ratio>> {
    let mut ratios = vec![Vec::new(); programs.len()];
    for round in 0..n_rounds {
        let mut seconds = vec![0.0; programs.len()];
        for index in order(programs.len(), round) {
            seconds[index] = run(&programs[index], workload)?;
        }
        for (ratios, time) in ratios.iter_mut().zip(&seconds) {
            ratios.push(time / seconds[0]);
        }
    }
    Ok(ratios.iter().map(|ratios| Ratio { median: median(ratios), interval: interval(ratios) }).collect())
}

/// Each round begins with the next program, and every second one goes backwards.
fn order(n: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).map(|index| (index + round / 2) % n).collect();
    if !round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// CPU seconds of a run: the kernel keeps them for a process that has ended until it is waited for.
fn run(program: &Path, workload: &Workload) -> anyhow::Result<f64> {
    const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
    let mut child = workload.command(&[], program)?.spawn().with_context(|| program.display().to_string())?;
    let status = format!("/proc/{}/stat", child.id());
    let has_ended = || -> anyhow::Result<bool> {
        let text = fs::read_to_string(&status)?;
        Ok(text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
    };
    while !has_ended()? {
        thread::sleep(BETWEEN_LOOKS);
    }
    let seconds = cpu_seconds(child.id())?;
    ensure!(child.wait()?.success(), "{} failed", program.display());
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_runs_once_in_a_round_and_first_in_some() {
        let orders: Vec<Vec<usize>> = (0..10).map(|round| order(5, round)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert!((0..5).all(|program| orders.iter().any(|order| order[0] == program)));
    }
}
