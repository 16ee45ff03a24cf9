//! Other profilers on the same programs: what they cost and what they show.
//!
//! Cost is CPU time against native, of the program and whatever the tool runs beside it while it
//! records. In each round every arm runs once, in changing order; ratios are to native within the
//! round, and the median over rounds counts. Tools that slow programs down many times run on short
//! inputs, the others on full ones, so that start and end weigh little. Tools that need a build of
//! their own are compared on programs compiled from source ([`rebuilt`]).
//!
//! A tool that is not installed has no figure and says how to get it. One under which a program
//! fails or puts out something else has none for that program.

pub mod rebuilt;
mod tools;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::corpus::outputs::Run;
use crate::corpus::{Data, Size, Workload};
use crate::table::Table;
use crate::units::median;
pub use tools::{Features, REBUILT, TOOLS, Tool};

const STALK: &str = include_str!("../../peers/stalk.py");

/// CPU time against native, by tool and program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Costs {
    /// Programs in order.
    pub programs: Vec<String>,
    /// By tool: a ratio for each program, or why there is none.
    pub ratios: BTreeMap<String, Vec<Result<f64, String>>>,
    /// Tools that are not there, and how to get them.
    pub missing: BTreeMap<String, String>,
}

impl Costs {
    /// Adds the columns of other programs.
    pub fn join(&mut self, other: Costs) {
        let n_before = self.programs.len();
        self.programs.extend(other.programs);
        for (tool, ratios) in other.ratios {
            let row = self.ratios.entry(tool).or_default();
            row.resize(n_before, Err(String::new()));
            row.extend(ratios);
        }
        self.missing.extend(other.missing);
    }

    /// Geometric mean of a tool's ratios, and how many there are.
    #[must_use]
    pub fn mean(&self, tool: &str) -> Option<(f64, usize)> {
        let ratios: Vec<f64> = self.ratios.get(tool)?.iter().filter_map(|ratio| ratio.clone().ok()).collect();
        let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        (!ratios.is_empty()).then(|| ((sum / ratios.len() as f64).exp(), ratios.len()))
    }

    /// A row for each tool.
    #[must_use]
    pub fn table(&self) -> Table {
        let heading: Vec<&str> = ["tool", "mean"].into_iter().chain(self.programs.iter().map(String::as_str)).collect();
        let mut table = Table::new(&heading);
        let names = TOOLS.iter().map(|tool| tool.name).chain(REBUILT.iter().map(|(name, _)| *name));
        for name in names {
            if let Some(how) = self.missing.get(name) {
                table.row([name.to_owned(), format!("not installed: {how}")]);
            }
            let Some(ratios) = self.ratios.get(name) else { continue };
            let mean = self.mean(name).map_or_else(|| "-".to_owned(), |(mean, _)| format!("{mean:.2}"));
            let cells = ratios.iter().map(|ratio| match ratio {
                Ok(ratio) => format!("{ratio:.2}"),
                Err(why) => why.clone(),
            });
            table.row([name.to_owned(), mean].into_iter().chain(cells));
        }
        table
    }
}

/// What tools show and need.
#[must_use]
pub fn features() -> Table {
    let mut table =
        Table::new(&["tool", "edges", "paths", "contexts", "values", "source", "root", "PMU", "started under it"]);
    let tools = TOOLS.iter().map(|tool| (tool.name, tool.features)).chain(REBUILT);
    for (name, features) in tools {
        let Features { edges, paths, contexts, values, source, root, pmu, restart } = features;
        table.row([name, edges, paths, contexts, values, source, root, pmu, restart].map(str::to_owned));
    }
    table
}

/// Installs the tools that are not there and can be had.
pub fn install() {
    for tool in TOOLS {
        if !tool.is_there() {
            tool.try_install();
        }
    }
}

