//! `strobe diff`: what changed from one profile to another, the largest change first.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use profile::Diff;
use profile::diff::Change;
use symbols::brief;

use crate::figures::{self, bare_percent, count, points};
use crate::tools::diff_json;
use crate::tools::props::DiffProps;
use crate::tools::sides::{Side, Sides};

/// Prints the changes. Returns a failing exit code if a function grew by more than the user allows.
pub fn run(props: &DiffProps, out: &mut impl Write) -> Result<ExitCode> {
    let (before, after) = (Side::open(&props.before)?, Side::open(&props.after)?);
    let diff = profile::diff(&before.profile, &after.profile);
    let sides = Sides { before, after };
    if props.json {
        diff_json::write(&diff, &sides, props, out)?;
    } else {
        let table = Table { sides: &sides, n_rows: props.n_rows, shows_chance: props.shows_chance };
        table.write(&diff, out)?;
    }
    let Some(limit) = props.fail_above else { return Ok(ExitCode::SUCCESS) };
    let worst = diff.functions.iter().filter(|row| row.share.is_significant && limit < row.share.difference());
    let Some(worst) = worst.max_by(|a, b| a.share.difference().total_cmp(&b.share.difference())) else {
        return Ok(ExitCode::SUCCESS);
    };
    out.flush()?;
    let name = brief(sides.function(worst.before, worst.after));
    let grown = points(worst.share.difference());
    writeln!(io::stderr(), "strobe: {name} grew by {grown} of CPU time, more than {}", bare_percent(limit))?;
    Ok(ExitCode::FAILURE)
}

/// The diff as text.
struct Table<'a> {
    sides: &'a Sides,
    n_rows: usize,
    shows_chance: bool,
}

/// One line: the figure it is about, another figure if that changed, and what it is a line of.
struct Line<'a> {
    main: &'a Change,
    note: String,
    name: String,
}

impl Table<'_> {
    fn write(&self, diff: &Diff, out: &mut impl Write) -> io::Result<()> {
        let Change { before, after, is_significant, .. } = diff.cpu_ns;
        let verdict = if is_significant { "beyond the error bars" } else { "within the error bars" };
        writeln!(out, "CPU time  {}  ->  {}  ({verdict})", figures::time(before), figures::time(after))?;
        let functions = diff.functions.iter().map(|row| Line {
            main: &row.share,
            note: counted("entries", &row.entries),
            name: brief(self.sides.function(row.before, row.after)),
        });
        self.section("Functions, share of CPU time", functions, out)?;
        let paths = diff.paths.iter().map(|row| Line {
            main: &row.share,
            note: counted("runs", &row.count),
            name: place(self.sides.path_start(row)),
        });
        self.section("Paths, share of CPU time", paths, out)?;
        let loops = diff.loops.iter().map(|row| Line {
            main: &row.share,
            note: row.mean_trips.as_ref().map(|change| counted("iterations", change)).unwrap_or_default(),
            name: place(self.sides.loop_header(row)),
        });
        self.section("Loops, share of CPU time", loops, out)?;
        let branches = diff.branches.iter().map(|row| Line {
            main: &row.bias,
            note: String::new(),
            name: place(self.sides.block(Some(row.before), Some(row.after))),
        });
        self.section("Branches, share taken", branches, out)
    }

    /// Rows whose own figure changed come first in a diff, so that what is left to show can stop
    /// early.
    fn section<'a>(
        &self,
        title: &str,
        lines: impl ExactSizeIterator<Item = Line<'a>>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let n_all = lines.len();
        let is_wanted = |line: &Line<'_>| line.main.is_significant || !line.note.is_empty() || self.shows_chance;
        let wanted: Vec<Line<'_>> = lines.filter(is_wanted).collect();
        writeln!(out, "\n{title}: {} of {n_all} changed", wanted.iter().filter(|line| is_real(line)).count())?;
        if wanted.is_empty() {
            return Ok(());
        }
        writeln!(out, "  {:>14}  {:>14}  {:>8}", "before", "after", "change")?;
        for line in wanted.iter().take(self.n_rows) {
            let [before, after] = [line.main.before, line.main.after].map(figures::share);
            let mark = if line.main.is_significant { '*' } else { ' ' };
            write!(out, "  {before:>14}  {after:>14}  {:>8}", points(line.main.difference()))?;
            writeln!(out, " {mark} {}{}", line.name, line.note)?;
        }
        let n_hidden = wanted.len().saturating_sub(self.n_rows);
        if 0 < n_hidden {
            writeln!(out, "  and {n_hidden} more; -n shows more rows")?;
        }
        Ok(())
    }
}

fn is_real(line: &Line<'_>) -> bool {
    line.main.is_significant || !line.note.is_empty()
}

