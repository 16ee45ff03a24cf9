//! Command lines shown in documents work: the subcommand exists and its help knows every long
//! option.
//!
//! The built program is asked, not its source, so that the check cannot be fooled by how the
//! options are defined. Lines that contain the word "planned" may show what is not there yet. In
//! docs/commands.md, which has a heading for each subcommand, options by themselves are looked at,
//! too.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::tidy::{Complaint, markdown};
use crate::workspace::{TextFile, Workspace};

const COMMANDS: &str = "docs/commands.md";
const PREFIXES: &[&str] = &["strobe ", "cargo run --release -- "];
/// Says which commands there were, not which there are.
const HISTORY: &str = "CHANGELOG.md";

/// `strobe` makes a command that runs strobe.
pub fn check(workspace: &Workspace, strobe: fn() -> Command) -> Result<Vec<Complaint>> {
    let documents = workspace.files.iter().filter(|file| file.is_markdown() && file.path != HISTORY);
    let shown: Vec<(&str, CommandLine)> =
        documents.flat_map(|file| lines_of(file).into_iter().map(|line| (file.path.as_str(), line))).collect();
    let mut help = BTreeMap::new();
    for (_, line) in &shown {
        if !help.contains_key(line.subcommand) {
            help.insert(line.subcommand, help_of(strobe(), &[line.subcommand])?);
        }
    }
    let mut complaints = compare(&shown, &help);
    if let (Some(document), Some(help)) = (workspace.file(COMMANDS), help_of(strobe(), &[])?) {
        complaints.extend(undescribed(&document.text, &help));
    }
    Ok(complaints)
}

#[derive(Debug, PartialEq, Eq)]
struct CommandLine<'a> {
    line_number: usize,
    subcommand: &'a str,
    options: Vec<&'a str>,
}

fn lines_of(document: &TextFile) -> Vec<CommandLine<'_>> {
    let mut lines = command_lines(&document.text);
    if document.path == COMMANDS {
        lines.extend(lone_options(&document.text));
    }
    lines
}

fn command_lines(text: &str) -> Vec<CommandLine<'_>> {
    let code = markdown::code(text);
    let code = code.iter().filter(|code| !code.line.contains("planned"));
    code.filter_map(|code| {
        let text = code.text.trim_start_matches("$ ");
        let arguments = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix))?;
        let mut words = arguments.split(['#', '|', '>']).next()?.split_whitespace();
        let is_name = |word: &str| word.chars().all(|c| c.is_ascii_lowercase());
        let subcommand = words.next().filter(|word| is_name(word))?;
        // What follows `--` is the program's.
        let options = words.take_while(|word| *word != "--").filter(|word| word.starts_with("--")).collect();
        Some(CommandLine { line_number: code.line_number, subcommand, options })
    })
    .collect()
}

/// Returns options in code under a heading such as "`strobe record`", as command lines.
fn lone_options(text: &str) -> Vec<CommandLine<'_>> {
    let code = markdown::code(text).into_iter().filter(|code| !code.fenced && code.text.starts_with("--"));
    code.filter_map(|code| {
        let subcommand = subcommand_of_heading(code.heading)?;
        let options = code.text.split_whitespace().take_while(|word| *word != "--");
        let options = options.filter(|word| word.starts_with("--")).collect();
        Some(CommandLine { line_number: code.line_number, subcommand, options })
    })
    .collect()
}

fn subcommand_of_heading(heading: &str) -> Option<&str> {
    heading.strip_prefix("`strobe ")?.strip_suffix('`')
}

/// What `strobe [SUBCOMMAND] --help` prints, `None` if there is no such subcommand.
fn help_of(mut strobe: Command, subcommand: &[&str]) -> Result<Option<String>> {
    let output = strobe.args(subcommand).arg("--help").output().context("cannot run strobe")?;
    Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn compare(shown: &[(&str, CommandLine)], help: &BTreeMap<&str, Option<String>>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, CommandLine { line_number, subcommand, options }) in shown {
        match help.get(subcommand).and_then(Option::as_ref) {
            None => complaints.push(format!("{path}:{line_number}: `strobe {subcommand}` does not exist")),
            Some(help) => {
                let known = |option: &str| {
                    help.split([' ', ',', '\n', '=', '[', '`', '<', ')', ':']).any(|word| word == option)
                };
                let unknown = options.iter().filter(|option| !known(option.split(['=', '[']).next().unwrap_or(option)));
                complaints.extend(
                    unknown
                        .map(|option| format!("{path}:{line_number}: `strobe {subcommand}` has no option `{option}`")),
                );
            }
        }
    }
    complaints
}

/// Returns a complaint for each subcommand without a heading.
fn undescribed(document: &str, help: &str) -> Vec<Complaint> {
    let headings: BTreeSet<&str> =
        document.lines().filter_map(|line| subcommand_of_heading(line.trim_start_matches('#').trim())).collect();
    let commands = help.lines().skip_while(|line| line.trim() != "Commands:").skip(1);
    let names = commands.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names
        .filter(|name| !headings.contains(name))
        .map(|name| format!("{COMMANDS}: no heading `strobe {name}`"))
        .collect()
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
        let text = "`strobe inspect --json --yaml -- x --z`\n`strobe fly`\n";
        let shown: Vec<(&str, CommandLine)> = command_lines(text).into_iter().map(|line| ("README.md", line)).collect();
        let help = BTreeMap::from([("inspect", Some("  -j, --json  JSON\n".to_owned())), ("fly", None)]);
        assert_eq!(
            compare(&shown, &help),
            ["README.md:1: `strobe inspect` has no option `--yaml`", "README.md:2: `strobe fly` does not exist"]
        );
    }

    #[test]
    fn options_by_themselves_are_of_the_command_in_the_heading() {
        let text = "## `strobe inspect`\nWith `--json`, or `--path ID --att`; not `-f`.\n## Other\n`--free`\n";
        assert_eq!(
            lone_options(text),
            [
                CommandLine { line_number: 2, subcommand: "inspect", options: vec!["--json"] },
                CommandLine { line_number: 2, subcommand: "inspect", options: vec!["--path", "--att"] },
            ]
        );
    }

    #[test]
    fn commands_without_a_heading_are_found() {
        let help = "About\n\nCommands:\n  inspect  Show\n           more\n  record   Run\n  help     Print\n\nOptions:\n  -h  Help\n";
        assert_eq!(undescribed("## `strobe inspect`\n", help), ["docs/commands.md: no heading `strobe record`"]);
    }
}
