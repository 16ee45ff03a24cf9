//! What holds for every profile: no export fails, and totals come out as they went in.

use export::{BinaryFacts, Format, Options, SymbolOffset, csv, propeller};
use profile::model::{BlockId, ModuleId};
use profile::symbols::{NoSymbols, SourceFrame, Symbols};
use profile::{Estimate, Profile};
use proptest::prelude::*;

use crate::arbitrary;
use crate::fixture::{export, export_table, text};
use crate::wire_format;

/// What the exporters round to.
fn whole(estimate: Estimate) -> u64 {
    if estimate.value > 0.0 { estimate.value.round().max(1.0) as u64 } else { 0 }
}

fn cpu_ns(profile: &Profile) -> u64 {
    profile.contexts.iter().map(|context| whole(context.self_ns) + whole(context.kernel_ns)).sum()
}

/// Claims that every address is in code inlined twice, under names of every kind.
struct Inlined;

impl Symbols for Inlined {
    fn frames(&self, _module: ModuleId, address: u64) -> Vec<SourceFrame> {
        let frame = |depth: u64| SourceFrame {
            function: format!("f{depth}; \"{address:x}\" é"),
            linkage_name: if address.is_multiple_of(3) { String::new() } else { format!("_Z{depth}") },
            file: if address.is_multiple_of(5) { String::new() } else { "a b.c".to_owned() },
            line: (address % 100) as u32,
            discriminator: (address % 50) as u32,
            function_line: (address % 60) as u32,
        };
        (0..address % 4).map(frame).collect()
    }
}

/// Names every address and numbers every block.
struct Everything;

impl BinaryFacts for Everything {
    fn bolt_symbol(&self, module: ModuleId, address: u64) -> Option<SymbolOffset> {
        Some(SymbolOffset { name: format!("m {}", module.0), offset: address })
    }

    fn is_jump_target(&self, _module: ModuleId, address: u64) -> bool {
        address.is_multiple_of(32)
    }

    fn basic_block_id(&self, block: BlockId) -> Option<u32> {
        Some(block.0 / 2)
    }
}

