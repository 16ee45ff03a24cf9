//! `strobe accuracy`: how well a sampled profile agrees with the exact one.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use profile::accuracy::{Accuracy, ElementErrors, compare};
use serde_json::json;

use crate::tools::opened;
use crate::tools::props::AccuracyProps;
use crate::view::SCHEMA;

pub fn run(props: &AccuracyProps, out: &mut impl Write) -> Result<()> {
    let accuracy = compare(&opened::open(&props.exact)?, &opened::open(&props.sampled)?);
    if props.json {
        serde_json::to_writer_pretty(&mut *out, &as_json(&accuracy, props))?;
        writeln!(out)?;
        return Ok(());
    }
    writeln!(out, "Agreement, 100 % is best")?;
    for (value, name, meaning) in agreements(&accuracy) {
        let shown = value.map_or_else(|| "-".to_owned(), percent);
        writeln!(out, "  {shown:>9}  {name:<24}  {meaning}")?;
    }
    if agreements(&accuracy).iter().any(|(value, ..)| value.is_none()) {
        writeln!(
            out,
            "  -: the exact profile has nothing to judge by; `strobe count` counts paths, `strobe count --of contexts` contexts"
        )?;
    }
    writeln!(out, "\nAbsolute counts, 1 is best")?;
    writeln!(out, "  {:>9.3}  {:<24}  estimated over exact number of blocks", accuracy.scale, "scale")?;
    writeln!(out, "\nErrors, 0 % is best")?;
    writeln!(out, "  {:>12}  {:>12}", "element-wise", "hot missed")?;
    for (errors, name) in errors(&accuracy) {
        writeln!(out, "  {:>12}  {:>12}  {name}", percent(errors.element_wise), percent(errors.hot))?;
    }
    Ok(())
}

/// Two digits behind the point: agreements differ at the end.
fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn agreements(accuracy: &Accuracy) -> [(Option<f64>, &'static str, &'static str); 8] {
    [
        (accuracy.wall_weight, "wall_weight", "hot paths found, by flow"),
        (accuracy.relative_overlap, "relative_overlap", "branch biases"),
        (accuracy.edge_overlap, "edge_overlap", "edge counts (absolute overlap)"),
        (accuracy.block_overlap, "block_overlap", "block counts"),
        (accuracy.path_overlap, "path_overlap", "path counts"),
        (accuracy.call_overlap, "call_overlap", "counts of call sites and callees"),
        (accuracy.context_overlap, "context_overlap", "entries of calling contexts"),
        (accuracy.context_time_overlap, "context_time_overlap", "time in calling contexts"),
    ]
}

fn errors(accuracy: &Accuracy) -> [(ElementErrors, &'static str); 3] {
    [(accuracy.branches, "branches"), (accuracy.methods, "methods"), (accuracy.calls, "calls")]
}

/// Shares and errors as fractions of 1.
fn as_json(accuracy: &Accuracy, props: &AccuracyProps) -> serde_json::Value {
    let path = |path: &Path| json!(path.display().to_string());
    let envelope = [
        ("schema", json!(SCHEMA)),
        ("kind", json!("accuracy")),
        ("exact", path(&props.exact)),
        ("sampled", path(&props.sampled)),
        ("scale", json!(accuracy.scale)),
    ];
    let envelope = envelope.map(|(name, value)| (name.to_owned(), value));
    let overlaps = agreements(accuracy).map(|(value, name, _)| (name.to_owned(), json!(value)));
    let errors = errors(accuracy).map(|(errors, name)| {
        (format!("{name}_errors"), json!({ "element_wise": errors.element_wise, "hot": errors.hot }))
    });
    serde_json::Value::Object(envelope.into_iter().chain(overlaps).chain(errors).collect())
}

#[cfg(test)]
mod tests {
    use profile::Profile;

    use super::*;

    /// Of an empty profile and itself.
    fn printed(json: bool) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.strobe");
        store::save(&path, &Profile::default()).unwrap();
        let mut out = Vec::new();
        run(&AccuracyProps { exact: path.clone(), sampled: path, json }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn where_nothing_was_counted_nothing_is_judged() {
        let json: serde_json::Value = serde_json::from_str(&printed(true)).unwrap();
        for name in ["wall_weight", "relative_overlap", "edge_overlap", "context_time_overlap"] {
            assert_eq!(json.get(name), Some(&serde_json::Value::Null), "{name}");
        }
        assert!(printed(false).contains("nothing to judge by"));
        for name in ["branches_errors", "methods_errors", "calls_errors"] {
            assert_eq!(json[name], json!({ "element_wise": 0.0, "hot": 0.0 }), "{name}");
        }
    }

    #[test]
    fn text_has_every_figure_of_the_json() {
        let text = printed(false);
        let json: serde_json::Value = serde_json::from_str(&printed(true)).unwrap();
        let is_figure = |name: &&String| {
            *name == "scale" || name.contains("overlap") || name.contains("errors") || name.contains("weight")
        };
        for name in json.as_object().unwrap().keys().filter(is_figure) {
            assert!(text.contains(name.trim_end_matches("_errors")), "{name}\n{text}");
        }
    }
}