/// Measures the tools that take a command, on programs of the corpus.
pub fn measure(strobe: &Path, dir: &Path, programs: &[Workload], n_rounds: usize) -> anyhow::Result<Costs> {
    let data = [Size::Full, Size::Short].map(|size| Data::generate(dir, size, programs));
    let [full, short] = data;
    let (full, short) = (full?, short?);
    let scratch = dir.join("peers");
    fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let scratch = scratch.canonicalize()?;
    fs::write(scratch.join("stalk.py"), STALK)?;
    let (there, missing): (Vec<Tool>, Vec<Tool>) = TOOLS.into_iter().partition(Tool::is_there);
    let mut costs = Costs {
        programs: programs.iter().map(|workload| workload.name.to_owned()).collect(),
        ratios: there.iter().map(|tool| (tool.name.to_owned(), Vec::new())).collect(),
        missing: missing.iter().map(|tool| (tool.name.to_owned(), tool.install.to_owned())).collect(),
    };
    for workload in programs {
        for (data, is_heavy) in [(&full, false), (&short, true)] {
            let arms: Vec<&Tool> = there.iter().filter(|tool| tool.is_heavy == is_heavy).collect();
            let ratios = on_program(&Place { strobe, scratch: &scratch, data }, workload, &arms, n_rounds)?;
            for (tool, ratio) in arms.iter().zip(ratios) {
                let shown = ratio.as_ref().map_or_else(Clone::clone, |ratio| format!("{ratio:.2}"));
                eprintln!("{} {}: {shown}", workload.name, tool.name);
                costs.ratios.entry(tool.name.to_owned()).or_default().push(ratio);
            }
        }
    }
    Ok(costs)
}

struct Place<'a> {
    strobe: &'a Path,
    scratch: &'a Path,
    data: &'a Data,
}

fn on_program(
    place: &Place<'_>,
    workload: &Workload,
    arms: &[&Tool],
    n_rounds: usize,
) -> anyhow::Result<Vec<Result<f64, String>>> {
    let mut ratios: Vec<Result<Vec<f64>, String>> = vec![Ok(Vec::new()); arms.len()];
    for round in 0..n_rounds {
        let native = Run::of(place.data, workload, "")?;
        for index in (0..arms.len()).map(|index| (index + round) % arms.len()) {
            let Ok(seen) = &mut ratios[index] else { continue };
            let out = place.scratch.join(format!("{}.out", workload.name));
            remove(&out)?;
            let prefix = arms[index].prefix(place.strobe, &out, place.scratch);
            let run = Run::of(place.data, workload, &prefix)?;
            let elsewhere = cpu_elsewhere(&out);
            remove(&out)?;
            match native.difference(&run) {
                // valgrind presents another processor, so that some programs compute other last
                // digits.
                Some(difference) if !difference.contains(" bytes instead of ") => {
                    ratios[index] = Err("fails".to_owned());
                }
                _ => seen.push((run.cpu_seconds + elsewhere) / native.cpu_seconds.max(f64::MIN_POSITIVE)),
            }
        }
    }
    Ok(ratios.into_iter().map(|ratios| ratios.map(|ratios| median(&ratios))).collect())
}

/// CPU seconds of a program that its tool does not wait for, as the tool wrote them beside its
/// findings.
fn cpu_elsewhere(out: &Path) -> f64 {
    let path = out.with_extension("out.cpu");
    let seconds = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0.0);
    // Not there in most cases; one that cannot be removed is read again by nobody else.
    let _ = fs::remove_file(path);
    seconds
}

fn remove(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        fs::remove_dir_all(path)?;
    } else if path.exists() {
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_by_factor_and_leave_failures_out() {
        let ratios = vec![Ok(1.0), Err("fails".to_owned()), Ok(4.0)];
        let costs = Costs {
            programs: ["a", "b", "c"].map(str::to_owned).into(),
            ratios: BTreeMap::from([("strobe".to_owned(), ratios)]),
            missing: BTreeMap::from([("samply".to_owned(), "cargo install samply".to_owned())]),
        };
        let (mean, n) = costs.mean("strobe").unwrap();
        assert!((mean - 2.0).abs() < 1e-12 && n == 2);
        let text = costs.table().to_markdown();
        assert!(text.contains("| strobe | 2.00 | 1.00 | fails | 4.00 |"), "{text}");
        assert!(text.contains("not installed: cargo install samply"), "{text}");
    }

    #[test]
    fn joined_columns_stay_with_their_programs() {
        let costs = |program: &str, tool: &str, ratio| Costs {
            programs: vec![program.to_owned()],
            ratios: BTreeMap::from([(tool.to_owned(), vec![Ok(ratio)])]),
            missing: BTreeMap::new(),
        };
        let mut all = costs("gzip", "strobe", 1.5);
        all.join(costs("lua (built)", "BOLT -instrument", 3.0));
        let text = all.table().to_markdown();
        assert!(text.contains("| strobe | 1.50 | 1.50 |  |"), "{text}");
        assert!(text.contains("| BOLT -instrument | 3.00 |  | 3.00 |"), "{text}");
    }

    #[test]
    fn every_tool_has_its_features() {
        assert_eq!(features().to_markdown().lines().count(), 2 + TOOLS.len() + REBUILT.len());
    }
}
