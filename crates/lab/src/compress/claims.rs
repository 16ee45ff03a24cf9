//! The claims S3 to S9 on recorded streams: one table each, a row for every stream.
//!
//! The paper measures load values of its own benchmarks; here the tables are about whatever the
//! streams have. Every stream goes through all compressors once. One table more is ours: how much
//! of the error comes from sampling in step with loops.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::ensure;
use flow::Executor as _;
use recorder::Threads;
use sampling::Expression;
use serde::{Deserialize, Serialize};

use super::measured::{
    EQUAL_MEMORY, HP, HP_HALF, Measured, OUT_OF_STEP, P, R, SECOND_LEVEL, SIZES, TAGGED, TAGGED_EAGER, TAGGED_PATIENT,
    all_expressions,
};
use super::replay::{Numbered, replay};
use super::report::{error_text, events_text, overhead_text, plot};
use super::stream::Stream;
use super::verdicts;
use crate::table::{Table, grouped};

/// The error of S3.
const TOLERABLE: f64 = 0.05;

/// Seeds of S3.
const N_SEEDS: u64 = 5;

/// What was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Evidence {
    /// Claims and tables; what belongs to no claim has the name of none.
    pub tables: Vec<(String, Table)>,
    /// Claims and the streams on which what the paper says is true.
    pub agreeing: BTreeMap<String, Vec<StreamName>>,
    /// All streams.
    pub streams: Vec<StreamName>,
}

/// A stream among others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamName {
    /// The program.
    pub program: String,
    /// What the events are.
    pub kind: String,
}

/// Runs everything on each stream, of which one at a time is held, and writes plots to `dir`, those
/// of table sizes to a folder of their own.
pub fn run(
    streams: impl Iterator<Item = anyhow::Result<Stream>>,
    seed: u64,
    dir: &Path,
    threads: Threads,
) -> anyhow::Result<Evidence> {
    let mut tables = Tables::new();
    let mut agreeing: BTreeMap<String, Vec<StreamName>> = BTreeMap::new();
    let mut names = Vec::new();
    for stream in streams {
        let stream = &stream?;
        let name = StreamName { program: stream.name.clone(), kind: stream.kind.to_string() };
        eprintln!("{} {}: {} events", name.program, name.kind, grouped(stream.events.len() as u64));
        names.push(name.clone());
        let expressions: Vec<Expression> =
            all_expressions().iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        let numbered = Numbered::new(stream);
        let outcomes = replay(&numbered, &expressions, seed, threads);
        let events_to_stay_below = [R, HP].map(|text| median_events(&numbered, text, seed, threads));
        let measured = Measured { stream, outcomes, events_to_stay_below };
        let of_paper = [R, P, HP, HP_HALF, TAGGED].map(|text| measured.of(text).clone());
        plot(stream, &of_paper, dir)?;
        plot(stream, &SIZES.map(|text| measured.of(text).clone()), &dir.join("sizes"))?;
        tables.add(&measured)?;
        for (claim, agrees) in verdicts::of(&measured) {
            agreeing.entry(claim.to_owned()).or_default().extend(agrees.then(|| name.clone()));
        }
    }
    Ok(Evidence { tables: tables.into_list(), agreeing, streams: names })
}

/// The median over seeds of the events until the error stays below [`TOLERABLE`]: where a random
/// sampler crosses the limit for the last time is mostly luck.
fn median_events(numbered: &Numbered, text: &str, seed: u64, threads: Threads) -> Option<u64> {
    let seeds: Vec<u64> = (0..N_SEEDS).map(|n| seed.wrapping_add(n)).collect();
    let expressions: Vec<Expression> = text.parse().into_iter().collect();
    let mut events: Vec<u64> = threads.map(&seeds, |&seed| {
        let outcomes = replay(numbered, &expressions, seed, Threads(NonZeroUsize::MIN));
        outcomes.first().and_then(|outcome| outcome.events_until_below(TOLERABLE)).unwrap_or(u64::MAX)
    });
    events.sort_unstable();
    events.get(events.len() / 2).copied().filter(|&events| events != u64::MAX)
}

struct Tables {
    s3: Table,
    s4: Table,
    s5: Table,
    s6: Table,
    s6b: Table,
    s7: Table,
    s8: Table,
    s9: Table,
    in_step: Table,
}

impl Tables {
    fn new() -> Tables {
        Tables {
            s3: Table::new(&["S3: events until error stays < 5 %, median of 5", R, HP, "fewer with H[P]"]),
            s4: Table::new(&["S4: half the messages", "error R256", "error H[P512]2048", "messages, of R256's"]),
            s5: Table::new(&[
                "S5: tagged",
                "error R256",
                "error H[P256]2048",
                "error T",
                "messages, of H[P]'s",
                "evict=16: error",
                "messages",
                "evict=128: error",
                "messages",
            ]),
            s6: Table::new(&[
                "S6: errors of 512, 1024, 2048, 4096 strata",
                "at 50 k events",
                "at 500 k events",
                "at the end",
            ]),
            s6b: Table::new(&["S6b: errors at 1 M events and at the end", R, P, HP, TAGGED, "overhead H[P256]2048"]),
            s7: Table::new(&["S7: messages without A16, of those with", R, HP, "T[256]2048"]),
            s8: Table::new(&["S8: H[P256]2048", "error", "overhead"]),
            s9: Table::new(&["S9: equal memory, final errors", "H[P256]", "T[256]", "SS", "MG", "CM"]),
            in_step: Table::new(&[&["samplers in and out of step, final errors", HP], &OUT_OF_STEP[..]].concat()),
        }
    }

