//! Cost of PEP mode and of its parts, and what numbering is worth: claims P6b and P7 of Bond and
//! McKinley.
//!
//! What PEP adds to copies that count nothing: a path register (`--pep 0,1`, which never takes a
//! sample), samples (`--pep 64,17`), or a counter for every path (`--exact`). CPU times of whole
//! runs are compared, each kind in turn, several times, and of each the fastest counts.
//!
//! Where additions are is a matter of how paths are numbered: by a guess from the shape of the
//! code, by an exact profile of the same run, or by the contrary of that, which puts them on the
//! hottest edges there are. The number of additions per path follows from counts of paths and needs
//! no clock; so does that of other ways to number and to place, which copies do not have
//! ([`additions`]).

pub mod additions;

use std::path::Path;

use anyhow::Context as _;
use profile::accuracy::compare;
use serde::{Deserialize, Serialize};

use crate::corpus::{Data, Workload};
use crate::exact_run::Facts;
use crate::net::native_run;
use crate::resample::mean;
use crate::table::Table;

/// How paths are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    Guessed,
    Guided,
    Flipped,
}

/// A way to run a program: its name, options of `strobe record`, and the numbering.
const KINDS: [(&str, &str, Numbering); 7] = [
    ("copies", "--exact=nothing", Numbering::Guessed),
    ("register", "--pep 0,1", Numbering::Guessed),
    ("sampled", "--pep 64,17", Numbering::Guessed),
    ("every path", "--exact", Numbering::Guessed),
    ("register, guided", "--pep 0,1", Numbering::Guided),
    ("register, flipped", "--pep 0,1", Numbering::Flipped),
    ("every path, guided", "--exact", Numbering::Guided),
];
const COPIES: usize = 0;
const REGISTER: usize = 1;
const SAMPLED: usize = 2;
const EVERY_PATH: usize = 3;
const GUIDED: usize = 4;
const FLIPPED: usize = 5;

const NUMBERINGS: [Numbering; 3] = [Numbering::Guessed, Numbering::Guided, Numbering::Flipped];
const POLICIES: [&str; 2] = ["--pep 64,17", "--pep 64,17,simplified"];

/// What was measured of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Costs {
    /// Its name.
    pub program: String,
    /// CPU seconds alone.
    pub native: f64,
    /// The same by kind.
    pub kinds: [f64; KINDS.len()],
    /// Additions to the path register per path that ended, by numbering: guessed, guided, flipped.
    pub additions: [f64; NUMBERINGS.len()],
    /// The same by other numberings and placements ([`additions::names`]).
    pub other_additions: [f64; additions::N_ARMS],
    /// Hot paths found by samples, by flow (Wall): with full striding, and simplified.
    pub wall: [f64; POLICIES.len()],
    /// CPU seconds of strobe, which has to translate everything, if copies count nothing, and if
    /// they keep a register.
    pub translation: [f64; 2],
}

impl Costs {
    /// Percent by which a kind takes longer than another.
    fn over(&self, kind: usize, base: usize) -> f64 {
        100.0 * (self.kinds[kind] / self.kinds[base] - 1.0)
    }
}

/// Measures a program.
pub fn measure(strobe: &Path, data: &Data, workload: &Workload, n_rounds: usize) -> anyhow::Result<Costs> {
    let guide = data.root().join(format!("out/{}.guide.strobe", workload.name));
    let written = data.root().join(format!("out/{}.strobe", workload.name));
    let record = |options: &str, numbering| {
        Facts::record(strobe, data, workload, &format!("{options} {}", guide_option(numbering, &guide)))
    };
    let exact = record("--exact", Numbering::Guessed)?;
    std::fs::copy(&written, &guide)?;
    let mut additions = [additions_per_path(&exact)?; NUMBERINGS.len()];
    for (per_path, numbering) in additions.iter_mut().zip(NUMBERINGS).skip(1) {
        *per_path = additions_per_path(&record("--exact", numbering)?)?;
    }
    let truth = store::open(&guide)?;
    let other_additions = additions::per_path(&truth)?;
    let mut wall = [0.0; POLICIES.len()];
    for (wall, options) in wall.iter_mut().zip(POLICIES) {
        record(options, Numbering::Guessed)?;
        *wall = compare(&truth, &store::open(&written)?).wall_weight.context("the exact profile has no paths")?;
    }
    let mut translation = [0.0; 2];
    for (seconds, (_, options, numbering)) in translation.iter_mut().zip(KINDS) {
        *seconds = record(&format!("{options} --no-cache"), numbering)?.strobe_seconds()?;
    }
    let mut native = f64::INFINITY;
    let mut kinds = [f64::INFINITY; KINDS.len()];
    for _ in 0..n_rounds {
        native = native.min(native_run(data, workload)?);
        for (seconds, (_, options, numbering)) in kinds.iter_mut().zip(KINDS) {
            *seconds = seconds.min(record(options, numbering)?.program_seconds()?);
        }
    }
    Ok(Costs { program: workload.name.to_owned(), native, kinds, additions, other_additions, wall, translation })
}

fn guide_option(numbering: Numbering, guide: &Path) -> String {
    match numbering {
        Numbering::Guessed => String::new(),
        Numbering::Guided => format!("--guide '{}'", guide.display()),
        Numbering::Flipped => format!("--guide '{}' --flip-guide", guide.display()),
    }
}

fn additions_per_path(facts: &Facts) -> anyhow::Result<f64> {
    Ok(facts.number("path_additions")? / facts.number("paths_ended")?.max(1.0))
}

