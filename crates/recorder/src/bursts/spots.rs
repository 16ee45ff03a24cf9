//! Counts blocks in native code: chooses when, in which thread and for how long.
//!
//! The kernel counts with breakpoints ([`attach::Breakpoints`]) in a thread that ticks have found
//! running, so that threads are met in proportion to their CPU time. The moments are random, and so
//! far apart that what they cost, in the program and in strobe, stays a fixed share of the budget.
//! A thread of its own switches breakpoints on and off: the session has other things to do for
//! longer than a moment lasts.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use attach::{Breakpoints, Hits, MOST_ADDRESSES};
use profile::Builder;
use profile::builder::{BlockRef, SpotCount};

/// Share of the budget that counting may cost, in the program and in strobe.
const SHARE_OF_BUDGET: f64 = 0.1;
/// Share of CPU time where no budget is set.
const SHARE_WITHOUT_BUDGET: f64 = 0.001;
/// Moments that may be spent before they are earned: a short program needs some, too.
const CREDIT: f64 = 8.0;
/// What a moment costs beside its hits: the registers of another processor are written, a thread of
/// strobe wakes up twice.
const MOMENT_SECONDS: f64 = 120e-6;
/// What of that is on the program.
const PROGRAM_SECONDS: f64 = 40e-6;
/// Hits that a moment is long enough for, all blocks together.
const WANTED_HITS: f64 = 12.0;
const SHORTEST: f64 = 300e-6;
const LONGEST: f64 = 3e-3;
/// What a hit costs is measured where its code is in the caches ([`attach::probe::breakpoint_ns`]).
/// In a program it is some microseconds more, which the count is too low by: at this rate, by some
/// percent.
const MOST_RATE: f64 = 8_000.0;
/// Failures in a row after which it is given up.
const MOST_FAILURES: u32 = 5;
/// A thread that ran for less of a moment says too little about its rate.
const LEAST_RUN: f64 = 0.2;

/// A thread that a tick has found running, drawn at random from those since it was asked for last.
#[derive(Debug, Default)]
pub struct Lot {
    n: u64,
    random: u64,
    drawn: Option<(u32, u32)>,
}

impl Lot {
    /// A tick has found this thread of this process running.
    pub fn add(&mut self, pid: u32, tid: u32) {
        self.n += 1;
        if self.next_random().is_multiple_of(self.n) {
            self.drawn = Some((pid, tid));
        }
    }

    /// Returns process and thread, and begins anew.
    pub fn take(&mut self) -> Option<(u32, u32)> {
        self.n = 0;
        self.drawn.take()
    }

    /// SplitMix64 (Steele, Lea and Flood 2014).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// What to count, and when.
#[derive(Debug)]
struct Order {
    tid: u32,
    spots: Vec<Spot>,
    delay: Duration,
    length: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spot {
    block: BlockRef,
    address: u64,
}

/// What came of an order.
#[derive(Debug)]
struct Moment {
    spots: Vec<Spot>,
    length: Duration,
    /// By spot, before and after; nothing if there were no breakpoints.
    hits: Option<Vec<(Hits, Hits)>>,
}

/// See the module's header.
#[derive(Debug)]
pub struct SpotCounter {
    orders: Sender<Order>,
    moments: Receiver<Moment>,
    is_under_way: bool,
    /// What a hit costs the program.
    hit_ns: f64,
    share: f64,
    n_failures: u32,
    random: Lot,
    totals: SpotTotals,
}

/// What counting has come to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SpotTotals {
    /// Moments in which a thread was counted.
    pub n_moments: u64,
    /// Times that counted blocks were begun in them.
    pub n_hits: u64,
    /// What that took from the program.
    pub program_seconds: f64,
    /// The same, and what it took in strobe.
    seconds: f64,
}

impl SpotCounter {
    /// Returns nothing where the kernel does not count.
    pub fn start(budget: Option<f64>, seed: u64) -> Option<SpotCounter> {
        let hit_ns = attach::probe::breakpoint_ns().ok()?;
        let (orders, to_do) = channel();
        let (done, moments) = channel();
        std::thread::spawn(move || carry_out(&to_do, &done));
        Some(SpotCounter {
            orders,
            moments,
            is_under_way: false,
            hit_ns,
            share: budget.map_or(SHARE_WITHOUT_BUDGET, |budget| SHARE_OF_BUDGET * budget),
            n_failures: 0,
            random: Lot { random: seed, ..Lot::default() },
            totals: SpotTotals::default(),
        })
    }

