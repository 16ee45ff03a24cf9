//! Copies as bytes, for a cache.
//!
//! A header (magic, format, versions and numbers of everything), the arrays one after the other,
//! and a checksum of all that. Everything is little-endian. Reading checks lengths before it
//! allocates, and afterwards that all places lie inside the code, so that a copy that was read is
//! as safe to use as one that was made. It does not check that it is a *good* copy: the checksum
//! finds accidents, not forgeries.

use std::ops::Range;

use image::Svma;
use wire::recovery::Run;

use crate::Probe;
use crate::cache::Cache;
use crate::cell::{Cell, CellKind};
use crate::chunk::{BlockAccesses, Original, Stretch};
use crate::copy::ModuleCopy;
use crate::error::Error;
use crate::events::{Events, Selection};
use crate::exact::{Counting, Metric, Trigger};
use crate::statistics::{N_REASONS, SkipReason, Skipped, Statistics};

const MAGIC: u64 = u64::from_le_bytes(*b"strobeCP");
/// Changes with the format, and with any code that translation writes.
const VERSION: u64 = 19;
const HEADER_WORDS: usize = 19;
const N_COUNTERS: usize = 14;
const CHECKSUM_BYTES: usize = 8;
/// Code and literals start and end at multiples of this.
const ALIGNMENT: u64 = 16;

const RUN_BYTES: usize = size_of::<Run>();
const STRETCH_BYTES: usize = 16;
const SKIPPED_BYTES: usize = 16;
const CELL_BYTES: usize = 12;
const LANDING_BYTES: usize = 8;
const ACCESSES_BYTES: usize = 12;
const SELECTED_BYTES: usize = 8;
/// Stored number of selected places if nothing was selected from.
const ALL_PLACES: u64 = u64::MAX;
/// Probes by their stored numbers; with another metric, that is told apart.
const PROBES: [Probe; 17] = [
    Probe::None,
    Probe::Trace,
    Probe::Exact(Counting::Nothing),
    Probe::Exact(Counting::Blocks),
    Probe::Exact(Counting::Paths),
    Probe::Exact(Counting::CONTEXTS),
    Probe::Exact(Counting::CONTEXT_PATHS),
    Probe::Exact(Counting::CONTEXT_CYCLES),
    Probe::Exact(Counting::HeaderPaths),
    Probe::Exact(Counting::PATH_CYCLES),
    Probe::Exact(Counting::CONTEXT_PATH_CYCLES),
    Probe::Exact(Counting::CONTEXTS.by_call_site()),
    Probe::Exact(Counting::CONTEXT_PATHS.by_call_site()),
    Probe::Exact(Counting::CONTEXT_CYCLES.by_call_site()),
    Probe::Exact(Counting::CONTEXT_PATH_CYCLES.by_call_site()),
    Probe::Exact(Counting::SampledPaths),
    Probe::Exact(Counting::TracedPaths),
];
/// Stored number of probes that a count of checks starts; above it is which.
const TRIGGERED: u64 = PROBES.len() as u64;
/// Bits of the stored number of the probe that say what data cache is simulated.
const CACHE_SHIFT: u32 = 8;
/// Bits of the stored number of the probe that say what is noted beside.
const EVENTS_SHIFT: u32 = 32;
/// Bit of a stored stretch's number of instructions that says whether it starts a block.
const LEADER_BIT: u32 = 1 << 31;

/// Where the arrays are in a stored copy, for whoever wants to damage one in a particular place.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The code.
    pub code: Range<usize>,
    /// The literals behind it.
    pub literals: Range<usize>,
    /// Fix-ups of addresses, four bytes each.
    pub addresses: Range<usize>,
    /// Fix-ups of records, four bytes each.
    pub records: Range<usize>,
    /// Rules of recovery: [`Run`] as it lies in memory.
    pub runs: Range<usize>,
    /// Stretches, [`Layout::STRETCH_BYTES`] each.
    pub stretches: Range<usize>,
    /// Lengths of instructions, a byte each.
    pub lengths: Range<usize>,
    /// Fix-ups of cells, four bytes each.
    pub cells: Range<usize>,
    /// Fix-ups of keys, four bytes each.
    pub keys: Range<usize>,
    /// What the cells are for, [`Layout::CELL_BYTES`] each.
    pub cell_uses: Range<usize>,
    /// Landings, [`Layout::LANDING_BYTES`] each.
    pub landings: Range<usize>,
}