/// CPU time by kind, as multiples of that of the program alone.
#[must_use]
pub fn times(all: &[Costs]) -> Table {
    let mut table = Table::new(&[&["program", "native s"][..], &KINDS.map(|(name, ..)| name)].concat());
    for costs in all {
        let multiples = costs.kinds.map(|seconds| format!("{:.3}", seconds / costs.native));
        table.row([costs.program.clone(), format!("{:.2}", costs.native)].into_iter().chain(multiples));
    }
    let means = (0..KINDS.len()).map(|kind| {
        let multiples: Vec<f64> = all.iter().map(|costs| costs.kinds[kind] / costs.native).collect();
        format!("{:.3}", mean(&multiples))
    });
    table.row(["mean".to_owned(), String::new()].into_iter().chain(means));
    table
}

/// What each part adds to copies that count nothing, in percent; accuracy of samples; what strobe
/// itself takes if it has to translate.
#[must_use]
pub fn parts(all: &[Costs]) -> Table {
    let mut table = Table::new(&[
        "program",
        "register %",
        "sampled %",
        "every path %",
        "hot paths found %",
        "simplified %",
        "strobe CPU s, nothing cached",
        "with register",
    ]);
    for costs in all {
        let added = [REGISTER, SAMPLED, EVERY_PATH].map(|kind| format!("{:+.1}", costs.over(kind, COPIES)));
        let wall = costs.wall.map(|share| format!("{:.1}", 100.0 * share));
        let translation = costs.translation.map(|seconds| format!("{seconds:.2}"));
        table.row([costs.program.clone()].into_iter().chain(added).chain(wall).chain(translation));
    }
    table
}

/// Hot paths found by samples, by flow, in percent, with both forms of striding.
#[must_use]
pub fn stridings(all: &[Costs]) -> Table {
    let mut table = Table::new(&["program", "full", "simplified"]);
    for costs in all {
        let wall = costs.wall.map(|share| format!("{:.2}", 100.0 * share));
        table.row([costs.program.clone()].into_iter().chain(wall));
    }
    table
}

/// Additions per path by numbering, and what the register adds to copies with each, in percent.
#[must_use]
pub fn numberings(all: &[Costs]) -> Table {
    let mut table = Table::new(&[
        "program",
        "additions per path: guessed",
        "guided",
        "flipped",
        "register %: guessed",
        "guided",
        "flipped",
    ]);
    for costs in all {
        let additions = costs.additions.map(|number| format!("{number:.3}"));
        let added = [REGISTER, GUIDED, FLIPPED].map(|kind| format!("{:+.1}", costs.over(kind, COPIES)));
        table.row([costs.program.clone()].into_iter().chain(additions).chain(added));
    }
    table
}

/// Additions per path by classic and smart numbering, with and without a spanning tree.
#[must_use]
pub fn placements(all: &[Costs]) -> Table {
    let mut table = Table::new(&[&["program"][..], &additions::names()].concat());
    for costs in all {
        let cells = costs.other_additions.map(|number| format!("{number:.3}"));
        table.row([costs.program.clone()].into_iter().chain(cells));
    }
    let means = mean_other_additions(all).map(|number| format!("{number:.3}"));
    table.row(["mean".to_owned()].into_iter().chain(means));
    table
}

/// Means of additions per path by the columns of [`placements`].
#[must_use]
pub fn mean_other_additions(all: &[Costs]) -> [f64; additions::N_ARMS] {
    std::array::from_fn(|arm| mean(&all.iter().map(|costs| costs.other_additions[arm]).collect::<Vec<_>>()))
}

/// Means over programs of what parts add to copies that count nothing, in percent: register,
/// samples, every path.
#[must_use]
pub fn mean_parts(all: &[Costs]) -> [f64; 3] {
    [REGISTER, SAMPLED, EVERY_PATH].map(|kind| mean_over(all, kind))
}

/// The same for the register by numbering: guessed, guided, flipped.
#[must_use]
pub fn mean_registers(all: &[Costs]) -> [f64; 3] {
    [REGISTER, GUIDED, FLIPPED].map(|kind| mean_over(all, kind))
}

/// Means of additions per path by numbering.
#[must_use]
pub fn mean_additions(all: &[Costs]) -> [f64; 3] {
    [0, 1, 2].map(|numbering| mean(&all.iter().map(|costs| costs.additions[numbering]).collect::<Vec<_>>()))
}

fn mean_over(all: &[Costs], kind: usize) -> f64 {
    mean(&all.iter().map(|costs| costs.over(kind, COPIES)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_what_they_add_to_copies() {
        let costs = Costs {
            program: "program".to_owned(),
            native: 1.0,
            kinds: [2.0, 2.2, 2.4, 3.0, 2.1, 2.6, 2.9],
            additions: [0.5, 0.25, 2.0],
            other_additions: [3.0, 2.0, 1.0, 1.0, 0.5, 0.25],
            wall: [0.95, 0.9],
            translation: [0.1, 0.2],
        };
        let near = |found: [f64; 3], expected: [f64; 3]| {
            assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9), "{found:?}");
        };
        near(mean_parts(std::slice::from_ref(&costs)), [10.0, 20.0, 50.0]);
        near(mean_registers(std::slice::from_ref(&costs)), [10.0, 5.0, 30.0]);
        near(mean_additions(&[costs]), [0.5, 0.25, 2.0]);
    }
}
