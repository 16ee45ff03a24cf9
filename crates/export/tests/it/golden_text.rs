//! Comparison with the files in `tests/golden`. To accept a change, run the tests once with
//! `STROBE_BLESS=1` and read the difference.

use std::path::Path;

#[track_caller]
pub fn check(file: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("STROBE_BLESS").is_some() {
        std::fs::write(&path, actual).expect("a writable source tree");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = expected.lines().zip(actual.lines()).position(|(expected, actual)| expected != actual);
    let line = differing.unwrap_or_else(|| expected.lines().count().min(actual.lines().count())) + 1;
    let got = actual.lines().nth(line - 1).unwrap_or_default();
    assert!(expected == actual, "tests/golden/{file}:{line} differs; got: {got}");
}
