//! The instrumented copy of a module: every instruction of the copy, the original address it stands
//! for, and the rule of recovery.
//!
//! The copy is shown as it would be if the module were loaded at the addresses of its file, with
//! the copy right in front of 2 GiB below them or above, whichever is free. Lines are
//! `copy-address kind original instruction`.

use std::io::{self, Write};

use anyhow::Result;
use emit::{Events, ModuleCopy, Options, Position, Probe};
use flow::FunctionFlow;
use iced_x86::{Decoder, DecoderOptions, Formatter as _, IntelFormatter};
use wire::clusters::{LIBRARIES, PROGRAM};
use wire::recovery::{Run, kind};

use crate::module::Module;
use recorder::Threads;

/// Distance of the shown copy from the module.
const DISTANCE: u64 = 1 << 30;

pub fn print(module: &Module<'_>, only: Option<&FunctionFlow>, threads: Threads, out: &mut impl Write) -> Result<()> {
    let cluster = if module.image.entry().is_some() { PROGRAM } else { LIBRARIES };
    let copy = emit::translate(
        &module.image,
        &module.flow,
        Options { cluster, probe: Probe::Trace, events: Events::default() },
        &threads,
    );
    let base = emit::image_base(&module.image).0;
    let position = Position { module_base: base, copy: base + DISTANCE, cluster_lo: base, first_cell: 0, first_key: 1 };
    let code = copy.place(&position)?;
    let is_shown = |run: &Run| {
        let at = image::Svma(base + u64::from(run.original));
        only.is_none_or(|function| run.kind != kind::NEVER && function.contains(at))
    };
    for (index, run) in copy.runs().iter().enumerate().filter(|(_, run)| is_shown(run)) {
        let end = copy.runs().get(index + 1).map_or(code.len(), |next| next.copy as usize);
        print_run(run, &code[run.copy as usize..end], &position, out)?;
    }
    print_statistics(&copy, out)?;
    Ok(())
}

fn print_run(run: &Run, code: &[u8], position: &Position, out: &mut impl Write) -> io::Result<()> {
    let start = position.copy + u64::from(run.copy);
    let name = match run.kind {
        kind::STRAIGHT => "straight",
        kind::PROBE => "probe",
        kind::FORWARD => "forward",
        kind::EXIT => "exit",
        kind::AFTER_SYSTEM_CALL => "after-syscall",
        kind::SYSTEM_CALL => "syscall",
        _ => return writeln!(out, "{start:#x} data {} bytes", code.len()),
    };
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_hex_prefix("0x");
    formatter.options_mut().set_hex_suffix("");
    let mut text = String::new();
    for insn in &mut Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        text.clear();
        formatter.format(&insn, &mut text);
        let offset = if run.kind == kind::STRAIGHT { insn.ip() - start } else { 0 };
        let original = position.module_base + u64::from(run.original) + offset;
        writeln!(out, "{:#x} {name} {original:#x} {text}", insn.ip())?;
    }
    Ok(())
}

fn print_statistics(copy: &ModuleCopy, out: &mut impl Write) -> io::Result<()> {
    let statistics = copy.statistics();
    let (probes, spilled, flags) =
        (statistics.probes_dead_register, statistics.probes_spilled, statistics.probes_flags_saved);
    writeln!(
        out,
        "total functions={} blocks={} insns={} original-bytes={} bytes={} checks={} probes-in-dead-registers={probes} \
         probes-spilled={spilled} probes-saving-flags={flags} skipped={}",
        statistics.functions,
        statistics.blocks,
        statistics.instructions,
        statistics.original_bytes,
        statistics.bytes,
        statistics.checks,
        statistics.skipped.len()
    )
}
