//! Facts of merged recordings.
//!
//! A fact on which all agree stays as it is. One on which they differ becomes the sorted list of
//! its values, of which the first [`MAX_VALUES`] are kept: the smallest few of a union are the
//! smallest few of the parts' smallest few, so that grouping still does not matter.

use std::collections::{BTreeMap, BTreeSet};

/// Between the values of a fact on which recordings differ.
const SEPARATOR: &str = " | ";

/// In place of values that are left out.
const MORE: &str = "...";

const MAX_VALUES: usize = 8;

/// Adds the facts of another recording.
pub(super) fn join(mine: &mut BTreeMap<String, String>, theirs: &BTreeMap<String, String>) {
    for (name, value) in theirs {
        match mine.get_mut(name) {
            None => {
                mine.insert(name.clone(), value.clone());
            }
            Some(known) if known == value => {}
            Some(known) => *known = list(known, value),
        }
    }
}

fn list(one: &str, other: &str) -> String {
    let mut values: BTreeSet<&str> = one.split(SEPARATOR).chain(other.split(SEPARATOR)).collect();
    let has_more = values.remove(MORE) || values.len() > MAX_VALUES;
    let mut kept: Vec<&str> = values.into_iter().take(MAX_VALUES).collect();
    if has_more {
        kept.push(MORE);
    }
    kept.join(SEPARATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(values: &[&str]) -> String {
        let mut sum = BTreeMap::new();
        for value in values {
            join(&mut sum, &BTreeMap::from([("x".to_owned(), (*value).to_owned())]));
        }
        sum.remove("x").unwrap_or_default()
    }

    #[test]
    fn equal_facts_stay_and_others_are_listed_once() {
        assert_eq!(joined(&["a", "a"]), "a");
        assert_eq!(joined(&["b", "a", "b"]), "a | b");
        assert_eq!(joined(&["b | c", "a"]), "a | b | c");
    }

    #[test]
    fn long_lists_are_cut_and_say_so() {
        let letters = ["j", "i", "h", "g", "f", "e", "d", "c", "b", "a"];
        assert_eq!(joined(&letters), "a | b | c | d | e | f | g | h | ...");
        assert_eq!(joined(&[&joined(&letters), "z"]), joined(&letters));
        assert_eq!(joined(&["z", &joined(&letters)]), joined(&letters));
    }
}
