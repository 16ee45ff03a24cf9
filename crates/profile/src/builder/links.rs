//! What a step from one block to the next means, read off the code.
//!
//! | the first block ends in | the next one is | |
//! |---|---|---|
//! | a call | any | a call |
//! | a call, and control returns | behind it | a step past the call |
//! | a jump, branch, or nothing | in the same function | a step; a back edge if the code says so or the path has been there |
//! | a jump, branch, or nothing | the first block of a function | a tail call |
//! | a return, a trap, any other jump | | depends on the stack: [`super::walk`] |

use super::code_map::Located;
use super::events::Event;
use super::ids::{EventId, LinkId, NodeId};
use super::trie::{Callee, Direction, Link, LinkKind, LoopChange, MAX_PATH_BLOCKS, Start, Trie};
use super::{BlockRef, Known};
use crate::model::{BlockEnd, EdgeKind};

/// A step as the code has it.
#[derive(Clone, Copy, Debug)]
enum Sort {
    Inside { kind: EdgeKind, is_cut: bool, loops: LoopChange },
    Call { is_tail: bool, start: Start },
}

/// The link for a step, made if need be; nothing if what the step means depends on the stack.
#[inline]
pub(super) fn link(
    trie: &mut Trie,
    known: &mut Known,
    from: NodeId,
    next: BlockRef,
    direction: Direction,
) -> Option<LinkId> {
    trie.find(from, next, direction).or_else(|| make_link(trie, known, from, next, direction))
}

#[cold]
fn make_link(trie: &mut Trie, known: &mut Known, from: NodeId, next: BlockRef, direction: Direction) -> Option<LinkId> {
    let from_block = trie.node(from).block;
    let (before, after) = (known.code.block(from_block)?, known.code.block(next)?);
    let outcome = outcome(&before, &after);
    let (to, kind, loops) = match sort(&before, &after, direction)? {
        Sort::Inside { kind, is_cut, loops } => {
            let edge = known.events.number(Event::Edge { from: from_block, to: next, kind });
            let (to, kind) = step_inside(trie, known, from, next, edge, is_cut)?;
            (to, kind, loops)
        }
        Sort::Call { is_tail, start } => {
            let function = known.code.function_of(next)?;
            let call = known.events.number(Event::Call { site: from_block, callee: function, is_tail });
            let entry = known.events.number(Event::Entry(function));
            let callee = Callee { function, call, entry };
            let kind = if is_tail { LinkKind::TailCall(callee) } else { LinkKind::Call(callee) };
            (trie.root(known, next, start)?, kind, LoopChange::default())
        }
    };
    Some(trie.add_link(from, Link { next, to, kind, direction, outcome, loops }))
}

fn step_inside(
    trie: &mut Trie,
    known: &mut Known,
    from: NodeId,
    next: BlockRef,
    edge: EventId,
    is_cut: bool,
) -> Option<(NodeId, LinkKind)> {
    if is_cut || trie.ancestry(from).any(|node| node.block == next) {
        known.back_edges.insert(edge);
        let path = trie.path_event(&mut known.events, from, edge);
        let to = trie.root(known, next, Start::Seen)?;
        Some((to, LinkKind::Back { path }))
    } else if trie.node(from).n_blocks >= MAX_PATH_BLOCKS || trie.is_full() {
        Some((trie.root(known, next, Start::Unseen)?, LinkKind::GiveUp { edge }))
    } else {
        Some((trie.add_child(known, from, next, edge)?, LinkKind::Step))
    }
}

fn sort(before: &Located<'_>, after: &Located<'_>, direction: Direction) -> Option<Sort> {
    let end = before.block.end;
    let is_call = matches!(end, BlockEnd::Call | BlockEnd::IndirectCall);
    if direction == Direction::Returning {
        let returns_here = is_call && before.is_followed_by(after) && before.is_beside(after);
        return returns_here.then(|| inside(before, after, EdgeKind::PastCall));
    }
    if is_call {
        let start = if after.block.is_entry { Start::Seen } else { Start::Unseen };
        return Some(Sort::Call { is_tail: false, start });
    }
    let kind = match end {
        BlockEnd::Return | BlockEnd::Trap | BlockEnd::Call | BlockEnd::IndirectCall => return None,
        BlockEnd::Next => EdgeKind::FallThrough,
        BlockEnd::Jump => EdgeKind::Taken,
        BlockEnd::IndirectJump => EdgeKind::Table,
        BlockEnd::Branch if before.is_followed_by(after) => EdgeKind::FallThrough,
        BlockEnd::Branch => EdgeKind::Taken,
    };
    let is_entry = after.is_primary_entry();
    if before.is_beside(after) && (!is_entry || before.is_cut_to(after)) {
        Some(inside(before, after, kind))
    } else {
        is_entry.then_some(Sort::Call { is_tail: true, start: Start::Seen })
    }
}

fn inside(before: &Located<'_>, after: &Located<'_>, kind: EdgeKind) -> Sort {
    Sort::Inside { kind, is_cut: before.is_cut_to(after), loops: loop_change(before, after) }
}

fn outcome(before: &Located<'_>, after: &Located<'_>) -> Option<bool> {
    (before.block.end == BlockEnd::Branch).then(|| !before.is_followed_by(after))
}

fn loop_change(before: &Located<'_>, after: &Located<'_>) -> LoopChange {
    let stays_in = after.loops().position(|(key, _)| before.loops().any(|(around, _)| around == key));
    let clip = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    match stays_in.and_then(|position| after.loops().nth(position).map(|common| (position, common))) {
        Some((n_entered, (common, is_header))) => LoopChange {
            n_left: clip(before.loops().take_while(|&(key, _)| key != common).count()),
            n_entered: clip(n_entered),
            iterates: is_header,
        },
        None => {
            LoopChange { n_left: clip(before.loops().count()), n_entered: clip(after.loops().count()), iterates: false }
        }
    }
}
