//! The JSON is what `docs/profile-json.md` says: every documented field is there with its type, and
//! no other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::fixture::{Workshop, of_function, program, with_paths_by_context};

const DOCUMENT: &str = include_str!("../../../../docs/profile-json.md");

/// Types that are documented once, with their fields.
const SHARED: [&str; 7] = ["figure", "function", "spot", "line", "instruction", "change", "errors"];

fn parse(workshop: &Workshop, arguments: &[&str]) -> Value {
    serde_json::from_str(&workshop.stdout(arguments)).expect("JSON")
}

/// The rows under a heading of the document: path of the field to its types.
fn rows(heading: &str) -> BTreeMap<String, Vec<String>> {
    let section = DOCUMENT.split("\n## ").find(|section| section.starts_with(&format!("{heading}\n")));
    let rows = section.unwrap_or_else(|| panic!("no heading {heading}")).lines();
    let rows = rows.filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (path, rest) = row.split_once('`').expect("a path in backticks");
        let kind = rest.split('|').nth(1).expect("a type").trim();
        (path.to_owned(), kind.split(" or ").map(str::to_owned).collect())
    })
    .collect()
}

/// Checks that a value is one of the types, and its fields are those documented below `path`.
fn check(
    value: &Value,
    types: &[String],
    path: &str,
    documented: &BTreeMap<String, Vec<String>>,
    seen: &mut BTreeSet<String>,
) {
    seen.insert(path.to_owned());
    let shared = SHARED.iter().find(|&&name| types.iter().any(|kind| kind == name));
    let actual = match (value, shared) {
        (Value::Object(_), Some(&name)) => name,
        (Value::Object(_), None) => "object",
        (Value::Null, _) => "null",
        (Value::Bool(_), _) => "boolean",
        (Value::Number(_), _) => "number",
        (Value::String(text), _) if text.starts_with("0x") => "address",
        (Value::String(_), _) => "string",
        (Value::Array(_), _) => "array",
    };
    assert!(types.iter().any(|kind| kind == actual), "{path}: {actual}, not {types:?}");
    match (value, shared) {
        (Value::Object(fields), Some(&name)) => check_fields(fields, "", &rows(name), &mut BTreeSet::new()),
        (Value::Object(_), None) if documented.contains_key(&format!("{path}.*")) => {}
        (Value::Object(fields), None) => check_fields(fields, path, documented, seen),
        (Value::Array(items), _) => {
            let below = format!("{path}[]");
            let object = vec!["object".to_owned()];
            let types = documented.get(&below).unwrap_or(&object);
            items.iter().for_each(|item| check(item, types, &below, documented, seen));
        }
        _ => {}
    }
}

fn check_fields(
    fields: &serde_json::Map<String, Value>,
    path: &str,
    documented: &BTreeMap<String, Vec<String>>,
    seen: &mut BTreeSet<String>,
) {
    for (name, value) in fields {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let types = documented.get(&below).unwrap_or_else(|| panic!("{below} is not documented"));
        check(value, types, &below, documented, seen);
    }
}

#[track_caller]
fn check_view(kind: &str, values: &[Value]) {
    let mut documented = rows("All views");
    if ["diff", "accuracy"].contains(&kind) {
        documented.remove("profile");
    }
    documented.extend(rows(kind));
    let mut seen = BTreeSet::new();
    for value in values {
        assert_eq!(value["kind"], kind);
        assert_eq!(value["schema"], 2);
        check_fields(value.as_object().expect("an object"), "", &documented, &mut seen);
    }
    let missing: Vec<&String> =
        documented.keys().filter(|path| !path.ends_with(".*") && !seen.contains(*path)).collect();
    assert!(missing.is_empty(), "documented, but not there: {missing:?}");
}

#[test]
fn every_view_is_documented() {
    let workshop = Workshop::new();
    let profile = workshop.save(&program());
    let view = |arguments: &[&str]| parse(&workshop, &[arguments, &["--json", &profile]].concat());
    check_view("report", &[view(&["report"])]);
    check_view("edges", &[view(&["edges"])]);
    check_view("calls", &[view(&["calls"])]);
    check_view("function calls", &[view(&["calls", "-f", "work"])]);
    check_view("contexts", &[view(&["contexts"]), view(&["contexts", "--callers"])]);
    check_view("loops", &[view(&["loops"])]);
    check_view("branches", &[view(&["branches"])]);
    check_view("context tree", &[view(&["contexts", "--metric", "executions"])]);
    check_view("methods", &[view(&["methods"])]);
    let classes = ["paths", "--metric", "executions"];
    let together = view(&classes);
    let with_contexts = workshop.save(&with_paths_by_context());
    let apart = parse(&workshop, &[&classes[..], &["--by-context", "--json", &with_contexts]].concat());
    check_view("path classes", &[together, apart]);
}

#[test]
fn comparisons_are_documented() {
    let workshop = Workshop::new();
    let mut slower = program();
    slower.functions[0].self_ns.value *= 2.0;
    store::save(&workshop.path("slower.strobe"), &slower).expect("a writable folder");
    let (before, after) = (workshop.save(&program()), workshop.name("slower.strobe"));
    for kind in ["diff", "accuracy"] {
        check_view(kind, &[parse(&workshop, &[kind, "--json", &before, &after])]);
    }
}

#[test]
fn views_of_code_are_documented() {
    let workshop = Workshop::new();
    let source =
        "int add(int a, int b) {\n    return a + b;\n}\nint main(int n, char **v) {\n    return add(n, 1);\n}\n";
    let program_path = workshop.build("gcc", "x.c", source, &["-g", "-O1", "-fno-inline"]);
    let of_binary = workshop.save(&of_function(program_path.as_ref(), "add"));
    let with_code = ["paths", "annotate"].map(|view| {
        let arguments = if view == "paths" { vec!["paths"] } else { vec!["annotate", "add"] };
        parse(&workshop, &[&arguments[..], &["--json", &of_binary]].concat())
    });
    let synthetic = workshop.save(&with_paths_by_context());
    let without_code = ["paths", "annotate"].map(|view| {
        let arguments = if view == "paths" { vec!["paths", "--by-context"] } else { vec!["annotate", "work"] };
        parse(&workshop, &[&arguments[..], &["--json", &synthetic]].concat())
    });
    let [paths, annotate] = with_code;
    let [paths_without, annotate_without] = without_code;
    check_view("paths", &[paths, paths_without]);
    check_view("annotate", &[annotate, annotate_without]);
}

#[test]
fn figures_are_numbers() {
    let workshop = Workshop::new();
    let profile = workshop.save(&program());
    let report = parse(&workshop, &["report", "--json", &profile]);
    let hottest = &report["functions"][0];
    assert_eq!(hottest["function"]["name"], "ns::work(int)");
    assert_eq!(hottest["function"]["linkage_name"], "_ZN2ns4workEi");
    assert_eq!(hottest["function"]["address"], "0x2000");
    assert_eq!(hottest["self_ns"]["value"], 600e6);
    // Of the kernel's account, which has 30 ms that no tick stands for.
    assert_eq!(hottest["self_share"]["value"], 0.6 / 1.03);
    assert_eq!(report["time"]["off_cpu_at_least_s"], 1.5 - 1.03);
    assert_eq!(report["time"]["not_sampled_ns"], 30e6);
}
