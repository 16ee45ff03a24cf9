//! Which cell a stratum has for an event.
//!
//! A burst asks this for each of the hundreds of events that it has seen, after the program has
//! emptied the caches. Events that come together have numbers close to each other, because they
//! were first met together: so what a stratum has is a list of small pages, most of which answer
//! many times.

use super::ids::{EventId, StratumId};

/// Of an event that a stratum has not seen.
pub(super) const NO_CELL: u32 = u32::MAX;

const PAGE_EVENTS: usize = 16;
/// The page that stands for those that were not made.
const NO_PAGE: u32 = u32::MAX;

/// See the module's header.
#[derive(Debug, Default)]
pub(super) struct CellIndex {
    /// By stratum and page of events.
    directories: Vec<Vec<u32>>,
    pages: Vec<[u32; PAGE_EVENTS]>,
}

impl CellIndex {
    /// The place for a cell's number, [`NO_CELL`] at first.
    #[inline]
    pub fn slot(&mut self, stratum: StratumId, event: EventId) -> &mut u32 {
        let (page, within) = (event.index() / PAGE_EVENTS, event.index() % PAGE_EVENTS);
        if self.directories.len() <= stratum.index() {
            self.directories.resize_with(stratum.index() + 1, Vec::new);
        }
        let directory = &mut self.directories[stratum.index()];
        if directory.len() <= page {
            directory.resize(page + 1, NO_PAGE);
        }
        let number = &mut directory[page];
        if *number == NO_PAGE {
            *number = self.pages.len() as u32;
            self.pages.push([NO_CELL; PAGE_EVENTS]);
        }
        &mut self.pages[*number as usize][within]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(keys in prop::collection::vec((0_u32..20, 0_u32..1000), 1..500)) {
            let (mut index, mut map) = (CellIndex::default(), HashMap::new());
            for (number, (stratum, event)) in (0..).zip(keys) {
                let slot = index.slot(StratumId(stratum), EventId(event));
                let known = *map.entry((stratum, event)).or_insert(NO_CELL);
                prop_assert_eq!(*slot, known);
                *slot = number;
                map.insert((stratum, event), number);
            }
        }
    }
}