    fn add(&mut self, measured: &Measured) -> anyhow::Result<()> {
        let name = measured.name();
        let [random, stratified] = measured.events_to_stay_below;
        let verdict = match stratified.unwrap_or(u64::MAX).cmp(&random.unwrap_or(u64::MAX)) {
            Ordering::Less => "yes",
            Ordering::Equal => "as many",
            Ordering::Greater => "no",
        };
        self.s3.row([name.clone(), events_text(random), events_text(stratified), verdict.to_owned()]);
        let error = |text| measured.error(text);
        self.s4.row([name.clone(), error(R), error(HP_HALF), measured.messages_ratio(HP_HALF, R)]);
        self.s5.row([
            name.clone(),
            error(R),
            error(HP),
            error(TAGGED),
            measured.messages_ratio(TAGGED, HP),
            error(TAGGED_EAGER),
            measured.messages_ratio(TAGGED_EAGER, HP),
            error(TAGGED_PATIENT),
            measured.messages_ratio(TAGGED_PATIENT, HP),
        ]);
        let errors_at = |n_events| SIZES.map(|text| error_text(measured.of(text).error_at(n_events))).join(", ");
        self.s6.row([name.clone(), errors_at(50_000), errors_at(500_000), SIZES.map(error).join(", ")]);
        let twice = |text| format!("{}, {}", error_text(measured.of(text).error_at(1_000_000)), error(text));
        let overhead = overhead_text(measured.stream, measured.of(HP).n_messages);
        self.s6b.row([name.clone(), twice(R), twice(P), twice(HP), twice(TAGGED), overhead.clone()]);
        self.add_second_level(measured)?;
        self.s8.row([name.clone(), error(HP), overhead]);
        for (memory, group) in EQUAL_MEMORY {
            self.s9.row(std::iter::once(format!("{name}, {memory}")).chain(group.map(error)));
        }
        self.in_step.row([name, error(HP)].into_iter().chain(OUT_OF_STEP.map(error)));
        Ok(())
    }

    /// S7, with the assertion that the second level changes nothing but the number of messages.
    fn add_second_level(&mut self, measured: &Measured) -> anyhow::Result<()> {
        for (first, second) in SECOND_LEVEL {
            let is_same = measured.of(first).profile == measured.of(second).profile;
            ensure!(is_same, "{}: {second} gives another profile than {first}", measured.name());
        }
        let ratios = SECOND_LEVEL.map(|(first, second)| measured.messages_ratio(first, second));
        self.s7.row(std::iter::once(measured.name()).chain(ratios));
        Ok(())
    }

    fn into_list(self) -> Vec<(String, Table)> {
        let Tables { s3, s4, s5, s6, s6b, s7, s8, s9, in_step } = self;
        let of_claims = [s3, s4, s5, s6, s6b, s7, s8, s9];
        let named = ["S3", "S4", "S5", "S6", "S6b", "S7", "S8", "S9"].into_iter().zip(of_claims);
        named.chain([("", in_step)]).map(|(claim, table)| (claim.to_owned(), table)).collect()
    }
}

/// The expressions of the groups, with the bytes that each takes.
#[must_use]
pub fn memory_table() -> Table {
    let mut table = Table::new(&["S9: bytes of state", "H[P256]", "T[256]", "SS", "MG", "CM"]);
    for (memory, group) in EQUAL_MEMORY {
        let bytes = |text: &str| {
            let built = text.parse::<Expression>().map(|expression| expression.build::<(u64, u64)>(1));
            built.map_or_else(
                |error| error.to_string(),
                |built| grouped(sampling::Compressor::memory_bytes(&built) as u64),
            )
        };
        table.row(std::iter::once(memory.to_owned()).chain(group.map(|text| format!("{text}: {}", bytes(text)))));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::synthetic::Zipf;
    use sampling::Compressor as _;

    #[test]
    fn groups_have_the_same_memory() {
        for (memory, group) in EQUAL_MEMORY {
            let bytes = group.map(|text| text.parse::<Expression>().unwrap().build::<(u64, u64)>(1).memory_bytes());
            let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
            assert!(most * 100 <= least * 103, "{memory}: {bytes:?}");
        }
    }

    #[test]
    fn every_table_has_a_row_for_every_stream() {
        let dir = tempfile::tempdir().unwrap();
        let streams = [1, 2].map(|seed| "zipf:200:1:30k".parse::<Zipf>().unwrap().stream(seed));
        let found = run(streams.map(Ok).into_iter(), 1, dir.path(), Threads(NonZeroUsize::MIN)).unwrap();
        let rows: Vec<usize> = found.tables.iter().map(|(_, table)| table.to_string().lines().count() - 1).collect();
        assert_eq!(rows, [2, 2, 2, 2, 2, 2, 2, 6, 2]);
        let judged: Vec<&str> = found.agreeing.keys().map(String::as_str).collect();
        assert_eq!(judged, ["S3", "S4", "S5", "S6", "S6b", "S7", "S8", "S9"]);
    }
}
