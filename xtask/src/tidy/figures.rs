//! Figures in README.md are those that were measured.
//!
//! A row of a table in README.md whose first cell names claims has only numbers that were found for
//! them, by docs/lab/results.md. All other numbers in its tables occur in some document of
//! docs/lab. The output that it shows, and numbers with a decimal point in its text, are those of
//! docs/start.md, which goes through the same example, or of docs/lab. Whole numbers are not looked
//! at: nearly all of them occur somewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{Complaint, markdown};
use crate::workspace::Workspace;

const README: &str = "README.md";
const RESULTS: &str = "docs/lab/results.md";
const EVIDENCE: &str = "docs/lab/";
/// Has the example of README.md, in full.
const EXAMPLE: &str = "docs/start.md";
/// The column of the first table of results that has what was found.
const OURS: usize = 4;
const N_COLUMNS: usize = 7;

pub fn check(workspace: &Workspace) -> Vec<Complaint> {
    let (Some(readme), Some(results)) = (workspace.file(README), workspace.file(RESULTS)) else { return Vec::new() };
    let found = found(&results.text);
    let evidence = workspace.files.iter().filter(|file| file.is_markdown() && file.path.starts_with(EVIDENCE));
    let measured: BTreeSet<&str> = evidence.flat_map(|file| numbers(&file.text)).collect();
    let mut complaints = Vec::new();
    let mut n_rows = 0;
    for (index, line) in readme.text.lines().enumerate() {
        let cells = cells(line);
        let [claims, .., shown] = cells[..] else { continue };
        let claims: Vec<&str> = claims.split(", ").collect();
        if !claims.iter().any(|claim| found.contains_key(claim)) {
            let shown: BTreeSet<&str> = cells[1..].iter().flat_map(|cell| numbers(cell)).collect();
            let invented = shown.difference(&measured);
            complaints.extend(invented.map(|number| format!("{README}:{}: {EVIDENCE} has no {number}", index + 1)));
            continue;
        }
        n_rows += 1;
        let known: BTreeSet<&str> = claims.iter().filter_map(|claim| found.get(claim)).flatten().copied().collect();
        for number in numbers(shown).difference(&known) {
            complaints.push(format!("{README}:{}: {RESULTS} has no {number} for {}", index + 1, claims.join(", ")));
        }
    }
    if n_rows == 0 {
        complaints.push(format!("{README}: no table has figures of {RESULTS}; a row starts with the names of claims"));
    }
    let example = workspace.file(EXAMPLE).map_or("", |file| &file.text);
    complaints.extend(text_and_output(&readme.text, &measured, example));
    complaints
}

/// Looks at what is outside of tables.
fn text_and_output(readme: &str, measured: &BTreeSet<&str>, example: &str) -> Vec<Complaint> {
    let of_example = numbers(example);
    let shown: BTreeSet<&str> = example.lines().map(str::trim_end).collect();
    let mut complaints = Vec::new();
    let mut shows_output = false;
    for (index, (line, is_fenced)) in readme.lines().zip(markdown::fenced_lines(readme)).enumerate() {
        let place = format!("{README}:{}", index + 1);
        if line.starts_with("```") {
            shows_output = line == "```text";
        } else if is_fenced {
            let is_output = shows_output && line != "..." && !line.starts_with("$ ");
            if is_output && !shown.contains(line.trim_end()) {
                complaints.push(format!("{place}: {EXAMPLE} does not show this line of output"));
            }
        } else if cells(line).is_empty() {
            let fractions = numbers(line).into_iter().filter(|number| is_fraction(number));
            let invented = fractions.filter(|number| !measured.contains(number) && !of_example.contains(number));
            complaints.extend(invented.map(|number| format!("{place}: neither {EXAMPLE} nor {EVIDENCE} has {number}")));
        }
    }
    complaints
}

