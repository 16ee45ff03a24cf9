//! What cannot be shown is said in one line, with what to do.

use std::fs;

use profile::{Estimate, Profile};

use crate::fixture::{Workshop, program};

/// What a run that must fail says.
#[track_caller]
fn failure(workshop: &Workshop, arguments: &[&str]) -> String {
    let output = workshop.strobe(arguments);
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(output.stdout, b"");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

#[test]
fn a_file_that_is_not_there() {
    let workshop = Workshop::new();
    let error = failure(&workshop, &["report", &workshop.name("none.strobe")]);
    assert!(error.contains("none.strobe: cannot be read"), "{error}");
}

#[test]
fn a_file_that_is_no_profile() {
    let workshop = Workshop::new();
    fs::write(workshop.path("text"), "hello").expect("a writable folder");
    let error = failure(&workshop, &["paths", &workshop.name("text")]);
    assert!(error.contains("not a strobe profile"), "{error}");
}

#[test]
fn an_empty_profile() {
    let workshop = Workshop::new();
    let profile = workshop.save(&Profile::default());
    for view in ["report", "paths", "edges", "calls", "contexts", "loops", "branches"] {
        let error = failure(&workshop, &[view, &profile]);
        assert!(error.contains("no ticks: the program used too little CPU time; try"), "{error}");
    }
}

#[test]
fn a_profile_of_ticks_alone() {
    let workshop = Workshop::new();
    let ticks_only =
        Profile { paths: vec![], edges: vec![], loops: vec![], calls: vec![], histories: vec![], ..program() };
    let profile = workshop.save(&ticks_only);
    for view in ["paths", "edges", "calls", "loops", "branches"] {
        let text = workshop.stdout(&[view, &profile]);
        assert_eq!(text, format!("no {view} were seen\nrecord for longer, or with a larger --overhead\n"));
    }
    assert!(workshop.stdout(&["report", &profile]).contains("Hot functions"));
    assert!(workshop.stdout(&["annotate", "leaf", &profile]).contains("leaf [program]"));
}

#[test]
fn what_was_not_recorded() {
    let workshop = Workshop::new();
    let profile = workshop.save(&program());
    let error = failure(&workshop, &["paths", "--by-context", &profile]);
    assert!(error.contains("no paths by context; record with `strobe count --of context-paths`"), "{error}");
    let mut timeless = program();
    timeless.paths.iter_mut().for_each(|row| row.self_ns = Estimate::default());
    let profile = workshop.save(&timeless);
    let error = failure(&workshop, &["paths", "--metric", "cycles", &profile]);
    assert!(error.contains("no cycles of these in the profile"), "{error}");
}

#[test]
fn a_function_that_is_none() {
    let workshop = Workshop::new();
    let profile = workshop.save(&program());
    let error = failure(&workshop, &["annotate", "wrok", &profile]);
    assert!(error.contains("no function is called wrok; did you mean ns::work(int)?"), "{error}");
    let error = failure(&workshop, &["paths", "-f", "qqq", &profile]);
    assert!(error.contains("no function is called qqq; `strobe report` lists"), "{error}");
    let error = failure(&workshop, &["paths", "-f", "0x99", &profile]);
    assert!(error.contains("no function that ran contains 0x99"), "{error}");
    let error = failure(&workshop, &["paths", "-f", "libx.so:0x2000", &profile]);
    assert!(error.contains("no module is called libx.so; there are program"), "{error}");
}

#[test]
fn a_name_of_several_functions() {
    let workshop = Workshop::new();
    let mut twice = program();
    twice.functions[2].name = "main".to_owned();
    let profile = workshop.save(&twice);
    let error = failure(&workshop, &["annotate", "main", &profile]);
    // The hotter one first.
    let candidates = "2 functions match main; give one of program:0x3000 (main), program:0x1000 (main)";
    assert!(error.contains(candidates), "{error}");
}

#[test]
fn a_file_that_is_gone_is_reported_once() {
    let workshop = Workshop::new();
    let profile = workshop.save(&program());
    let (text, warnings) = workshop.outputs(&["report", &profile]);
    assert_eq!(warnings, "strobe: warning: /no/such/program: the file is gone; names are those known from before\n");
    assert!(text.contains("ns::work [program]"), "{text}");
}

#[test]
fn a_page_that_cannot_be_written() {
    let workshop = Workshop::new();
    let profile = workshop.save(&program());
    let error = failure(&workshop, &["report", "--html", "/no/such/page.html", &profile]);
    assert!(error.contains("/no/such/page.html: cannot be written"), "{error}");
    let page = workshop.name("page.html");
    workshop.stdout(&["report", "--html", &page, &profile]);
    assert!(fs::read_to_string(page).expect("the page").contains("ns::work"));
}

#[test]
fn help_fits_one_screen_and_begins_with_examples() {
    let workshop = Workshop::new();
    for view in ["report", "paths", "edges", "calls", "contexts", "annotate", "loops", "branches"] {
        let help = workshop.stdout(&[view, "--help"]);
        assert!(help.starts_with("Examples:\n"), "{help}");
        assert!(help.lines().count() <= 40, "{} lines\n{help}", help.lines().count());
    }
}