impl Layout {
    /// Bytes of a stretch: original, copy, record, and number of instructions with
    /// [`Layout::LEADER_BIT`].
    pub const STRETCH_BYTES: usize = STRETCH_BYTES;
    /// Says in the number of instructions of a stretch that it starts a block.
    pub const LEADER_BIT: u32 = LEADER_BIT;
    /// Bytes of a cell: kind, address, and where an edge leads.
    pub const CELL_BYTES: usize = CELL_BYTES;
    /// Bytes of a landing.
    pub const LANDING_BYTES: usize = LANDING_BYTES;
}

impl ModuleCopy {
    /// The copy as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_with_layout().0
    }

    /// The copy as bytes, and what is where in them.
    #[must_use]
    pub fn to_bytes_with_layout(&self) -> (Vec<u8>, Layout) {
        let Statistics { skipped, .. } = &self.statistics;
        let mut out = Writer(Vec::with_capacity(self.stored_len()));
        let header: [u64; HEADER_WORDS] = [
            MAGIC,
            VERSION << 32 | u64::from(wire::VERSION),
            self.base.0,
            self.cluster as u64,
            probe_number(self.probe) | u64::from(self.events.bits()) << EVENTS_SHIFT,
            u64::from(self.literals),
            self.code.len() as u64,
            self.addresses.len() as u64,
            self.records.len() as u64,
            self.runs.len() as u64,
            self.stretches.len() as u64,
            self.lengths.len() as u64,
            skipped.len() as u64,
            self.cells.len() as u64,
            self.cell_uses.len() as u64,
            self.keys.len() as u64,
            self.landings.len() as u64,
            self.accesses.len() as u64,
            self.selection.as_ref().map_or(ALL_PLACES, |selection| selection.pairs().len() as u64),
        ];
        out.words(&header);
        out.words(&counters(&self.statistics));
        out.words(&self.statistics.leaving);
        let code = out.part(|out| out.0.extend_from_slice(&self.code));
        let addresses = out.part(|out| out.dwords(&self.addresses));
        let records = out.part(|out| out.dwords(&self.records));
        let runs = out.part(|out| self.runs.iter().for_each(|run| out.run(run)));
        let stretches = out.part(|out| self.stretches.iter().for_each(|stretch| out.stretch(stretch)));
        let lengths = out.part(|out| out.0.extend_from_slice(&self.lengths));
        for each in skipped {
            out.words(&[each.entry.0, each.reason as u64]);
        }
        let cells = out.part(|out| out.dwords(&self.cells));
        let keys = out.part(|out| out.dwords(&self.keys));
        let cell_uses = out.part(|out| {
            self.cell_uses.iter().for_each(|cell| out.dwords(&[cell.kind as u32, cell.at, cell.to]));
        });
        let landings = out.part(|out| {
            self.landings.iter().for_each(|&(Original(last_byte), place)| out.dwords(&[last_byte, place]));
        });
        for each in &self.accesses {
            out.dwords(&[each.at, each.simulated, each.not_simulated]);
        }
        let selected = self.selection.iter().flat_map(Selection::pairs);
        selected.flatten().for_each(|value| out.dword(value));
        let checksum = checksum(&out.0);
        out.words(&[checksum]);
        debug_assert_eq!(out.0.len(), self.stored_len());
        let literals = code.start + self.literals as usize..code.end;
        let code = code.start..literals.start;
        let layout =
            Layout { code, literals, addresses, records, runs, stretches, lengths, cells, keys, cell_uses, landings };
        (out.0, layout)
    }

    /// Reads what [`ModuleCopy::to_bytes`] has written.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<ModuleCopy, Error> {
        let (content, stored) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(Error::Truncated)?;
        let mut input = Reader(content);
        let [magic, version, base, cluster, probe, literals, lens @ ..] = input.words::<HEADER_WORDS>()?;
        if magic != MAGIC || version != VERSION << 32 | u64::from(wire::VERSION) {
            return Err(Error::NotACopy);
        }
        if checksum(content) != u64::from_le_bytes(*stored) {
            return Err(Error::Checksum);
        }
        let mut statistics = statistics(input.words()?);
        statistics.leaving = input.words::<N_REASONS>()?;
        let [
            n_code,
            n_addresses,
            n_records,
            n_runs,
            n_stretches,
            n_lengths,
            n_skipped,
            n_cells,
            n_uses,
            n_keys,
            n_landings,
            n_accesses,
            n_selected,
        ] = lens;
        let copy = ModuleCopy {
            base: Svma(base),
            cluster: usize::try_from(cluster).map_err(|_| Error::Inconsistent)?,
            probe: numbered_probe(probe as u32).ok_or(Error::Inconsistent)?,
            events: Events::from_bits((probe >> EVENTS_SHIFT) as u32).ok_or(Error::Inconsistent)?,
            literals: u32::try_from(literals).map_err(|_| Error::Inconsistent)?,
            code: input.take(n_code, 1)?.to_vec(),
            addresses: input.dwords(n_addresses)?,
            records: input.dwords(n_records)?,
            runs: input.items::<RUN_BYTES, Run>(n_runs, run)?,
            stretches: input.items::<STRETCH_BYTES, Stretch>(n_stretches, stretch)?,
            lengths: input.take(n_lengths, 1)?.to_vec(),
            statistics: {
                statistics.skipped = input.items::<SKIPPED_BYTES, _>(n_skipped, skipped)?;
                statistics
            },
            cells: input.dwords(n_cells)?,
            keys: input.dwords(n_keys)?,
            cell_uses: input.items::<CELL_BYTES, _>(n_uses, cell)?,
            landings: input.items::<LANDING_BYTES, _>(n_landings, landing)?,
            accesses: input.items::<ACCESSES_BYTES, _>(n_accesses, accesses)?,
            selection: match n_selected {
                ALL_PLACES => None,
                n_selected => Some(selection(input.items::<SELECTED_BYTES, _>(n_selected, pair)?)?),
            },
        };
        if input.0.is_empty() && is_consistent(&copy) { Ok(copy) } else { Err(Error::Inconsistent) }
    }
}

