//! Tables and plots of chosen compressors on a stream.

use std::path::Path;

use recorder::Threads;
use sampling::Expression;
use sampling::metrics::message_overhead;

use super::replay::{Checkpoint, Numbered, Outcome, replay};
use super::stream::Stream;
use crate::chart::{self, Axis, Curve};
use crate::table::{Table, grouped};

/// Compressors that are shown when none is chosen: those of the paper.
pub const DEFAULT_EXPRESSIONS: [&str; 5] = ["R256", "P256", "H[P256]2048", "H[P512]2048", "T[256]2048"];

/// Above this, curves of errors are cut.
const MAX_ERROR_PERCENT: f64 = 30.0;

/// Puts a stream through compressors, and writes plots of error and overhead to `dir`.
pub fn run(
    stream: &Stream,
    expressions: &[Expression],
    seed: u64,
    dir: &Path,
    threads: Threads,
) -> anyhow::Result<Table> {
    let numbered = Numbered::new(stream);
    let outcomes = replay(&numbered, expressions, seed, threads);
    plot(stream, &outcomes, dir)?;
    Ok(table(stream, &numbered, &outcomes))
}

fn table(stream: &Stream, numbered: &Numbered, outcomes: &[Outcome]) -> Table {
    let n_events = stream.events.len() as u64;
    let what = format!(
        "{} {}: {} events, {} tuples, {} places",
        stream.name,
        stream.kind,
        grouped(n_events),
        grouped(numbered.n_tuples() as u64),
        grouped(numbered.n_places() as u64)
    );
    let mut table = Table::new(&[&what, "bytes", "messages", "overhead", "error", "stays < 5 % after"]);
    for outcome in outcomes {
        table.row([
            outcome.expression.to_string(),
            grouped(outcome.memory_bytes as u64),
            grouped(outcome.n_messages),
            overhead_text(stream, outcome.n_messages),
            error_text(outcome.final_error()),
            events_text(outcome.events_until_below(0.05)),
        ]);
    }
    table
}

/// Errors against events seen, and overheads, or messages if the program's instructions are not
/// known.
pub fn plot(stream: &Stream, outcomes: &[Outcome], dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)?;
    let stem = stem(&stream.name, &stream.kind.to_string());
    let curves = |y_of: &dyn Fn(&Checkpoint) -> Option<f64>| {
        let points = |outcome: &Outcome| {
            let with_y = |checkpoint: &Checkpoint| Some((checkpoint.n_events as f64, y_of(checkpoint)?));
            outcome.checkpoints.iter().filter_map(with_y).collect()
        };
        let curve = |outcome: &Outcome| Curve { name: short_name(&outcome.expression), points: points(outcome) };
        outcomes.iter().map(curve).collect::<Vec<Curve>>()
    };
    let write = |what: &str, y: &Axis, curves: &[Curve]| {
        let title = format!("{} {}: {what}", stream.name, stream.kind);
        let svg = chart::curves(&title, &Axis::logarithmic("events"), y, curves);
        chart::save(&dir.join(format!("{stem}-{what}")), &svg)
    };
    let y = Axis::linear("invariance error, %").up_to(MAX_ERROR_PERCENT);
    write("error", &y, &curves(&|checkpoint| checkpoint.error.map(|error| 100.0 * error)))?;
    match stream.instructions {
        Some(instructions) => {
            let per_event = instructions as f64 / stream.events.len().max(1) as f64;
            let overhead = |checkpoint: &Checkpoint| {
                let cycles = (per_event * checkpoint.n_events as f64) as u64;
                Some(100.0 * message_overhead(checkpoint.n_messages, cycles.max(1)))
            };
            write("overhead", &Axis::linear("overhead so far, %"), &curves(&overhead))
        }
        None => {
            let y = Axis::linear("messages in 1000 events");
            let per_event = |checkpoint: &Checkpoint| checkpoint.n_messages as f64 / checkpoint.n_events as f64;
            write("messages", &y, &curves(&|checkpoint| Some(1000.0 * per_event(checkpoint))))
        }
    }
}

/// How the names of a stream's plots begin.
#[must_use]
pub fn stem(name: &str, kind: &str) -> String {
    format!("{}-{kind}", file_name(name))
}

/// The expression without options, for which a legend has no room.
fn short_name(expression: &Expression) -> String {
    let text = expression.to_string();
    match (text.find(','), text.rfind(']')) {
        (Some(options), Some(end)) => [&text[..options], &text[end..]].concat(),
        _ => text,
    }
}

/// Letters, digits and dots; everything else becomes a dash.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

/// Messages at 30 cycles each, as a share of the program's cycles at one instruction per cycle.
#[must_use]
pub fn overhead_text(stream: &Stream, n_messages: u64) -> String {
    let overhead = stream.instructions.map(|cycles| message_overhead(n_messages, cycles));
    overhead.map_or_else(|| "-".to_owned(), |overhead| format!("{:.2} %", 100.0 * overhead))
}

/// A share in percent, or a dash.
#[must_use]
pub fn error_text(error: Option<f64>) -> String {
    error.map_or_else(|| "-".to_owned(), |error| format!("{:.2} %", 100.0 * error))
}

/// A number of events, or that there is none.
#[must_use]
pub fn events_text(n_events: Option<u64>) -> String {
    n_events.map_or_else(|| "never".to_owned(), grouped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::synthetic::Zipf;
    use std::num::NonZeroUsize;

    #[test]
    fn legends_have_no_options() {
        let shortened =
            ["T[256]2048 A16", "H[P256]2048", "CM[4, heap=16]88"].map(|text| short_name(&text.parse().unwrap()));
        assert_eq!(shortened, ["T[256]2048 A16", "H[P256]2048", "CM[4]88"]);
    }

    #[test]
    fn a_table_and_two_plots_come_out() {
        let dir = tempfile::tempdir().unwrap();
        let stream = "zipf:100:1:40k".parse::<Zipf>().unwrap().stream(1);
        let expressions = ["R16", "H[P16]256"].map(|text| text.parse().unwrap());
        let table = run(&stream, &expressions, 1, dir.path(), Threads(NonZeroUsize::MIN)).unwrap().to_string();
        assert!(table.contains("40,000 events") && table.contains("H[P16]256"), "{table}");
        let mut files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        files.sort();
        let stem = "zipf-100-1-40000-synthetic";
        let expected = ["error.png", "error.svg", "messages.png", "messages.svg"].map(|name| format!("{stem}-{name}"));
        assert_eq!(files, expected.clone().map(std::ffi::OsString::from));
        let png = std::fs::read(dir.path().join(&expected[0])).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
    }
}
