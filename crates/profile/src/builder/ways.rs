//! Which way a tick's path came to the block that the tick hit.
//!
//! A burst shows how the path of its tick goes on, and not how it began. But it passes the same
//! block again and again, and of these visits the whole *way* is known: the blocks from the start
//! of the path. Programs have habits, so that what follows says something about what was before: if
//! one arm of a branch is taken every eighth time, a visit that is followed by seven of the other
//! arm took it.
//!
//! What follows a visit is its *sequel*: the rest of its own path, and the ways of the next visits.
//! [`Habits`] counts ways by sequel at several lengths, for blocks that ticks hit. How probable
//! ways are after a sequel is found from the shortest to the longest that was met often enough,
//! each drawn towards the one before it as if that had been met [`PRIOR_VISITS`] times: prediction
//! by partial matching, backwards. Where a program chooses by chance, sequels say nothing, and the
//! result is what all visits together have.

use rustc_hash::FxHashMap;

use super::BlockRef;
use super::code_map::CodeMap;

/// The blocks from the start of a path to a visited one, as a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Way(u64);

/// What followed a visit, as a hash for each of [`LENGTHS`]; fewer if the burst ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sequel {
    hashes: [u64; LENGTHS.len()],
    n: usize,
}

impl Sequel {
    /// What says nothing.
    pub const NOTHING: Sequel = Sequel { hashes: [0; LENGTHS.len()], n: 0 };
}

/// How many of the next visits a sequel looks at.
const LENGTHS: [usize; 8] = [0, 1, 2, 4, 8, 16, 32, 64];

/// Visits of one burst whose sequels are counted; what follows the last of them is looked at, too.
const MAX_COUNTED: usize = 32;
const MAX_VISITS: usize = 1 + MAX_COUNTED + LENGTHS[LENGTHS.len() - 1];

/// Blocks of a burst that are looked at.
const MAX_STEPS: usize = 4096;

/// Sequels that are kept; memory does not grow beyond that.
const MAX_SEQUELS: usize = 1 << 17;

/// A sequel that was met more rarely says nothing.
const MIN_MET: f64 = 24.0;

/// Visits that what is known from shorter sequels is worth.
const PRIOR_VISITS: f64 = 8.0;

/// The block of a tick, each time that its burst reached it; the first is the tick itself, whose
/// way is not known.
#[derive(Debug, Default)]
pub(super) struct Visits(Vec<Visit>);

#[derive(Clone, Copy, Debug)]
struct Visit {
    way: Option<Way>,
    /// The rest of the path.
    rest: u64,
}

/// How often ways were met before sequels.
#[derive(Debug, Default)]
pub(super) struct Habits {
    met: FxHashMap<(BlockRef, usize, u64), Vec<(Way, u32)>>,
}

impl Way {
    /// The way along some blocks, the first of which a path begins with.
    pub fn along(blocks: &[BlockRef]) -> Way {
        blocks.iter().fold(Way(0), |way, &block| way.to(block))
    }

    fn to(self, block: BlockRef) -> Way {
        Way(joined(self.0, u64::from(block.0)))
    }
}

fn joined(hash: u64, value: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = (hash ^ value.wrapping_add(1)).wrapping_mul(ODD);
    product ^ product >> 29
}

impl Visits {
    /// Follows a burst from its first block, which a tick hit. What other functions do on the way
    /// is passed over.
    pub fn follow(code: &CodeMap, burst: &[BlockRef]) -> Visits {
        let Some(first) = burst.first().and_then(|&first| code.block(first)) else { return Visits::default() };
        let mut visits = vec![Visit { way: None, rest: 0 }];
        let (mut way, mut before) = (None, first);
        let mut is_on_path = true;
        for &next in burst.iter().skip(1).take(MAX_STEPS) {
            let Some(next) = code.block(next) else { break };
            if !next.is_beside(&first) {
                continue;
            }
            if before.is_cut_to(&next) || next.is_primary_entry() {
                way = Some(Way(0));
                is_on_path = false;
            }
            way = way.map(|way| way.to(next.number()));
            if let Some(visit) = visits.last_mut().filter(|_| is_on_path) {
                visit.rest = joined(visit.rest, u64::from(next.number().0));
            }
            if next.number() == first.number() {
                if visits.len() == MAX_VISITS {
                    break;
                }
                visits.push(Visit { way, rest: 0 });
                is_on_path = true;
            }
            before = next;
        }
        Visits(visits)
    }

    /// What followed the tick.
    pub fn sequel(&self) -> Sequel {
        self.sequel_of(0)
    }

