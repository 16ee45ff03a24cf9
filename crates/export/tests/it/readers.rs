//! The programs that read stacks and costs.

use std::process::Command;

use export::Format;
use inferno::collapse::Collapse;

use crate::fixture::{Source, export, profile, text};
use crate::program::{large_readers_wanted, run};

#[test]
fn inferno_draws_folded_stacks() {
    let folded = text(Format::Folded, &profile(), &Source);
    let mut svg = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    options.count_name = "microseconds".to_owned();
    inferno::flamegraph::from_lines(&mut options, folded.lines(), &mut svg).expect("folded stacks");
    let svg = String::from_utf8(svg).expect("SVG");
    assert!(svg.contains("app::find(std::string const&amp;) [u8: 4] (6,701 microseconds"), "{svg}");
}

/// inferno adds up periods, and turns offsets and addresses into names.
#[test]
fn inferno_reads_perf_script() {
    let script = text(Format::PerfScript, &profile(), &Source);
    let mut folded = Vec::new();
    let mut folder = inferno::collapse::perf::Folder::from(inferno::collapse::perf::Options::default());
    folder.collapse(script.as_bytes(), &mut folded).expect("the text of perf script");
    let folded = String::from_utf8(folded).expect("text");
    crate::golden_text::check("perf-script-by-inferno.txt", &folded);
    let total: u64 = folded.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(total, 50_000 + 4_000_000 + 2_000_000 + 700_000 + 1_000_000 + 1 + 300);
}

#[test]
fn callgrind_annotate_finds_the_same_totals() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("callgrind.out.1");
    std::fs::write(&file, export(Format::Callgrind, &profile(), &Source)).expect("a file");
    let annotate =
        |inclusive: &str| run(Command::new("callgrind_annotate").args(["--threshold=100", inclusive]).arg(&file));
    let own = annotate("--inclusive=no");
    assert_eq!(annotated(&own, "PROGRAM TOTALS"), [7_050_300 + 1, 700_000, 7 + 5_000 + 12_600 + 328 + 3_600 + 500]);
    assert_eq!(annotated(&own, "memcpy"), [2_000_000, 700_000, 3_600]);
    let inclusive = annotate("--inclusive=yes");
    assert_eq!(annotated(&inclusive, "src/main.c:main"), [7_050_001, 700_000, 22_035]);
    assert_eq!(annotated(&inclusive, "app::find"), [6_000_001, 700_000, 16_700]);
}

/// Ticks find stacks whose calls nobody has counted. What those cost below is not the caller's own.
#[test]
fn calls_that_were_not_counted_are_no_own_cost() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("callgrind.out.1");
    let mut profile = profile();
    profile.calls.iter_mut().for_each(|call| call.count = profile::Estimate::default());
    let text = text(Format::Callgrind, &profile, &Source);
    assert!(!text.contains("calls=0 ") && text.contains("were not counted"), "{text}");
    std::fs::write(&file, text).expect("a file");
    let annotate =
        |inclusive: &str| run(Command::new("callgrind_annotate").args(["--threshold=100", inclusive]).arg(&file));
    let own = annotate("--inclusive=no");
    assert_eq!(annotated(&own, "PROGRAM TOTALS")[..2], [7_050_300 + 1, 700_000]);
    assert_eq!(annotated(&own, "memcpy")[..2], [2_000_000, 700_000]);
    assert_eq!(annotated(&own, "src/main.c:main")[0], 50_000);
    let inclusive = annotate("--inclusive=yes");
    assert_eq!(annotated(&inclusive, "src/main.c:main")[..2], [7_050_001, 700_000]);
    assert_eq!(annotated(&inclusive, "app::find")[..2], [6_000_001, 700_000]);
}

/// The numbers of the first line that mentions something.
fn annotated(listing: &str, what: &str) -> Vec<u64> {
    let line = listing.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what} in:\n{listing}"));
    let words = line.split_whitespace().filter(|word| !word.starts_with('('));
    words.map_while(|word| word.replace(',', "").parse().ok()).collect()
}

