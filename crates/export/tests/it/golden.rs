//! The exact text of every export of the fixture.

use std::collections::BTreeMap;

use export::{BinaryFacts, Error, Format, NoBinaryFacts, Options, SymbolOffset, csv, propeller};
use profile::Profile;
use profile::model::{BlockId, ModuleId};
use serde_json::Value;

use crate::fixture::{Source, export_table, profile, text};
use crate::golden_text::check;
use crate::wire_format;

#[test]
fn folded() {
    check("folded.txt", &text(Format::Folded, &profile(), &Source));
}

#[test]
fn perf_script_of_few_records() {
    let mut profile = profile();
    for context in &mut profile.contexts {
        context.self_ns.value /= 1e6;
        context.kernel_ns.value /= 1e6;
    }
    check("perf-script.txt", &text(Format::PerfScript, &profile, &Source));
}

#[test]
fn callgrind() {
    check("callgrind.txt", &text(Format::Callgrind, &profile(), &Source));
}

#[test]
fn firefox() {
    check("firefox.json", &pretty(&text(Format::Firefox, &profile(), &Source)));
}

#[test]
fn speedscope() {
    check("speedscope.json", &pretty(&text(Format::Speedscope, &profile(), &Source)));
}

#[test]
fn chrome_trace() {
    check("chrome-trace.json", &text(Format::ChromeTrace, &profile(), &Source));
}

#[test]
fn bolt_fdata() {
    check("bolt-fdata.txt", &text(Format::BoltFdata, &profile(), &Source));
}

#[test]
fn bolt_preagg() {
    check("bolt-preagg.txt", &text(Format::BoltPreagg, &profile(), &Source));
}

#[test]
fn llvm_sample() {
    check("llvm-sample.txt", &text(Format::LlvmSample, &profile(), &Source));
}

#[test]
fn pprof_as_fields() {
    let bytes = crate::fixture::export(Format::Pprof, &profile(), &Source);
    check("pprof.txt", &wire_format::listing(&wire_format::gunzip(&bytes)));
}

#[test]
fn every_table_as_csv() {
    let tables = csv::Table::ALL.map(|table| {
        let bytes = export_table(Format::Csv, &profile(), &Source, table);
        let rows = String::from_utf8(bytes).expect("text").replace("\r\n", "\n");
        format!("== {table}\n{rows}")
    });
    check("csv.txt", &tables.join("\n"));
}

/// Blocks of the fixture have their own handles as ids.
struct HandlesAsIds<'a>(NoBinaryFacts<'a>);

impl BinaryFacts for HandlesAsIds<'_> {
    fn bolt_symbol(&self, module: ModuleId, address: u64) -> Option<SymbolOffset> {
        self.0.bolt_symbol(module, address)
    }

    fn is_jump_target(&self, _module: ModuleId, _address: u64) -> bool {
        false
    }

    fn basic_block_id(&self, block: BlockId) -> Option<u32> {
        Some(block.0)
    }
}

#[test]
fn propeller_with_and_without_clones() {
    let profile = profile();
    let facts = HandlesAsIds(NoBinaryFacts::new(&profile));
    let options = Options { module: None, table: csv::Table::Functions, facts: &facts };
    let mut bytes = Vec::new();
    propeller::write_clusters(&profile, &options, &mut bytes).expect("ids are known");
    propeller::write_paths(&profile, &options, &mut bytes).expect("ids are known");
    check("propeller.txt", &String::from_utf8(bytes).expect("text"));
}

#[test]
fn propeller_refuses_without_ids() {
    let profile = profile();
    let facts = NoBinaryFacts::new(&profile);
    let options = Options { module: None, table: csv::Table::Functions, facts: &facts };
    let refusal = propeller::write_clusters(&profile, &options, &mut Vec::new()).expect_err("no ids");
    assert!(matches!(&refusal, Error::NoBlockIds { module } if module == "/opt/app/server"), "{refusal}");
}

#[test]
fn one_module_is_needed_where_one_is_described() {
    let profile = Profile::default();
    let facts = NoBinaryFacts::new(&profile);
    let options = Options { module: None, table: csv::Table::Functions, facts: &facts };
    let refusal = export::bolt_fdata::write(&profile, &options, &mut Vec::new()).expect_err("no module");
    assert!(matches!(refusal, Error::NoModule));
}

#[test]
fn the_module_can_be_chosen() {
    let profile = profile();
    let facts = NoBinaryFacts::new(&profile);
    let options = Options { module: Some(crate::fixture::LIBRARY), table: csv::Table::Functions, facts: &facts };
    let mut bytes = Vec::new();
    export::bolt_fdata::write(&profile, &options, &mut bytes).expect("a module");
    assert_eq!(String::from_utf8(bytes).expect("text"), "0 [unknown] 0 1 memcpy 0 0 300\n");
}

#[test]
fn names_are_distinct_and_parse_back() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
        assert!(!format.extension().starts_with('.') && !format.description().is_empty());
    }
    for table in csv::Table::ALL {
        assert_eq!(table.to_string().parse(), Ok(table));
    }
    let refusal = "pproff".parse::<Format>().expect_err("no such format").to_string();
    assert!(refusal.starts_with("unknown format \"pproff\"; valid: pprof, folded, "), "{refusal}");
}

/// One line per member of each object, so that differences can be read.
fn pretty(json: &str) -> String {
    let file: Value = serde_json::from_str(json).expect("JSON");
    let members = sorted(&file);
    let members = members.as_object().expect("an object");
    let shown = members.iter().map(|(key, value)| match value {
        Value::Array(items) if items.iter().any(Value::is_object) => {
            format!("{key}:\n{}", items.iter().map(object).collect::<String>())
        }
        value => format!("{key}:\n{}", object(value)),
    });
    shown.collect()
}

fn object(value: &Value) -> String {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| format!("  {key}: {value}\n")).collect(),
        value => format!("  {value}\n"),
    }
}

/// Members in the order of their names, whether the library keeps that or the order of insertion.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(map) => {
            let members: BTreeMap<&String, Value> = map.iter().map(|(key, value)| (key, sorted(value))).collect();
            members.into_iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        other => other.clone(),
    }
}
