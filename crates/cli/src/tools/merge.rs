//! `strobe merge`: the sum of many profiles.
//!
//! Profiles are read one after the other, and each costs its own size: the sum keeps its hash
//! tables. The next one is read while the last one is added.

use std::io::{IsTerminal as _, stderr};
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::thread;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use profile::Merger;

use crate::tools::opened;
use crate::tools::props::MergeProps;

/// Profiles that have been read and not yet added.
const MAX_WAITING: usize = 2;

pub fn run(props: &MergeProps) -> Result<()> {
    let progress = progress(props.inputs.len(), props.quiet);
    let mut merger = Merger::default();
    thread::scope(|scope| -> Result<()> {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let inputs: &[PathBuf] = &props.inputs;
        scope.spawn(move || {
            // Nobody listens any more when the sum was given up.
            inputs.iter().take_while(|path| sender.send(opened::open(path)).is_ok()).count()
        });
        for profile in receiver {
            merger.add(&profile?);
            progress.inc(1);
        }
        Ok(())
    })?;
    progress.set_message("writing");
    store::save(&props.output, &merger.finish())?;
    progress.finish_and_clear();
    Ok(())
}

fn progress(n_profiles: usize, is_quiet: bool) -> ProgressBar {
    if is_quiet || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(n_profiles as u64).with_message("adding profiles");
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use profile::model::{Function, Module, ModuleId};
    use profile::{Estimate, Profile};

    use super::*;

    fn save(path: &Path, entries: u64) {
        let function = Function {
            module: ModuleId(0),
            address: 0x1000,
            size: 16,
            name: "f".to_owned(),
            entries: Estimate::exact(entries),
            self_ns: Estimate::default(),
        };
        let modules = vec![Module { path: "/bin/x".to_owned(), build_id: "ab".to_owned() }];
        store::save(path, &Profile { modules, functions: vec![function], ..Profile::default() }).unwrap();
    }

    #[test]
    fn counts_add_up() {
        let folder = tempfile::tempdir().unwrap();
        let inputs: Vec<PathBuf> = (0..10).map(|index| folder.path().join(format!("{index}.strobe"))).collect();
        for (index, path) in inputs.iter().enumerate() {
            save(path, index as u64);
        }
        let output = folder.path().join("sum.strobe");
        run(&MergeProps { output: output.clone(), inputs, quiet: true }).unwrap();
        let sum = store::open(&output).unwrap();
        assert_eq!(sum.functions.iter().map(|row| row.entries.value).collect::<Vec<_>>(), [45.0]);
    }

    #[test]
    fn a_profile_that_cannot_be_read_is_named_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (good, bad, output) = (folder.path().join("good"), folder.path().join("bad"), folder.path().join("sum"));
        save(&good, 1);
        std::fs::write(&bad, "no profile").unwrap();
        let inputs = vec![good, bad.clone(), bad.clone(), bad.clone(), bad.clone(), bad];
        let error = run(&MergeProps { output: output.clone(), inputs, quiet: true }).unwrap_err();
        assert!(format!("{error:#}").contains("bad: not a strobe profile"), "{error:#}");
        assert!(!output.exists());
    }
}
