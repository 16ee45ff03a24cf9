//! Streams of a program whose branches and calls are known.

use std::collections::BTreeMap;
use std::process::Command;

use lab::compress::noted::{Wanted, record};
use lab::compress::stream::{Kind, Pair, Stream};

const N_CALLS: u64 = 3000;
const LOOP: &str = "int pick(int i) { return i % 3; }\n\
                    int (*volatile call)(int) = pick;\n\
                    int main(void) { int sum = 0; for (int i = 0; i < 3000; i++) sum += call(i); return sum == 0; }\n";

fn recorded(kind: Kind) -> Stream {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("loop.c"), LOOP).unwrap();
    let compiled =
        Command::new("gcc").args(["-O1", "-fno-inline", "-o", "loop", "loop.c"]).current_dir(dir.path()).status();
    assert!(compiled.expect("gcc is needed; install the package gcc").success());
    record("loop", "./loop", dir.path(), Wanted { kind, skip: 0, n_events: 1 << 30 }).unwrap()
}

/// How often each tuple occurs, most frequent first.
fn counts(stream: &Stream) -> Vec<(Pair, u64)> {
    let mut counts: BTreeMap<Pair, u64> = BTreeMap::new();
    stream.events.iter().for_each(|event| *counts.entry(*event).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(pair, count)| (std::cmp::Reverse(count), pair));
    counts
}

/// Where the instruction of an event is, without the kind.
fn address((place, _): Pair) -> u64 {
    place & (u64::MAX >> 4)
}

#[test]
fn branches_of_a_loop_are_seen() {
    let edges = counts(&recorded(Kind::Edges));
    let (back, n_back) = edges[0];
    assert_eq!(n_back, N_CALLS - 1);
    let out = edges.iter().find(|(pair, _)| pair.0 == back.0 && pair.1 != back.1).expect("the way out");
    assert_eq!(out.1, 1);
    assert!(back.1 <= address(back) && out.0.1 > address(back));
}

#[test]
fn events_of_several_kinds_are_those_of_each() {
    let calls = counts(&recorded(Kind::CallTargets));
    assert_eq!(calls[0].1, N_CALLS);
    let both = counts(&recorded(Kind::EdgesAndCallTargets));
    assert_eq!([both[0].1, both[1].1], [N_CALLS, N_CALLS - 1]);
    let targets = counts(&recorded(Kind::Targets));
    assert_eq!(targets[0].1, N_CALLS);
    // The branch of the loop is not among them.
    assert!(targets.iter().all(|&(_, count)| count != N_CALLS - 1), "{targets:x?}");
}
