//! `strobe paths --metric M`: hot, cold, dense and sparse paths and functions.

use std::io::{self, Write};

use profile::model::FunctionId;
use profile::query::{self, Class, Classes, HotPath};
use serde::Serialize;

use crate::figures::bare_percent;
use crate::report::Address;
use crate::view::props::MetricName;
use crate::view::subject::{FunctionLabel, Subject};
use crate::view::table::{Table, heat};
use crate::view::{View, contexts, paths, title};

#[derive(Debug, Serialize)]
pub struct HotnessView {
    /// `executions`, `instructions`, `branches`, `cycles` or `L1d misses`.
    pub metric: &'static str,
    /// Share of the metric from which on a path or function is hot.
    pub hot_share: f64,
    /// Whether a path counts in each calling context by itself.
    pub by_context: bool,
    /// Metric of the whole program; cycles as nanoseconds.
    pub total: f64,
    /// Instructions on all paths.
    pub instructions: f64,
    pub paths: ClassesLine,
    pub functions: ClassesLine,
    /// Different paths through a block of a hot path, on average.
    pub paths_through_hot_block: f64,
    pub n_hot_paths: usize,
    pub hot_paths: Vec<HotPathLine>,
}

#[derive(Debug, Serialize)]
pub struct ClassesLine {
    pub all: ClassLine,
    pub hot: ClassLine,
    pub cold: ClassLine,
    pub dense: ClassLine,
    pub sparse: ClassLine,
}

#[derive(Debug, Serialize)]
pub struct ClassLine {
    pub n: usize,
    /// Different paths that ran; for functions, on average.
    pub paths_each: f64,
    /// Share of the instructions on all paths.
    pub instructions_share: f64,
    /// Share of the metric.
    pub metric_share: f64,
}

#[derive(Debug, Serialize)]
pub struct HotPathLine {
    pub function: FunctionLabel,
    /// Share of the metric.
    pub share: f64,
    /// Share of the instructions on all paths.
    pub instructions_share: f64,
    /// Metric per instruction, relative to that of the program.
    pub density: f64,
    pub is_dense: bool,
    /// First instruction.
    pub first: Option<Address>,
    /// Last instruction.
    pub last: Option<Address>,
    pub n_blocks: usize,
    /// Where it is hot, names from the root on; nothing if contexts are not told apart.
    pub stack: Option<Vec<String>>,
}

/// What to show.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    pub metric: MetricName,
    pub hot_share: f64,
    pub function: Option<FunctionId>,
    pub is_by_context: bool,
    pub n: usize,
}

pub fn view(subject: &mut Subject, wish: Wish) -> HotnessView {
    let judge = if wish.is_by_context { query::hotness_by_context } else { query::hotness };
    let found = judge(&subject.profile, wish.metric.query(), wish.hot_share);
    let is_wanted = |row: &&HotPath| wish.function.is_none_or(|function| function == row.function);
    let mut rows: Vec<HotPath> = found.hot_paths.iter().filter(is_wanted).copied().collect();
    let n_hot_paths = rows.len();
    rows.truncate(wish.n);
    subject.resolve(rows.iter().map(|row| row.function), []);
    contexts::resolve_stacks(subject, rows.iter().filter_map(|row| row.context));
    let whole = Class { metric: found.metric, instructions: found.instructions, ..Class::default() };
    let line = |row: &HotPath| {
        let places = paths::extent(subject, row.path);
        let address = |at: usize| places.get(at).map(|&place| subject.spot(place).address);
        HotPathLine {
            function: subject.label(row.function),
            share: share(row.metric, whole.metric),
            instructions_share: share(row.instructions, whole.instructions),
            density: row.density,
            is_dense: 1.0 <= row.density,
            first: address(0),
            last: address(1),
            n_blocks: subject.profile.paths[row.path.index()].blocks.len(),
            stack: row.context.map(|context| contexts::stack_names(subject, context)),
        }
    };
    HotnessView {
        metric: wish.metric.text(),
        hot_share: wish.hot_share,
        by_context: wish.is_by_context,
        total: found.metric,
        instructions: found.instructions,
        paths: classes(&found.paths, &whole),
        functions: classes(&found.functions, &whole),
        paths_through_hot_block: found.paths_through_hot_block,
        n_hot_paths,
        hot_paths: rows.iter().map(line).collect(),
    }
}

pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn classes(classes: &Classes, whole: &Class) -> ClassesLine {
    let line = |class: &Class| ClassLine {
        n: class.n,
        paths_each: share(class.n_paths as f64, class.n as f64),
        instructions_share: share(class.instructions, whole.instructions),
        metric_share: share(class.metric, whole.metric),
    };
    let Classes { all, hot, cold, dense, sparse } = classes;
    ClassesLine { all: line(all), hot: line(hot), cold: line(cold), dense: line(dense), sparse: line(sparse) }
}

impl View for HotnessView {
    const KIND: &'static str = "path classes";

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let (metric, least) = (self.metric, bare_percent(self.hot_share));
        writeln!(
            out,
            "hot: at least {least} of all {metric}; dense: hot, with no less per instruction than all; sparse: with less"
        )?;
        let paths = if self.by_context { "Paths, each in each context," } else { "Paths" };
        for (what, classes) in [(paths, &self.paths), ("Functions", &self.functions)] {
            writeln!(out)?;
            title(out, &format!("{what} by {metric}"), 0, 0)?;
            let mut table = Table::new(&["NUMBER", "PATHS EACH", "INSTRUCTIONS", "OF THE METRIC", "CLASS"]);
            for (name, class) in classes.named() {
                table.row(heat(0.0), class.cells(name));
            }
            table.print(out)?;
        }
        writeln!(out)?;
        if self.hot_paths.is_empty() {
            return writeln!(out, "no hot paths; try a smaller --hot");
        }
        title(out, "Hot paths", self.hot_paths.len(), self.n_hot_paths)?;
        let through = self.paths_through_hot_block;
        writeln!(out, "a block of theirs is on {through:.1} different paths that ran, on average")?;
        let place = if self.by_context { "CONTEXT" } else { "FUNCTION" };
        let mut table = Table::new(&["SHARE", "INSTRUCTIONS", "DENSITY", "CLASS", "BLOCKS", "FROM", "TO", place]);
        for path in &self.hot_paths {
            table.row(heat(path.share), path.cells());
        }
        table.print(out)
    }
}

impl ClassesLine {
    fn named(&self) -> [(&'static str, &ClassLine); 5] {
        let ClassesLine { all, hot, cold, dense, sparse } = self;
        [("all", all), ("hot", hot), ("  dense", dense), ("  sparse", sparse), ("cold", cold)]
    }
}

impl ClassLine {
    fn cells(&self, name: &str) -> [String; 5] {
        let [instructions, metric] = [self.instructions_share, self.metric_share].map(bare_percent);
        [self.n.to_string(), format!("{:.1}", self.paths_each), instructions, metric, name.to_owned()]
    }
}

impl HotPathLine {
    fn cells(&self) -> [String; 8] {
        let address = |address: Option<Address>| address.map_or_else(String::new, |address| address.0.to_string());
        [
            bare_percent(self.share),
            bare_percent(self.instructions_share),
            format!("{:.2}", self.density),
            if self.is_dense { "dense" } else { "sparse" }.to_owned(),
            self.n_blocks.to_string(),
            address(self.first),
            address(self.last),
            self.stack.as_ref().map_or_else(|| self.function.text(), |stack| stack.join(" > ")),
        ]
    }
}
