//! The JSON is what `docs/inspect-json.md` says: every documented field is there with its type, and
//! no other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::fixture::{Workshop, stdout};

const DOCUMENT: &str = include_str!("../../../../docs/inspect-json.md");

fn parse(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(arguments)).expect("JSON")
}

/// The rows under a heading of the document: path of the field to its type.
fn documented(heading: &str) -> BTreeMap<String, String> {
    let section = DOCUMENT.split("\n## ").find(|section| section.starts_with(heading)).expect("the heading");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (path, rest) = row.split_once('`').expect("a path in backticks");
        let kind = rest.split('|').nth(1).expect("a type").trim();
        (path.to_owned(), kind.to_owned())
    })
    .collect()
}

/// Every field of `value` by path (`blocks[].id`) with the types it has.
fn actual(value: &Value, path: &str, fields: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    if !path.is_empty() {
        fields.entry(path.to_owned()).or_default().insert(type_of(value));
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                actual(member, &below, fields);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| actual(item, &format!("{path}[]"), fields)),
        _ => {}
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(text) if text.starts_with("0x") => "address",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[track_caller]
fn check(heading: &str, values: &[Value]) {
    let documented = documented(heading);
    let mut fields = BTreeMap::new();
    values.iter().for_each(|value| actual(value, "", &mut fields));
    // Items of arrays are documented only where they are not objects.
    fields.retain(|path, _| !path.ends_with("[]") || documented.contains_key(path));
    let names: Vec<&String> = fields.keys().collect();
    assert_eq!(names, documented.keys().collect::<Vec<_>>());
    for (path, types) in fields {
        let allowed: BTreeSet<&str> = documented[&path].split(" or ").collect();
        assert!(types.iter().all(|kind| allowed.contains(kind)), "{path}: {types:?}, not {allowed:?}");
    }
}

#[test]
fn module_fields_are_documented() {
    let workshop = Workshop::new();
    let program = workshop.walk();
    let mut bytes = std::fs::read(&program).expect("the program just built");
    bytes.truncate(bytes.len() * 2 / 3);
    let damaged = workshop.write("damaged", bytes);
    let files = [&program, &damaged, &workshop.lines()];
    let mut values: Vec<Value> = files.iter().map(|file| parse(&["inspect", "--json", file])).collect();
    // Rare rows, so that every documented one is there.
    let row = serde_json::json!([{"what": "reason", "count": 1}]);
    values[0]["indirect_jumps"]["unresolved_by_reason"] = row;
    values[0]["debug_files"] = serde_json::json!(["a.debug"]);
    values[0]["faults"] = serde_json::json!([{"function": "0x0", "text": "fault"}]);
    check("Module", &values);
}

#[test]
fn function_fields_are_documented() {
    let workshop = Workshop::new();
    let (walk, lines) = (workshop.walk(), workshop.lines());
    let collatz = parse(&["inspect", "--json", &lines, "-f", "collatz", "--path", "0"]);
    let choose = parse(&["inspect", "--json", &walk, "-f", "choose"]);
    let start = parse(&["inspect", "--json", &walk, "-f", "_start"]);
    assert_eq!(collatz["schema"], 1);
    check("Function", &[collatz, choose, start]);
}

#[test]
fn the_result_does_not_depend_on_threads() {
    let workshop = Workshop::new();
    let program = workshop.large();
    let run = |n_threads| {
        let mut value = parse(&["inspect", "--json", &program, "--threads", n_threads]);
        for name in ["threads", "stages"] {
            value.as_object_mut().expect("an object").remove(name).expect(name);
        }
        value
    };
    assert!(run("1") == run("4"));
}
