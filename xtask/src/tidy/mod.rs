//! Checks that keep documents, crate graph and sources honest.
//!
//! Every check is a function from plain values to a list of complaints, one line each, starting with the place to
//! look at. All checks run; all complaints are printed.

mod commands;
mod documents;
mod edges;
mod figures;
mod markdown;
mod sources;

use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

/// One line: `place: what is wrong`.
pub type Complaint = String;

/// `strobe` makes a command that runs strobe, for its help.
pub fn run(workspace: &Workspace, strobe: fn() -> Command) -> Result<()> {
    let mut complaints = edges::check(workspace);
    complaints.extend(documents::check(workspace));
    complaints.extend(figures::check(workspace));
    complaints.extend(sources::check(workspace));
    complaints.extend(commands::check(workspace, strobe)?);
    print!("{}", sources::size_report(workspace));
    for complaint in &complaints {
        eprintln!("tidy: {complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        n => bail!("{n} things are not tidy"),
    }
}

#[cfg(test)]
mod testing {
    //! Workspaces made of literals.

    use crate::workspace::{Crate, TextFile, Workspace};

    pub fn workspace(crates: Vec<Crate>, files: &[(&str, &str)]) -> Workspace {
        let files = files.iter().map(|(path, text)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() });
        Workspace { crates, files: files.collect() }
    }

    pub fn member(name: &str, members_used: &[&str]) -> Crate {
        Crate {
            name: name.to_owned(),
            roots: Vec::new(),
            members_used: members_used.iter().map(|name| (*name).to_owned()).collect(),
            foreign: Default::default(),
        }
    }
}
