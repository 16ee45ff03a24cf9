//! Programs of the corpus, recorded in this process: what a recording says of itself is values.
//!
//! Whatever is judged as users get it goes through the program `strobe` instead: what a program
//! puts out and how it ends, what strobe itself takes, command lines.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use profile::Profile;
use recorder::facts::BurstFacts;
use recorder::{Manner, Mode, ModeFacts, Plan, Recorder, Requests, RunFacts, own_cpu_time};
use symbols::Options;

use crate::corpus::{Data, Workload};

/// A recorded run.
#[derive(Debug)]
pub struct Run {
    /// The profile.
    pub profile: Profile,
    /// What else is known of the run.
    pub facts: RunFacts,
}

impl Run {
    /// Ticks and bursts of a recording in bursts.
    pub fn bursts(&self) -> anyhow::Result<&BurstFacts> {
        match &self.facts.of_mode {
            ModeFacts::Bursts(bursts) => Ok(bursts),
            ModeFacts::Counted(_) | ModeFacts::Exact(_) => anyhow::bail!("{}: no bursts", self.facts.command),
        }
    }

    /// Returns whether all code that ran had been translated before.
    #[must_use]
    pub fn found_everything_translated(&self) -> bool {
        let modules = &self.facts.modules;
        modules.n_translated > 0 && modules.n_translated == modules.n_from_cache
    }
}

/// Records a program into the profile `output`. What it puts out goes where its command line says,
/// or nowhere.
pub fn record(data: &Data, workload: &Workload, output: &Path, mode: Mode, seed: u64) -> anyhow::Result<Run> {
    let invocation = data.invocation(workload)?;
    let mut command = vec![invocation.program.clone().into_os_string()];
    command.extend(invocation.arguments);
    let plan = Plan { seed, ..Plan::new(invocation.program, command, output.to_owned(), mode) };
    let mut prepare = |command: &mut Command| -> std::io::Result<()> {
        let input = invocation.input.as_ref().map(File::open).transpose()?;
        let output = invocation.output.as_ref().map(File::create).transpose()?;
        command.current_dir(data.root()).stderr(Stdio::null());
        command.stdin(input.map_or_else(Stdio::null, Stdio::from));
        command.stdout(output.map_or_else(Stdio::null, Stdio::from));
        Ok(())
    };
    let manner = Manner { cpu_before: own_cpu_time(), ..Manner::default() };
    let mut recorder = Recorder::start(plan, &Requests::none()?, manner, &mut prepare)
        .with_context(|| format!("{} cannot be recorded", workload.name))?;
    recorder.run()?;
    let mut recorded = recorder.finish(&Options::offline(recorder::cache::folder()))?;
    recorded.prepare_next_run();
    let profile = std::mem::take(&mut recorded.profile);
    let (facts, error) = recorded.close();
    ensure!(facts.exit.signal.is_none(), "{}: {}", workload.name, facts.ended());
    ensure!(facts.n_processes > 0, "{} ran unrecorded", workload.name);
    ensure!(error.is_none(), "{}: {}", output.display(), error.unwrap_or_default());
    Ok(Run { profile, facts })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use recorder::{Bursts, Exact};

    use super::*;
    use crate::corpus::{Size, select};

    #[test]
    fn a_recorded_program_does_what_it_does_alone() {
        let dir = tempfile::tempdir().unwrap();
        let programs = select(&["gzip".to_owned()]).unwrap();
        let data = Data::generate(dir.path(), Size::Tiny, &programs).unwrap();
        let status = data.command(&programs[0], "").unwrap().status().unwrap();
        let alone = fs::read(data.root().join("out/gzip.out")).unwrap();
        assert!(status.success() && !alone.is_empty());
        let output = dir.path().join("gzip.strobe");
        let exact = Mode::Exact(Exact { counting: emit::Counting::Blocks, guide: None });
        for mode in [Mode::Bursts(Bursts::new(None, None, None)), exact] {
            let is_exact = mode.counting().is_some();
            let run = record(&data, &programs[0], &output, mode, 1).unwrap();
            assert_eq!((run.facts.exit.code, run.facts.n_processes), (Some(0), 1));
            assert_eq!(fs::read(data.root().join("out/gzip.out")).unwrap(), alone);
            assert_eq!(run.bursts().is_err(), is_exact);
            assert!(!is_exact || run.profile.blocks.iter().any(|block| block.count.value > 0.0));
            assert_eq!(store::open(&output).unwrap().blocks.len(), run.profile.blocks.len());
        }
    }
}
