//! The words of the glossary are words of the program: each one occurs in code or help, once in the
//! list, in order.

use std::collections::BTreeSet;

use crate::tidy::{Complaint, markdown};
use crate::workspace::{TextFile, Workspace};

const CONCEPTS: &str = "docs/concepts.md";
const HEADING: &str = "## Glossary";

pub fn check(workspace: &Workspace) -> Vec<Complaint> {
    let Some(document) = workspace.file(CONCEPTS) else { return vec![format!("{CONCEPTS}: missing")] };
    let terms = terms(&document.text);
    if terms.is_empty() {
        return vec![format!("{CONCEPTS}: no terms under `{HEADING}`; one is `* <a id=\"burst\"></a>**burst**: ...`")];
    }
    let used = words(workspace);
    let mut complaints = Vec::new();
    for (line, term) in &terms {
        if !used.contains(&plain(term)) {
            complaints.push(format!("{CONCEPTS}:{line}: `{term}` occurs neither in code nor in help"));
        }
    }
    for pair in terms.windows(2).filter(|pair| plain(&pair[0].1) >= plain(&pair[1].1)) {
        complaints.push(format!("{CONCEPTS}:{}: `{}` is not behind `{}`", pair[1].0, pair[1].1, pair[0].1));
    }
    let anchors = markdown::anchors(&document.text);
    for (line, term) in terms.iter().filter(|(_, term)| !anchors.contains(&plain(term))) {
        complaints.push(format!("{CONCEPTS}:{line}: no `<a id=\"{}\">` for links to `{term}`", plain(term)));
    }
    complaints
}

/// Returns the terms of the glossary, with their lines.
fn terms(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    let lines = lines.take_while(|(_, line)| !line.starts_with('#')).filter(|(_, line)| line.starts_with("* "));
    lines.filter_map(|(index, line)| Some((index + 1, line.split("**").nth(1)?.to_owned()))).collect()
}

/// Returns a term as it is compared: `Ball-Larus path` as `ball-larus-path`.
fn plain(term: &str) -> String {
    term.to_lowercase().replace([' ', '_'], "-")
}

/// Returns all words of the sources of crates, singular, and all rows of two and three of them.
fn words(workspace: &Workspace) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for file in workspace.files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/")) {
        of_file(file, &mut all);
    }
    all
}

fn of_file(file: &TextFile, all: &mut BTreeSet<String>) {
    let text = file.text.to_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    for n in 1..=3 {
        for row in words.windows(n) {
            let row = row.join("-");
            if let Some(singular) = row.strip_suffix('s') {
                all.insert(singular.to_owned());
            }
            all.insert(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::workspace;

    fn complaints(concepts: &str) -> Vec<Complaint> {
        let source = ("crates/cli/src/a.rs", "/// Bursts, and Ball-Larus paths.\nfn hit_rate() {}\n");
        check(&workspace(Vec::new(), &[(CONCEPTS, concepts), source]))
    }

    #[test]
    fn terms_that_are_used_pass() {
        let text = "# C\n## Glossary\n\n* <a id=\"ball-larus-path\"></a>**Ball-Larus path**: a.\n\
                    * <a id=\"burst\"></a>**burst**: b\n  goes on.\n* <a id=\"hit-rate\"></a>**hit rate**: c\n\n## Next\n* **x**\n";
        assert_eq!(complaints(text), Vec::<Complaint>::new());
    }

    #[test]
    fn unused_unordered_and_unlinked_terms_are_found() {
        let text =
            "## Glossary\n* <a id=\"hit-rate\"></a>**hit rate**: c\n* **burst**: b\n* <a id=\"frob\"></a>**frob**: d\n";
        assert_eq!(
            complaints(text),
            [
                "docs/concepts.md:4: `frob` occurs neither in code nor in help",
                "docs/concepts.md:3: `burst` is not behind `hit rate`",
                "docs/concepts.md:3: no `<a id=\"burst\">` for links to `burst`",
            ]
        );
    }

    #[test]
    fn a_missing_glossary_is_found() {
        assert_eq!(complaints("# Concepts\n").len(), 1);
        assert_eq!(check(&workspace(Vec::new(), &[])), ["docs/concepts.md: missing"]);
    }
}
