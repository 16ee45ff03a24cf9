//! What is flushed is in the file, adds up over flushes, and survives the writer.

use store::{Address, BurstCounts, Error, Recording, TickKey};

#[test]
fn counts_add_up_over_flushes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.strobe");
    let mut recording = Recording::create(&path).unwrap();
    let process = recording.process(7, None, "a b");
    let module = recording.module("/bin/a");
    recording.build_id(module, "ab12");
    assert_eq!(recording.module("/bin/a"), module);
    recording.mapping(process, module, 0x1000);
    let at = |address| Address { module: Some(module), address };
    for _ in 0..3 {
        let key = TickKey { process, tid: 7, outcome: "burst" };
        recording.tick(key, &[at(3), at(2), at(1)]);
        recording.tick(key, &[at(4), at(2), at(1)]);
        recording.burst(at(3), "full length", BurstCounts { n: 1, records: 10, checks: 5, cycles: 100 });
        recording.edge(at(3), at(4), 2);
        recording.fact("ticks", 6);
        recording.flush().unwrap();
    }
    drop(recording);
    assert_eq!(store::facts(&path).unwrap()["ticks"], "6");
    let db = rusqlite::Connection::open(&path).unwrap();
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("SELECT count(*) FROM context"), 4);
    assert_eq!(number("SELECT sum(n) FROM tick"), 6);
    assert_eq!(number("SELECT n FROM edge"), 6);
    assert_eq!(number("SELECT records FROM burst"), 30);
    assert_eq!(number("SELECT count(*) FROM burst"), 1);
}

#[test]
fn only_profiles_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.strobe");
    drop(Recording::create(&path).unwrap());
    drop(Recording::create(&path).unwrap());
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(Recording::create(&path), Err(Error::Foreign { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert!(matches!(Recording::create(&folder.path().join("no/such/folder")), Err(Error::Create { .. })));
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    rusqlite::Connection::open(&path).unwrap().execute("CREATE TABLE t (a)", []).unwrap();
    assert!(matches!(store::facts(&path), Err(Error::NotAProfile { .. })));
    std::fs::write(&path, "text").unwrap();
    assert!(matches!(store::facts(&path), Err(Error::Database { .. })));
}