#[test]
fn go_tool_pprof_shows_functions_lines_and_inlines() {
    if !large_readers_wanted() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("profile.pb.gz");
    std::fs::write(&file, export(Format::Pprof, &profile(), &Source)).expect("a file");
    let pprof = |arguments: &[&str]| {
        run(Command::new("go").args(["tool", "pprof"]).args(arguments).arg(&file).env("HOME", folder.path()))
    };
    let top = pprof(&["-top", "-unit=ns", "-nodefraction=0"]);
    crate::golden_text::check("pprof-top.txt", &without_header(&top));
    let lines = pprof(&["-top", "-lines", "-unit=ns", "-nodefraction=0"]);
    crate::golden_text::check("pprof-lines.txt", &without_header(&lines));
    let entries = pprof(&["-top", "-sample_index=entries", "-nodefraction=0"]);
    crate::golden_text::check("pprof-entries.txt", &without_header(&entries));
    let traces = pprof(&["-traces", "-unit=ns"]);
    assert!(traces.contains("[kernel]"), "{traces}");
    let comments = pprof(&["-comments"]);
    assert!(comments.contains("command: server --port 80"), "{comments}");
}

fn without_header(listing: &str) -> String {
    let rows = listing.lines().skip_while(|line| !line.contains("flat%"));
    rows.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The rules of the schema that is published with speedscope 1.25.
#[test]
fn speedscope_files_keep_the_schema() {
    let file: serde_json::Value =
        serde_json::from_slice(&export(Format::Speedscope, &profile(), &Source)).expect("JSON");
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().expect("frames");
    for frame in frames {
        let members = frame.as_object().expect("an object");
        assert!(members["name"].is_string());
        assert!(members.get("file").is_none_or(serde_json::Value::is_string));
        assert!(members.get("line").is_none_or(serde_json::Value::is_number));
    }
    let profiles = file["profiles"].as_array().expect("profiles");
    assert!((file["activeProfileIndex"].as_u64().expect("an index") as usize) < profiles.len());
    for profile in profiles {
        let units = ["bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"];
        assert_eq!(profile["type"], "sampled");
        assert!(profile["name"].is_string() && units.contains(&profile["unit"].as_str().expect("a unit")));
        assert!(profile["startValue"].is_number() && profile["endValue"].is_number());
        let samples = profile["samples"].as_array().expect("samples");
        assert_eq!(samples.len(), profile["weights"].as_array().expect("weights").len());
        let mut indices = samples.iter().flat_map(|stack| stack.as_array().expect("a stack"));
        assert!(indices.all(|index| (index.as_u64().expect("an index") as usize) < frames.len()));
    }
}

/// Every column of every table is as long as the table, and every index is in range.
#[test]
fn firefox_tables_are_whole() {
    let file: serde_json::Value = serde_json::from_slice(&export(Format::Firefox, &profile(), &Source)).expect("JSON");
    let thread = &file["threads"][0];
    let length = |table: &str| thread[table]["length"].as_u64().expect("a length");
    for table in ["frameTable", "funcTable", "nativeSymbols", "resourceTable", "samples", "stackTable"] {
        for (name, column) in thread[table].as_object().expect("a table") {
            let n_rows = column.as_array().map(Vec::len);
            assert!(n_rows.is_none_or(|n_rows| n_rows as u64 == length(table)), "{table}.{name}");
        }
    }
    let n_strings = thread["stringArray"].as_array().expect("strings").len() as u64;
    let references = [
        ("samples", "stack", length("stackTable")),
        ("stackTable", "prefix", length("stackTable")),
        ("stackTable", "frame", length("frameTable")),
        ("frameTable", "func", length("funcTable")),
        ("frameTable", "nativeSymbol", length("nativeSymbols")),
        ("funcTable", "name", n_strings),
        ("funcTable", "fileName", n_strings),
        ("nativeSymbols", "name", n_strings),
        ("resourceTable", "name", n_strings),
        ("resourceTable", "lib", file["libs"].as_array().expect("libraries").len() as u64),
    ];
    for (table, column, limit) in references {
        let indices = thread[table][column].as_array().expect("a column").iter();
        assert!(indices.filter_map(serde_json::Value::as_u64).all(|index| index < limit), "{table}.{column}");
    }
}
