//! Noted values: turns the messages of processes into rows of the profile.
//!
//! Messages are added up by site, kind and value. Values that come when the table is full are only
//! counted for their site, so that what is kept is right for all that it holds, and totals are
//! right in any case.

pub mod converge;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use attach::EventCounters;
use profile::Estimate;
use profile::model::{ModuleId, NotedValue, ValueKind};
use rustc_hash::FxHashMap;
use wire::events::{Event, Kind};

use self::converge::{Converged, Converging};
use crate::error::{Error, Result};
use crate::plan::Noting;
use crate::process::Watched;
use crate::process::layout::Layout;

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

    /// A pick that stands for `k` events is as good as a sample of one in `k`; stratified ones are
    /// better than that. A message can be several picks, added up, which its weight tells if it is
    /// known what one stands for.
    fn estimate(self, events_per_pick: Option<u64>) -> Estimate {
        let n_picks = events_per_pick.map_or(0, |each| self.weight / each.max(1)).max(self.n_messages).max(1);
        let mean_weight = self.weight as f64 / n_picks as f64;
        let variance = self.weight as f64 * (mean_weight - 1.0).max(0.0);
        Estimate { value: self.weight as f64, variance, seen: n_picks }
    }
}

/// What is noted at a place ([`Event::place`]), and the instruction as messages name it. A kind
/// that does not exist is the target's mistake; its events stay in the totals.
fn site_of(place: u64) -> (u32, ValueKind) {
    let event = Event { value: 0, site: place as u32, tag: (place >> 32) as u32 };
    (event.site, kind_of(event).unwrap_or_default())
}

fn kind_of(event: Event) -> Option<ValueKind> {
    Some(match event.kind()? {
        Kind::Load => ValueKind::Load,
        Kind::Address => ValueKind::Address,
        Kind::CallTarget => ValueKind::CallTarget,
        Kind::JumpTarget => ValueKind::JumpTarget,
        Kind::MethodTable => ValueKind::MethodTable,
        Kind::BranchTarget => ValueKind::BranchTarget,
        Kind::Argument(index) => ValueKind::Argument(index),
    })
}

/// The messages of one process, added up.
#[derive(Debug, Default)]
pub struct Messages {
    /// By place and value.
    tuples: FxHashMap<(u64, u64), Sum>,
    /// What found the table full, by place.
    rest: FxHashMap<u64, Sum>,
    /// Events that all of them stood for.
    pub weight: u64,
}

impl Messages {
    pub fn take(&mut self, messages: &[Event]) {
        for message in messages {
            let sum = Sum { weight: message.weight().into(), n_messages: 1 };
            self.weight += sum.weight;
            let key = (message.place(), message.value);
            if let Some(known) = self.tuples.get_mut(&key) {
                known.add(sum);
            } else if self.tuples.len() < MAX_TUPLES {
                self.tuples.insert(key, sum);
            } else {
                self.rest.entry(key.0).or_default().add(sum);
            }
        }
    }

    /// Places, values, and how many events told of both.
    pub fn tuples(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.tuples.iter().map(|(&(place, value), sum)| (place, value, sum.weight))
    }
}

/// Where the number of the kind is in the address of an event of a stream.
const STREAM_KIND_SHIFT: u32 = 60;

/// A file of values, in the order in which each thread loaded them.
#[derive(Debug)]
pub struct ValueStream {
    file: BufWriter<File>,
    /// Why it is not complete.
    pub error: Option<String>,
}

impl ValueStream {
    pub fn create(path: &Path) -> Result<ValueStream> {
        let file = File::create(path).map_err(Error::io(format!("{}: cannot be written", path.display())))?;
        Ok(ValueStream { file: BufWriter::with_capacity(1 << 18, file), error: None })
    }

