//! The views of a profile as text and JSON.
//!
//! Each view is a plain value, made from the profile and printed as text or as the JSON that
//! `docs/profile-json.md` describes; neither knows more than the other. A field may be added to the
//! JSON at any time; to rename, remove or redefine one, raise [`SCHEMA`].

mod annotate;
mod annotate_text;
mod branches;
mod calls;
mod code;
mod code_files;
mod contexts;
mod edges;
mod find;
mod hotness;
mod inverted;
mod loops;
mod methods;
mod overview;
mod overview_text;
mod pager;
mod paths;
mod paths_text;
pub mod props;
mod subject;
pub mod table;
mod tree_statistics;
mod values;

use std::io::{self, Write};
use std::path::Path;

use anstream::ColorChoice;
use anyhow::{Result, bail};
use profile::model::FunctionId;
use profile::query;
use serde::Serialize;
use store::Extent;

use crate::look_up;
use crate::output;
use crate::view::props::{MetricName, Query, Statistics, ViewProps};
use crate::view::subject::Subject;

/// Version of the JSON, also of that of the tools.
pub const SCHEMA: u32 = 2;

const NO_CONTEXT_PATHS: &str = "no paths by context; record with `strobe count --of context-paths`";

/// What a view has to say.
trait View: Serialize {
    /// Its name in JSON.
    const KIND: &'static str;

