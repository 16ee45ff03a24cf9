//! Exact texts, kept in `tests/golden`. To accept a change, run the tests once with
//! `STROBE_BLESS=1` and read the difference.

use std::fs;
use std::path::Path;

#[track_caller]
pub fn expect(golden: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden);
    if std::env::var_os("STROBE_BLESS").is_some() {
        fs::write(&path, actual).expect("a writable source tree");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differing = expected.lines().zip(actual.lines()).position(|(expected, actual)| expected != actual);
    let line = differing.unwrap_or_else(|| expected.lines().count().min(actual.lines().count())) + 1;
    assert!(expected == actual, "tests/golden/{golden}:{line} differs; got:\n{actual}");
}
