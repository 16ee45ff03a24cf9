//! Copies that simulate a data cache.

use emit::{Cache, Counting, Events, Metric, ModuleCopy, Probe};

use crate::fixture::{assemble, check, check_with, parse};
use crate::shapes::{COUNTED, SHAPES};

const NOTED: &str = include_str!("../noted.S");
const ACCESSES: &str = include_str!("../accesses.S");

/// Bytes, ways and bytes of a line.
const SHAPES_OF_CACHES: [(u64, u32, u64); 5] =
    [(16 << 10, 1, 32), (32 << 10, 8, 64), (48 << 10, 12, 64), (16, 1, 16), (1 << 20, 2, 4096)];

pub fn probe((n_bytes, n_ways, line): (u64, u32, u64)) -> Probe {
    let cache = Cache::new(n_bytes, n_ways, line).expect("a cache");
    Probe::Exact(Counting::PathMetric(Metric::Misses(cache)))
}

#[test]
fn all_shapes_verify() {
    let file = assemble(&[SHAPES, COUNTED, NOTED, ACCESSES].concat());
    for shape in SHAPES_OF_CACHES {
        let copy = check(&parse(&file), "shapes", probe(shape));
        let statistics = copy.statistics();
        assert!(statistics.probes_dead_register > 0 && statistics.probes_spilled > 0, "{statistics:?}");
        assert!(statistics.probes_flags_saved > 0, "{statistics:?}");
    }
}

#[test]
fn real() {
    for f in std::env::var("FILES").unwrap_or_default().split(' ').filter(|f| !f.is_empty()) {
        let file = std::fs::read(f).unwrap();
        let t = std::time::Instant::now();
        let copy = check(&parse(&file), f, probe(SHAPES_OF_CACHES[0]));
        eprintln!("{f} {:?} {:?}", t.elapsed(), copy.statistics());
    }
}
