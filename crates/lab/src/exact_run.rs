//! A program of the corpus under `strobe record`, and what the profile file says of the run.
//!
//! The program is driven, not the engine ([`crate::recording`]): what strobe takes is that of its
//! process, from its start to its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};

use crate::corpus::{Data, Workload};

/// The facts of a recording.
#[derive(Debug)]
pub struct Facts {
    program: String,
    facts: BTreeMap<String, String>,
}

impl Facts {
    /// Records a program with these options.
    pub fn record(strobe: &Path, data: &Data, workload: &Workload, options: &str) -> anyhow::Result<Facts> {
        let profile = data.root().join(format!("out/{}.strobe", workload.name));
        let prefix = format!("'{}' record -q {options} -o '{}' --", strobe.display(), profile.display());
        let status = data.command(workload, &prefix)?.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(status.code().is_some(), "{}: {status}", workload.name);
        Ok(Facts { program: workload.name.to_owned(), facts: store::facts(&profile)? })
    }

    /// A fact.
    pub fn text(&self, name: &str) -> anyhow::Result<&str> {
        self.facts.get(name).map(String::as_str).with_context(|| format!("{}: no fact {name}", self.program))
    }

    /// A fact that is a number.
    pub fn number(&self, name: &str) -> anyhow::Result<f64> {
        let text = self.text(name)?;
        text.parse().with_context(|| format!("{}: {name} is {text}", self.program))
    }

    /// CPU time of the program.
    pub fn program_seconds(&self) -> anyhow::Result<f64> {
        Ok(self.number("user_s")? + self.number("system_s")?)
    }

    /// CPU time of strobe.
    pub fn strobe_seconds(&self) -> anyhow::Result<f64> {
        self.number("agent_cpu_s")
    }
}
