//! Parts of exact mode that are functions of values: what is resumed after a signal, how long to
//! wait, which addresses have no copy.
//!
//! The sources are included: the runtime is a `no_std` library for the dynamic loader, which no
//! test can link.

#[allow(dead_code, reason = "tested elsewhere")]
#[path = "../../src/bursts/recover.rs"]
mod recover;
#[path = "../../src/exact/resume.rs"]
mod resume;
#[path = "../../src/exact/timeout.rs"]
mod timeout;
#[path = "../../src/exact/uncopied.rs"]
mod uncopied;

/// Where the sources expect it.
mod bursts {
    pub(crate) use crate::recover;
}

use recover::Machine;
use resume::{Interrupted, Records};
use timeout::{Signs, Timeout, is_reached};
use uncopied::Uncopied;

const SECOND_NS: u64 = 1_000_000_000;

fn interrupted(number: u64) -> Interrupted {
    let presented = Machine { rip: 0x1000 + number, rax: 1, rcx: 2, rdx: 3, flags: 0x202 };
    Interrupted { presented, truth: Machine { rip: 0x9000 + number, ..presented }, ..Interrupted::default() }
}

#[test]
fn a_handler_that_changes_nothing_gets_back_what_it_interrupted_once() {
    let mut records = Records::default();
    let state = interrupted(0);
    records.note(0x7000, &state);
    assert_eq!(records.take(0x7008, &state.presented), None, "another handler");
    assert_eq!(records.take(0x7000, &state.presented), Some(state));
    assert_eq!(records.take(0x7000, &state.presented), None, "it has returned");
}

#[test]
fn a_changed_context_is_not_what_was_interrupted() {
    let state = interrupted(0);
    let presented = state.presented;
    let changes = [
        Machine { rip: 1, ..presented },
        Machine { rax: 9, ..presented },
        Machine { rcx: 9, ..presented },
        Machine { rdx: 9, ..presented },
        Machine { flags: 0, ..presented },
    ];
    for changed in changes {
        let mut records = Records::default();
        records.note(0x7000, &state);
        assert_eq!(records.take(0x7000, &changed), None);
    }
}

#[test]
fn nested_handlers_return_in_any_order_and_the_newest_sixteen_are_known() {
    let mut records = Records::default();
    for number in 0..20 {
        records.note(0x7000 + 8 * number, &interrupted(number));
    }
    for number in [19, 4, 12] {
        assert_eq!(
            records.take(0x7000 + 8 * number, &interrupted(number).presented),
            Some(interrupted(number)),
            "{number}"
        );
    }
    assert_eq!(records.take(0x7000 + 8 * 3, &interrupted(3).presented), None);
}

#[test]
fn a_new_context_in_the_same_place_takes_the_old_one_away() {
    let mut records = Records::default();
    records.note(0x7000, &interrupted(0));
    records.note(0x7000, &interrupted(1));
    assert_eq!(records.take(0x7000, &interrupted(0).presented), None);
    records.note(0x7000, &interrupted(0));
    records.forget(0x7000);
    assert_eq!(records.take(0x7000, &interrupted(0).presented), None);
    assert_eq!(records.take(0, &Machine::default()), None, "an unused record");
}

#[test]
fn numbers_are_compared_over_the_end() {
    assert!(is_reached(5, 5) && is_reached(6, 5) && !is_reached(4, 5));
    assert!(is_reached(1, u32::MAX) && !is_reached(u32::MAX, 1));
}

#[test]
fn silence_ends_patience() {
    // Progress without life is none.
    let signs = |progress: u32| Signs { heartbeat: 7, progress };
    let mut timeout = Timeout::new(0, signs(0));
    assert_eq!(timeout.next_sleep_ns(0, signs(1)), Some(50_000));
    assert_eq!(timeout.next_sleep_ns(9 * SECOND_NS, signs(2)), Some(100_000));
    assert_eq!(timeout.next_sleep_ns(10 * SECOND_NS, signs(3)), None);
}

#[test]
fn heartbeats_extend_it_up_to_a_limit_and_progress_beyond() {
    let signs = |second: u64| Signs {
        heartbeat: second as u32,
        progress: if second < 100 { 1 + second as u32 / 20 } else { 0 },
    };
    let mut timeout = Timeout::new(0, signs(0));
    // The last progress is at 100 seconds.
    for second in 1..160 {
        assert!(timeout.next_sleep_ns(second * SECOND_NS, signs(second)).is_some_and(|sleep| sleep <= 1_000_000));
    }
    assert_eq!(timeout.next_sleep_ns(160 * SECOND_NS, signs(160)), None);
}

#[test]
fn misses_are_known_until_their_place_is_unmapped() {
    let misses = Uncopied::new();
    assert!(!misses.contains(0x5000));
    for address in [0x5000, 0x5001, 0x6fff] {
        misses.insert(address);
        assert!(misses.contains(address));
    }
    misses.forget(0x7000, 0x8000);
    misses.forget(0x4000, 0x5000);
    assert!(misses.contains(0x5000));
    misses.forget(0x5000, 0x6fff);
    assert!(!misses.contains(0x5000) && !misses.contains(0x5001) && misses.contains(0x6fff));
}