/// A count that changed; nothing of one that did not.
fn counted(what: &str, change: &Change) -> String {
    let (before, after) = (count(change.before.value), count(change.after.value));
    if change.is_significant { format!("  ({what} {before} -> {after})") } else { String::new() }
}

fn place((function, address): (&str, u64)) -> String {
    format!("{} at {address:#x}", brief(function))
}

#[cfg(test)]
mod tests {
    use profile::model::{Block, BlockEnd, BlockId, Function, FunctionId, Module, ModuleId, Path};
    use profile::{Estimate, Profile};

    use super::*;

    /// Two functions with one block and one path each, the first with `permille` of the time.
    fn profile(permille: u64) -> Profile {
        let ns = |permille: u64| Estimate { value: permille as f64 * 1e6, variance: 1e12, seen: 100 };
        let name = |index: u64| if index == 0 { "hot" } else { "cold" }.to_owned();
        let function = |index: u64| Function {
            module: ModuleId(0),
            address: 0x1000 * (index + 1),
            size: 16,
            name: name(index),
            entries: Estimate::exact(7),
            self_ns: ns(if index == 0 { permille } else { 1000 - permille }),
        };
        let block = |index: u64| Block {
            function: FunctionId(index as u32),
            address: 0x1000 * (index + 1),
            size: 16,
            last: 15,
            n_insns: 4,
            end: BlockEnd::Return,
            count: Estimate::exact(7),
            self_ns: Estimate::default(),
        };
        let path = |index: u64| Path {
            function: FunctionId(index as u32),
            blocks: vec![BlockId(index as u32)],
            back_to: None,
            n_branches: 0,
            count: Estimate::exact(7),
            self_ns: function(index).self_ns,
            misses: 0,
        };
        Profile {
            modules: vec![Module { path: "/no/such/program".to_owned(), build_id: "ab".to_owned() }],
            functions: vec![function(0), function(1)],
            blocks: vec![block(0), block(1)],
            paths: vec![path(0), path(1)],
            ..Profile::default()
        }
    }

    struct Case {
        _folder: tempfile::TempDir,
        props: DiffProps,
    }

    fn case(permille: [u64; 2], fail_above: Option<f64>) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a.strobe", "b.strobe"].map(|name| folder.path().join(name));
        for (path, permille) in paths.iter().zip(permille) {
            store::save(path, &profile(permille)).unwrap();
        }
        let [before, after] = paths;
        let props = DiffProps { before, after, fail_above, n_rows: 20, shows_chance: false, json: false };
        Case { _folder: folder, props }
    }

    fn run_to_text(case: &Case) -> (String, bool) {
        let mut out = Vec::new();
        let code = run(&case.props, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), code == ExitCode::SUCCESS)
    }

    #[test]
    fn a_change_beyond_the_error_bars_is_shown_with_them() {
        let (text, is_success) = run_to_text(&case([100, 200], None));
        assert!(is_success);
        assert!(text.contains("Functions, share of CPU time: 2 of 2 changed"), "{text}");
        let line = text.lines().find(|line| line.ends_with("* hot")).expect(&text);
        let words: Vec<&str> = line.split_whitespace().collect();
        let figures: Vec<&str> =
            words.iter().copied().filter(|word| word.contains('.') && !word.contains('±')).collect();
        assert_eq!(figures, ["10.0", "20.0", "+10.0"]);
        assert_eq!(words.iter().filter(|word| word.starts_with('±')).count(), 2);
        assert!(text.contains("hot at 0x1000"), "{text}");
    }

    #[test]
    fn equal_profiles_have_no_changes() {
        let (text, _) = run_to_text(&case([300, 300], Some(0.0)));
        assert!(text.contains("0 of 2 changed") && !text.contains('*'), "{text}");
    }

    #[test]
    fn growth_above_the_limit_fails_and_shrinking_does_not() {
        assert!(!run_to_text(&case([100, 200], Some(0.03))).1);
        assert!(run_to_text(&case([100, 200], Some(0.2))).1);
        assert!(run_to_text(&case([100, 101], Some(0.0))).1, "a change within the error bars is none");
    }

    #[test]
    fn json_has_every_row_with_its_interval() {
        let mut case = case([100, 200], None);
        case.props.json = true;
        let json: serde_json::Value = serde_json::from_str(&run_to_text(&case).0).unwrap();
        let hot = json["functions"].as_array().unwrap().iter().find(|row| row["function"] == "hot").unwrap();
        assert_eq!(hot["share"]["is_significant"], true);
        assert_eq!(hot["share"]["before"]["value"], 0.1);
        assert!(Some(0.0) < hot["share"]["after"]["margin"].as_f64());
        assert_eq!(json["paths"][0]["address"].as_str().map(|text| text.starts_with("0x")), Some(true));
    }
}
