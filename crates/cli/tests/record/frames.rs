//! Exact mode with code that has no copies: what calls have left is taken by their own returns
//! only.

use std::fs;
use std::process::Command;

use profile::Profile;

use crate::build::Program;
use crate::process::Ended;
use crate::recorder::{finish, start_recorded};

fn executions(profile: &Profile, name: &str) -> Option<f64> {
    let function = profile.functions.iter().position(|function| function.name == name)?;
    let blocks = profile.blocks.iter().filter(|block| block.function.index() == function);
    Some(blocks.map(|block| block.count.value).sum())
}

#[test]
fn a_call_made_natively_takes_no_other_functions_path() {
    let executable = Program::new("stale_frames.c").flags(&["-O1"]).build();
    let outcome = finish("--exact", start_recorded(&executable, &["--exact"]));
    assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
    let profile = store::open(&executable.beside("profile")).expect("a profile");
    assert_eq!(executions(&profile, "victim").unwrap_or(0.0), 0.0, "it never ran");
    let of_first = profile.functions.iter().find(|function| function.name == "first").expect("it ran");
    assert_eq!(of_first.entries.value, 512.0);
    let returned = profile.blocks.iter().filter(|block| {
        profile.functions[block.function.index()].name == "second" && block.end == profile::model::BlockEnd::Return
    });
    assert_eq!(
        returned.map(|block| block.count.value).sum::<f64>(),
        512.0,
        "every return of `third` came into the copy"
    );
}

/// A thread that has left the copies comes back at a tick, wherever it is, and what it calls then
/// is called by who is still active.
#[test]
fn a_thread_comes_back_in_the_middle_of_a_block() {
    const ROUNDS: f64 = 400_000.0;
    let executable = Program::new("astray.c").flags(&["-O1"]).build();
    let profile = |what: &str| {
        let outcome = finish(what, start_recorded(&executable, &[what]));
        assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
        let file = executable.beside("profile");
        assert_ne!(store::facts(&file).expect("facts")["native_excursions"], "0", "{}", outcome.stderr);
        store::open(&file).expect("a profile")
    };
    let blocks = profile("--exact=blocks");
    let rounds = blocks.blocks.iter().filter(|block| block.n_insns > 1000).map(|block| block.count.value);
    let rounds: f64 = rounds.sum();
    assert!((ROUNDS / 2.0..=ROUNDS).contains(&rounds), "{rounds} rounds were counted");

    let contexts = profile("--exact=contexts");
    let name = |row: &profile::model::Context| contexts.functions[row.function.index()].name.as_str();
    let (mut below_main, mut elsewhere) = (0.0, 0.0);
    for row in contexts.contexts.iter().filter(|row| name(row) == "leaf") {
        let caller = row.parent.map(|parent| name(&contexts.contexts[parent.index()]));
        *if caller == Some("main") { &mut below_main } else { &mut elsewhere } += row.entries.value;
    }
    assert!((ROUNDS / 2.0..=ROUNDS).contains(&below_main), "{below_main} calls below main, {elsewhere} elsewhere");
    assert_eq!(elsewhere, 0.0, "only main is known to be active when `leaf` is called");
}

/// node maps its own code a second time, where it has no copies; what runs there calls functions
/// that have some.
#[test]
fn node_allocates_objects() {
    const SCRIPT: &str = "let keep = [], sum = 0;
        for (let i = 0; i < 3000000; i++) {
            const object = { a: i, b: [i, i + 1] };
            sum += object.b[1];
            if (i % 1000 === 0) keep.push(object);
            if (keep.length > 1000) keep = [];
        }
        console.log(sum);";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("profile");
    let strobe = env!("CARGO_BIN_EXE_strobe");
    let run = Command::new(strobe)
        .args(["record", "--exact", "-o"])
        .arg(&file)
        .args(["--", "node", "-e", SCRIPT])
        .output()
        .unwrap_or_else(|error| panic!("{strobe}: {error}"));
    let [out, err] = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!((run.status.code(), out.as_str()), (Some(0), "4500001500000\n"), "{err}");
    assert!(fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 0), "{err}");
    let facts = store::facts(&file).expect("facts");
    assert_ne!(facts["native_excursions"], "0", "the code that is mapped twice ran: {facts:?}");
}
