//! Streams written by hand, as the runtime would and as it never would.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use proptest::prelude::*;
use wire::thread::{FIRST_SEGMENT, MAGIC, MIN_ROOM, ThreadHeader};

use super::*;

/// A sample in the test's own memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sample {
    tid: u32,
    cpu_ns: u64,
    rip: u64,
    end_reason: u8,
    stack: Vec<u8>,
    records: Vec<u32>,
}

impl Sample {
    fn new(number: u32, stack_words: usize, n_records: u32) -> Sample {
        Sample {
            tid: number,
            cpu_ns: u64::from(number) << 40,
            rip: !u64::from(number),
            end_reason: EndReason::Full as u8,
            stack: (0..stack_words * 8).map(|byte| byte as u8 ^ number as u8).collect(),
            records: (0..n_records).map(|record| record.wrapping_mul(number)).collect(),
        }
    }

    fn of(sample: SampleRef<'_>) -> Sample {
        assert_eq!(sample.stack.len(), sample.header.stack_bytes as usize);
        assert_eq!(sample.records.len(), sample.header.n_records as usize);
        Sample {
            tid: sample.header.tid,
            cpu_ns: sample.header.cpu_ns,
            rip: sample.header.registers[wire::sample::RIP],
            end_reason: sample.header.end_reason,
            stack: sample.stack.to_vec(),
            records: sample.records.to_vec(),
        }
    }

    fn words(&self) -> Vec<u64> {
        let mut words = vec![0; HEADER_WORDS];
        words[0] = (self.stack.len() as u64) << 32;
        words[1] = self.records.len() as u64 | u64::from(self.tid) << 32;
        words[2] = u64::from(Outcome::Burst as u8) | u64::from(self.end_reason) << 8;
        words[9] = self.cpu_ns;
        words[12 + wire::sample::RIP] = self.rip;
        words.extend(self.stack.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)));
        let pairs = self.records.chunks(2);
        words.extend(pairs.map(|pair| u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&0)) << 32));
        words[0] |= 8 * words.len() as u64;
        words
    }
}

/// Plays the runtime in one area.
#[derive(Clone, Copy)]
struct Producer<'a>(Area<'a>);