    pub fn take(&mut self, layout: &Layout, messages: &[Event]) {
        if self.error.is_some() {
            return;
        }
        let written = messages.iter().try_for_each(|message| {
            let kind = message.kind().map_or(0, |kind| u64::from(kind.number()));
            let place = layout.record_address(message.site) | kind << STREAM_KIND_SHIFT;
            let pair = [place, message.value].map(u64::to_le_bytes);
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

/// The noted values of one process.
#[derive(Debug)]
pub struct ProcessNotes {
    messages: Messages,
    /// If noting is to end when they are known.
    converging: Option<Converging>,
}

impl ProcessNotes {
    /// Returns the notes of a process that has just joined.
    pub fn new(noting: &Noting) -> ProcessNotes {
        ProcessNotes { messages: Messages::default(), converging: noting.tolerance.map(Converging::new) }
    }

    /// Takes the values that have arrived.
    pub fn drain(&mut self, of: &Watched, stream: Option<&mut ValueStream>) {
        of.process.drain_events(&mut sink(&of.layout, &mut self.messages, stream));
        if let Some(converging) = &mut self.converging {
            converging.look(&of.process, &self.messages);
        }
    }

    /// Adds all to the totals, with what was not sent before the process ended.
    pub fn conclude(mut self, of: &Watched, mut stream: Option<&mut ValueStream>, totals: &mut Totals) {
        self.drain(of, stream.as_deref_mut());
        let n_salvaged = of.process.salvage_events(&mut sink(&of.layout, &mut self.messages, stream));
        totals.take(of, self, n_salvaged);
    }
}

/// Returns what messages go to: a file, or the table of a process.
fn sink<'a>(
    layout: &'a Layout,
    table: &'a mut Messages,
    mut stream: Option<&'a mut ValueStream>,
) -> impl FnMut(&[Event]) + 'a {
    move |messages| match &mut stream {
        Some(stream) => stream.take(layout, messages),
        None => table.take(messages),
    }
}

/// The noted values of all processes that have ended.
#[derive(Debug, Default)]
pub struct Totals {
    sites: BTreeMap<(ModuleId, u64, ValueKind), Values>,
    pub counters: Counters,
    /// What one pick of the compressor stands for, if that is known.
    events_per_pick: Option<u64>,
    /// Of each process, how its profile became stable.
    pub converging: Vec<Converging>,
}

/// The values of a site; places in modules by their addresses in the file.
#[derive(Debug, Default)]
struct Values {
    all: Sum,
    values: HashMap<(Option<ModuleId>, u64), Sum>,
}

/// What became of noted values.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Events that happened.
    pub n_events: u64,
    pub n_messages: u64,
    /// Events that messages stood for.
    pub weight: u64,
    pub n_waits: u64,
    pub n_lost: u64,
    /// Events that were not wanted any more.
    pub n_passed_over: u64,
    /// Events of modules that are not known any more.
    pub n_foreign: u64,
    /// Events that compressors had taken when they were drained and no message stood for.
    pub residue: i64,
}

impl Totals {
    /// Returns empty totals for values that go through this compressor.
    pub fn new(compressor: &str) -> Totals {
        let expression = compressor.parse::<sampling::Expression>();
        let events_per_pick = expression.map_or(Some(1), |expression| expression.events_per_pick());
        Totals { events_per_pick, ..Totals::default() }
    }

    /// Adds what a process that has ended has sent; `n_salvaged` events were still in its buffers.
    fn take(&mut self, watched: &Watched, notes: ProcessNotes, n_salvaged: u64) {
        let EventCounters { taken, passed_over, sent, waits, lost, residue, .. } = watched.process.event_counters();
        self.counters.n_events += taken + n_salvaged;
        self.counters.n_passed_over += passed_over;
        self.converging.extend(notes.converging);
        self.counters.n_messages += sent + n_salvaged;
        self.counters.n_waits += waits;
        self.counters.n_lost += lost;
        self.counters.residue += residue;
        let Messages { tuples, rest, .. } = notes.messages;
        let known = tuples.into_iter().map(|((place, value), sum)| (place, Some(value), sum));
        let mut places: FxHashMap<u32, Option<(ModuleId, u64)>> = FxHashMap::default();
        for (place, value, sum) in known.chain(rest.into_iter().map(|(place, sum)| (place, None, sum))) {
            let (site, kind) = site_of(place);
            self.counters.weight += sum.weight;
            let place = *places.entry(site).or_insert_with(|| watched.place_of_record(site));
            let Some((module, address)) = place else {
                self.counters.n_foreign += sum.weight;
                continue;
            };
            let site = self.sites.entry((module, address, kind)).or_default();
            site.all.add(sum);
            if let Some(value) = value {
                site.values.entry(watched.place_of_value(kind, value)).or_default().add(sum);
            }
        }
    }

