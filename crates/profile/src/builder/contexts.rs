//! The tree of calling contexts.
//!
//! A context is a function as called by its parent. A function that is among the ancestors already
//! gets no new context: the call is counted as a recursion and leads back to the ancestor, so that
//! the tree is never deeper than there are functions.

use rustc_hash::FxHashMap;

use super::events::{Event, Events};
use super::ids::{ContextKey, EventId, FunctionKey};
use super::time::TickTime;

/// See the module's header.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    rows: Vec<ContextRow>,
    descents: FxHashMap<(ContextKey, FunctionKey), Descent>,
}

/// A context.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextRow {
    /// [`ContextKey::NONE`] at a root.
    pub parent: ContextKey,
    pub function: FunctionKey,
    pub user: TickTime,
    pub kernel: TickTime,
    latest: (FunctionKey, Descent),
}

/// Where a call leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descent {
    pub to: ContextKey,
    /// What such a call counts as.
    pub event: EventId,
}

const NOWHERE: Descent = Descent { to: ContextKey::NONE, event: EventId::NONE };

impl Contexts {
    /// Where a call of `function` leads from a context; [`ContextKey::NONE`] is outside of all
    /// contexts.
    #[inline]
    pub fn descend(&mut self, events: &mut Events, from: ContextKey, function: FunctionKey) -> Descent {
        if let Some(row) = self.rows.get(from.index())
            && row.latest.0 == function
        {
            return row.latest.1;
        }
        let known = self.descents.get(&(from, function)).copied();
        let descent = known.unwrap_or_else(|| self.add(events, from, function));
        if let Some(row) = self.rows.get_mut(from.index()) {
            row.latest = (function, descent);
        }
        descent
    }

    pub fn get(&self, context: ContextKey) -> Option<&ContextRow> {
        self.rows.get(context.index())
    }

    pub fn get_mut(&mut self, context: ContextKey) -> Option<&mut ContextRow> {
        self.rows.get_mut(context.index())
    }

    /// All contexts, parents first.
    pub fn iter(&self) -> impl Iterator<Item = (ContextKey, &ContextRow)> {
        self.rows.iter().enumerate().map(|(index, row)| (ContextKey::next(index), row))
    }

    fn add(&mut self, events: &mut Events, from: ContextKey, function: FunctionKey) -> Descent {
        let descent = match self.ancestor_with(from, function) {
            Some(to) => Descent { to, event: events.number(Event::Recursion { from, to }) },
            None => {
                let to = ContextKey::next(self.rows.len());
                let (user, kernel) = (TickTime::default(), TickTime::default());
                let latest = (FunctionKey::NONE, NOWHERE);
                self.rows.push(ContextRow { parent: from, function, user, kernel, latest });
                Descent { to, event: events.number(Event::Context(to)) }
            }
        };
        self.descents.insert((from, function), descent);
        descent
    }

    fn ancestor_with(&self, from: ContextKey, function: FunctionKey) -> Option<ContextKey> {
        let mut next = from;
        while let Some(row) = self.get(next) {
            if row.function == function {
                return Some(next);
            }
            next = row.parent;
        }
        None
    }
}
