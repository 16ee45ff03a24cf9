//! Adding, comparing and judging profiles.

use crate::fixture::{Fixture, profile_of};

#[test]
fn merging_adds_and_diff_sees_it() {
    let fixture = Fixture::new();
    store::save(&fixture.path("other.strobe"), &profile_of(&fixture.program, 5)).unwrap();
    fixture.printed(&["merge", "-o", "sum.strobe", "profile.strobe", "other.strobe", "other.strobe"]);
    let sum = store::open(&fixture.path("sum.strobe")).unwrap();
    assert_eq!(sum.functions.iter().map(|row| row.entries.value).collect::<Vec<_>>(), [11.0, 11.0]);
    let text = fixture.printed(&["diff", "profile.strobe", "sum.strobe"]);
    assert!(text.contains("(entries 1 -> 11)"), "{text}");
}

#[test]
fn a_limit_sets_the_exit_code() {
    let fixture = Fixture::new();
    let mut slower = profile_of(&fixture.program, 1);
    slower.functions[1].self_ns.value *= 3.0;
    store::save(&fixture.path("slower.strobe"), &slower).unwrap();
    let complaint = fixture.complaint(&["diff", "--fail-above", "3%", "profile.strobe", "slower.strobe"]);
    assert!(complaint.contains("step grew by +25.0 %"), "{complaint}");
    fixture.printed(&["diff", "--fail-above", "30%", "profile.strobe", "slower.strobe"]);
    fixture.printed(&["diff", "--fail-above", "3%", "profile.strobe", "profile.strobe"]);
}

#[test]
fn accuracy_of_a_profile_with_itself() {
    let text = Fixture::new().printed(&["accuracy", "profile.strobe", "profile.strobe"]);
    for name in ["edge_overlap", "path_overlap"] {
        assert!(text.contains(&format!("100.00 %  {name}")), "{text}");
    }
}

#[test]
fn files_that_are_no_profiles_are_named() {
    let fixture = Fixture::new();
    let source = fixture.complaint(&["merge", "-o", "x.strobe", "program.c"]);
    assert!(source.contains("program.c: not a strobe profile"), "{source}");
    let missing = fixture.complaint(&["diff", "profile.strobe", "nowhere.strobe"]);
    assert!(missing.contains("nowhere.strobe: cannot be read"), "{missing}");
}