    /// The rows of all modules that the profile has, under their numbers there.
    pub fn rows(&self, in_profile: &HashMap<ModuleId, ModuleId>) -> Vec<NotedValue> {
        let mut rows = Vec::new();
        for (&(module, address, kind), site) in &self.sites {
            let Some(&module) = in_profile.get(&module) else { continue };
            let row = |value: Option<u64>, value_module: Option<ModuleId>, sum: Sum| {
                let count = sum.estimate(self.events_per_pick);
                NotedValue { module, address, kind, value, value_module, count }
            };
            rows.push(row(None, None, site.all));
            let mut values: Vec<_> = site.values.iter().map(|(&place, &sum)| (place, sum)).collect();
            values.sort_by_key(|&(place, sum)| (std::cmp::Reverse(sum.weight), place));
            rows.extend(values.into_iter().take(N_KEPT).map(|((module, value), sum)| {
                row(Some(value), module.and_then(|module| in_profile.get(&module).copied()), sum)
            }));
        }
        rows
    }

    /// Returns how the profiles of processes became known.
    pub fn converged(&self) -> Vec<Converged> {
        self.converging.iter().map(Converging::outcome).collect()
    }

    /// Returns the number of instructions that noted anything.
    pub fn n_sites(&self) -> usize {
        self.sites.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_add_up() {
        let event = |value: u64, site: u32, weight: u32| Event { value, site, tag: weight };
        let call = Event { value: 7, site: 1, tag: Kind::CallTarget.tag() | 3 };
        let mut messages = Messages::default();
        messages.take(&[event(7, 1, 256), event(7, 1, 256), event(8, 1, 1), event(7, 2, 1), call]);
        assert_eq!(messages.tuples[&(event(7, 1, 0).place(), 7)], Sum { weight: 512, n_messages: 2 });
        assert_eq!(messages.tuples[&(call.place(), 7)], Sum { weight: 3, n_messages: 1 });
        assert_eq!((messages.tuples.len(), messages.weight), (4, 512 + 1 + 1 + 3));
        assert_eq!(site_of(call.place()), (1, ValueKind::CallTarget));
    }

    #[test]
    fn events_that_were_all_sent_are_exact() {
        assert_eq!(Sum { weight: 5, n_messages: 5 }.estimate(None), Estimate::exact(5));
        let added_up = Sum { weight: 5, n_messages: 2 };
        assert_eq!(added_up.estimate(Some(1)), Estimate::exact(5));
        assert!(added_up.estimate(None).variance > 0.0);
    }

    #[test]
    fn picks_that_a_table_has_added_up_count_each() {
        let one_by_one = Sum { weight: 2560, n_messages: 10 };
        let added_up = Sum { weight: 2560, n_messages: 1 };
        assert_eq!(added_up.estimate(Some(256)), one_by_one.estimate(Some(256)));
        assert!(added_up.estimate(None).variance > added_up.estimate(Some(256)).variance);
    }

    #[test]
    fn the_compressor_says_what_a_pick_stands_for() {
        let per_pick = |text| Totals::new(text).events_per_pick;
        assert_eq!(["", "H[P256]2048", "H[P64]512 A16", "A16", "R128"].map(per_pick), [1, 256, 64, 1, 128].map(Some));
        assert_eq!(per_pick("SS64"), None);
    }
}