impl ModuleCopy {
    /// Bytes that [`ModuleCopy::to_bytes`] writes.
    fn stored_len(&self) -> usize {
        (HEADER_WORDS + N_COUNTERS + N_REASONS) * 8
            + self.code.len()
            + (self.addresses.len() + self.records.len()) * 4
            + self.runs.len() * RUN_BYTES
            + self.stretches.len() * STRETCH_BYTES
            + self.lengths.len()
            + self.statistics.skipped.len() * SKIPPED_BYTES
            + (self.cells.len() + self.keys.len()) * 4
            + self.cell_uses.len() * CELL_BYTES
            + self.landings.len() * LANDING_BYTES
            + self.accesses.len() * ACCESSES_BYTES
            + self.selection.as_ref().map_or(0, |selection| selection.pairs().len() * SELECTED_BYTES)
            + CHECKSUM_BYTES
    }
}

/// Whether everything that names a place in the copy names one that exists.
fn is_consistent(copy: &ModuleCopy) -> bool {
    let len = copy.code.len() as u64;
    let in_code = |place: u32, n_bytes: u64| u64::from(place) + n_bytes <= len;
    let n_insns: u64 = copy.stretches.iter().map(|stretch| u64::from(stretch.n_insns)).sum();
    len < crate::chunk::REACH
        && len.is_multiple_of(ALIGNMENT)
        && u64::from(copy.literals).is_multiple_of(ALIGNMENT)
        && copy.cluster < wire::clusters::N_CLUSTERS
        && in_code(copy.literals, 0)
        && copy
            .addresses
            .iter()
            .chain(&copy.records)
            .chain(&copy.cells)
            .chain(&copy.keys)
            .all(|&place| in_code(place, 4))
        && copy.runs.is_sorted_by_key(|run| run.copy)
        && copy.runs.iter().all(|run| in_code(run.copy, 1))
        && copy.stretches.iter().all(|stretch| in_code(stretch.copy, 0) && in_code(stretch.record, 0))
        && copy.landings.iter().all(|&(_, place)| in_code(place, 1))
        && n_insns == copy.lengths.len() as u64
}

