//! Command lines shown in README.md work: the subcommand exists and its help knows every long option.
//!
//! The built program is asked, not its source, so that the check cannot be fooled by how the options are defined.
//! Lines that contain the word "planned" may show what is not there yet.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::tidy::{Complaint, markdown};
use crate::workspace::Workspace;

const README: &str = "README.md";
const PREFIXES: &[&str] = &["strobe ", "cargo run --release -- "];

/// `strobe` makes a command that runs strobe.
pub fn check(workspace: &Workspace, strobe: fn() -> Command) -> Result<Vec<Complaint>> {
    let Some(readme) = workspace.file(README) else { return Ok(Vec::new()) };
    let shown = command_lines(&readme.text);
    let mut help = BTreeMap::new();
    for line in &shown {
        if !help.contains_key(line.subcommand) {
            help.insert(line.subcommand, help_of(strobe(), line.subcommand)?);
        }
    }
    Ok(compare(&shown, &help))
}

#[derive(Debug, PartialEq, Eq)]
struct CommandLine<'a> {
    line_number: usize,
    subcommand: &'a str,
    options: Vec<&'a str>,
}

fn command_lines(readme: &str) -> Vec<CommandLine<'_>> {
    let code = markdown::code(readme);
    let code = code.iter().filter(|code| !code.line.contains("planned"));
    code.filter_map(|code| {
        let text = code.text.trim_start_matches("$ ");
        let arguments = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix))?;
        let mut words = arguments.split(['#', '|', '>']).next()?.split_whitespace();
        let subcommand = words.next().filter(|word| word.chars().all(|c| c.is_ascii_lowercase()))?;
        let options = words.filter(|word| word.starts_with("--")).collect();
        Some(CommandLine { line_number: code.line_number, subcommand, options })
    })
    .collect()
}

/// What `strobe SUBCOMMAND --help` prints, `None` if there is no such subcommand.
fn help_of(mut strobe: Command, subcommand: &str) -> Result<Option<String>> {
    let output = strobe.args([subcommand, "--help"]).output().context("cannot run strobe")?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn compare(shown: &[CommandLine], help: &BTreeMap<&str, Option<String>>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for CommandLine { line_number, subcommand, options } in shown {
        match help.get(subcommand).and_then(Option::as_ref) {
            None => complaints.push(format!("{README}:{line_number}: `strobe {subcommand}` does not exist")),
            Some(help) => {
                let known = |option: &str| help.split([' ', ',', '\n', '=', '[']).any(|word| word == option);
                let unknown = options.iter().filter(|option| !known(option.split('=').next().unwrap_or(option)));
                complaints.extend(
                    unknown.map(|option| {
                        format!("{README}:{line_number}: `strobe {subcommand}` has no option `{option}`")
                    }),
                );
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_found_in_fences_and_inline() {
        let readme = "Run `strobe inspect x --json`, `strobe` or `strobe --version`.\n```sh\n\
                      $ cargo run --release -- dump cfg x --att | head --lines 3\ncargo xtask test\n```\n\
                      `strobe record` is planned\n";
        assert_eq!(
            command_lines(readme),
            [
                CommandLine { line_number: 1, subcommand: "inspect", options: vec!["--json"] },
                CommandLine { line_number: 3, subcommand: "dump", options: vec!["--att"] },
            ]
        );
    }

    #[test]
    fn unknown_subcommands_and_options_are_found() {
        let shown = command_lines("`strobe inspect --json --yaml`\n`strobe fly`\n");
        let help = BTreeMap::from([("inspect", Some("  -j, --json  JSON\n".to_owned())), ("fly", None)]);
        assert_eq!(
            compare(&shown, &help),
            ["README.md:1: `strobe inspect` has no option `--yaml`", "README.md:2: `strobe fly` does not exist"]
        );
    }
}
