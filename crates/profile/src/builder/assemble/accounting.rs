//! What ticks and bursts say about strata, for [`crate::builder::weights`].
//!
//! **Time.** A tick falls somewhere in an interval that ends with a check; which check is known if
//! there was a burst. Ticks without one are taken to be like those with one in the same region;
//! where there are none, like those in the same module. Code of modules that never had a burst is
//! left out: nothing is known about it, and its time must not be taken for that of other code.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::builder::Builder;
use crate::builder::code_map::Region;
use crate::builder::events::Event;
use crate::builder::phases::{self, PhaseId};
use crate::builder::strata::StratumPlace;
use crate::builder::time_model::Slowness;
use crate::builder::weights::Accounts;
use crate::model::ModuleId;

/// The accounts, and what is not in them.
#[derive(Debug)]
pub(in crate::builder) struct Accounting {
    pub accounts: Accounts,
    /// By stratum.
    pub phases: Vec<PhaseId>,
    pub slowness: Vec<Slowness>,
    /// Time that belongs to no stratum.
    pub unknown_ns: f64,
}

/// Which stratum checks in a region belong to.
#[derive(Debug, Default)]
struct StratumOf {
    regions: FxHashMap<Region, usize>,
    rests: FxHashMap<ModuleId, usize>,
}

/// Time of ticks in one place, with and without bursts.
#[derive(Debug, Default)]
struct PlaceTime {
    all_ns: f64,
    burst_ns: BTreeMap<usize, f64>,
}

impl Accounting {
    pub fn new(builder: &Builder) -> Accounting {
        let n_bursts = builder.strata.burst_counts();
        let (checks, n_counted) = StratumOf::new(builder).checks(builder, n_bursts.len());
        let phases = phases::find(&checks, &n_bursts);
        let slowness = builder.strata.slowness(&builder.options.times, &phases);
        let duration_ns = builder.strata.durations_ns(&slowness);
        let time_ns = vec![0.0; duration_ns.len()];
        let burst_noise = builder.strata.duration_noise();
        let model_noise = builder.options.times.stratum_noise();
        let accounts = Accounts { checks, n_counted, n_bursts, duration_ns, time_ns, burst_noise, model_noise };
        let mut accounting = Accounting { accounts, phases, slowness, unknown_ns: 0.0 };
        accounting.share_time_out(builder);
        accounting
    }

    fn share_time_out(&mut self, builder: &Builder) {
        let code = &builder.tables.known.code;
        let mut of_regions: BTreeMap<Region, PlaceTime> = BTreeMap::new();
        for (&region, time) in &builder.region_time {
            of_regions.entry(code.region_now(region)).or_default().all_ns += time.ns;
        }
        for (region, stratum, ns) in builder.strata.burst_ns() {
            let place = of_regions.entry(code.region_now(region)).or_default();
            *place.burst_ns.entry(stratum.index()).or_default() += ns;
        }
        let mut of_modules: BTreeMap<ModuleId, PlaceTime> = BTreeMap::new();
        for (region, place) in of_regions {
            let module = of_modules.entry(code.module_of(region.function)).or_default();
            for (&stratum, ns) in &place.burst_ns {
                *module.burst_ns.entry(stratum).or_default() += ns;
            }
            if !place.share_out(&mut self.accounts.time_ns) {
                module.all_ns += place.all_ns;
            }
        }
        for module in of_modules.values() {
            if !module.share_out(&mut self.accounts.time_ns) {
                self.unknown_ns += module.all_ns;
            }
        }
    }
}

impl PlaceTime {
    /// Gives strata the time as bursts suggest; `false` if there are none.
    fn share_out(&self, time_ns: &mut [f64]) -> bool {
        let total: f64 = self.burst_ns.values().sum();
        if total > 0.0 {
            for (&stratum, ns) in &self.burst_ns {
                time_ns[stratum] += self.all_ns * ns / total;
            }
        }
        total > 0.0
    }
}

impl StratumOf {
    fn new(builder: &Builder) -> StratumOf {
        let mut of = StratumOf::default();
        for (stratum, place) in builder.strata.places() {
            match place {
                StratumPlace::Region(region) => of.regions.insert(region, stratum.index()),
                StratumPlace::RestOfModule(module) => of.rests.insert(module, stratum.index()),
            };
        }
        of
    }

    /// Checks that bursts saw, by their stratum and that of the check, and how many of them count.
    /// A check in no stratum is never the first of a burst, and rare.
    fn checks(&self, builder: &Builder, n_strata: usize) -> (Vec<Vec<(usize, f64)>>, Vec<f64>) {
        let known = &builder.tables.known;
        let mut sums: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); n_strata];
        let mut n_counted = vec![0.0; n_strata];
        for (stratum, event, count) in builder.strata.counts() {
            let region = match known.events.get(event) {
                Event::Edge { to, .. } if known.back_edges.contains(&event) => {
                    known.code.block(to).and_then(|block| block.region())
                }
                Event::Entry(function) => known.code.entry_region(function),
                Event::SkippedCheck(block) => known.code.block(block).and_then(|block| block.region()),
                _ => continue,
            };
            if let Some(of_check) = region.and_then(|region| self.get(builder, region)) {
                *sums[stratum.index()].entry(of_check).or_default() += count;
                let is_skipped = matches!(known.events.get(event), Event::SkippedCheck(_));
                n_counted[stratum.index()] += if is_skipped { 0.0 } else { count };
            }
        }
        let seen = |row: BTreeMap<usize, f64>| row.into_iter().filter(|&(_, count)| count > 0.0).collect();
        (sums.into_iter().map(seen).collect(), n_counted)
    }

    fn get(&self, builder: &Builder, region: Region) -> Option<usize> {
        let rest = || self.rests.get(&builder.tables.known.code.module_of(region.function));
        self.regions.get(&region).or_else(rest).copied()
    }
}
