//! `strobe export`: a profile in the format of another tool.
//!
//! Names and lines are looked up in one batch, and exporters ask one by one. So the export is done
//! twice: the first time only to learn which addresses it asks about, into nowhere.

use std::cell::RefCell;
use std::io::{self, Write};

use anyhow::{Context as _, Result, anyhow};
use export::{Format, Options};
use profile::model::ModuleId;
use profile::symbols::SourceFrame;
use profile::{Profile, Symbols};

use crate::names::file_name;
use crate::output;
use crate::tools::binary_facts::FileFacts;
use crate::tools::opened;
use crate::tools::props::ExportProps;

pub fn run(props: &ExportProps, out: &mut impl Write) -> Result<()> {
    let profile = opened::open(&props.profile)?;
    let module = match is_about_one_module(props.format) {
        true => Some(module(&profile, props.module.as_deref())?),
        false => None,
    };
    let facts = FileFacts::gather(&profile, &props.profile, module, props.format)?;
    let options = Options { module, table: props.table, facts: &facts };
    let mut symbolizer = opened::symbolizer(&profile, &props.profile);
    if asks_for_lines(props.format) {
        let asked = Asked::default();
        export::write(props.format, &profile, &asked, &options, &mut io::sink())?;
        symbolizer.resolve(&asked.0.into_inner());
    }
    output::write(&props.output, out, |file| Ok(export::write(props.format, &profile, &symbolizer, &options, file)?))
}

fn is_about_one_module(format: Format) -> bool {
    matches!(format, Format::BoltFdata | Format::BoltPreagg | Format::PropellerBb | Format::PropellerPaths)
}

/// Whether a format asks about more than where functions begin.
fn asks_for_lines(format: Format) -> bool {
    matches!(format, Format::Pprof | Format::Callgrind | Format::Firefox | Format::LlvmSample)
}

/// The module whose path contains `text`, the file name before the rest of the path; without one,
/// the recorded program.
fn module(profile: &Profile, text: Option<&str>) -> Result<ModuleId> {
    let ids = || (0..).map(ModuleId).zip(&profile.modules);
    let Some(text) = text else {
        return program(profile).context("the profile has no module with code; record for longer");
    };
    let in_name = ids().find(|(_, module)| file_name(&module.path).contains(text));
    let found = in_name.or_else(|| ids().find(|(_, module)| module.path.contains(text)));
    found.map(|(id, _)| id).ok_or_else(|| {
        let known: Vec<&str> = profile.modules.iter().map(|module| file_name(&module.path)).collect();
        anyhow!("no module named {text}; the profile has {}", known.join(", "))
    })
}

/// The module that the first thread's command names, else the one in which most instructions were
/// executed.
fn program(profile: &Profile) -> Option<ModuleId> {
    let command = profile.threads.first().and_then(|thread| thread.command.split_whitespace().next());
    let is_program = |path: &str| command.is_some_and(|command| file_name(command) == file_name(path));
    let named = profile.modules.iter().position(|module| is_program(&module.path));
    let mut executed = vec![0.0; profile.modules.len()];
    for block in &profile.blocks {
        let module = profile.functions[block.function.index()].module;
        executed[module.index()] += block.count.value * f64::from(block.n_insns);
    }
    let hottest = || (0..executed.len()).max_by(|&a, &b| f64::total_cmp(&executed[a], &executed[b]));
    named.or_else(hottest).and_then(|index| u32::try_from(index).ok()).map(ModuleId)
}

/// Remembers what it is asked.
#[derive(Debug, Default)]
struct Asked(RefCell<Vec<(ModuleId, u64)>>);

impl Symbols for Asked {
    fn frames(&self, module: ModuleId, address: u64) -> Vec<SourceFrame> {
        self.0.borrow_mut().push((module, address));
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use profile::model::{Module, Thread};

    use super::*;

    fn profile() -> Profile {
        let module = |path: &str| Module { path: path.to_owned(), build_id: String::new() };
        let thread = Thread { pid: 1, tid: 1, command: "./sort -n".to_owned(), cpu_ns: 1 };
        let modules = ["/usr/lib/sort/libc.so.6", "/usr/bin/sort", "[vdso]"].map(module).into();
        Profile { modules, threads: vec![thread], ..Profile::default() }
    }

    #[test]
    fn the_program_is_the_default_and_names_go_before_folders() {
        let profile = profile();
        assert_eq!(module(&profile, None).unwrap(), ModuleId(1));
        assert_eq!(module(&profile, Some("sort")).unwrap(), ModuleId(1));
        assert_eq!(module(&profile, Some("libc")).unwrap(), ModuleId(0));
        assert_eq!(module(&profile, Some("/lib/")).unwrap(), ModuleId(0));
        let message = module(&profile, Some("gzip")).unwrap_err().to_string();
        assert_eq!(message, "no module named gzip; the profile has libc.so.6, sort, [vdso]");
    }

    #[test]
    fn a_profile_without_modules_has_no_program() {
        assert!(module(&Profile::default(), None).is_err());
    }

    #[test]
    fn every_format_that_needs_no_file_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.strobe");
        store::save(&path, &profile()).unwrap();
        for format in Format::ALL {
            let needs_file = matches!(format, Format::BoltFdata | Format::PropellerBb | Format::PropellerPaths);
            let output = folder.path().join(format.name());
            let table = export::csv::Table::Functions;
            let props = ExportProps {
                format,
                output: output.clone(),
                profile: path.clone(),
                module: Some("vdso".to_owned()),
                table,
            };
            let result = run(&props, &mut Vec::new());
            assert_eq!(result.is_ok(), !needs_file, "{format}: {result:?}");
            assert_eq!(output.exists(), !needs_file, "{format}");
        }
    }
}