/// Versions have letters or several points; they are no figures.
fn is_fraction(number: &str) -> bool {
    number.split_once('.').is_some_and(|(whole, rest)| !whole.is_empty() && !rest.is_empty() && !rest.contains('.'))
}

/// What was found, by claim: all numbers.
fn found(results: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let rows = results.lines().map(cells).skip_while(|cells| cells.len() != N_COLUMNS);
    let rows = rows.take_while(|cells| cells.len() == N_COLUMNS).skip(2);
    rows.map(|cells| (cells[0], numbers(cells[OURS]))).collect()
}

fn cells(line: &str) -> Vec<&str> {
    match line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|')) {
        Some(row) => row.split('|').map(str::trim).collect(),
        None => Vec::new(),
    }
}

fn numbers(text: &str) -> BTreeSet<&str> {
    let pieces = text.split(|c: char| !c.is_ascii_digit() && c != '.').map(|piece| piece.trim_matches('.'));
    pieces.filter(|piece| !piece.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::workspace;

    const SUMMARY: &str = "# Results\n\n| claim | what | paper | must be | ours | interval | verdict |\n| --- | --- | --- | --- | --- | --- | --- |\n\
        | P1 | cost | 1.2 % | 1.0 % | 0.487 % avg, 0.85 % max. | 0.4-0.5 % | holds |\n| P2 | paths | 94 % | 97 % | 98.54 % |  | holds |\n\n\
        | P1 | of | another | table | 3.3 | is | nothing |\n";

    fn complaints(readme: &str) -> Vec<Complaint> {
        let other = ("docs/lab/exact.md", "callgrind takes 44.03 times as long\n");
        check(&workspace(Vec::new(), &[(README, readme), (RESULTS, SUMMARY), other]))
    }

    #[test]
    fn figures_that_were_found_pass() {
        let readme = "| | | |\n|---|---|---|\n| P1 | cost | 0.487 %; at most 0.85 % |\n| P1, P2 | both | 98.54 % and 0.85 % |\n| callgrind 3 | 44.03 times | |\n";
        assert_eq!(complaints(readme), Vec::<Complaint>::new());
    }

    #[test]
    fn figures_of_the_paper_of_other_claims_and_of_nowhere_do_not() {
        assert_eq!(
            complaints("text\n| P1 | cost | 1.2 %, 98.54 %, 3.3 |\n"),
            [
                "README.md:2: docs/lab/results.md has no 1.2 for P1",
                "README.md:2: docs/lab/results.md has no 3.3 for P1",
                "README.md:2: docs/lab/results.md has no 98.54 for P1",
            ]
        );
        assert_eq!(complaints("| P2, P9 | | 99.9 % |\n"), ["README.md:1: docs/lab/results.md has no 99.9 for P2, P9"]);
    }

    #[test]
    fn figures_of_other_rows_are_somewhere_in_the_evidence() {
        let readme = "| P1 | cost | 0.487 % |\n| callgrind | 44.03 | 43 |\n";
        assert_eq!(complaints(readme), ["README.md:2: docs/lab/ has no 43"]);
    }

    #[test]
    fn text_and_output_are_those_of_the_example() {
        let readme = "| P1 | cost | 0.487 % |\n\ntakes 72.2 % or 44.03 or 3.1, since 1.2.3\n```sh\nwork 9.9\n```\n\
                      ```text\n$ strobe 8.8\n  72.2 % find\n  74.2 % find\n...\n```\n";
        let files = [
            (README, readme),
            (RESULTS, SUMMARY),
            ("docs/lab/exact.md", "44.03\n"),
            (EXAMPLE, "```text\n  72.2 % find\n```\n"),
        ];
        assert_eq!(
            check(&workspace(Vec::new(), &files)),
            [
                "README.md:3: neither docs/start.md nor docs/lab/ has 3.1",
                "README.md:10: docs/start.md does not show this line of output",
            ]
        );
    }

    #[test]
    fn a_readme_without_figures_does_not() {
        assert_eq!(complaints("nothing\n").len(), 1);
    }
}