fn counters(statistics: &Statistics) -> [u64; N_COUNTERS] {
    [
        statistics.functions,
        statistics.blocks,
        statistics.instructions,
        statistics.original_bytes,
        statistics.bytes,
        statistics.checks,
        statistics.probes_dead_register,
        statistics.probes_spilled,
        statistics.probes_flags_saved,
        statistics.events,
        statistics.loads_not_noted,
        statistics.branches_not_noted,
        statistics.accesses,
        statistics.accesses_not_simulated,
    ]
}

fn statistics(counters: [u64; N_COUNTERS]) -> Statistics {
    let [
        functions,
        blocks,
        instructions,
        original_bytes,
        bytes,
        checks,
        probes_dead_register,
        probes_spilled,
        probes_flags_saved,
        events,
        loads_not_noted,
        branches_not_noted,
        accesses,
        accesses_not_simulated,
    ] = counters;
    Statistics {
        functions,
        blocks,
        instructions,
        original_bytes,
        bytes,
        checks,
        probes_dead_register,
        probes_spilled,
        probes_flags_saved,
        events,
        loads_not_noted,
        branches_not_noted,
        accesses,
        accesses_not_simulated,
        ..Statistics::default()
    }
}

struct Writer(Vec<u8>);

impl Writer {
    /// Where in the bytes is what `write` appends.
    fn part(&mut self, write: impl FnOnce(&mut Writer)) -> Range<usize> {
        let start = self.0.len();
        write(self);
        start..self.0.len()
    }

