//! The loops around blocks, as walks need them: found once per block, and then without a look at
//! the code.

use rustc_hash::FxHashMap;

use super::BlockRef;
use super::code_map::Located;
use super::events::{Event, Events};
use super::ids::{EventId, LoopKey};

/// See the module's header.
#[derive(Debug, Default)]
pub(super) struct Nests {
    loops: Vec<MetLoop>,
    numbers: FxHashMap<LoopKey, MetLoopId>,
    members: Vec<Member>,
    by_block: FxHashMap<BlockRef, Nest>,
}

/// A loop in [`Nests`]: numbered as they are met, so that what is kept per loop is as large as what
/// was seen of the program, and not as the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MetLoopId(u32);

impl MetLoopId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct MetLoop {
    key: LoopKey,
    /// Made when the loop is first entered.
    entry: EventId,
}

/// A loop around a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub of: MetLoopId,
    /// The block is the loop's header.
    pub is_header: bool,
}

/// The loops around one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nest {
    first: u32,
    len: u32,
}

impl Nests {
    /// The loops around a block.
    pub fn of(&mut self, block: &Located<'_>) -> Nest {
        if let Some(&known) = self.by_block.get(&block.number()) {
            return known;
        }
        let first = self.members.len() as u32;
        for (key, is_header) in block.loops() {
            let loops = &mut self.loops;
            let of = *self.numbers.entry(key).or_insert_with(|| {
                loops.push(MetLoop { key, entry: EventId::NONE });
                MetLoopId(loops.len() as u32 - 1)
            });
            self.members.push(Member { of, is_header });
        }
        let nest = Nest { first, len: self.members.len() as u32 - first };
        self.by_block.insert(block.number(), nest);
        nest
    }

    /// The loops of a nest, innermost first.
    #[inline]
    pub fn members(&self, nest: Nest) -> &[Member] {
        &self.members[nest.first as usize..][..nest.len as usize]
    }

    pub fn find(&self, key: LoopKey) -> Option<MetLoopId> {
        self.numbers.get(&key).copied()
    }

    /// The event that a loop is entered.
    #[inline]
    pub fn entry(&mut self, events: &mut Events, of: MetLoopId) -> EventId {
        let MetLoop { key, entry } = &mut self.loops[of.index()];
        if entry.is_none() {
            *entry = events.number(Event::LoopEntry(*key));
        }
        *entry
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::code_map::CodeMap;
    use super::*;
    use crate::code::{CodeBlock, CodeFunction, CodeLoop, ModuleCode, NO_LOOP};
    use crate::model::BlockEnd;

    /// A function of blocks in arbitrary loops, which lie in earlier ones or in none.
    fn code(innermost: &[u32], parents: &[u32]) -> ModuleCode {
        let block = |(index, &innermost_loop): (usize, &u32)| CodeBlock {
            address: 0x1000 + 4 * index as u64,
            size: 4,
            last: 0,
            n_insns: 1,
            function: 0,
            end: BlockEnd::Next,
            target: 0,
            innermost_loop: if (innermost_loop as usize) < parents.len() { innermost_loop } else { NO_LOOP },
            is_entry: index == 0,
        };
        let each = |(index, &parent): (usize, &u32)| CodeLoop {
            header: index as u32 % innermost.len() as u32,
            parent: if (parent as usize) < index { parent } else { NO_LOOP },
        };
        ModuleCode {
            functions: vec![CodeFunction { address: 0x1000, size: 4 * innermost.len() as u64, is_stub: false }],
            blocks: innermost.iter().enumerate().map(block).collect(),
            loops: parents.iter().enumerate().map(each).collect(),
            ..ModuleCode::default()
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_the_code_says(
            innermost in prop::collection::vec(0_u32..12, 1..40),
            parents in prop::collection::vec(0_u32..12, 0..10),
            asked in prop::collection::vec(0_usize..40, 1..100),
        ) {
            let mut map = CodeMap::default();
            let module = map.module("m", "");
            let first = map.set_code(module, Arc::new(code(&innermost, &parents))).expect("room");
            let mut nests = Nests::default();
            for index in asked {
                let located = map.block(BlockRef(first.0 + (index % innermost.len()) as u32)).expect("a block");
                let nest = nests.of(&located);
                let members = nests.members(nest).iter();
                let kept: Vec<_> =
                    members.map(|member| (nests.loops[member.of.index()].key, member.is_header)).collect();
                let said: Vec<_> = located.loops().collect();
                prop_assert_eq!(&kept, &said);
                for (key, _) in said {
                    let of = nests.find(key).expect("it was met");
                    prop_assert_eq!(nests.loops[of.index()].key, key);
                }
            }
        }
    }
}
