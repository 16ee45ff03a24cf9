//! Copies at addresses.

use emit::{Error, Events, Position, Probe};

use crate::fixture::{assemble, parse, translate};
use crate::shapes::SHAPES;

const NEAR: Position =
    Position { module_base: 0x40_0000, copy: 0x1040_0000, cluster_lo: 0x40_0000, first_cell: 0, first_key: 1 };

#[test]
fn reach_is_checked() {
    let file = assemble(SHAPES);
    let (_, copy) = translate(&parse(&file), Probe::Trace);
    assert_eq!(copy.place(&NEAR).map(|code| code.len()), Ok(copy.code_len()));
    assert!(copy.code_len().is_multiple_of(16));
    let far = Position { copy: NEAR.module_base + (1 << 31), ..NEAR };
    assert_eq!(copy.place(&far), Err(Error::OutOfReach));
    let before = Position {
        module_base: 1 << 32,
        copy: (1 << 32) - (1 << 30),
        cluster_lo: 1 << 32,
        first_cell: 0,
        first_key: 1,
    };
    assert!(copy.place(&before).is_ok(), "a copy may be on either side");
    let outside = Position { cluster_lo: NEAR.module_base + (1 << 20), ..NEAR };
    assert_eq!(copy.place(&outside), Err(Error::OutsideCluster));
    let too_far_in =
        Position { module_base: 0x8000_0000, copy: 0x9000_0000, cluster_lo: 0x4000_0000, first_cell: 0, first_key: 1 };
    assert_eq!(copy.place(&too_far_in), Err(Error::OutsideCluster));
}

#[test]
fn copies_do_not_depend_on_the_executor() {
    struct Backwards;
    impl flow::Executor for Backwards {
        fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
            let mut results: Vec<R> = items.iter().rev().map(work).collect();
            results.reverse();
            results
        }
    }
    let file = std::fs::read("/usr/bin/gzip").expect("gzip is installed");
    let image = parse(&file);
    let (flow, copy) = translate(&image, Probe::Trace);
    let options = emit::Options { cluster: 1, probe: Probe::Trace, events: Events::default() };
    assert!(emit::translate(&image, &flow, options, &Backwards) == copy);
}

#[test]
fn entries_are_twins_inside_the_copy() {
    let file = assemble(SHAPES);
    let image = parse(&file);
    let (_, copy) = translate(&image, Probe::Trace);
    let range = copy.original_range();
    let base = emit::image_base(&image);
    assert_eq!(base, image::Svma(0x40_0000));
    for entry in copy.entries() {
        assert!(range.contains(base.offset(u64::from(entry.original))), "{entry:?}");
        assert!((entry.copy as usize) < copy.code_len(), "{entry:?}");
    }
}
