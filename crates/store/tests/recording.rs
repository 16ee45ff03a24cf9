//! What is written is in the file and survives the writer; what changes, and only that, is written
//! again.

use fixtures::random::{self, Size};
use profile::Profile;
use proptest::prelude::*;
use store::{Error, Recording};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_profile_is_read_as_it_was_saved(seed: u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.strobe");
        let profile = random::profile(seed, Size::SMALL);
        assert_eq!(profile.verify(), []);
        store::save(&path, &profile).unwrap();
        prop_assert_eq!(store::open(&path).unwrap(), profile);
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_last_write_counts(seeds in proptest::collection::vec(any::<u64>(), 1..4)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.strobe");
        let mut recording = Recording::create(&path).unwrap();
        for seed in seeds {
            let profile = random::profile(seed, Size::SMALL);
            recording.write(&profile).unwrap();
            // Readable while the recording goes on.
            prop_assert_eq!(store::open(&path).unwrap(), profile);
        }
    }
}

#[test]
fn parts_are_read_without_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.strobe");
    let profile = random::profile(3, Size::SMALL);
    store::save(&path, &profile).unwrap();
    let part = store::open_part(&path, store::Extent::WithoutBranches).unwrap();
    assert!(!profile.edges.is_empty() && !profile.histories.is_empty());
    assert_eq!(part, Profile { edges: Vec::new(), histories: Vec::new(), context_paths: Vec::new(), ..profile });
}

#[test]
fn extremes_survive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.strobe");
    let mut profile = random::profile(3, Size::SMALL);
    profile.functions[0].address = u64::MAX;
    profile.functions[0].name = "a'b\"; \u{1F980}\n".to_owned();
    profile.functions[0].self_ns.value = f64::MAX;
    profile.functions[0].self_ns.variance = f64::MIN_POSITIVE;
    profile.blocks[0].size = u32::MAX;
    profile.threads[0].cpu_ns = u64::MAX;
    profile.loops[0].trips = vec![u64::MAX; 64];
    store::save(&path, &profile).unwrap();
    assert_eq!(store::open(&path).unwrap(), profile);
    store::save(&path, &Profile::default()).unwrap();
    assert_eq!(store::open(&path).unwrap(), Profile::default());
}

#[test]
fn only_what_changed_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.strobe");
    let mut profile = random::profile(5, Size::SMALL);
    let mut recording = Recording::create(&path).unwrap();
    recording.write(&profile).unwrap();
    // Marks that only a row that is not written again keeps.
    let mark = "UPDATE edge SET count_seen = 123456";
    rusqlite::Connection::open(&path).unwrap().execute(mark, []).unwrap();
    profile.edges[2].count.value += 1.0;
    recording.write(&profile).unwrap();
    let opened = store::open(&path).unwrap();
    assert_eq!(opened.edges[2], profile.edges[2]);
    let n_marked = opened.edges.iter().filter(|row| row.count.seen == 123_456).count();
    assert_eq!(n_marked, profile.edges.len() - 1);
}

#[test]
fn facts_of_the_recording_go_before_those_of_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.strobe");
    let mut recording = Recording::create(&path).unwrap();
    recording.fact("a", 1);
    recording.flush().unwrap();
    assert_eq!(store::facts(&path).unwrap()["a"], "1");
    let facts =
        |list: &[(&str, &str)]| list.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    recording.write(&Profile { facts: facts(&[("a", "0"), ("b", "2")]), ..Profile::default() }).unwrap();
    assert_eq!(store::facts(&path).unwrap(), facts(&[("a", "1"), ("b", "2")]));
    recording.fact("a", 3);
    recording.write(&Profile { facts: facts(&[("c", "4")]), ..Profile::default() }).unwrap();
    assert_eq!(store::facts(&path).unwrap(), facts(&[("a", "3"), ("c", "4")]));
}

#[test]
fn traces_are_kept_beside_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.strobe");
    let mut recording = Recording::create(&path).unwrap();
    let process = recording.process(7, None, "a b");
    for chunk in 0..3 {
        recording.trace(process, 10, 100, vec![chunk; 5]);
        recording.write(&Profile::default()).unwrap();
    }
    assert_eq!(store::count(&path, "SELECT sum(samples) FROM trace JOIN process ON process = process.id").unwrap(), 30);
    assert_eq!(store::open(&path).unwrap(), Profile::default());
}

#[test]
fn the_schema_answers_the_queries_of_its_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.strobe");
    let profile = random::profile(11, Size::SMALL);
    store::save(&path, &profile).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    let schema = include_str!("../src/schema.sql");
    let examples: Vec<&str> = schema.lines().filter_map(|line| line.strip_prefix("--     SELECT")).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let mut statement = db.prepare(&format!("SELECT{example}")).unwrap();
        assert!(statement.exists([]).unwrap(), "{example}");
    }
    let hottest: String =
        db.query_row("SELECT name FROM function ORDER BY self_ns DESC, id", [], |row| row.get(0)).unwrap();
    let row = &profile::query::functions(&profile)[0];
    assert_eq!(hottest, profile.functions[row.function.index()].name);
    let n_unnamed = "SELECT count(*) FROM edge LEFT JOIN edge_kind ON kind = edge_kind.id WHERE edge_kind.name IS NULL";
    assert_eq!(store::count(&path, n_unnamed).unwrap(), 0);
}

#[test]
fn only_profiles_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.strobe");
    drop(Recording::create(&path).unwrap());
    drop(Recording::create(&path).unwrap());
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(Recording::create(&path), Err(Error::Foreign { .. })));
    assert!(matches!(store::save(&path, &Profile::default()), Err(Error::Foreign { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert!(matches!(Recording::create(folder.path()), Err(Error::Foreign { .. })));
    let nowhere = folder.path().join("no/such/folder");
    assert!(matches!(Recording::create(&nowhere), Err(Error::Create { .. })));
    assert!(matches!(store::save(&nowhere, &Profile::default()), Err(Error::Create { .. })));
}

#[test]
fn the_profile_of_before_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let [path, old] = ["x.strobe", "x.strobe.old"].map(|name| folder.path().join(name));
    let record = |seed| {
        let profile = random::profile(seed, Size::SMALL);
        Recording::create(&path).unwrap().write(&profile).unwrap();
        profile
    };
    let first = record(1);
    assert!(!old.exists());
    let second = record(2);
    assert_eq!(store::open(&old).unwrap(), first);
    let third = record(3);
    assert_eq!(store::open(&old).unwrap(), second);
    assert_eq!(store::open(&path).unwrap(), third);
    // A file of the user's is not what strobe has put there.
    std::fs::write(&old, "precious").unwrap();
    assert!(matches!(Recording::create(&path), Err(Error::Foreign { path }) if path == old));
    assert_eq!(store::open(&path).unwrap(), third);
    assert_eq!(std::fs::read(&old).unwrap(), b"precious");
}

#[test]
fn a_profile_is_set_aside_with_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.strobe");
    drop(Recording::create(&path).unwrap());
    let [journal, kept] = ["x.strobe-journal", "x.strobe.old-journal"].map(|name| folder.path().join(name));
    std::fs::write(&journal, "what an interrupted transaction has changed").unwrap();
    drop(Recording::create(&path).unwrap());
    assert!(!journal.exists());
    assert_eq!(std::fs::read(kept).unwrap(), b"what an interrupted transaction has changed");
}
