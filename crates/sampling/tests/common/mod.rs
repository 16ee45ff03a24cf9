//! Random compositions and streams.

use proptest::prelude::*;
use sampling::{Compressor, Dynamic, Expression, Message};

pub type Pair = (u64, u64);

fn sampler() -> impl Strategy<Value = String> {
    let letter = prop::sample::select(vec!["R", "P", "D", "CR", "CP", "CD"]);
    prop_oneof![Just("C".to_owned()), (letter, 1u32..300).prop_map(|(letter, rate)| format!("{letter}{rate}"))]
}

fn table() -> impl Strategy<Value = String> {
    let tagged = (1u32..300, 1u32..=8, 0u32..=3, 1u32..20, 0u32..6, prop::bool::ANY).prop_flat_map(
        |(rate, tag, log_ways, replace, log_sets, is_paper)| {
            (1..=rate).prop_map(move |evict| {
                let ways = 1 << log_ways;
                let hash = if is_paper { ":paper" } else { "" };
                let entries = ways << log_sets;
                format!("T{hash}[{rate}, tag={tag}, ways={ways}, evict={evict}, replace={replace}]{entries}")
            })
        },
    );
    prop_oneof![
        (1u32..40).prop_map(|n| format!("A{n}")),
        tagged,
        (1u32..40).prop_map(|n| format!("SS{n}")),
        (1u32..40).prop_map(|n| format!("MG{n}")),
        (1u32..5, 1u32..9, 1u32..40).prop_map(|(rows, heap, width)| format!("CM[{rows}, heap={heap}]{width}")),
    ]
}

/// Any composition, printed in the one spelling.
pub fn composition() -> impl Strategy<Value = String> {
    let row = |stage: BoxedStrategy<String>| prop::collection::vec(stage, 1..4).prop_map(|stages| stages.join(" "));
    let leaf = row(prop_oneof![sampler(), table()].boxed());
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let split = prop_oneof![
            (inner.clone(), 1u32..40).prop_map(|(inner, n)| format!("H[{inner}]{n}")),
            (inner, 0u32..6).prop_map(|(inner, log)| format!("H:paper[{inner}]{}", 1 << log)),
        ];
        row(prop_oneof![split, sampler(), table()].boxed())
    })
}

/// Few different tuples, some of them several times in a row.
pub fn stream() -> impl Strategy<Value = Vec<Message<Pair>>> {
    let message = ((0u64..20, 0u64..5), prop_oneof![4 => Just(1u64), 1 => 0u64..1000])
        .prop_map(|(tuple, weight)| Message { tuple, weight });
    prop::collection::vec(message, 0..1500)
}

pub fn build(expression: &str, seed: u64) -> Dynamic<Pair> {
    expression.parse::<Expression>().unwrap_or_else(|error| panic!("{error}")).build(seed)
}

/// Puts a stream through, and drains.
pub fn messages(compressor: &mut Dynamic<Pair>, stream: &[Message<Pair>]) -> Vec<Message<Pair>> {
    let mut sent: Vec<_> = stream.iter().filter_map(|&message| compressor.absorb(message)).collect();
    compressor.drain(&mut |message| sent.push(message));
    sent
}