impl<'a> Producer<'a> {
    fn new(arena: &'a Arena) -> Producer<'a> {
        let area = arena.areas(1).next().unwrap();
        area.header64(offset_of!(ThreadHeader, identity.magic)).store(MAGIC, SeqCst);
        area.header64(offset_of!(ThreadHeader, identity.self_address)).store(ADDRESS, SeqCst);
        Producer(area)
    }

    fn current(&self) -> usize {
        self.0.current_segment() as usize
    }

    fn set_current(&self, segment: usize) {
        self.0.header32(offset_of!(ThreadHeader, stream.current_segment)).store(segment as u32, SeqCst);
    }

    /// The protocol of `wire::thread`: whether there was room.
    fn produce(&self, sample: &Sample) -> bool {
        let current = self.current();
        let state = |segment: usize| self.0.segment_state(segment);
        if state(current).load(SeqCst) == segment_state::ACTIVE {
            let used = u64::from(self.0.committed(current).load(SeqCst));
            if SEGMENT_BYTES - used >= MIN_ROOM {
                self.append(current, &sample.words());
                return true;
            }
            state(current).store(segment_state::CLOSED, SeqCst);
        }
        let is_free = state(current).load(SeqCst) == segment_state::FREE;
        let next = if is_free { current } else { (current + 1) % N_SEGMENTS };
        if state(next).load(SeqCst) != segment_state::FREE {
            return false;
        }
        self.0.committed(next).store(0, SeqCst);
        state(next).store(segment_state::ACTIVE, SeqCst);
        self.set_current(next);
        self.append(next, &sample.words());
        true
    }

    fn append(&self, segment: usize, words: &[u64]) {
        let at = self.0.committed(segment).load(SeqCst);
        self.write(segment, at.into(), words);
        self.0.committed(segment).store(at + 8 * words.len() as u32, SeqCst);
    }

    fn write(&self, segment: usize, at: u64, words: &[u64]) {
        let place = self.0.segment_words(segment, at..at + 8 * words.len() as u64).unwrap();
        place.iter().zip(words).for_each(|(place, &word)| place.store(word, SeqCst));
    }

    /// A burst that is not committed.
    fn begin(&self, sample: &Sample, state: u32, end_reason: EndReason) {
        let at = u64::from(self.0.committed(0).load(SeqCst));
        self.0.segment_state(0).store(segment_state::ACTIVE, SeqCst);
        self.write(0, at, &sample.words());
        let records_end = at + HEADER_BYTES + sample.stack.len() as u64 + 4 * sample.records.len() as u64;
        self.0.header64(offset_of!(ThreadHeader, burst.cursor)).store(ADDRESS + FIRST_SEGMENT + records_end, SeqCst);
        self.0.header32(offset_of!(ThreadHeader, burst.state)).store(state, SeqCst);
        self.0.header32(offset_of!(ThreadHeader, burst.end_reason)).store(end_reason as u32, SeqCst);
    }
}

/// Where the area is in the target.
const ADDRESS: u64 = 0x7e00_0000_0000;

fn drain(reader: &mut Reader, arena: &Arena) -> (Drained, Vec<Sample>) {
    let mut samples = Vec::new();
    let drained = reader.drain(arena, 1, &mut |sample| samples.push(Sample::of(sample)));
    (drained, samples)
}

fn salvage(arena: &Arena) -> (Drained, Vec<Sample>) {
    let mut samples = Vec::new();
    let drained = Reader::new().salvage(arena, 1, &mut |sample| samples.push(Sample::of(sample)));
    (drained, samples)
}

#[test]
fn samples_arrive_as_they_were_written() {
    let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
    let producer = Producer::new(&arena);
    let written = [Sample::new(1, 0, 0), Sample::new(2, 1000, 7), Sample::new(3, 3, 4001)];
    assert!(written.iter().all(|sample| producer.produce(sample)));
    let mut reader = Reader::new();
    let (drained, read) = drain(&mut reader, &arena);
    assert_eq!(read, written);
    assert_eq!((drained.samples, drained.bad_streams, drained.freed_segments), (3, 0, 0));
    assert_eq!(drain(&mut reader, &arena), (Drained::default(), vec![]));
}

#[test]
fn a_full_ring_is_freed_and_used_again() {
    let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
    let producer = Producer::new(&arena);
    let mut reader = Reader::new();
    for _ in 0..3 {
        let mut written = Vec::new();
        for number in 0.. {
            let sample = Sample::new(number, 20_000, 100);
            if !producer.produce(&sample) {
                break;
            }
            written.push(sample);
        }
        assert!(written.len() > 4);
        let (drained, read) = drain(&mut reader, &arena);
        assert!(read == written, "{} of {} samples", read.len(), written.len());
        assert_eq!((drained.freed_segments, drained.bad_streams), (N_SEGMENTS as u64, 0));
    }
}

#[test]
fn a_running_producer_is_read_in_order() {
    const SAMPLES: u32 = 5000;
    let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
    let producer = Producer::new(&arena);
    let mut reader = Reader::new();
    let mut read = Vec::new();
    let has_failed = AtomicBool::new(false);
    let sample = |number: u32| Sample::new(number, 1000, number % 2000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..SAMPLES {
                while !producer.produce(&sample(number)) && !has_failed.load(SeqCst) {
                    std::thread::yield_now();
                }
            }
        });
        while read.len() < SAMPLES as usize && !has_failed.load(SeqCst) {
            let mut sink =
                |each: SampleRef<'_>| read.push((each.header.tid, Sample::of(each) == sample(each.header.tid)));
            let drained = reader.drain(&arena, 1, &mut sink);
            has_failed.store(drained.bad_streams != 0, SeqCst);
        }
    });
    assert!(!has_failed.load(SeqCst));
    let expected: Vec<_> = (0..SAMPLES).map(|number| (number, true)).collect();
    assert!(read == expected, "{:?}", read.iter().zip(&expected).find(|(read, expected)| read != expected));
}

#[test]
fn areas_that_nobody_set_up_are_left_alone() {
    let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
    let producer = Producer::new(&arena);
    producer.produce(&Sample::new(1, 1, 1));
    producer.0.header64(offset_of!(ThreadHeader, identity.magic)).store(0, SeqCst);
    assert_eq!(drain(&mut Reader::new(), &arena), (Drained::default(), vec![]));
}

/// Changes one word of a good sample, with a good one before and after it.
fn damaged(word: usize, value: u64) -> (Drained, Vec<Sample>) {
    let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
    let producer = Producer::new(&arena);
    let mut reader = Reader::new();
    let good = Sample::new(1, 2, 3);
    producer.produce(&good);
    let mut words = good.words();
    words[word] = value;
    producer.append(0, &words);
    producer.produce(&good);
    let (drained, samples) = drain(&mut reader, &arena);
    producer.produce(&good);
    assert_eq!(drain(&mut reader, &arena).1, [good], "the stream goes on");
    (drained, samples)
}

#[test]
fn a_bad_sample_drops_what_follows_it() {
    let good = Sample::new(1, 2, 3).words();
    let outcome_missing = good[2] & !0xff;
    let reason_unknown = good[2] | 0xff00;
    let cases = [
        (0, good[0] & !0xffff_ffff, "no size"),
        (0, good[0] + 8, "size that does not fit the parts"),
        (0, good[0] | 0xffff_fff8, "huge size"),
        (0, good[0] + (4 << 32), "odd stack"),
        (0, good[0] | 0xffff_fff8 << 32, "huge stack"),
        (1, good[1] | 0xffff_ffff, "many records"),
        (2, outcome_missing, "no outcome"),
        (2, reason_unknown, "unknown reason"),
    ];
    for (word, value, case) in cases {
        let (drained, samples) = damaged(word, value);
        assert_eq!(samples.len(), 1, "{case}");
        assert_eq!(drained.bad_streams, 1, "{case}");
    }
    assert_eq!(damaged(5, 77).1.len(), 3, "a word that nothing depends on");
}

