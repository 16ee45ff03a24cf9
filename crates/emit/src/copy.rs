//! The translated module.
//!
//! **Fix-ups.** Five kinds of places depend on where module and copy are loaded; everything else is
//! relative to the copy itself:
//! * `addresses`: displacements from the copy to the original module. They hold the target, less
//!   the image base, less the offset of the end of the instruction in the copy; what is missing is
//!   the distance of the module from the copy.
//! * `records`: block records and sites of events. They hold the cluster and the block's or
//!   instruction's address less the image base; what is missing is the distance of the image base
//!   from the start of the cluster.
//! * `cells`: offsets from `gs:` of counters. They hold the offset that the counter has in the
//!   first module.
//! * `keys`: numbers of functions that count in the path table. They hold the number within the
//!   module.
//! * literals, from `literals` to the end: addresses less the image base.

use image::{Svma, SvmaRange};
use wire::recovery::Run;

use crate::Probe;
use crate::cell::Cell;
use crate::chunk::{BlockAccesses, Original, Stretch};
use crate::events::{Events, Selection};
use crate::statistics::Statistics;

/// A translated module, independent of where it and its copy are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleCopy {
    pub(crate) base: Svma,
    pub(crate) cluster: usize,
    pub(crate) probe: Probe,
    pub(crate) events: Events,
    /// Places that note events; `None`: all.
    pub(crate) selection: Option<Selection>,
    pub(crate) code: Vec<u8>,
    /// Where the literals start.
    pub(crate) literals: u32,
    pub(crate) addresses: Vec<u32>,
    pub(crate) records: Vec<u32>,
    pub(crate) runs: Vec<Run>,
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) lengths: Vec<u8>,
    pub(crate) landings: Vec<(Original, u32)>,
    pub(crate) cells: Vec<u32>,
    pub(crate) cell_uses: Vec<Cell>,
    pub(crate) keys: Vec<u32>,
    pub(crate) accesses: Vec<BlockAccesses>,
    pub(crate) statistics: Statistics,
}

/// An original instruction and its twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Address of the original instruction, less the image base.
    pub original: u32,
    /// Offset of its twin in the copy.
    pub copy: u32,
    /// Whether it starts a block; its twin is then the probe of the block.
    pub is_leader: bool,
}

impl ModuleCopy {
    /// Bytes of code and literals, a multiple of 16.
    #[must_use]
    pub fn code_len(&self) -> usize {
        self.code.len()
    }

    /// How to get from the copy back to the original, sorted by place in the copy.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Where the literals start in the code; they end with it.
    #[must_use]
    pub fn literals(&self) -> u32 {
        self.literals
    }

    /// Stretches of instructions with twins, in the order of the copy.
    #[must_use]
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Lengths of the original instructions of all stretches, in order.
    #[must_use]
    pub fn lengths(&self) -> &[u8] {
        &self.lengths
    }

    /// The places that note events; `None`: all that can.
    #[must_use]
    pub fn selection(&self) -> Option<&Selection> {
        self.selection.as_ref()
    }

    /// The address that offsets in the copy are relative to ([`crate::image_base`]).
    #[must_use]
    pub fn base(&self) -> Svma {
        self.base
    }

    /// The cluster that the module was translated for.
    #[must_use]
    pub fn cluster(&self) -> usize {
        self.cluster
    }

    /// What its probes do.
    #[must_use]
    pub fn probe(&self) -> Probe {
        self.probe
    }

    /// What is noted beside.
    #[must_use]
    pub fn events(&self) -> Events {
        self.events
    }

    /// What the translation did.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What its counters count, in order.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cell_uses
    }

    /// Number of its counters.
    #[must_use]
    pub fn n_cells(&self) -> u32 {
        self.cell_uses.iter().map(Cell::n_cells).sum()
    }

    /// Number of its functions that count in the path table, or have contexts.
    #[must_use]
    pub fn n_keys(&self) -> u32 {
        self.cell_uses.iter().filter(|cell| cell.kind.has_key()).count() as u32
    }

    /// How often its blocks access memory, if a data cache is simulated.
    #[must_use]
    pub fn accesses(&self) -> &[BlockAccesses] {
        &self.accesses
    }

    /// The smallest range that contains all instructions with twins.
    #[must_use]
    pub fn original_range(&self) -> SvmaRange {
        let mut lengths = self.lengths.as_slice();
        let mut range: Option<(u64, u64)> = None;
        for stretch in &self.stretches {
            let (own, rest) = lengths.split_at_checked(stretch.n_insns as usize).unwrap_or((lengths, &[]));
            lengths = rest;
            let start = u64::from(stretch.original.0);
            let end = start + own.iter().map(|&len| u64::from(len)).sum::<u64>();
            range = Some(range.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
        }
        let (start, end) = range.unwrap_or_default();
        SvmaRange { start: self.base.offset(start), end: self.base.offset(end) }
    }

    /// In copies that are never left: where returns of calls lead. Pairs of the last byte of a
    /// call, less the image base, and an offset in the copy.
    pub fn landings(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.landings.iter().map(|&(Original(last_byte), copy)| (last_byte, copy))
    }

    /// All original instructions with twins, in the order of the copy.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        Entries { stretches: self.stretches.iter(), lengths: self.lengths.iter(), current: None }
    }
}

struct Entries<'a> {
    stretches: std::slice::Iter<'a, Stretch>,
    lengths: std::slice::Iter<'a, u8>,
    /// The next entry of the present stretch, and how many are left.
    current: Option<(Entry, u32)>,
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let (entry, n_left, step_from) = match self.current.take() {
            Some((entry, n_left)) => (entry, n_left, entry.copy),
            None => {
                let stretch = self.stretches.find(|stretch| stretch.n_insns > 0)?;
                let Stretch { original: Original(original), copy, record, n_insns, is_leader } = *stretch;
                (Entry { original, copy: record, is_leader }, n_insns, copy)
            }
        };
        let len = u32::from(*self.lengths.next()?);
        if n_left > 1 {
            let (original, copy) = (entry.original.saturating_add(len), step_from.saturating_add(len));
            self.current = Some((Entry { original, copy, is_leader: false }, n_left - 1));
        }
        Some(entry)
    }
}
