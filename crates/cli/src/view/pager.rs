//! Where the text of a view goes: through a pager on a terminal, as it is anywhere else.
//!
//! `PAGER` says which pager; without it, `less`, set to end by itself if all fits on one screen. A
//! pager that cannot be started is none.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anstream::{AutoStream, ColorChoice};

const DEFAULT_PAGER: &str = "less";
/// Colours, no second screen, and the end if one screen is enough.
const LESS_OPTIONS: &str = "FRX";

/// Prints a finished text, whose styles are ANSI sequences.
pub fn print(text: &[u8], color: ColorChoice, use_pager: bool) -> io::Result<()> {
    let stdout = io::stdout();
    let color = match color {
        ColorChoice::Auto => AutoStream::choice(&stdout),
        chosen => chosen,
    };
    let pager = (use_pager && stdout.is_terminal()).then(start).flatten();
    let Some(mut pager) = pager else { return AutoStream::new(stdout.lock(), color).write_all(text) };
    let written = match pager.stdin.take() {
        Some(stdin) => AutoStream::new(Box::new(stdin) as Box<dyn Write>, forced(color)).write_all(text),
        None => Ok(()),
    };
    pager.wait()?;
    written
}

/// The pager's input is no terminal, its output is.
fn forced(color: ColorChoice) -> ColorChoice {
    match color {
        ColorChoice::Never => ColorChoice::Never,
        _ => ColorChoice::AlwaysAnsi,
    }
}

fn start() -> Option<Child> {
    let command = std::env::var_os("PAGER").unwrap_or_else(|| OsString::from(DEFAULT_PAGER));
    if command.is_empty() || command == "cat" {
        return None;
    }
    let mut shell = Command::new("sh");
    // Replaced by the pager; a shell that finds none would eat the text.
    shell.arg("-c").arg(exec(&command)?).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        shell.env("LESS", LESS_OPTIONS);
    }
    shell.spawn().ok()
}

/// `PAGER` may hold options. Without the program there is nothing to run.
fn exec(command: &OsString) -> Option<OsString> {
    let text = command.to_str()?;
    let program = text.split_whitespace().next()?;
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = match program.contains('/') {
        true => Path::new(program).is_file(),
        false => std::env::split_paths(&folders).any(|folder| folder.join(program).is_file()),
    };
    is_there.then(|| OsString::from(format!("exec {text}")))
}
