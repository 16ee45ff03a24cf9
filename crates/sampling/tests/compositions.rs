//! What holds for every composition.

mod common;

use common::{Pair, build, composition, messages, stream};
use proptest::prelude::*;
use sampling::{Compressor, Dynamic, Expression, Message};

fn weight(messages: &[Message<Pair>]) -> i128 {
    messages.iter().map(|message| i128::from(message.weight)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn text_is_printed_as_it_was_parsed(text in composition()) {
        let expression: Expression = text.parse().unwrap();
        prop_assert_eq!(expression.to_string(), text);
    }

    #[test]
    fn any_text_is_parsed_or_refused_within_it(text in "[RPDCHATSMG\\[\\]:,= 0-9a-zé]{0,40}") {
        match text.parse::<Expression>() {
            Ok(expression) => prop_assert_eq!(expression.to_string().parse::<Expression>().unwrap(), expression),
            Err(error) => prop_assert!(error.column() <= text.chars().count()),
        }
    }

    /// After every message, not only at the end.
    #[test]
    fn counts_are_conserved(text in composition(), stream in stream(), seed: u64) {
        let mut compressor = build(&text, seed);
        let (mut taken, mut sent) = (0i128, 0i128);
        for &message in &stream {
            taken += i128::from(message.weight);
            sent += compressor.absorb(message).map_or(0, |message| i128::from(message.weight));
            prop_assert_eq!(taken, sent + compressor.residue());
        }
        compressor.drain(&mut |message| sent += i128::from(message.weight));
        prop_assert_eq!(taken, sent + compressor.residue());
        // A compressor that has been drained goes on.
        let again = messages(&mut compressor, &stream);
        prop_assert_eq!(2 * taken, sent + weight(&again) + compressor.residue());
    }

    #[test]
    fn the_same_seed_gives_the_same_messages(text in composition(), stream in stream(), seed: u64) {
        let run = || messages(&mut build(&text, seed), &stream);
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn occurrences_one_by_one_all_at_once_and_as_messages_are_the_same(text in composition(), stream in stream()) {
        let tuples: Vec<Pair> = stream.iter().map(|message| message.tuple).collect();
        let [mut one, mut all, mut absorbing] = [(); 3].map(|()| build(&text, 9));
        let expected: Vec<_> = tuples.iter().filter_map(|&tuple| one.observe(tuple)).collect();
        let mut sent = Vec::new();
        all.observe_all(&tuples, &mut |message| sent.push(message));
        let units = tuples.iter().map(|&tuple| Message { tuple, weight: 1 });
        let absorbed: Vec<_> = units.filter_map(|message| absorbing.absorb(message)).collect();
        prop_assert_eq!(&sent, &expected);
        prop_assert_eq!(&absorbed, &expected);
    }

    /// A second level changes how many messages there are, not what they say.
    #[test]
    fn a_table_behind_anything_loses_nothing(text in composition(), stream in stream(), k in 1u32..20) {
        let totals = |compressor: &mut Dynamic<Pair>| {
            let mut totals = std::collections::BTreeMap::<Pair, u64>::new();
            for message in messages(compressor, &stream).into_iter().filter(|message| message.weight > 0) {
                *totals.entry(message.tuple).or_default() += message.weight;
            }
            totals
        };
        prop_assert_eq!(totals(&mut build(&text, 4)), totals(&mut build(&format!("{text} A{k}"), 4)));
    }

    #[test]
    fn nothing_is_allocated_after_construction(text in composition(), stream in stream()) {
        let mut compressor = build(&text, 2);
        let mut weight = 0u64;
        let allocations = allocation_counter::measure(|| {
            for &message in &stream {
                weight += compressor.absorb(message).map_or(0, |message| message.weight % 2);
            }
            compressor.drain(&mut |message| weight += message.weight % 2);
        });
        prop_assert_eq!(allocations.count_total, 0);
    }
}

#[test]
fn memory_is_what_the_states_need() {
    let bytes = |text: &str| build(text, 1).memory_bytes();
    assert_eq!(bytes("H[P256]2048"), 2048);
    assert_eq!(bytes("H[P257]2048"), 2 * 2048);
    assert_eq!(bytes("H[P100000]2048"), 4 * 2048);
    assert_eq!(bytes("T[256]2048"), 8 * 2048);
    assert_eq!(bytes("H[P256]2048 A16"), 2048 + bytes("A16"));
    // Tuples, weights, links and an index of twice the entries.
    assert_eq!(bytes("SS512"), 512 * (24 + 8) + 4 * 1024);
    assert_eq!(bytes("CM[4, heap=64]1024"), 4 * 4 * 1024 + bytes("SS64"));
}
