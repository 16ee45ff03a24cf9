//! `strobe dump`: each stage of the analysis as text for grep and diff.
//!
//! One fact per line. Facts about a function start with the address of its entry, so that
//! `grep ^0x1a2b0` shows one function and `grep unresolved` shows where to look.

mod bursts;
mod cfg;
mod emit;
mod image;
mod paths;
mod trace;

use std::io::Write;

use anyhow::Result;

use crate::find;
use crate::module::{Files, Module};
use crate::progress::Progress;
use crate::props::{DumpProps, Stage};
use recorder::Threads;

pub fn run(props: &DumpProps, out: &mut impl Write) -> Result<()> {
    if props.stage == Stage::Trace {
        return trace::print(&props.module.binary, props.range, out);
    }
    if props.stage == Stage::Bursts {
        return bursts::print(&props.module.binary, props.range, out);
    }
    let progress = Progress::new();
    let files = Files::read(&props.module, &progress)?;
    if let (Stage::Image, None) = (props.stage, &props.function) {
        let (parsed, _) = files.parse()?;
        drop(progress);
        return Ok(image::print(&parsed, out)?);
    }
    let module = Module::analyze(&files, &props.module, &progress)?;
    let selected = props.function.as_ref().map(|selector| find::function(&module, selector)).transpose()?;
    let functions = match selected {
        Some(id) => std::slice::from_ref(&module.flow.functions[id.index()]),
        None => &module.flow.functions,
    };
    drop(progress);
    if props.stage == Stage::Emit {
        let only = selected.map(|id| &module.flow.functions[id.index()]);
        return emit::print(&module, only, Threads(props.module.n_threads), out);
    }
    for function in functions {
        match props.stage {
            Stage::Image => image::print_function(&module.image, &function.parts, out)?,
            Stage::Cfg => cfg::print(&module, function, out)?,
            Stage::Emit | Stage::Trace | Stage::Bursts => {}
            Stage::Paths => paths::print(&module, function, props.numbering, selected.is_some(), out)?,
        }
    }
    Ok(())
}
