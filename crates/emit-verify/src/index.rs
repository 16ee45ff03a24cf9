//! Twins by original address, and the runs.

use std::cell::{Cell, OnceCell};

use emit::{ModuleCopy, Original};
use image::Svma;
use rustc_hash::FxHashMap;
use wire::recovery::{Run, kind};

use super::module::{Module, REACH};
use super::{Fault, SAMPLE, VerifyError};

/// A copy, placed, with its tables ready for questions.
#[derive(Debug)]
pub(super) struct Index<'a> {
    pub copy: &'a ModuleCopy,
    pub code: &'a [u8],
    leaders: FxHashMap<Original, Leader>,
    landings: FxHashMap<Original, u32>,
    /// The run that was asked for last: most questions are about it or the next.
    last_run: Cell<usize>,
    /// Where the stub is that accesses memory, when that is known.
    access_stub: OnceCell<Option<u32>>,
}

/// The copy of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leader {
    /// Where its probe is.
    pub record: u32,
    /// Where its first instruction is.
    pub body: u32,
    /// Its first stretch.
    pub stretch: u32,
    /// Where the lengths of the stretch start.
    pub lengths: u32,
}

impl<'a> Index<'a> {
    pub fn new(module: &Module<'_, '_>, copy: &'a ModuleCopy, code: &'a [u8]) -> Result<Index<'a>, VerifyError> {
        let error = |original: u32, fault| VerifyError { at: module.base.offset(u64::from(original)), fault };
        let last = copy.original_range().end - module.base;
        let mut seen = vec![0u64; (last.min(REACH) / 64) as usize + 1];
        for entry in copy.entries() {
            let word = seen.get_mut(entry.original as usize / 64).ok_or(error(entry.original, Fault::StrayTwin))?;
            let bit = 1 << (entry.original % 64);
            if std::mem::replace(word, *word | bit) & bit != 0 {
                return Err(error(entry.original, Fault::TwoTwins));
            }
        }
        let landings: FxHashMap<Original, u32> = copy.landings().map(|(last, place)| (Original(last), place)).collect();
        if let Some((last_byte, _)) = copy.landings().find(|_| landings.len() != copy.landings().count()) {
            return Err(error(last_byte, Fault::TwoTwins));
        }
        let mut leaders = FxHashMap::default();
        let mut lengths = 0;
        for (index, stretch) in copy.stretches().iter().enumerate() {
            if stretch.is_leader {
                let leader = Leader { record: stretch.record, body: stretch.copy, stretch: index as u32, lengths };
                leaders.insert(stretch.original, leader);
            }
            lengths += stretch.n_insns;
        }
        let starts_at_zero = copy.runs().first().is_some_and(|run| run.copy == 0);
        let is_sorted = copy.runs().is_sorted_by(|a, b| a.copy < b.copy);
        if starts_at_zero && is_sorted && lengths as usize == copy.lengths().len() {
            Ok(Index { copy, code, leaders, landings, last_run: Cell::new(0), access_stub: OnceCell::new() })
        } else {
            Err(error(0, Fault::Runs))
        }
    }

    pub fn leader(&self, original: Original) -> Option<Leader> {
        self.leaders.get(&original).copied()
    }

    pub fn n_leaders(&self) -> usize {
        self.leaders.len()
    }

    /// Where the return of the call leads whose return address this is.
    pub fn landing(&self, next: Original) -> Option<u32> {
        self.landings.get(&Original(next.0.checked_sub(1)?)).copied()
    }

    /// Where the stub is that accesses memory: what was found the first time.
    pub fn access_stub(&self, find: impl FnOnce() -> Option<u32>) -> Option<u32> {
        *self.access_stub.get_or_init(find)
    }

    /// The rule for an address in the copy.
    pub fn run(&self, at: u32) -> Option<&'a Run> {
        let runs = self.copy.runs();
        let is_in = |&index: &usize| {
            runs.get(index).is_some_and(|run| run.copy <= at) && runs.get(index + 1).is_none_or(|next| at < next.copy)
        };
        let last = self.last_run.get();
        let near = [last, last + 1].into_iter().find(is_in);
        let index = near.or_else(|| runs.partition_point(|run| run.copy <= at).checked_sub(1))?;
        self.last_run.set(index);
        runs.get(index)
    }

    /// Whether a byte may be there that nothing leads to.
    pub fn is_padding(&self, at: u32) -> bool {
        self.run(at).is_some_and(|run| run.kind == kind::NEVER) && self.code.get(at as usize) == Some(&0xcc)
    }

    /// The original address that a literal holds.
    pub fn literal(&self, at: u32) -> Option<Original> {
        let is_aligned = at >= self.copy.literals() && (at - self.copy.literals()).is_multiple_of(8);
        let bytes = self.code.get(at as usize..)?.first_chunk::<8>().filter(|_| is_aligned)?;
        let is_never = self.run(at).is_some_and(|run| run.kind == kind::NEVER);
        original_at(u64::from_le_bytes(*bytes)).filter(|_| is_never)
    }
}

/// The original address that is at this address when the copy is at the sample position.
pub(super) fn original_at(address: u64) -> Option<Original> {
    let offset = address.wrapping_sub(SAMPLE.module_base);
    (offset < REACH).then_some(Original(offset as u32))
}

/// Where an offset of the copy is at the sample position.
pub(super) fn address_of(at: u32) -> u64 {
    SAMPLE.copy + u64::from(at)
}

/// The offset in the copy that is at this address.
pub(super) fn offset_of(address: u64) -> u32 {
    address.wrapping_sub(SAMPLE.copy) as u32
}

/// Where an address of the file is at the sample position.
pub(super) fn loaded(base: Svma, at: Svma) -> u64 {
    SAMPLE.module_base.wrapping_add(at - base)
}
