//! Values that loads load: all of them, or estimates.

use std::collections::BTreeMap;

use profile::Profile;
use profile::query::{ValueSite, value_sites};

use crate::build::{Executable, Program};
use crate::process::Ended;
use crate::recorder::{finish, is_replaced, start_recorded};

/// Loads of `loads.c`, over all threads.
const N_CONSTANT: f64 = 4.0 * 250_000.0;
const N_BYTES: f64 = 4.0 * 100_000.0;

fn recorded(executable: &Executable, options: &[&str]) -> (Profile, BTreeMap<String, String>) {
    let outcome = finish("values", start_recorded(executable, options));
    assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), "7500000\n");
    let path = executable.beside("profile");
    let profile = store::open(&path).expect("a profile");
    assert!(profile.verify().is_empty(), "{:?}", profile.verify());
    (profile, store::facts(&path).expect("facts"))
}

/// The load of the function that ran most often.
fn load_of(profile: &Profile, name: &str) -> ValueSite {
    let function = profile.functions.iter().position(|function| function.name == name).expect("the function ran");
    let sites = value_sites(profile, Some(profile::model::FunctionId(function as u32)));
    sites.into_iter().max_by(|a, b| a.count.value.total_cmp(&b.count.value)).expect("the function loads")
}

fn number(facts: &BTreeMap<String, String>, name: &str) -> u64 {
    facts[name].parse().expect("a number")
}

#[test]
fn every_load_is_counted_if_nothing_is_compressed() {
    if is_replaced() {
        return;
    }
    let executable = Program::new("loads.c").flags(&["-O1", "-pthread"]).build();
    let (profile, facts) = recorded(&executable, &["--exact=blocks", "--values", "--compress", "none"]);
    let constant = load_of(&profile, "load_constant");
    assert_eq!(constant.count.value, N_CONSTANT, "{constant:?}");
    assert_eq!((constant.values.len(), constant.values[0].0, constant.interval), (1, 7, (1.0, 1.0)));
    let bytes = load_of(&profile, "load_bytes");
    assert_eq!(bytes.count.value, N_BYTES, "{bytes:?}");
    assert_eq!(bytes.values.iter().map(|value| value.0).collect::<Vec<_>>(), [1, 2]);
    assert!((bytes.invariance - 0.75).abs() < 1e-3, "{bytes:?}");
    assert_eq!(facts["value_events"], facts["value_events_told"]);
    assert_eq!((number(&facts, "value_messages_lost"), number(&facts, "value_events_foreign")), (0, 0));
}

#[test]
fn compressed_values_are_estimates_of_the_same() {
    if is_replaced() {
        return;
    }
    let executable = Program::new("loads.c").flags(&["-O1", "-pthread"]).build();
    for expression in ["H[P256]2048", "H[P64]512 A16", "R128"] {
        let options = ["--exact=blocks", "--values", "--compress", expression, "--seed", "1"];
        let (profile, facts) = recorded(&executable, &options);
        for (name, expected, share) in [("load_constant", N_CONSTANT, 1.0), ("load_bytes", N_BYTES, 0.75)] {
            let load = load_of(&profile, name);
            assert!((load.count.value / expected - 1.0).abs() < 0.1, "{expression}: {load:?}");
            assert!((load.invariance - share).abs() < 0.05, "{expression}: {load:?}");
            assert!(load.interval.0 < load.interval.1 && load.interval.0 <= share, "{expression}: {load:?}");
        }
        let (events, messages) = (number(&facts, "value_events"), number(&facts, "value_messages"));
        assert!(messages * 20 < events, "{expression}: {facts:?}");
        assert_eq!(number(&facts, "value_messages_lost"), 0);
    }
}
