//! What is counted, and the counts of one burst.
//!
//! Every countable thing is an [`Event`] with a number. A burst counts in a [`Tally`]: an array by
//! event and a list of those that are not zero. Blocks and edges are not counted one by one as the
//! burst is walked; what is counted is stretches of blocks (whole paths and pieces of paths), and
//! [`super::trie::Trie::expand`] turns these into blocks and edges once per burst.

use rustc_hash::FxHashMap;

use super::BlockRef;
use super::ids::{ContextKey, EventId, FunctionKey, LoopKey, NodeId};
use crate::model::EdgeKind;

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// A block was begun.
    Block(BlockRef),
    /// Control went from one block of a function to another.
    Edge { from: BlockRef, to: BlockRef, kind: EdgeKind },
    /// A path was seen from its start to its end.
    Path(Stretch),
    /// The end of a path was seen, but not its start.
    Tail(Stretch),
    /// Neither the end of a path was seen nor, maybe, its start.
    Piece(NodeId),
    /// A call.
    Call { site: BlockRef, callee: FunctionKey, is_tail: bool },
    /// A function was entered.
    Entry(FunctionKey),
    /// A function was entered in a context.
    Context(ContextKey),
    /// A function was entered that was running in this context already.
    Recursion { from: ContextKey, to: ContextKey },
    /// A loop was entered.
    LoopEntry(LoopKey),
    /// A check ended an interval that does not count.
    SkippedCheck(BlockRef),
    /// Ends of paths that are on no path: see [`crate::Profile::unobserved_flow`].
    UnobservedFlow,
}

/// The last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stretch {
    pub last: NodeId,
    /// The edge at which the path ends; [`EventId::NONE`] if it leaves the function.
    pub back_edge: EventId,
}

/// All events by number.
#[derive(Debug, Default)]
pub(super) struct Events {
    all: Vec<Event>,
    numbers: FxHashMap<Event, EventId>,
}

impl Events {
    pub fn number(&mut self, event: Event) -> EventId {
        let all = &mut self.all;
        *self.numbers.entry(event).or_insert_with(|| {
            all.push(event);
            EventId::next(all.len() - 1)
        })
    }

    pub fn get(&self, number: EventId) -> Event {
        self.all[number.index()]
    }

    pub fn find(&self, event: Event) -> Option<EventId> {
        self.numbers.get(&event).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (EventId, Event)> + '_ {
        self.all.iter().enumerate().map(|(index, &event)| (EventId::next(index), event))
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }
}

/// Counts of one burst.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: Vec<f64>,
    touched: Vec<EventId>,
}

impl Tally {
    pub fn add(&mut self, event: EventId, count: f64) {
        if event.index() >= self.counts.len() {
            self.grow(event);
        }
        let slot = &mut self.counts[event.index()];
        if *slot == 0.0 {
            self.touched.push(event);
        }
        *slot += count;
    }

    pub fn get(&self, event: EventId) -> f64 {
        self.counts.get(event.index()).copied().unwrap_or(0.0)
    }

    /// The events that were counted, in the order of their first count.
    pub fn touched(&self) -> &[EventId] {
        &self.touched
    }

    /// All counts, which are zero from now on. An event can come twice, the second time with zero.
    pub fn drain(&mut self) -> impl Iterator<Item = (EventId, f64)> {
        let counts = &mut self.counts;
        self.touched.drain(..).map(|event| (event, std::mem::take(&mut counts[event.index()])))
    }

    pub fn clear(&mut self) {
        for event in self.touched.drain(..) {
            self.counts[event.index()] = 0.0;
        }
    }

    #[cold]
    fn grow(&mut self, event: EventId) {
        self.counts.resize((event.index() + 1).next_power_of_two(), 0.0);
    }
}
