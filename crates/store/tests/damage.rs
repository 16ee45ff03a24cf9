//! Files that are no profile, or no longer one, are refused in words. Nothing panics.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fixtures::random::{self, Size};
use profile::{Merger, Profile, query};
use proptest::prelude::*;
use store::{Error, Recording};

fn saved(folder: &tempfile::TempDir) -> (PathBuf, Profile) {
    let path = folder.path().join("x.strobe");
    let profile = random::profile(42, Size::SMALL);
    store::save(&path, &profile).unwrap();
    (path, profile)
}

const ALL: query::ContextOptions = query::ContextOptions { min_share: 0.0, root: None };

/// What was read must be usable.
fn use_it(profile: &Profile) {
    let mut merger = Merger::default();
    merger.add(profile);
    merger.add(profile);
    let merged = merger.finish();
    assert_eq!(query::functions(&merged).len(), merged.functions.len());
    assert_eq!(query::paths(&merged, None, query::PathRank::Flow).len(), merged.paths.len());
    assert_eq!(query::loops(&merged, None).len(), merged.loops.len());
    assert!(query::branches(&merged, None).len() <= merged.blocks.len());
    assert!(query::context_tree(&merged, ALL).len() <= merged.contexts.len());
    assert!(profile::diff(profile, &merged).functions.len() <= profile.functions.len() + merged.functions.len());
    assert!(profile::accuracy::compare(profile, profile).relative_overlap.is_none_or(f64::is_sign_positive));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn flipped_bytes_do_no_harm(flips in proptest::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 1..20)) {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = saved(&folder);
        let mut bytes = std::fs::read(&path).unwrap();
        for (index, flip) in flips {
            let index = index.index(bytes.len());
            bytes[index] ^= flip;
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(profile) = store::open(&path) {
            use_it(&profile);
        }
    }

    #[test]
    fn truncated_files_are_refused(length: prop::sample::Index) {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = saved(&folder);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..length.index(bytes.len())]).unwrap();
        let result = store::open(&path);
        prop_assert!(matches!(result, Err(Error::Damaged { .. } | Error::NotAProfile { .. })), "{length:?}: opened");
    }
}

#[test]
fn impossible_values_are_found() {
    let statements = [
        "UPDATE edge SET from_block = 1000000 WHERE id = 3",
        "UPDATE edge SET from_block = -1 WHERE id = 3",
        "UPDATE edge SET kind = 5 WHERE id = 3",
        "UPDATE edge SET is_back = 2 WHERE id = 3",
        "UPDATE edge SET count = 9e999 WHERE id = 3",
        "UPDATE edge SET count = -1 WHERE id = 3",
        "UPDATE edge SET count_variance = -1 WHERE id = 3",
        "UPDATE edge SET count_seen = 9223372036854775807 WHERE id = 3",
        "UPDATE edge SET count = 'many' WHERE id = 3",
        "UPDATE edge SET to_block = (SELECT block.id FROM block WHERE function <> (SELECT function FROM block WHERE block.id = from_block) LIMIT 1)",
        "DELETE FROM edge WHERE id = 3",
        "UPDATE path SET blocks = x'80'",
        "UPDATE path SET blocks = x''",
        "UPDATE path SET blocks = 7",
        "UPDATE context SET parent = id WHERE id = 3",
        "UPDATE loop SET parent = id",
        "UPDATE loop SET trips = '[1, x]'",
        "UPDATE loop SET trips = '1, 2'",
        "UPDATE history SET history = 64",
        "UPDATE block SET ending = 8",
        "UPDATE function SET name = x'ff'",
        "UPDATE function SET module = 99",
        "UPDATE figure SET name = 'x' WHERE name = 'unseen_at_most'",
        "UPDATE figure SET value = 9e999",
        "UPDATE tick SET n = 'x'",
        "DROP TABLE thread",
        "ALTER TABLE thread DROP COLUMN command",
    ];
    for statement in statements {
        let folder = tempfile::tempdir().unwrap();
        let (path, profile) = saved(&folder);
        assert!(profile.loops.len() > 1 && profile.edges.len() > 4 && profile.contexts.len() > 4);
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch(&format!("PRAGMA foreign_keys = OFF; {statement}")).unwrap();
        drop(db);
        let result = store::open(&path);
        assert!(matches!(result, Err(Error::Damaged { .. })), "{statement}: {result:?}");
    }
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let not_a_profile = |path: &Path| matches!(store::open(path), Err(Error::NotAProfile { .. }));
    assert!(matches!(store::open(&path), Err(Error::Read { .. })));
    rusqlite::Connection::open(&path).unwrap().execute("CREATE TABLE t (a)", []).unwrap();
    assert!(not_a_profile(&path));
    for bytes in [&b""[..], b"text", &[0; 4096]] {
        std::fs::write(&path, bytes).unwrap();
        assert!(not_a_profile(&path));
        assert!(matches!(store::facts(&path), Err(Error::NotAProfile { .. })));
    }
    assert!(not_a_profile(folder.path()));
    let status = Command::new("mkfifo").arg(folder.path().join("fifo")).status().expect("mkfifo (package coreutils)");
    assert!(status.success());
    assert!(not_a_profile(&folder.path().join("fifo")));
}

#[test]
fn newer_versions_are_named() {
    const NEWER: i32 = store::SCHEMA_VERSION + 1;
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = saved(&folder);
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", NEWER).unwrap();
    let error = store::open(&path).unwrap_err();
    assert!(matches!(error, Error::Version { version: NEWER, .. }));
    assert!(error.to_string().contains(&format!("version {NEWER}")), "{error}");
    assert!(matches!(store::facts(&path), Err(Error::Version { .. })));
}

/// Not a test of its own: the process that [`a_killed_recorder_leaves_a_valid_file`] kills.
#[test]
fn recorder() {
    let Some(path) = std::env::var_os("STROBE_TEST_RECORDER") else { return };
    let mut recording = Recording::create(Path::new(&path)).unwrap();
    for round in 0.. {
        recording.write(&random::profile(round % 2, MEDIUM)).unwrap();
        println!("written");
    }
}

const MEDIUM: Size =
    Size { n_modules: 3, n_functions: 300, blocks_per_function: 8, n_edges: 3000, n_paths: 3000, n_contexts: 500 };

#[test]
fn a_killed_recorder_leaves_a_valid_file() {
    use std::io::{BufRead as _, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let states = [0, 1].map(|seed| random::profile(seed, MEDIUM));
    for round in 0..8 {
        let path = folder.path().join(format!("{round}.strobe"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["recorder", "--exact", "--nocapture"])
            .env("STROBE_TEST_RECORDER", &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut written = lines.map(Result::unwrap).filter(|line| line.ends_with("written"));
        for _ in 0..=round {
            written.next().unwrap();
            assert!(states.contains(&store::open(&path).unwrap()), "while it records");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(states.contains(&store::open(&path).unwrap()), "after it was killed");
    }
}
