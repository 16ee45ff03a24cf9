//! The simulated data cache counts what a cache would miss: that of a few lines here, which gets
//! the same addresses.

use profile::Profile;
use profile::model::Path;

use crate::build::{Executable, Program};
use crate::exact::counted_with;
use crate::process::Ended;
use crate::recorder::{finish, run_native, start_recorded};

/// As in `cache.c`.
const SIZE: u64 = 1 << 20;
const N_LOADS: u64 = 20_000;
const LOAD_BYTES: u64 = 8;

fn program() -> Executable {
    Program::new("cache.c").flags(&["-O1"]).build()
}

/// A cache, as simple as can be.
struct Reference {
    line: u64,
    n_ways: usize,
    /// Lines of each set, the last one that was used first.
    sets: Vec<Vec<u64>>,
}

impl Reference {
    fn new(n_bytes: u64, n_ways: usize, line: u64) -> Reference {
        Reference { line, n_ways, sets: vec![Vec::new(); (n_bytes / line) as usize / n_ways] }
    }

    /// Whether an access misses, in any of its lines.
    fn misses(&mut self, address: u64, n_bytes: u64) -> bool {
        let lines = address / self.line..=(address + n_bytes - 1) / self.line;
        lines.fold(false, |is_miss, line| self.misses_line(line) | is_miss)
    }

    fn misses_line(&mut self, line: u64) -> bool {
        let n_sets = self.sets.len() as u64;
        let set = &mut self.sets[(line % n_sets) as usize];
        let place = set.iter().position(|&known| known == line);
        place.map(|place| set.remove(place));
        set.insert(0, line);
        set.truncate(self.n_ways);
        place.is_none()
    }
}

/// Where `wander` loads from, relative to its buffer, which starts with a line and a set.
fn places() -> impl Iterator<Item = u64> {
    let step = |random: u64| random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    std::iter::successors(Some(step(1)), move |&random| Some(step(random))).map(|random| random >> 49)
}

/// The path of the function that runs most: a turn of its loop.
fn loop_of<'a>(profile: &'a Profile, name: &str) -> &'a Path {
    let own = profile.paths.iter().filter(|path| profile.functions[path.function.index()].name == name);
    own.max_by(|a, b| a.count.value.total_cmp(&b.count.value)).expect("a path")
}

#[test]
fn misses_are_those_of_a_cache() {
    let executable = program();
    for (shape, n_bytes, n_ways, line) in [("l1d:16k:1:32", 16 << 10, 1, 32), ("l1d:12k:3:64", 12 << 10, 3, 64)] {
        let profile = counted_with(&executable, &["--exact=paths", "--metric", shape]);
        // The first turn is on the way in, and the last one on the way out.
        let wander = loop_of(&profile, "wander");
        assert_eq!(wander.count.value, (N_LOADS - 2) as f64);
        let mut reference = Reference::new(n_bytes, n_ways, line);
        let misses: Vec<bool> = places().take(N_LOADS as usize).map(|at| reference.misses(at, LOAD_BYTES)).collect();
        let n_misses = misses[1..misses.len() - 1].iter().filter(|&&is_miss| is_miss).count() as u64;
        assert!(n_misses > N_LOADS / 10 && n_misses < N_LOADS * 9 / 10, "{n_misses}");
        assert_eq!(wander.misses, n_misses, "{shape}");

        let walk = loop_of(&profile, "walk");
        assert_eq!(walk.count.value, (SIZE / 32 - 2) as f64);
        let expected = (SIZE / line) as f64 - walk.misses as f64;
        assert!((0.0..=2.0).contains(&expected), "{shape}: {} misses", walk.misses);

        let facts = store::facts(&executable.beside("profile")).expect("facts");
        let number = |name: &str| facts[name].parse::<u64>().expect("a number");
        assert_eq!(facts["cache"], shape);
        let on_paths: u64 = profile.paths.iter().map(|path| path.misses).sum();
        assert!(on_paths <= number("cache_misses") && number("cache_misses") <= number("cache_accesses"), "{facts:?}");
        assert!(number("cache_accesses") >= SIZE + SIZE / 32 + N_LOADS, "{facts:?}");
    }
}

#[test]
fn contexts_have_misses_and_the_output_is_the_same() {
    let executable = program();
    let alone = run_native(&executable);
    for exact in ["--exact=contexts", "--exact=context-paths"] {
        let recorded = finish("misses of contexts", start_recorded(&executable, &[exact, "--metric=l1d"]));
        assert_eq!((recorded.ended, &recorded.stdout), (alone.ended, &alone.stdout), "{}", recorded.stderr);
        assert!(recorded.stderr.contains("l1d:16k:1:32: "), "{}", recorded.stderr);
        let profile = store::open(&executable.beside("profile")).expect("a profile");
        let of = |name: &str| -> u64 {
            let own = profile.contexts.iter().filter(|row| profile.functions[row.function.index()].name == name);
            own.map(|row| row.misses).sum()
        };
        let walked = of("walk");
        assert!((SIZE / 32..SIZE / 32 + 3).contains(&walked), "{exact}: {walked}");
        assert!(of("wander") > N_LOADS / 10, "{exact}");
    }
}

/// Hardware counters are not recorded, and strobe says so, with the kernel's word where there are
/// none.
#[test]
fn hardware_counters_are_refused_in_one_line() {
    let outcome =
        finish("hardware", start_recorded(&program(), &["--exact=paths", "--metric=instructions,cache-misses"]));
    assert_ne!(outcome.ended, Ended { code: 0 });
    assert!(outcome.stdout.is_empty(), "the program must not run");
    assert_eq!(outcome.stderr.trim().lines().count(), 1, "{}", outcome.stderr);
    for part in ["--metric instructions: ", "--metric cycles", "strobe doctor"] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}
