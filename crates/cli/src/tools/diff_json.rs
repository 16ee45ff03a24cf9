//! The JSON of `strobe diff`, which `docs/profile-json.md` describes: all rows, significant or not,
//! in the order of the text.

use std::io::Write;

use anyhow::Result;
use profile::Diff;
use profile::diff::Change;
use serde::Serialize;

use crate::figures::Figure;
use crate::tools::props::DiffProps;
use crate::tools::sides::Sides;
use crate::view::SCHEMA;

pub fn write(diff: &Diff, sides: &Sides, props: &DiffProps, out: &mut impl Write) -> Result<()> {
    let functions = diff.functions.iter().map(|row| FunctionRow {
        function: sides.function(row.before, row.after),
        share: ChangeRow::of(&row.share),
        entries: ChangeRow::of(&row.entries),
    });
    let paths = diff.paths.iter().map(|row| PathRow {
        start: Place::of(sides.path_start(row)),
        share: ChangeRow::of(&row.share),
        count: ChangeRow::of(&row.count),
    });
    let branches = diff.branches.iter().map(|row| BranchRow {
        block: Place::of(sides.block(Some(row.before), Some(row.after))),
        bias: ChangeRow::of(&row.bias),
    });
    let loops = diff.loops.iter().map(|row| LoopRow {
        header: Place::of(sides.loop_header(row)),
        share: ChangeRow::of(&row.share),
        mean_trips: row.mean_trips.as_ref().map(ChangeRow::of),
    });
    let document = Document {
        schema: SCHEMA,
        kind: "diff",
        before: props.before.display().to_string(),
        after: props.after.display().to_string(),
        cpu_ns: ChangeRow::of(&diff.cpu_ns),
        functions: functions.collect(),
        paths: paths.collect(),
        branches: branches.collect(),
        loops: loops.collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)?;
    Ok(())
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    kind: &'static str,
    before: String,
    after: String,
    cpu_ns: ChangeRow,
    functions: Vec<FunctionRow<'a>>,
    paths: Vec<PathRow<'a>>,
    branches: Vec<BranchRow<'a>>,
    loops: Vec<LoopRow<'a>>,
}

#[derive(Serialize)]
struct FunctionRow<'a> {
    function: &'a str,
    share: ChangeRow,
    entries: ChangeRow,
}

#[derive(Serialize)]
struct PathRow<'a> {
    #[serde(flatten)]
    start: Place<'a>,
    share: ChangeRow,
    count: ChangeRow,
}

#[derive(Serialize)]
struct BranchRow<'a> {
    #[serde(flatten)]
    block: Place<'a>,
    bias: ChangeRow,
}

#[derive(Serialize)]
struct LoopRow<'a> {
    #[serde(flatten)]
    header: Place<'a>,
    share: ChangeRow,
    mean_trips: Option<ChangeRow>,
}

#[derive(Serialize)]
struct Place<'a> {
    function: &'a str,
    address: String,
}

impl<'a> Place<'a> {
    fn of((function, address): (&'a str, u64)) -> Place<'a> {
        Place { function, address: format!("{address:#x}") }
    }
}

#[derive(Serialize)]
struct ChangeRow {
    before: Figure,
    after: Figure,
    difference: f64,
    p_value: f64,
    is_significant: bool,
}

impl ChangeRow {
    fn of(change: &Change) -> ChangeRow {
        ChangeRow {
            before: change.before.into(),
            after: change.after.into(),
            difference: change.difference(),
            p_value: change.p_value,
            is_significant: change.is_significant,
        }
    }
}