proptest! {
    #[test]
    fn nothing_panics(profile in arbitrary::profile()) {
        let known = Options { module: None, table: csv::Table::Functions, facts: &Everything };
        for symbols in [&NoSymbols as &dyn Symbols, &Inlined] {
            for format in Format::ALL {
                let _ = export::write(format, &profile, symbols, &known, &mut Vec::new());
            }
            for table in csv::Table::ALL {
                export_table(Format::Csv, &profile, symbols, table);
            }
        }
    }

    #[test]
    fn the_same_profile_gives_the_same_bytes(profile in arbitrary::profile()) {
        for format in Format::ALL.into_iter().filter(|format| !format.name().starts_with("propeller")) {
            prop_assert_eq!(export(format, &profile, &Inlined), export(format, &profile, &Inlined));
        }
    }

    #[test]
    fn folded_keeps_every_context(profile in arbitrary::profile()) {
        let text = text(Format::Folded, &profile, &Inlined);
        let counts = text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        let us = |estimate: Estimate| whole(estimate.scaled(1e-3));
        let expected: u64 = profile.contexts.iter().map(|context| us(context.self_ns) + us(context.kernel_ns)).sum();
        prop_assert_eq!(counts.sum::<u64>(), expected);
    }

    #[test]
    fn perf_script_periods_add_up(profile in arbitrary::profile()) {
        let text = text(Format::PerfScript, &profile, &Inlined);
        let headers = text.lines().filter(|line| line.ends_with("cpu-clock:"));
        let periods = headers.map(|line| line.split_whitespace().rev().nth(1).unwrap().parse::<u64>().unwrap());
        prop_assert_eq!(periods.sum::<u64>(), cpu_ns(&profile));
    }

    #[test]
    fn pprof_samples_add_up(profile in arbitrary::profile()) {
        let message = wire_format::gunzip(&export(Format::Pprof, &profile, &Inlined));
        let (mut cpu, mut entries) = (0, 0);
        for (_, sample) in wire_format::fields(&message).into_iter().filter(|(number, _)| *number == 2) {
            let fields = wire_format::fields(sample.bytes());
            let values = wire_format::numbers(fields.iter().find(|(number, _)| *number == 2).unwrap().1.bytes());
            cpu += values[0];
            entries += values[1];
        }
        prop_assert_eq!(cpu, cpu_ns(&profile));
        prop_assert_eq!(entries, profile.contexts.iter().map(|context| whole(context.entries)).sum::<u64>());
    }

    #[test]
    fn callgrind_totals_are_the_functions(profile in arbitrary::profile()) {
        let text = text(Format::Callgrind, &profile, &Inlined);
        let totals: Vec<u64> = text.lines().last().unwrap().split_whitespace().skip(1).map(|n| n.parse().unwrap()).collect();
        prop_assert_eq!(totals[0], profile.functions.iter().map(|function| whole(function.self_ns)).sum::<u64>());
        prop_assert_eq!(totals[1], profile.contexts.iter().map(|context| whole(context.kernel_ns)).sum::<u64>());
        let executed = |count: Estimate, n_insns: u32| whole(count.scaled(f64::from(n_insns)));
        prop_assert_eq!(totals[2], profile.blocks.iter().map(|block| executed(block.count, block.n_insns)).sum::<u64>());
    }

    #[test]
    fn speedscope_weights_add_up(profile in arbitrary::profile()) {
        let file: serde_json::Value = serde_json::from_slice(&export(Format::Speedscope, &profile, &Inlined)).unwrap();
        let weights = file["profiles"][0]["weights"].as_array().unwrap().iter().map(|weight| weight.as_u64().unwrap());
        prop_assert_eq!(weights.sum::<u64>(), cpu_ns(&profile));
        prop_assert_eq!(file["profiles"][0]["endValue"].as_u64().unwrap(), cpu_ns(&profile));
    }

    #[test]
    fn firefox_weights_add_up(profile in arbitrary::profile()) {
        let file: serde_json::Value = serde_json::from_slice(&export(Format::Firefox, &profile, &Inlined)).unwrap();
        let weights = file["threads"][0]["samples"]["weight"].as_array().unwrap();
        let total: f64 = weights.iter().map(|weight| weight.as_f64().unwrap() * 1e6).sum();
        prop_assert!((total - cpu_ns(&profile) as f64).abs() <= 1e-9 * total);
    }

    #[test]
    fn chrome_events_are_nested(profile in arbitrary::profile()) {
        let file: serde_json::Value = serde_json::from_slice(&export(Format::ChromeTrace, &profile, &Inlined)).unwrap();
        let events = file["traceEvents"].as_array().unwrap();
        let ns = |event: &serde_json::Value, key: &str| (event[key].as_f64().unwrap() * 1e3).round();
        let spans: Vec<(f64, f64)> = events.iter().filter(|event| event["cat"] == "context")
            .map(|event| (ns(event, "ts"), ns(event, "ts") + ns(event, "dur"))).collect();
        prop_assert_eq!(spans.len(), profile.contexts.len());
        for (context, span) in profile.contexts.iter().zip(&spans) {
            if let Some(parent) = context.parent {
                let outer = spans[parent.index()];
                prop_assert!(outer.0 <= span.0 && span.1 <= outer.1);
            }
        }
        let roots = profile.contexts.iter().zip(&spans).filter(|(context, _)| context.parent.is_none());
        prop_assert_eq!(roots.map(|(_, span)| span.1 - span.0).sum::<f64>(), cpu_ns(&profile) as f64);
    }

    #[test]
    fn propeller_lists_no_block_twice(profile in arbitrary::profile()) {
        let options = Options { module: None, table: csv::Table::Functions, facts: &Everything };
        let mut bytes = Vec::new();
        if propeller::write_paths(&profile, &options, &mut bytes).is_ok() {
            for line in String::from_utf8(bytes).unwrap().lines().filter(|line| line.starts_with("c ")) {
                let mut blocks: Vec<&str> = line.split(' ').skip(1).collect();
                let n_blocks = blocks.len();
                blocks.sort_unstable();
                blocks.dedup();
                prop_assert_eq!(blocks.len(), n_blocks);
            }
        }
    }
}