    pub fn totals(&self) -> SpotTotals {
        self.totals
    }

    /// Gives the builder what has been counted since the last time.
    pub fn take_in(&mut self, builder: &mut Builder) {
        match self.moments.try_recv() {
            Ok(moment) => {
                self.is_under_way = false;
                self.judge(&moment, builder);
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => self.n_failures = MOST_FAILURES,
        }
    }

    /// Returns whether a moment can be ordered, after so much CPU time of the program.
    pub fn is_due(&self, cpu_seconds: f64) -> bool {
        let typical = MOMENT_SECONDS + WANTED_HITS * self.hit_ns / 1e9;
        let earned = self.share * cpu_seconds + CREDIT * typical;
        !self.is_under_way && self.n_failures < MOST_FAILURES && self.totals.seconds + typical <= earned
    }

    /// Orders a moment in a thread. Of the spots, which come with their rates, the first are
    /// counted that have an address in the process and together no rate that is too high.
    pub fn order(&mut self, tid: u32, spots: &[(BlockRef, f64)], address_of: impl Fn(BlockRef) -> Option<u64>) {
        let mut chosen = Vec::new();
        let mut rate = 0.0;
        for &(block, rate_hz) in spots {
            let fits = chosen.len() < MOST_ADDRESSES && rate + rate_hz <= MOST_RATE;
            if let Some(address) = address_of(block).filter(|_| fits) {
                chosen.push(Spot { block, address });
                rate += rate_hz;
            }
        }
        if chosen.is_empty() {
            return;
        }
        let typical = MOMENT_SECONDS + WANTED_HITS * self.hit_ns / 1e9;
        let chance = (self.random.next_random() >> 11) as f64 / (1_u64 << 53) as f64;
        // As long as it takes to earn the moment, on average.
        let delay = Duration::from_secs_f64((chance * typical / self.share).min(1.0));
        let length = Duration::from_secs_f64((WANTED_HITS / rate.max(1.0)).clamp(SHORTEST, LONGEST));
        self.is_under_way = self.orders.send(Order { tid, spots: chosen, delay, length }).is_ok();
    }

    fn judge(&mut self, moment: &Moment, builder: &mut Builder) {
        let Some(hits) = &moment.hits else {
            self.n_failures += 1;
            return;
        };
        self.n_failures = 0;
        let n_hits: u64 = hits.iter().map(|(before, after)| after.since(*before).n).sum();
        let of_hits = n_hits as f64 * self.hit_ns / 1e9;
        let totals = &mut self.totals;
        totals.n_moments += 1;
        totals.n_hits += n_hits;
        totals.program_seconds += PROGRAM_SECONDS + of_hits;
        totals.seconds += MOMENT_SECONDS + of_hits;
        for (spot, (before, after)) in moment.spots.iter().zip(hits) {
            if after.is_limited() {
                builder.drop_spot(spot.block);
                continue;
            }
            let counted = after.since(*before);
            let native_ns = counted.running_ns as f64 - n_hits as f64 * self.hit_ns;
            if native_ns >= LEAST_RUN * moment.length.as_nanos() as f64 {
                builder.count_spot(&SpotCount { block: spot.block, hits: counted.n as f64, native_ns });
            }
        }
    }
}

/// Carries out one order after the other. Breakpoints are kept while orders are for the same thread
/// and spots: to make them takes longer than to use them.
fn carry_out(to_do: &Receiver<Order>, done: &Sender<Moment>) {
    let mut kept: Option<(u32, Vec<Spot>, Breakpoints)> = None;
    while let Ok(Order { tid, spots, delay, length }) = to_do.recv() {
        std::thread::sleep(delay);
        kept = kept.filter(|(of, at, breakpoints)| *of == tid && *at == spots && !is_used_up(breakpoints));
        if kept.is_none() {
            let addresses: Vec<u64> = spots.iter().map(|spot| spot.address).collect();
            kept = Breakpoints::new(tid, &addresses).ok().map(|breakpoints| (tid, spots.clone(), breakpoints));
        }
        let hits = kept.as_ref().and_then(|(_, _, breakpoints)| count(breakpoints, length).ok());
        if done.send(Moment { spots, length, hits }).is_err() {
            return;
        }
    }
}

/// Returns whether breakpoints are near the point where they switch themselves off.
fn is_used_up(breakpoints: &Breakpoints) -> bool {
    breakpoints.hits().is_ok_and(|hits| hits.iter().any(|hits| 2 * hits.n >= attach::MOST_HITS))
}

fn count(breakpoints: &Breakpoints, length: Duration) -> std::io::Result<Vec<(Hits, Hits)>> {
    let before = breakpoints.hits()?;
    breakpoints.switch_on()?;
    let started = Instant::now();
    std::thread::sleep(length.saturating_sub(started.elapsed()));
    breakpoints.switch_off()?;
    Ok(before.into_iter().zip(breakpoints.hits()?).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_drawn_as_often_as_ticks_find_them() {
        let mut lot = Lot::default();
        let mut n_first = 0;
        for _ in 0..1000 {
            (0..10).for_each(|tick| lot.add(1, if tick < 7 { 11 } else { 12 }));
            n_first += u32::from(lot.take() == Some((1, 11)));
            assert_eq!(lot.take(), None);
        }
        assert!((640..760).contains(&n_first), "{n_first}");
    }

    fn counter() -> (SpotCounter, Receiver<Order>) {
        let (orders, to_do) = channel();
        let (_, moments) = channel();
        let counter = SpotCounter {
            orders,
            moments,
            is_under_way: false,
            hit_ns: 10_000.0,
            share: 0.001,
            n_failures: 0,
            random: Lot::default(),
            totals: SpotTotals::default(),
        };
        (counter, to_do)
    }

    #[test]
    fn the_least_counted_spots_fill_the_registers_and_not_more_than_the_program_can_bear() {
        let (mut counter, to_do) = counter();
        let spots: Vec<(BlockRef, f64)> =
            [3e3, 3e3, 5e3, 1e3, 1e3, 1e3].into_iter().zip(0..).map(|(hz, n)| (BlockRef(n), hz)).collect();
        counter.order(7, &spots, |block| (block != BlockRef(0)).then_some(u64::from(block.0) + 100));
        let Order { tid, spots, length, .. } = to_do.try_recv().unwrap();
        let addresses: Vec<u64> = spots.iter().map(|spot| spot.address).collect();
        assert_eq!((tid, addresses), (7, vec![101, 102]));
        assert_eq!(length, Duration::from_micros(1500));
        assert!(counter.is_under_way && !counter.is_due(1e6));
    }

    #[test]
    fn what_is_spent_has_been_earned() {
        let (mut counter, _to_do) = counter();
        let mut builder = Builder::new(profile::builder::Options::SAMPLED);
        let hits = vec![(Hits::default(), Hits { n: 12, running_ns: 1_000_000 })];
        let spots = vec![Spot { block: BlockRef(0), address: 1 }];
        let moment = Moment { spots, length: Duration::from_millis(1), hits: Some(hits) };
        let mut n_moments = 0;
        while counter.is_due(10.0) {
            counter.judge(&moment, &mut builder);
            n_moments += 1;
        }
        assert!((40..=50).contains(&n_moments), "{n_moments}");
        let SpotTotals { n_hits, program_seconds, seconds, .. } = counter.totals();
        assert_eq!(n_hits, 12 * n_moments);
        assert!(program_seconds < seconds && seconds < 0.001 * 10.0 + CREDIT * 240e-6, "{program_seconds} {seconds}");
        let failed = Moment { hits: None, ..moment };
        (0..MOST_FAILURES).for_each(|_| counter.judge(&failed, &mut builder));
        assert!(!counter.is_due(1e6), "without breakpoints there is nothing to order");
    }
}
