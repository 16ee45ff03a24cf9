//! The manual pages and the completions of shells, made from the one definition of the command
//! line.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::Roff;

use crate::output;

/// Writes a page for the program and one for each of its commands.
pub fn write_pages(program: Command, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot be created", folder.display()))?;
    for (name, text) in pages(program)? {
        output::write_file(&folder.join(name), |file| Ok(file.write_all(&text)?))?;
    }
    Ok(())
}

/// Writes what a shell reads.
pub fn write_completions(mut program: Command, shell: Shell, out: &mut impl Write) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "strobe", &mut script);
    Ok(out.write_all(&script)?)
}

/// File names and texts.
fn pages(program: Command) -> Result<Vec<(String, Vec<u8>)>> {
    let mut program = program.disable_help_subcommand(true);
    // Gives every command the name of its page.
    program.build();
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set()).chain([&program]);
    let pages = commands.map(|command| {
        let name = command.get_display_name().unwrap_or(command.get_name());
        Ok((format!("{name}.1"), page(command.clone())?))
    });
    pages.collect()
}

/// Examples stand first in help and last in a manual page, in a section of their own.
fn page(command: Command) -> Result<Vec<u8>> {
    let examples = command.get_before_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.before_help(""));
    let mut text = Vec::new();
    man.render(&mut text)?;
    let lines: Vec<&str> = examples.lines().filter(|line| line.starts_with(' ')).collect();
    if !lines.is_empty() {
        let mut section = Roff::new();
        section.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in lines {
            section.text([clap_mangen::roff::roman(line.trim())]);
        }
        section.control("fi", []);
        section.to_writer(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    /// Lines of a screen.
    const SCREEN: usize = 40;

    /// What `--help` prints, by command.
    fn helps() -> Vec<(String, String)> {
        let mut program = Args::command();
        program.build();
        let commands = program.get_subcommands().filter(|command| command.get_name() != "help");
        commands.map(|command| (command.get_name().to_owned(), command.clone().render_help().to_string())).collect()
    }

    #[test]
    fn help_starts_with_examples() {
        for (name, help) in helps() {
            assert!(help.starts_with("Examples:\n"), "{name}:\n{help}");
        }
    }

    /// Commands that run a program show all of their many options, under headings.
    const RUNNING: [&str; 3] = ["record", "count", "trace"];

    #[test]
    fn help_fits_one_screen() {
        let others = helps().into_iter().filter(|(name, _)| !RUNNING.contains(&name.as_str()));
        let lengths = others.map(|(name, help)| (name, help.lines().count()));
        let too_long: Vec<(String, usize)> = lengths.filter(|(_, n_lines)| SCREEN < *n_lines).collect();
        assert_eq!(too_long, Vec::new());
    }

    #[test]
    fn long_help_has_headings() {
        const MOST_PER_HEADING: usize = 10;
        for name in RUNNING {
            let command = Args::command();
            let command = command.find_subcommand(name).expect(name);
            let mut per_heading = BTreeMap::new();
            for option in command.get_opts().filter(|option| !option.is_hide_set()) {
                *per_heading.entry(option.get_help_heading()).or_insert(0) += 1;
            }
            assert!(per_heading.len() > 3, "{name}: {per_heading:?}");
            let most = per_heading.values().copied().max();
            assert!(most <= Some(MOST_PER_HEADING), "{name}: {per_heading:?}");
        }
    }

    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let pages = pages(Args::command()).unwrap();
        for command in Args::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = format!("strobe-{}.1", command.get_name());
            let (_, text) = pages.iter().find(|(file, _)| *file == name).expect(&name);
            let text = String::from_utf8(text.clone()).unwrap();
            assert!(text.contains(".SH EXAMPLES"), "{name}:\n{text}");
            assert!(text.contains(".SH SYNOPSIS"), "{name}");
        }
    }

    #[test]
    fn shells_get_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            write_completions(Args::command(), shell, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            for command in Args::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell} {}", command.get_name());
            }
        }
    }
}