    fn print(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Whether it has nothing to show, and says so.
    fn is_empty(&self) -> bool {
        false
    }
}

pub fn run(props: &ViewProps, color: ColorChoice) -> Result<()> {
    let mut subject = open(props)?;
    let subject = &mut subject;
    let top = |usual: usize| props.top.unwrap_or(usual);
    match &props.query {
        Query::Report { html: Some(page) } => write_page(subject, page),
        Query::Report { html: None } => {
            let view = overview::view(subject, top(10));
            show(&view, subject, props, color)
        }
        Query::Paths { function, by, style, is_by_context } => {
            require_contexts(props, subject, *is_by_context)?;
            let function = selected(subject, function.as_deref())?;
            let (by, style, is_by_context) = (*by, *style, *is_by_context);
            let view = paths::view(subject, paths::Wish { function, by, style, is_by_context, n: top(10) });
            show(&view, subject, props, color)
        }
        Query::PathClasses { function, statistics, is_by_context } => {
            require_contexts(props, subject, *is_by_context)?;
            let function = selected(subject, function.as_deref())?;
            let Statistics { metric, hot_share } = *statistics;
            let is_by_context = *is_by_context;
            let wish = hotness::Wish { metric, hot_share, function, is_by_context, n: top(30) };
            let view = hotness::view(subject, wish);
            require_metric(props, metric, view.total)?;
            show(&view, subject, props, color)
        }
        Query::Edges { function } => {
            let function = selected(subject, function.as_deref())?;
            let view = edges::view(subject, function, top(30));
            show(&view, subject, props, color)
        }
        Query::Calls { function } => match selected(subject, function.as_deref())? {
            None => {
                let view = calls::view(subject, top(30));
                show(&view, subject, props, color)
            }
            Some(function) => {
                let view = calls::view_of(subject, function, top(30));
                show(&view, subject, props, color)
            }
        },
        Query::Contexts(wish) => {
            let caller = selected(subject, wish.caller.as_deref())?;
            let callee = selected(subject, wish.callee.as_deref())?;
            let part = contexts::Part { min_share: wish.min_share, caller, callee, n: top(100) };
            let view = if wish.is_inverted { inverted::view(subject, part) } else { contexts::view(subject, part) };
            show(&view, subject, props, color)
        }
        Query::ContextTree(Statistics { metric, hot_share }) => {
            let view = tree_statistics::view(subject, *metric, *hot_share);
            require_metric(props, *metric, view.total)?;
            show(&view, subject, props, color)
        }
        Query::Annotate { function, style } => {
            let function = find::function(subject, function)?;
            let view = annotate::view(subject, function, *style);
            show(&view, subject, props, color)
        }
        Query::Loops { function } => {
            let function = selected(subject, function.as_deref())?;
            let view = loops::view(subject, function, top(10));
            show(&view, subject, props, color)
        }
        Query::Methods => {
            let view = methods::view(subject, top(30));
            show(&view, subject, props, color)
        }
        Query::Values { function } => {
            let function = selected(subject, function.as_deref())?;
            let view = values::view(subject, function, top(30));
            show(&view, subject, props, color)
        }
        Query::Branches { function, by } => {
            let function = selected(subject, function.as_deref())?;
            let view = branches::view(subject, function, *by, top(30));
            show(&view, subject, props, color)
        }
    }
}

/// Reads a profile that has something to show.
fn open(props: &ViewProps) -> Result<Subject> {
    let extent = match props.query {
        Query::Report { html: None } | Query::Contexts(_) | Query::Calls { .. } => Extent::WithoutBranches,
        _ => Extent::Whole,
    };
    let profile = store::open_part(&props.profile, extent)?;
    if profile.functions.is_empty() && profile.values.is_empty() {
        let path = props.profile.display();
        if profile.facts.get("processes").is_some_and(|n| n == "0") {
            bail!(
                "{path}: nothing was recorded: strobe was in no process; `strobe record` says why when it runs the program"
            );
        }
        if let Some(trigger) = profile.facts.get("trigger") {
            bail!(
                "{path}: no bursts: the program ended before the first one of {trigger}; give --trigger a smaller count"
            );
        }
        bail!("{path}: no ticks: the program used too little CPU time; try `strobe record --rate 1000`");
    }
    let options = look_up::of_profile(&props.profile);
    let options = if props.use_debuginfod { look_up::with_debuginfod(options) } else { options };
    Ok(Subject::new(profile, &options))
}

fn require_contexts(props: &ViewProps, subject: &Subject, is_by_context: bool) -> Result<()> {
    if is_by_context && subject.profile.context_paths.is_empty() {
        bail!("{}: {NO_CONTEXT_PATHS}", props.profile.display());
    }
    Ok(())
}

/// Statistics of nothing would look like statistics.
fn require_metric(props: &ViewProps, metric: MetricName, total: f64) -> Result<()> {
    if total > 0.0 {
        return Ok(());
    }
    let (path, metric) = (props.profile.display(), metric.text());
    bail!("{path}: no {metric} of these in the profile; `strobe count --metric` adds them up");
}

fn selected(subject: &mut Subject, function: Option<&str>) -> Result<Option<FunctionId>> {
    function.map(|text| find::function(subject, text)).transpose()
}

fn write_page(subject: &mut Subject, page: &Path) -> Result<()> {
    output::write_file(page, |out| crate::html::write(&subject.profile, &mut subject.symbolizer, out))
}

fn show<V: View>(view: &V, subject: &Subject, props: &ViewProps, color: ColorChoice) -> Result<()> {
    for warning in subject.warnings() {
        let _ = writeln!(io::stderr(), "strobe: warning: {warning}");
    }
    let mut text = Vec::new();
    if props.json {
        let document = Document { schema: SCHEMA, kind: V::KIND, profile: props.profile.display().to_string(), view };
        serde_json::to_writer_pretty(&mut text, &document)?;
        writeln!(text)?;
        io::stdout().lock().write_all(&text)?;
    } else {
        view.print(&mut text)?;
        if view.is_empty() {
            writeln!(text, "{}", advice(V::KIND, subject))?;
        }
        pager::print(&text, color, props.use_pager)?;
    }
    Ok(())
}

/// A view as JSON.
#[derive(Serialize)]
struct Document<'a, V> {
    schema: u32,
    kind: &'static str,
    profile: String,
    #[serde(flatten)]
    view: &'a V,
}

/// Says that there is nothing; what would help depends on the recording, and is said by [`show`].
fn nothing(out: &mut dyn Write, what: &str) -> io::Result<()> {
    writeln!(out, "no {what} were seen")
}

/// Returns advice for an empty view.
fn advice(kind: &str, subject: &Subject) -> &'static str {
    match (query::is_timeless(&subject.profile), kind) {
        (false, _) => "record for longer, or with a larger --overhead",
        (true, "contexts") => "this recording counted none; `strobe count --of contexts` does",
        (true, "paths") => "this recording counted none; `strobe count` does",
        (true, _) => "nothing of the kind ran, or this kind of recording does not count it",
    }
}

/// `what` and how many of how many are shown.
fn title(out: &mut dyn Write, what: &str, n_shown: usize, n_all: usize) -> io::Result<()> {
    let bold = table::TITLE;
    let part =
        if n_shown < n_all { format!(" (the first {n_shown} of {n_all}; -n shows more)") } else { String::new() };
    writeln!(out, "{bold}{what}{bold:#}{part}")
}