    fn sequel_of(&self, visit: usize) -> Sequel {
        let mut sequel = Sequel::NOTHING;
        let Some((first, next)) = self.0.get(visit..).and_then(<[Visit]>::split_first) else { return sequel };
        let mut hash = joined(0, first.rest);
        for (length, place) in LENGTHS.into_iter().zip(&mut sequel.hashes) {
            let done = if sequel.n == 0 { 0 } else { LENGTHS[sequel.n - 1] };
            let Some(ways) = next.get(done..length) else { break };
            hash = ways.iter().fold(hash, |hash, visit| joined(hash, visit.way.map_or(0, |way| way.0)));
            *place = hash;
            sequel.n += 1;
        }
        sequel
    }
}

impl Habits {
    /// Counts the visits of a burst to the block that its tick hit.
    pub fn learn(&mut self, block: BlockRef, visits: &Visits) {
        for (index, visit) in visits.0.iter().enumerate().skip(1).take(MAX_COUNTED) {
            let Some(way) = visit.way else { continue };
            let sequel = visits.sequel_of(index);
            for (length, &hash) in sequel.hashes[..sequel.n].iter().enumerate() {
                self.count((block, length + 1, hash), way);
            }
            self.count((block, 0, 0), way);
        }
    }

    fn count(&mut self, key: (BlockRef, usize, u64), way: Way) {
        if self.met.len() >= MAX_SEQUELS && !self.met.contains_key(&key) {
            return;
        }
        let ways = self.met.entry(key).or_default();
        match ways.iter_mut().find(|(other, _)| *other == way) {
            Some((_, n)) => *n = n.saturating_add(1),
            None => ways.push((way, 1)),
        }
    }

    /// How probable the ways to a block are before a sequel; nothing if too little is known.
    pub fn ways(&self, block: BlockRef, sequel: &Sequel) -> Option<Vec<(Way, f64)>> {
        let mut shares: Option<Vec<(Way, f64)>> = None;
        let all = (block, 0, 0);
        let longer = sequel.hashes[..sequel.n].iter().enumerate().map(|(length, &hash)| (block, length + 1, hash));
        for key in std::iter::once(all).chain(longer) {
            let Some(met) = self.met.get(&key) else { break };
            let n: f64 = met.iter().map(|&(_, n)| f64::from(n)).sum();
            if n < MIN_MET {
                break;
            }
            let of_way = |way| met.iter().find(|(other, _)| *other == way).map_or(0.0, |&(_, n)| f64::from(n));
            shares = Some(match shares {
                None => met.iter().map(|&(way, met)| (way, f64::from(met) / n)).collect(),
                Some(shorter) => shorter
                    .into_iter()
                    .map(|(way, share)| (way, (of_way(way) + PRIOR_VISITS * share) / (n + PRIOR_VISITS)))
                    .collect(),
            });
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: BlockRef = BlockRef(9);
    const A: Way = Way(1);
    const B: Way = Way(2);

    /// Bursts through visits that took these ways, with the last visits of all bursts as ticks.
    fn probability_of_a(ways: &[Way], tick: usize) -> f64 {
        let mut habits = Habits::default();
        let visits = |from: usize| {
            Visits(ways[from..].iter().take(MAX_VISITS).map(|&way| Visit { way: Some(way), rest: 0 }).collect())
        };
        (0..ways.len() / 2).step_by(7).for_each(|from| habits.learn(BLOCK, &visits(from)));
        let found = habits.ways(BLOCK, &visits(tick).sequel()).expect("enough visits");
        assert!((found.iter().map(|&(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        found.iter().find(|(way, _)| *way == A).map_or(0.0, |&(_, share)| share)
    }

    #[test]
    fn what_follows_a_regular_choice_tells_it() {
        let ways: Vec<Way> = (0..4000).map(|visit| if visit % 32 == 3 { A } else { B }).collect();
        assert!(probability_of_a(&ways, 3) > 0.9);
        for other in [2, 4, 20, 34] {
            assert!(probability_of_a(&ways, other) < 0.02, "{other}");
        }
    }

    #[test]
    fn what_follows_chance_tells_nothing() {
        let mut state = 7_u64;
        let mut draw = || {
            state = joined(state, 3);
            if state >> 62 == 0 { A } else { B }
        };
        let ways: Vec<Way> = (0..8000).map(|_| draw()).collect();
        for tick in [1, 100, 1001, 2345] {
            let found = probability_of_a(&ways, tick);
            assert!((0.1..0.45).contains(&found), "{tick}: {found}");
        }
    }

    #[test]
    fn without_visits_nothing_is_known() {
        let habits = Habits::default();
        assert_eq!(habits.ways(BLOCK, &Visits::default().sequel()), None);
        assert_eq!(Visits::follow(&CodeMap::default(), &[BLOCK]).0.len(), 0);
    }
}
