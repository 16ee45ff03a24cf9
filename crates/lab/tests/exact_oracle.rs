//! Four programs under callgrind and in exact mode: every stable count is the same.

use lab::corpus::{Data, Size, missing_packages, select};
use lab::exact_oracle::{self, Kind, Verdict};
use lab::oracle::Recordings;
use lab::transparency::strobe_program;
use recorder::Threads;

#[test]
fn exact_counts_of_four_programs_are_callgrinds() {
    let missing = missing_packages().unwrap();
    assert!(missing.is_empty(), "run `apt-get install {}`", missing.join(" "));
    let programs = select(&["gzip", "bzip2", "gsmdec", "li_lua"].map(str::to_owned)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let data = Data::generate(dir.path(), Size::Tiny, &programs).unwrap();
    let strobe = strobe_program().unwrap();
    let report = exact_oracle::run(&strobe, &data, &programs, Recordings::Make, Threads::available()).unwrap();
    for program in &report.programs {
        for (kind, at_least) in Kind::ALL.into_iter().zip([3000, 500, 80]) {
            let equal = program.files.iter().filter_map(|file| file.compared[0].tallies.get(&(kind, Verdict::Equal)));
            let n_equal: u64 = equal.map(|tally| tally.places).sum();
            assert!(n_equal >= at_least, "{}: only {n_equal} counts of {kind:?}s are equal\n{report}", program.name);
        }
    }
    assert!(report.holds(), "{report}");
}
