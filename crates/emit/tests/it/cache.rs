//! Copies that simulate a data cache.

use emit::{BlockAccesses, Cache, CellKind, Counting, Events, Metric, ModuleCopy, Probe};

use crate::fixture::{assemble, check, check_with, parse};
use crate::golden;
use crate::mutation::{every_bit_of_code_matters, every_run_of_a_copy_matters};
use crate::shapes::{COUNTED, SHAPES};

const NOTED: &str = include_str!("../noted.S");
const ACCESSES: &str = include_str!("../accesses.S");

/// Bytes, ways and bytes of a line.
type Shape = (u64, u32, u64);
const DIRECT: Shape = (16 << 10, 1, 32);
const SHAPES_OF_CACHES: [Shape; 5] = [DIRECT, (32 << 10, 8, 64), (48 << 10, 12, 64), (16, 1, 16), (1 << 20, 2, 4096)];

fn metric((n_bytes, n_ways, line): Shape) -> Metric {
    Metric::Misses(Cache::new(n_bytes, n_ways, line).expect("a cache"))
}

fn of_paths(shape: Shape) -> Probe {
    Probe::Exact(Counting::PathMetric(metric(shape)))
}

#[test]
fn all_shapes_verify() {
    let file = assemble(&[SHAPES, COUNTED, NOTED, ACCESSES].concat());
    for shape in SHAPES_OF_CACHES {
        let copy = check(&parse(&file), "shapes", of_paths(shape));
        let statistics = copy.statistics();
        assert!(statistics.probes_dead_register > 0 && statistics.probes_spilled > 0, "{statistics:?}");
        assert!(statistics.probes_flags_saved > 0, "{statistics:?}");
        let n_cells = |kind: CellKind| -> u32 {
            copy.cells().iter().filter(|cell| cell.kind == kind).map(emit::Cell::n_cells).sum()
        };
        assert!(n_cells(CellKind::Paths) > 10);
        assert_eq!(n_cells(CellKind::Paths), n_cells(CellKind::PathMisses));
    }
    for has_paths in [false, true] {
        let counting = Counting::contexts(has_paths, Some(metric(DIRECT)));
        check(&parse(&file), "contexts", Probe::Exact(counting));
        check_with(&parse(&file), "contexts and events", Probe::Exact(counting), Events::ALL);
    }
}

fn sum(copy: &ModuleCopy) -> (u32, u32) {
    copy.accesses().iter().fold((0, 0), |(known, unknown), &BlockAccesses { simulated, not_simulated, .. }| {
        (known + simulated, unknown + not_simulated)
    })
}

#[test]
fn accesses_are_those_of_operands_stack_and_strings() {
    let file = assemble(&format!(".globl _start\n_start: jmp accesses\n{ACCESSES}"));
    let copy = check(&parse(&file), "accesses", of_paths(DIRECT));
    // Not known: relative to `fs`, by a register of 32 bits, both sides of a repeated move,
    // addresses in a vector, and one with a register of 8 bits. Three are those of what calls it.
    assert_eq!(sum(&copy), (31 + 3, 6));
    let statistics = copy.statistics();
    assert_eq!((statistics.accesses, statistics.accesses_not_simulated), (31 + 3, 6));
    assert_eq!(sum(&check(&parse(&file), "accesses", Probe::Exact(Counting::PATH_CYCLES))), (0, 0));
}

#[test]
fn caches_are_what_they_are_asked_to_be() {
    for (n_bytes, n_ways, line) in SHAPES_OF_CACHES {
        let cache = Cache::new(n_bytes, n_ways, line).expect("a cache");
        assert_eq!((cache.n_bytes(), cache.n_ways(), cache.line()), (n_bytes, n_ways, line));
    }
    for (n_bytes, n_ways, line) in [
        (0, 1, 32),
        (16 << 10, 0, 32),
        (16 << 10, 1, 8),
        (16 << 10, 1, 48),
        (24 << 10, 1, 32),
        (1 << 30, 1, 32),
        (64 << 10, 17, 64),
    ] {
        assert_eq!(Cache::new(n_bytes, n_ways, line), None, "{n_bytes}:{n_ways}:{line}");
    }
}

#[test]
fn copies_can_be_stored() {
    let file = assemble(&[SHAPES, ACCESSES].concat());
    for shape in SHAPES_OF_CACHES {
        let copy = check(&parse(&file), "stored", of_paths(shape));
        assert_eq!(ModuleCopy::from_bytes(&copy.to_bytes()), Ok(copy));
    }
}

/// A load where flags are dead, and one where they are alive.
const TWO_LOADS: &str = "
        .globl _start
_start: mov (%rdi), %rax
        test %rax, %rax
        mov 8(%rdi,%rsi,4), %rcx
        jz 1f
        mov word(%rip), %edx
1:      ret
        .data
word:   .long 1
";

#[test]
fn code() {
    golden::check("cache.txt", TWO_LOADS, of_paths((128, 2, 32)));
}

#[test]
fn every_bit_and_every_run_matters() {
    every_bit_of_code_matters(TWO_LOADS, of_paths((128, 2, 32)), Events::NONE);
    every_run_of_a_copy_matters(&assemble(TWO_LOADS), of_paths(DIRECT), Events::NONE);
}
