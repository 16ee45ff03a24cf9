//! Stratified sampling (Sastry, Bodik, Smith): experiments with compressors of event streams.
//!
//! The place of each experiment is its row: `Experiment::Measured` with a function from a [`super::Workbench`] to a [`super::Finding`].

use super::{Claim, Experiment};

const ELSEWHERE: Experiment = Experiment::NotYet(
    "measured by `strobe-lab stratified` and `strobe-lab compress --claims`, not by this report yet; see docs/sampling.md",
);

const fn claim(id: &'static str, statement: &'static str, published: &'static str, required: &'static str) -> Claim {
    Claim { id, statement, published, required, experiment: ELSEWHERE }
}

/// The claims of the paper.
pub const CLAIMS: [Claim; 10] = [
    claim(
        "S1",
        "Monte Carlo: three accuracy classes, {R, H[R]} worse than {P, CR} worse than {H[P], H[CR]}",
        "fig. 4",
        "same classes, same order",
    ),
    claim("S2", "stream length to 4 % mean error, R : H[P]", "12000 : 4600", "R at 12,000 +-5 %; the n of 4,600"),
    claim(
        "S3",
        "load values: events until the error stays under 5 %, R256 : H[P256]2048",
        "7M : 300K (gcc)",
        "H[P] needs fewer on every program",
    ),
    claim("S4", "H[P512]2048 is as accurate as R256 at half the messages", "yes", "per program"),
    claim("S5", "2-bit tagged, 2-way, 2048 entries: lowest error, 2-3x the messages", "yes", "per program"),
    claim("S6", "tables of 512 to 4096 entries; smaller ones win early (li)", "fig. 9", "curves"),
    claim(
        "S6b",
        "on real streams R256 and P256 are alike; stratified and tagged stabilise sooner",
        "gcc < 3 % error at 3.5 % overhead",
        "per program",
    ),
    claim("S7", "an A16 second level reduces messages, losslessly", "1.15-2.5x", "per program, exact"),
    claim("S8", "edges and call targets at once", "error < 3 %, overhead < 4.5 %", "per program"),
    claim(
        "S9",
        "Space-Saving, Misra-Gries and Count-Min at equal memory",
        "not published",
        "table; the best is default",
    ),
];
