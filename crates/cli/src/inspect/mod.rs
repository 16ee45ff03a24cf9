//! `strobe inspect`: a module, one of its functions or one path, for people (text), programs (JSON)
//! or Graphviz.

mod dot;
mod function_text;
mod module_text;

use std::io::{self, Write};

use anyhow::{Context as _, Result, anyhow};
use serde::Serialize;

use crate::find;
use crate::module::{Files, Module};
use crate::progress::Progress;
use crate::props::{FunctionSelector, InspectProps, View};
use crate::report::{FunctionReport, ModuleReport, Numbering};

pub fn run(props: &InspectProps, out: &mut impl Write) -> Result<()> {
    let progress = Progress::new();
    let files = Files::read(&props.module, &progress)?;
    let module = Module::analyze(&files, &props.module, &progress)?;
    match &props.function {
        None => inspect_module(module, progress, props, out),
        Some(selector) => {
            let report = function_report(&module, selector, props)?;
            drop(progress);
            match props.view {
                View::Json => json(&report, out),
                View::Dot => Ok(dot::print(&report, out)?),
                View::Text if report.path.is_some() => Ok(function_text::print_path(&report, out)?),
                View::Text => Ok(function_text::print(&report, out)?),
            }
        }
    }
}

fn inspect_module(
    mut module: Module<'_>,
    progress: Progress,
    props: &InspectProps,
    out: &mut impl Write,
) -> Result<()> {
    progress.show("numbering paths");
    let report = ModuleReport::new(&mut module, props.numbering, props.verify);
    drop(progress);
    match props.view {
        View::Json => json(&report, out)?,
        View::Text | View::Dot => module_text::print(&report, out)?,
    }
    match report.faults.as_ref().map_or(0, Vec::len) {
        0 => Ok(()),
        n => {
            out.flush()?;
            Err(anyhow!("{}: {n} functions break invariants; this is a bug in strobe, please report it", report.file))
        }
    }
}

fn function_report(module: &Module<'_>, selector: &FunctionSelector, props: &InspectProps) -> Result<FunctionReport> {
    let function = &module.flow.functions[find::function(module, selector)?.index()];
    let numbering = Numbering::new(function, props.numbering);
    let report = FunctionReport::new(module, function, &numbering, props.syntax);
    let Some(id) = props.path else { return Ok(report) };
    let (name, n_paths) = (report.name.clone(), report.paths.count);
    let sections = module.files.lines();
    let lines = sections.as_ref().and_then(|sections| sections.table().ok());
    report
        .with_path(&numbering.plan, id, lines.as_ref())
        .ok_or_else(|| anyhow!("{name} has no path {id}; give a number below {n_paths}"))
        .with_context(|| module.files.path.display().to_string())
}

fn json(report: &impl Serialize, out: &mut impl Write) -> Result<()> {
    // As an `io::Error`, so that a closed pipe is recognized.
    serde_json::to_writer_pretty(&mut *out, report).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
