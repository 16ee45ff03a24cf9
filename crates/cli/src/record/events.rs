//! What loads loaded: from messages of processes to rows of the profile.
//!
//! Messages are added up by site and value. Values that come when the table is full are only counted for their site, so that what is kept is right
//! for all that it holds, and totals are right in any case.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use attach::EventCounters;
use profile::Estimate;
use profile::model::{LoadedValue, ModuleId};
use rustc_hash::FxHashMap;
use wire::events::Event;

use crate::record::layout::Layout;
use crate::record::process::Watched;

/// Different values, of all sites of a process together, that are told apart.
const MAX_TUPLES: usize = 4 << 20;
/// Values of a site that a profile keeps, the most frequent ones.
const N_KEPT: usize = 8;

/// Events that messages stood for, and the number of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    weight: u64,
    n_messages: u64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.weight = self.weight.saturating_add(other.weight);
        self.n_messages = self.n_messages.saturating_add(other.n_messages);
    }

    /// A message that stands for `k` events is as good as a sample of one in `k`; stratified ones are better than that.
    fn estimate(self) -> Estimate {
        let mean_weight = self.weight as f64 / self.n_messages.max(1) as f64;
        let variance = self.weight as f64 * (mean_weight - 1.0).max(0.0);
        Estimate { value: self.weight as f64, variance, seen: self.n_messages }
    }
}

/// What the messages of one process say.
#[derive(Debug, Default)]
pub struct Messages {
    tuples: FxHashMap<(u32, u64), Sum>,
    /// What found the table full.
    rest: FxHashMap<u32, Sum>,
}

impl Messages {
    pub fn take(&mut self, messages: &[Event]) {
        for message in messages {
            let sum = Sum { weight: message.weight.into(), n_messages: 1 };
            let key = (message.site, message.value);
            if let Some(known) = self.tuples.get_mut(&key) {
                known.add(sum);
            } else if self.tuples.len() < MAX_TUPLES {
                self.tuples.insert(key, sum);
            } else {
                self.rest.entry(message.site).or_default().add(sum);
            }
        }
    }
}

/// A file of values, in the order in which they were loaded, as far as that is known of threads.
#[derive(Debug)]
pub struct ValueStream {
    file: BufWriter<File>,
    /// Why it is not complete.
    pub error: Option<String>,
}

impl ValueStream {
    pub fn create(path: &Path) -> Result<ValueStream> {
        let file = File::create(path).with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(ValueStream { file: BufWriter::with_capacity(1 << 18, file), error: None })
    }

    pub fn take(&mut self, layout: &Layout, messages: &[Event]) {
        if self.error.is_some() {
            return;
        }
        let written = messages.iter().try_for_each(|message| {
            let pair = [layout.record_address(message.site), message.value].map(u64::to_le_bytes);
            self.file.write_all(pair.as_flattened())
        });
        self.error = written.err().map(|error| error.to_string());
    }

    pub fn close(&mut self) {
        if let Err(error) = self.file.flush() {
            self.error.get_or_insert(error.to_string());
        }
    }
}

/// What all processes have loaded that have ended.
#[derive(Debug, Default)]
pub struct Totals {
    sites: BTreeMap<(ModuleId, u64), Site>,
    pub counters: Counters,
}

#[derive(Debug, Default)]
struct Site {
    all: Sum,
    values: HashMap<u64, Sum>,
}

/// How events went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Events that happened.
    pub n_events: u64,
    pub n_messages: u64,
    /// Events that messages stood for.
    pub weight: u64,
    pub n_waits: u64,
    pub n_lost: u64,
    /// Events of modules that are not known any more.
    pub n_foreign: u64,
}

impl Totals {
    /// Adds what a process that has ended has sent; `n_salvaged` events were still in its buffers.
    pub fn take(&mut self, watched: &mut Watched, n_salvaged: u64) {
        let EventCounters { taken, sent, waits, lost, .. } = watched.process.event_counters();
        self.counters.n_events += taken + n_salvaged;
        self.counters.n_messages += sent + n_salvaged;
        self.counters.n_waits += waits;
        self.counters.n_lost += lost;
        let Messages { tuples, rest } = std::mem::take(&mut watched.events);
        let known = tuples.into_iter().map(|((site, value), sum)| (site, Some(value), sum));
        let mut places: FxHashMap<u32, Option<(ModuleId, u64)>> = FxHashMap::default();
        for (site, value, sum) in known.chain(rest.into_iter().map(|(site, sum)| (site, None, sum))) {
            self.counters.weight += sum.weight;
            let place = *places.entry(site).or_insert_with(|| watched.place_of_record(site));
            let Some(place) = place else {
                self.counters.n_foreign += sum.weight;
                continue;
            };
            let site = self.sites.entry(place).or_default();
            site.all.add(sum);
            if let Some(value) = value {
                site.values.entry(value).or_default().add(sum);
            }
        }
    }

    /// The rows of one module, which has another number in the profile.
    pub fn rows(&self, module: ModuleId, in_profile: ModuleId) -> Vec<LoadedValue> {
        let mut rows = Vec::new();
        for (&(_, address), site) in self.sites.range((module, 0)..=(module, u64::MAX)) {
            let mut row = |value: Option<u64>, sum: Sum| {
                rows.push(LoadedValue { module: in_profile, address, value, count: sum.estimate() });
            };
            row(None, site.all);
            let mut values: Vec<(u64, Sum)> = site.values.iter().map(|(&value, &sum)| (value, sum)).collect();
            values.sort_by_key(|&(value, sum)| (std::cmp::Reverse(sum.weight), value));
            values.into_iter().take(N_KEPT).for_each(|(value, sum)| row(Some(value), sum));
        }
        rows
    }

    pub fn n_sites(&self) -> usize {
        self.sites.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_add_up() {
        let event = |value: u64, site: u32, weight: u32| Event { value, site, weight };
        let mut messages = Messages::default();
        messages.take(&[event(7, 1, 256), event(7, 1, 256), event(8, 1, 1), event(7, 2, 1)]);
        assert_eq!(messages.tuples[&(1, 7)], Sum { weight: 512, n_messages: 2 });
        assert_eq!(messages.tuples.len(), 3);
    }

    #[test]
    fn events_that_were_all_sent_are_exact() {
        assert_eq!(Sum { weight: 5, n_messages: 5 }.estimate(), Estimate::exact(5));
        assert!(Sum { weight: 512, n_messages: 2 }.estimate().variance > 0.0);
    }
}