    fn words(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.0.extend_from_slice(&word.to_le_bytes()));
    }

    fn dword(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn dwords(&mut self, values: &[u32]) {
        values.iter().for_each(|&value| self.dword(value));
    }

    fn run(&mut self, run: &Run) {
        let Run { copy, original, kind, saves, save_end, writes, reserved } = *run;
        self.dword(copy);
        self.dword(original);
        self.0.extend_from_slice(&[kind, saves]);
        self.0.extend_from_slice(&save_end);
        self.0.extend_from_slice(&[writes, reserved]);
    }

    fn stretch(&mut self, stretch: &Stretch) {
        let Stretch { original: Original(original), copy, record, n_insns, is_leader } = *stretch;
        let leader = if is_leader { LEADER_BIT } else { 0 };
        self.dwords(&[original, copy, record, n_insns | leader]);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n_items: u64, item_bytes: usize) -> Result<&'a [u8], Error> {
        let len = usize::try_from(n_items).ok().and_then(|n| n.checked_mul(item_bytes)).ok_or(Error::Truncated)?;
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn words<const N: usize>(&mut self) -> Result<[u64; N], Error> {
        let mut words = [0; N];
        let taken = self.take(N as u64, 8)?;
        for (word, bytes) in words.iter_mut().zip(taken.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Ok(words)
    }

    fn dwords(&mut self, n_items: u64) -> Result<Vec<u32>, Error> {
        Ok(self.take(n_items, 4)?.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    fn items<const N: usize, T>(
        &mut self,
        n_items: u64,
        read: impl Fn(&[u8; N]) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.take(n_items, N)?.as_chunks::<N>().0.iter().map(read).collect()
    }
}

fn dwords_of(bytes: &[u8; 16]) -> [u32; 4] {
    let mut dwords = [0; 4];
    for (dword, bytes) in dwords.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *dword = u32::from_le_bytes(*bytes);
    }
    dwords
}

fn run(bytes: &[u8; RUN_BYTES]) -> Result<Run, Error> {
    let [copy, original, ..] = dwords_of(bytes);
    let [.., kind, saves, end_0, end_1, end_2, end_3, writes, reserved] = *bytes;
    let save_end = [end_0, end_1, end_2, end_3];
    Ok(Run { copy, original, kind, saves, save_end, writes, reserved })
}

fn stretch(bytes: &[u8; STRETCH_BYTES]) -> Result<Stretch, Error> {
    let [original, copy, record, n_insns] = dwords_of(bytes);
    let is_leader = n_insns & LEADER_BIT != 0;
    Ok(Stretch { original: Original(original), copy, record, n_insns: n_insns & !LEADER_BIT, is_leader })
}

fn skipped(bytes: &[u8; SKIPPED_BYTES]) -> Result<Skipped, Error> {
    let [entry_low, entry_high, reason, rest] = dwords_of(bytes);
    let entry = Svma(u64::from(entry_high) << 32 | u64::from(entry_low));
    let reason = u8::try_from(reason).ok().filter(|_| rest == 0).and_then(SkipReason::from_u8);
    Ok(Skipped { entry, reason: reason.ok_or(Error::Inconsistent)? })
}

fn three_dwords_of(bytes: &[u8; 12]) -> [u32; 3] {
    [0, 4, 8].map(|start| {
        let field = bytes[start..].first_chunk::<4>().copied().unwrap_or_default();
        u32::from_le_bytes(field)
    })
}

fn accesses(bytes: &[u8; ACCESSES_BYTES]) -> Result<BlockAccesses, Error> {
    let [at, simulated, not_simulated] = three_dwords_of(bytes);
    Ok(BlockAccesses { at, simulated, not_simulated })
}

fn cell(bytes: &[u8; CELL_BYTES]) -> Result<Cell, Error> {
    let [kind, at, to] = three_dwords_of(bytes);
    let kind = u8::try_from(kind).ok().and_then(CellKind::from_u8).ok_or(Error::Inconsistent)?;
    Ok(Cell { kind, at, to })
}

fn pair(bytes: &[u8; 8]) -> Result<[u32; 2], Error> {
    let both = u64::from_le_bytes(*bytes);
    Ok([both as u32, (both >> 32) as u32])
}

fn landing(bytes: &[u8; LANDING_BYTES]) -> Result<(Original, u32), Error> {
    pair(bytes).map(|[last_byte, place]| (Original(last_byte), place))
}

fn selection(pairs: Vec<[u32; 2]>) -> Result<Selection, Error> {
    Selection::from_pairs(pairs.into_iter()).ok_or(Error::Inconsistent)
}

fn probe_number(probe: Probe) -> u64 {
    if let Some(number) = probe.trigger().and_then(Trigger::number) {
        return TRIGGERED | u64::from(number) << CACHE_SHIFT;
    }
    let plain = match probe {
        Probe::Exact(counting) => Probe::Exact(counting.with_metric(Metric::Cycles)),
        Probe::Trace | Probe::None => probe,
    };
    let number = PROBES.iter().position(|&each| each == plain).unwrap_or_default() as u64;
    number | probe.cache().map_or(0, |cache| u64::from(cache.bits()) << CACHE_SHIFT)
}

fn numbered_probe(number: u32) -> Option<Probe> {
    if u64::from(number) & ((1 << CACHE_SHIFT) - 1) == TRIGGERED {
        return Trigger::numbered(number >> CACHE_SHIFT).map(|trigger| Probe::Exact(Counting::Triggered(trigger)));
    }
    let plain = PROBES.get(number as usize & ((1 << CACHE_SHIFT) - 1)).copied()?;
    match (plain, number >> CACHE_SHIFT) {
        (plain, 0) => Some(plain),
        (Probe::Exact(counting), bits) => {
            counting.metric()?;
            Some(Probe::Exact(counting.with_metric(Metric::Misses(Cache::from_bits(bits)?))))
        }
        _ => None,
    }
}

/// Mixes words by multiplication; any single changed bit changes the sum.
fn checksum(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, &byte| mix(sum, u64::from(byte)))
}