#[test]
fn committed_that_makes_no_sense_is_counted() {
    let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
    let producer = Producer::new(&arena);
    let mut reader = Reader::new();
    producer.produce(&Sample::new(1, 0, 0));
    drain(&mut reader, &arena);
    for committed in [8, u32::MAX, 0] {
        producer.0.committed(0).store(committed, SeqCst);
        assert_eq!(drain(&mut reader, &arena).0, Drained { bad_streams: 1, ..Drained::default() }, "{committed}");
    }
}

#[test]
fn the_burst_of_a_dead_process_is_salvaged() {
    let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
    let producer = Producer::new(&arena);
    let first = Sample::new(1, 5, 6);
    producer.produce(&first);
    let mut last = Sample::new(2, 9, 11);
    producer.begin(&last, thread_state::BURST, EndReason::None);
    last.end_reason = EndReason::Died as u8;
    let (drained, samples) = salvage(&arena);
    assert_eq!(samples, [first, last]);
    assert_eq!(drained.salvaged, 1);
}

#[test]
fn a_burst_that_had_ended_keeps_its_reason() {
    let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
    let mut sample = Sample::new(2, 0, 1);
    Producer::new(&arena).begin(&sample, thread_state::ENDED, EndReason::Outside);
    sample.end_reason = EndReason::Outside as u8;
    assert_eq!(salvage(&arena).1, [sample]);
}

#[test]
fn nothing_is_salvaged_from_nonsense() {
    let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
    let producer = Producer::new(&arena);
    let sample = Sample::new(2, 2, 1);
    producer.begin(&sample, thread_state::NATIVE, EndReason::None);
    assert_eq!(salvage(&arena).1, []);
    producer.begin(&sample, thread_state::BURST, EndReason::None);
    let cursor = producer.0.header64(offset_of!(ThreadHeader, burst.cursor));
    for value in [0, u64::MAX, ADDRESS, ADDRESS + FIRST_SEGMENT, ADDRESS + FIRST_SEGMENT + SEGMENT_BYTES + 4] {
        cursor.store(value, SeqCst);
        assert_eq!(salvage(&arena).1, [], "{value:x}");
    }
    producer.set_current(99);
    assert_eq!(salvage(&arena).1, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However production and draining interleave, what comes out is what went in.
    #[test]
    fn nothing_is_lost_or_reordered(steps in proptest::collection::vec((0usize..30_000, 0u32..20_000, 0u8..4), 1..60)) {
        let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
        let producer = Producer::new(&arena);
        let mut reader = Reader::new();
        let mut expected = VecDeque::new();
        let mut check = |expected: &mut VecDeque<Sample>| {
            reader.drain(&arena, 1, &mut |sample| assert!(expected.pop_front() == Some(Sample::of(sample))))
        };
        for (number, (stack_words, n_records, action)) in steps.into_iter().enumerate() {
            let sample = Sample::new(number as u32, stack_words, n_records);
            if producer.produce(&sample) {
                expected.push_back(sample);
            }
            if action == 0 {
                prop_assert_eq!(check(&mut expected).bad_streams, 0);
            }
        }
        check(&mut expected);
        prop_assert!(expected.is_empty());
    }

    /// No contents of shared memory harm the agent.
    #[test]
    fn hostile_memory_is_survived(
        header in proptest::collection::vec(any::<u64>(), 40),
        contents in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..4096, (0u64..64).prop_map(|n| n << 32 | 224)], 0..600),
        committed in prop_oneof![any::<u32>(), 0u32..6000],
        states in proptest::array::uniform4(0u32..4),
        current in prop_oneof![any::<u32>(), 0u32..5],
        thread_state in 0u32..4,
    ) {
        let (arena, _file) = Arena::create(crate::area::Shape::BURSTS).unwrap();
        let producer = Producer::new(&arena);
        for (index, &word) in header.iter().enumerate().skip(2) {
            producer.0.header64(8 * index).store(word, SeqCst);
        }
        for (segment, state) in states.into_iter().enumerate() {
            producer.write(segment, 0, &contents);
            producer.0.segment_state(segment).store(state, SeqCst);
            producer.0.committed(segment).store(committed, SeqCst);
        }
        producer.set_current(current as usize);
        producer.0.header32(offset_of!(ThreadHeader, burst.state)).store(thread_state, SeqCst);
        let mut reader = Reader::new();
        let mut sizes = 0;
        let mut sink = |sample: SampleRef<'_>| {
            sizes += u64::from(sample.header.size);
            Sample::of(sample);
        };
        for _ in 0..3 {
            reader.drain(&arena, u32::MAX, &mut sink);
        }
        reader.salvage(&arena, 1, &mut sink);
        prop_assert!(sizes <= 5 * N_SEGMENTS as u64 * SEGMENT_BYTES);
    }
}
