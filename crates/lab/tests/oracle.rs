//! Four programs under callgrind: everything that they execute is what the analysis says.

use lab::corpus::{Data, Size, missing_packages, select};
use lab::oracle::{self, Recordings};
use recorder::Threads;

#[test]
fn what_four_programs_execute_is_what_the_analysis_says() {
    let missing = missing_packages().unwrap();
    assert!(missing.is_empty(), "run `apt-get install {}`", missing.join(" "));
    let programs = select(&["gzip", "li_lua", "vortex", "perl"].map(str::to_owned)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let data = Data::generate(dir.path(), Size::Tiny, &programs).unwrap();
    let report = oracle::run(&data, &programs, Recordings::Make, Threads::available()).unwrap();
    for expected in ["gzip", "lua5.4", "sqlite3", "perl", "libc.so.6"] {
        let object = report.objects.iter().find(|object| object.path.ends_with(expected));
        let instructions = object.map_or(0, |object| object.instructions.distinct);
        assert!(instructions > 1000, "only {instructions} instructions of {expected} ran:\n{report}");
    }
    assert!(report.holds(), "{report}");
}
