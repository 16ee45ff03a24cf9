//! What a workload leaves behind, and what it should.
//!
//! A run is its exit status, its standard output and every file of its own in `out/`. The few lines
//! in which programs report times or dates are not part of it. `corpus/expected.tsv` has the hash
//! of all that, by size and program: inputs come from fixed seeds, so that only another version of
//! a package may change it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use sha2::{Digest, Sha256};

use super::{Data, Size, Workload};
use crate::cpu_time::cpu_of_children;
use crate::table::Table;

const EXPECTED: &str = include_str!("../../corpus/expected.tsv");

/// What a run leaves behind.
#[derive(Clone, Debug)]
pub struct Run {
    status: String,
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// CPU time of the program and of a tool in front of it.
    pub cpu_seconds: f64,
}

impl Run {
    /// Runs a workload behind `prefix`, without what earlier runs left.
    pub fn of(data: &Data, workload: &Workload, prefix: &str) -> anyhow::Result<Run> {
        let is_output = |name: &str| {
            let is_recording = name.ends_with(".strobe") || name.ends_with(".strobe.trace");
            name.starts_with(&format!("{}.", workload.name)) && !is_recording
        };
        for path in outputs(data.root(), is_output)? {
            fs::remove_file(path)?;
        }
        let mut command = data.command(workload, prefix)?;
        let before = cpu_of_children()?;
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
        let cpu_seconds = (cpu_of_children()? - before).as_secs_f64();
        let mut files = BTreeMap::new();
        files.insert(PathBuf::from("standard output"), output.stdout);
        for path in outputs(data.root(), is_output)? {
            let content = fs::read(&path)?;
            files.insert(path, steady(workload.name, content));
        }
        Ok(Run { status: output.status.to_string(), files, cpu_seconds })
    }

    /// What `other` has that this run has not.
    #[must_use]
    pub fn difference(&self, other: &Run) -> Option<String> {
        if self.status != other.status {
            return Some(format!("{} instead of {}", other.status, self.status));
        }
        let names: Vec<&PathBuf> = self.files.keys().chain(other.files.keys()).collect();
        let differs = names.into_iter().find(|name| self.files.get(*name) != other.files.get(*name))?;
        let (mine, theirs) = (self.files.get(differs), other.files.get(differs));
        let len = |file: Option<&Vec<u8>>| file.map_or("missing".to_owned(), |file| format!("{} bytes", file.len()));
        Some(format!("{}: {} instead of {}", differs.display(), len(theirs), len(mine)))
    }

    /// A hash of everything: status, names and contents.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(&self.status);
        for (path, content) in &self.files {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            hash.update(format!("\n{name} {}\n", content.len()));
            hash.update(content);
        }
        hash.finalize().iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// One program of the corpus, run as it is.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The program.
    pub name: &'static str,
    /// CPU time.
    pub cpu_seconds: f64,
    /// Hash of what it put out.
    pub hash: String,
    /// What it should be; nothing if it was never written down.
    pub expected: Option<&'static str>,
}

impl Checked {
    /// The output is what it should be.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.expected == Some(self.hash.as_str())
    }
}

/// Runs programs as they are and compares with the hashes of the corpus.
pub fn check(
    data: &Data,
    size: Size,
    programs: &[Workload],
    mut report: impl FnMut(&Checked),
) -> anyhow::Result<Vec<Checked>> {
    let check = |workload: &Workload| {
        let run = Run::of(data, workload, "")?;
        let expected = expected(size, workload.name);
        let checked = Checked { name: workload.name, cpu_seconds: run.cpu_seconds, hash: run.hash(), expected };
        report(&checked);
        Ok(checked)
    };
    programs.iter().map(check).collect()
}

/// What was found, for people.
#[must_use]
pub fn table(checked: &[Checked]) -> Table {
    let mut table = Table::new(&["program", "CPU s", "output", "sha256"]);
    for row in checked {
        let verdict = match row.expected {
            None => "unknown",
            Some(_) if row.holds() => "as expected",
            Some(_) => "DIFFERS",
        };
        let cells = [row.name.to_owned(), format!("{:.2}", row.cpu_seconds), verdict.to_owned(), row.hash.clone()];
        table.row(cells);
    }
    table
}

fn expected(size: Size, program: &str) -> Option<&'static str> {
    let rows = EXPECTED.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|row| row.split_once('\t')?.1.split_once('\t').map(|(name, hash)| (row, name, hash)))
        .find(|(row, name, _)| *name == program && row.starts_with(&format!("{size}\t")))
        .map(|(_, _, hash)| hash)
}

fn outputs(root: &Path, is_output: impl Fn(&str) -> bool) -> anyhow::Result<Vec<PathBuf>> {
    let folder = root.join("out");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&is_output)).collect())
}

/// What of an output is the same at each run.
fn steady(program: &str, content: Vec<u8>) -> Vec<u8> {
    let without = |words: &[&str]| {
        let text = String::from_utf8_lossy(&content).into_owned();
        let lines = text.lines().filter(|line| !words.iter().any(|word| line.contains(word)));
        lines.collect::<Vec<_>>().join("\n").into_bytes()
    };
    match program {
        "crafty" => without(&["Processor", "NPS"]),
        "eon" => without_comments(&content),
        // Where its search stands is printed every five seconds.
        "mcf" => without(&["Time used", "secs", " inf = "]),
        _ => content,
    }
}

/// A picture without the comments in its heading, one of which is a date.
fn without_comments(picture: &[u8]) -> Vec<u8> {
    const HEADING_LINES: usize = 16;
    let mut lines = picture.splitn(HEADING_LINES, |&byte| byte == b'\n');
    let mut kept = Vec::with_capacity(picture.len());
    let mut is_heading = true;
    for line in &mut lines {
        is_heading &= line.starts_with(b"#") || line.starts_with(b"P");
        if !(is_heading && line.starts_with(b"#")) {
            kept.extend_from_slice(line);
            kept.push(b'\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;

    #[test]
    fn every_program_has_an_expected_hash_for_every_size() {
        for size in [Size::Tiny, Size::Short, Size::Full, Size::Long] {
            for workload in corpus::workloads() {
                let hash = expected(size, workload.name);
                assert!(hash.is_some_and(|hash| hash.len() == 64), "{size} {}: {hash:?}", workload.name);
            }
        }
        assert_eq!(expected(Size::Tiny, "gizp"), None);
    }

    #[test]
    fn dates_are_no_part_of_a_picture() {
        let [first, second] = ["2026-01-01", "2026-01-02"].map(|date| {
            let heading = format!("P6\n# Render Date: {date}\n2 2\n255\n");
            without_comments(&[heading.as_bytes(), b"#\n##pixels"].concat())
        });
        assert_eq!(first, second);
        assert!(first.ends_with(b"#\n##pixels\n"), "{first:?}");
    }

    #[test]
    fn a_run_is_known_by_its_status_and_files() {
        let run = |status: &str, content: &str| Run {
            status: status.to_owned(),
            files: BTreeMap::from([(PathBuf::from("out/x.out"), content.as_bytes().to_vec())]),
            cpu_seconds: 0.0,
        };
        assert_eq!(run("0", "a").hash(), run("0", "a").hash());
        assert_ne!(run("0", "a").hash(), run("1", "a").hash());
        assert_ne!(run("0", "a").hash(), run("0", "b").hash());
        assert!(run("0", "a").difference(&run("0", "ab")).unwrap().contains("2 bytes instead of 1 bytes"));
    }
}
