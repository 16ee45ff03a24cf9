//! Checks that keep documents, crate graph and sources honest.
//!
//! Every check is a function from plain values to a list of complaints, one line each, starting
//! with the place to look at. All checks run; all complaints are printed.

mod commands;
mod documents;
mod edges;
mod figures;
mod glossary;
mod links;
mod manifests;
mod markdown;
mod purity;
mod scan;
mod sources;
mod widths;
mod wrap;

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::paths;
use crate::workspace::Workspace;

/// One line: `place: what is wrong`.
pub type Complaint = String;

/// `strobe` makes a command that runs strobe, for its help.
pub fn run(workspace: &Workspace, strobe: fn() -> Command) -> Result<()> {
    let mut complaints = edges::check(workspace);
    complaints.extend(purity::check(workspace));
    complaints.extend(manifests::check(workspace));
    complaints.extend(documents::check(workspace));
    complaints.extend(links::check(workspace));
    complaints.extend(glossary::check(workspace));
    complaints.extend(figures::check(workspace));
    complaints.extend(widths::check(workspace));
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

/// Wraps comments and Markdown of the whole workspace, in place, and says which files changed.
pub fn wrap(workspace: &Workspace) -> Result<()> {
    for file in &workspace.files {
        let wrapped = match widths::kind(file) {
            Some(widths::Kind::Markdown) => wrap::wrap_markdown(&file.text),
            Some(widths::Kind::Source) => wrap::wrap(&file.text, file.is_rust()),
            None => continue,
        };
        if wrapped != file.text {
            fs::write(paths::root().join(&file.path), wrapped).with_context(|| file.path.clone())?;
            println!("{}", file.path);
        }
    }
    Ok(())
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
