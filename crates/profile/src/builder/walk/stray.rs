//! Steps that depend on the stack: to a deeper frame, to the middle of a function, or nowhere that
//! is known.

use super::{Frame, Walker};
use crate::builder::events::Event;
use crate::builder::ids::{ContextKey, FunctionKey};
use crate::builder::links::link;
use crate::builder::trie::{Direction, Start};
use crate::builder::{BlockRef, Tables};
use crate::model::EdgeKind;

impl Walker {
    /// Control goes where no call, jump or return of the present stack leads.
    #[cold]
    pub(super) fn jump_out(&mut self, tables: &mut Tables, next: BlockRef) {
        let Some(block) = tables.known.code.block(next) else {
            self.lose_track(tables, next);
            return;
        };
        let (is_primary, is_entry) = (block.is_primary_entry(), block.block.is_entry);
        let Some(function) = tables.known.code.function_of(next) else { return };
        if is_primary {
            self.jump_to_function(tables, next);
        } else if let Some(depth) = self.frame_that_continues_at(tables, next) {
            self.unwind_to(tables, depth);
            self.continue_in_top_frame(tables, next);
        } else if let Some(depth) = self.frame_of(tables, function) {
            self.unwind_to(tables, depth);
            self.divert_top_frame(tables, next, is_entry);
        } else if is_entry {
            self.jump_to_function(tables, next);
        } else {
            self.lose_track(tables, next);
        }
    }

    /// A jump to the first block of a function by means that are none of a call: a return to it,
    /// mostly; or to another block where functions enter it.
    fn jump_to_function(&mut self, tables: &mut Tables, next: BlockRef) {
        let site = tables.trie.node(self.current.path).block;
        let Some(callee) = tables.known.code.function_of(next) else { return };
        let Some(path) = tables.trie.root(&mut tables.known, next, Start::Seen) else { return };
        for event in [Event::Call { site, callee, is_tail: true }, Event::Entry(callee)] {
            tables.tally.add(tables.known.events.number(event), 1.0);
        }
        self.exit(tables);
        let caller = self.caller_context();
        self.enter(tables, caller, callee, path);
    }

    /// The topmost frame whose call returns to `next`.
    fn frame_that_continues_at(&mut self, tables: &mut Tables, next: BlockRef) -> Option<usize> {
        let continues = |frame: &Frame| match *frame {
            Frame::Before { return_site, .. } => return_site == next,
            Frame::Seen(caller) => {
                link(&mut tables.trie, &mut tables.known, caller.path, next, Direction::Returning).is_some()
            }
        };
        self.frames.iter().rposition(continues)
    }

    /// The topmost frame of a function.
    fn frame_of(&self, tables: &Tables, function: FunctionKey) -> Option<usize> {
        self.frames.iter().rposition(|frame| match *frame {
            Frame::Before { context, .. } => tables.contexts.get(context).is_some_and(|row| row.function == function),
            Frame::Seen(caller) => tables.trie.node(caller.path).function == function,
        })
    }

    /// Frames above `depth` are gone; their paths were not seen to end.
    fn unwind_to(&mut self, tables: &mut Tables, depth: usize) {
        self.drop_path(tables, self.current.path);
        self.visits.lose_to(&mut tables.loops, self.current.n_visits_below);
        while self.frames.len() > depth + 1 {
            if let Some(Frame::Seen(skipped)) = self.frames.pop() {
                self.drop_path(tables, skipped.path);
                self.visits.lose_to(&mut tables.loops, skipped.n_visits_below);
            }
        }
    }

    fn continue_in_top_frame(&mut self, tables: &mut Tables, next: BlockRef) {
        match self.frames.pop() {
            Some(Frame::Seen(caller)) => {
                self.current = caller;
                let found = link(&mut tables.trie, &mut tables.known, caller.path, next, Direction::Returning);
                if let Some(link) = found {
                    self.follow(tables, link);
                }
            }
            Some(Frame::Before { context, .. }) => self.return_from_before(tables, context, next),
            None => {}
        }
    }

    /// The function of the topmost frame goes on at `next`, which is not where its call returns to.
    fn divert_top_frame(&mut self, tables: &mut Tables, next: BlockRef, is_entry: bool) {
        let start = if is_entry { Start::Seen } else { Start::Unseen };
        let context = match self.frames.pop() {
            Some(Frame::Seen(caller)) => {
                let from = tables.trie.node(caller.path).block;
                let edge = Event::Edge { from, to: next, kind: EdgeKind::NonLocal };
                tables.tally.add(tables.known.events.number(edge), 1.0);
                self.drop_path(tables, caller.path);
                self.visits.lose_to(&mut tables.loops, caller.n_visits_below);
                caller.context
            }
            Some(Frame::Before { context, .. }) => context,
            None => ContextKey::NONE,
        };
        self.resume(tables, context, next, start);
    }

    /// A call from before the burst returns: the step past the call is seen, the path before it is
    /// not.
    pub(super) fn return_from_before(&mut self, tables: &mut Tables, context: ContextKey, next: BlockRef) {
        if let Some(from) = tables.known.code.block(next).and_then(|block| block.call_before()) {
            let edge = Event::Edge { from: from.number(), to: next, kind: EdgeKind::PastCall };
            tables.tally.add(tables.known.events.number(edge), 1.0);
        }
        self.resume(tables, context, next, Start::Unseen);
    }

    /// Nothing is known any more but the block.
    #[cold]
    pub(super) fn lose_track(&mut self, tables: &mut Tables, next: BlockRef) {
        self.drop_all(tables);
        let context = self.root_context(tables, next);
        self.resume(tables, context, next, Start::Unseen);
    }

    /// The context of a function whose callers are not known.
    pub(super) fn root_context(&mut self, tables: &mut Tables, block: BlockRef) -> ContextKey {
        let function = tables.known.code.function_of(block);
        let descend = |function| tables.contexts.descend(&mut tables.known.events, ContextKey::NONE, function).to;
        function.map_or(ContextKey::NONE, descend)
    }
}
