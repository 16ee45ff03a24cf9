//! Walking a burst: from blocks in the order in which they were reached to paths, calls, contexts,
//! loops and branch histories.
//!
//! Most steps are links of the [`super::trie`]. What remains needs the stack of frames: below the
//! frames of functions that the burst saw being called lie those that the tick found on the
//! thread's stack.
//!
//! * A **return** goes behind the call of the topmost frame, whose path goes on; that call may have
//!   been made before the burst, and then the path's beginning was not seen. A return to the first
//!   block of a function is a jump that pretends.
//! * If it goes behind the call of a deeper frame, or anywhere into a function that has a frame,
//!   frames were skipped: by longjmp, or by an exception whose handler is there. The paths of the
//!   skipped frames have no end. Jumps to the middle of another function are treated the same,
//!   since that is how longjmp ends; if that has no frame, and functions enter it there, they are
//!   tail calls.
//! * If it goes nowhere that is known, the stack is given up, and the burst goes on as if it began
//!   here.
//!
//! **Checks** are entries of functions and ends of paths by back edges. They are the measure of
//! length of a burst and of what a path spans: `long_paths` has the paths that saw checks go by
//! between their start and end, because a call was on the way.
//!
//! **The ends.** A tick falls anywhere between two checks, and a burst that used up its checks ends
//! at one. What is counted of a sample is what lies between the first check and the last: then code
//! right behind a check and right before one is seen equally often. The last block was reached but
//! not executed. [`Taken`] can leave out some of the intervals between checks; paths are cut where
//! counting stops and starts.

mod stray;

use super::events::{Event, Tally};
use super::histories::Outcomes;
use super::ids::{ContextKey, EventId, FunctionKey, LinkId, NodeId};
use super::links::link;
use super::loops::VisitStack;
use super::trie::{Callee, Direction, LinkKind, LoopChange, Start};
use super::{BlockRef, Tables, Taken};

/// The state of a walk; kept between bursts for its memory only.
#[derive(Debug)]
pub(super) struct Walker {
    frames: Vec<Frame>,
    visits: VisitStack,
    outcomes: Outcomes,
    /// The function that is running; its path is [`NodeId::NONE`] when nothing is known.
    current: Activation,
    n_checks: u32,
    /// The block that the first check was at.
    first_check: Option<BlockRef>,
    long_paths: Vec<(EventId, u32)>,
    /// Whether the interval that is running does not count.
    is_skipping: bool,
    /// Checks at the ends of intervals that did not count.
    skipped_checks: Vec<BlockRef>,
    /// What is counted where nothing counts.
    void: Tally,
}

/// A function that waits for another to return.
#[derive(Clone, Copy, Debug)]
enum Frame {
    /// Found on the stack by the tick.
    Before { context: ContextKey, return_site: BlockRef },
    /// Its call was seen.
    Seen(Activation),
}

/// A function in the middle of a path.
#[derive(Clone, Copy, Debug)]
struct Activation {
    path: NodeId,
    context: ContextKey,
    /// Checks at the start of the path.
    checks_before: u32,
    /// Visits of loops that belong to the frames below.
    n_visits_below: usize,
}

/// How the blocks of a burst begin and end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// The first block was running already.
    pub starts_mid_block: bool,
    /// What counts of a sample; nothing for a trace of which everything does.
    pub taken: Option<Taken>,
    /// The last block was executed.
    pub last_ran: bool,
}

/// What a walk found, besides the tally.
#[derive(Debug)]
pub(super) struct Walked<'a> {
    pub n_checks: u32,
    pub first_check: Option<BlockRef>,
    /// Paths that ended, with the checks since their start if there were any.
    pub long_paths: &'a [(EventId, u32)],
}

impl Walker {
    pub fn new() -> Walker {
        let current = Activation { path: NodeId::NONE, context: ContextKey::NONE, checks_before: 0, n_visits_below: 0 };
        Walker {
            frames: Vec::new(),
            visits: VisitStack::default(),
            outcomes: Outcomes::default(),
            current,
            n_checks: 0,
            first_check: None,
            long_paths: Vec::new(),
            is_skipping: false,
            skipped_checks: Vec::new(),
            void: Tally::default(),
        }
    }

    /// Forgets the burst before.
    pub fn reset(&mut self) {
        self.frames.clear();
        self.long_paths.clear();
        self.outcomes = Outcomes::default();
        self.n_checks = 0;
        self.first_check = None;
        self.skipped_checks.clear();
    }

    /// The tick found a frame, inside all that it reported before.
    pub fn push_frame(&mut self, context: ContextKey, return_site: BlockRef) {
        self.frames.push(Frame::Before { context, return_site });
    }

    /// Walks the blocks from a context. All that was seen is in the tally then.
    pub fn walk(&mut self, tables: &mut Tables, context: ContextKey, blocks: &[BlockRef], ends: Ends) -> Walked<'_> {
        self.current.path = NodeId::NONE;
        tables.predictor.start();
        let mut blocks = blocks.iter().copied();
        if let Some(first) = blocks.next() {
            let is_entry = tables.known.code.block(first).is_some_and(|block| block.is_primary_entry());
            let start = match ends.starts_mid_block {
                true => Start::MidBlock,
                false if is_entry => Start::Seen,
                false => Start::Unseen,
            };
            self.resume(tables, context, first, start);
        }
        if let Some(taken) = ends.taken {
            self.is_skipping = true;
            while self.n_checks <= taken.n_skipped
                && let Some(next) = blocks.next()
            {
                self.step(tables, next);
            }
            self.is_skipping = false;
            self.forget_what_was_before(tables, taken);
        }
        match ends.taken {
            Some(taken) if taken.stride > 1 => self.walk_in_part(tables, blocks, taken),
            _ => blocks.for_each(|next| self.step(tables, next)),
        }
        self.finish(tables, ends.last_ran);
        for &check in &self.skipped_checks {
            let event = tables.known.events.number(Event::SkippedCheck(check));
            tables.tally.add(event, 1.0);
        }
        Walked { n_checks: self.n_checks, first_check: self.first_check, long_paths: &self.long_paths }
    }

    /// Counts from here on, if enough checks went by.
    fn forget_what_was_before(&mut self, tables: &mut Tables, taken: Taken) {
        tables.tally.clear();
        self.long_paths.clear();
        if self.n_checks <= taken.n_skipped {
            self.current.path = NodeId::NONE;
        }
        self.restart_callers(tables);
    }

    /// Walks on, and counts one in so many intervals between checks. At a check, a path begins;
    /// only callers are in the middle of theirs.
    fn walk_in_part(&mut self, tables: &mut Tables, blocks: impl Iterator<Item = BlockRef>, taken: Taken) {
        for next in blocks {
            let n_before = self.n_checks;
            self.step(tables, next);
            if self.n_checks != n_before && self.is_skipping == taken.takes(self.n_checks - 1) {
                if !self.is_skipping {
                    self.drop_callers(tables);
                }
                self.restart_callers(tables);
                std::mem::swap(&mut tables.tally, &mut self.void);
                if self.is_skipping {
                    self.void.clear();
                }
                self.is_skipping = !self.is_skipping;
            }
        }
        if std::mem::take(&mut self.is_skipping) {
            std::mem::swap(&mut tables.tally, &mut self.void);
            self.void.clear();
            self.frames.clear();
            self.current.path = NodeId::NONE;
        }
        // A path within one interval spans no check.
        self.long_paths.clear();
    }

    /// The paths of callers are not followed further.
    fn drop_callers(&mut self, tables: &mut Tables) {
        for index in 0..self.frames.len() {
            if let Frame::Seen(caller) = self.frames[index] {
                self.drop_path(tables, caller.path);
            }
        }
    }

    /// What callers have done so far was counted, or is not to be.
    fn restart_callers(&mut self, tables: &mut Tables) {
        for frame in &mut self.frames {
            if let Frame::Seen(caller) = frame
                && !caller.path.is_none()
            {
                let block = tables.trie.node(caller.path).block;
                caller.path = tables.trie.root(&mut tables.known, block, Start::MidBlock).unwrap_or(caller.path);
            }
        }
    }

    /// Goes to the next block.
    #[inline]
    fn step(&mut self, tables: &mut Tables, next: BlockRef) {
        let path = self.current.path;
        if path.is_none() {
            self.lose_track(tables, next);
        } else if tables.trie.node(path).ends_in_return {
            self.come_back(tables, next);
        } else if let Some(link) = link(&mut tables.trie, &mut tables.known, path, next, Direction::Onward) {
            self.follow(tables, link);
        } else {
            self.jump_out(tables, next);
        }
    }

    #[inline]
    fn follow(&mut self, tables: &mut Tables, link: LinkId) {
        let link = *tables.trie.link(link);
        if let Some(is_taken) = link.outcome {
            let branch = tables.trie.node(self.current.path).branch;
            tables.known.histories.note(branch, &mut self.outcomes, is_taken);
            tables.predictor.learn(branch, is_taken);
        }
        match link.kind {
            LinkKind::Step => {}
            LinkKind::Back { path } => {
                self.end_path(tables, path);
                self.check(link.next);
                self.current.checks_before = self.n_checks;
            }
            LinkKind::GiveUp { edge } => {
                self.drop_path(tables, self.current.path);
                tables.tally.add(edge, 1.0);
            }
            LinkKind::Call(Callee { function, call, entry }) => {
                tables.tally.add(call, 1.0);
                tables.tally.add(entry, 1.0);
                self.frames.push(Frame::Seen(self.current));
                return self.enter(tables, self.current.context, function, link.to);
            }
            LinkKind::TailCall(Callee { function, call, entry }) => {
                tables.tally.add(call, 1.0);
                tables.tally.add(entry, 1.0);
                self.exit(tables);
                return self.enter(tables, self.caller_context(), function, link.to);
            }
        }
        self.current.path = link.to;
        if !link.loops.is_none() {
            self.change_loops(tables, link.loops, link.to);
        }
    }

    #[inline]
    fn change_loops(&mut self, tables: &mut Tables, change: LoopChange, to: NodeId) {
        if change.n_left != 0 || change.n_entered != 0 {
            let Tables { known, loops, tally, trie, .. } = tables;
            self.visits.leave(loops, change);
            self.visits.enter(known, tally, trie.node(to).nest, change.n_entered.into());
        }
        if change.iterates {
            self.visits.iterate();
        }
    }

    /// A function begins, as called from a context.
    fn enter(&mut self, tables: &mut Tables, caller: ContextKey, callee: FunctionKey, path: NodeId) {
        self.check(tables.trie.node(path).block);
        let context = if tables.known.code.is_stub(callee) {
            caller
        } else {
            let descent = tables.contexts.descend(&mut tables.known.events, caller, callee);
            tables.tally.add(descent.event, 1.0);
            descent.to
        };
        self.current = Activation { path, context, checks_before: self.n_checks, n_visits_below: self.visits.len() };
        let Tables { known, trie, tally, .. } = tables;
        self.visits.enter(known, tally, trie.node(path).nest, usize::MAX);
    }

    #[inline]
    fn check(&mut self, block: BlockRef) {
        if self.n_checks == 0 {
            self.first_check = Some(block);
        } else if self.is_skipping {
            self.skipped_checks.push(block);
        }
        self.n_checks += 1;
    }

    /// The current function is left for good.
    fn exit(&mut self, tables: &mut Tables) {
        let event = tables.trie.exit_event(&mut tables.known.events, self.current.path);
        self.end_path(tables, event);
        self.visits.end_to(&mut tables.loops, self.current.n_visits_below);
    }

    #[inline]
    fn end_path(&mut self, tables: &mut Tables, event: EventId) {
        tables.tally.add(event, 1.0);
        let n_checks_within = self.n_checks - self.current.checks_before;
        if n_checks_within > 0 {
            self.long_paths.push((event, n_checks_within));
        }
    }

    fn drop_path(&mut self, tables: &mut Tables, path: NodeId) {
        if !path.is_none() {
            let event = tables.trie.piece_event(&mut tables.known.events, path);
            tables.tally.add(event, 1.0);
        }
    }

    /// Control returns to `next`.
    fn come_back(&mut self, tables: &mut Tables, next: BlockRef) {
        match self.frames.last().copied() {
            Some(Frame::Seen(caller)) => {
                match link(&mut tables.trie, &mut tables.known, caller.path, next, Direction::Returning) {
                    Some(link) => {
                        self.exit(tables);
                        self.frames.pop();
                        self.current = caller;
                        self.follow(tables, link);
                    }
                    None => self.jump_out(tables, next),
                }
            }
            Some(Frame::Before { context, return_site }) if return_site == next => {
                self.exit(tables);
                self.frames.pop();
                self.return_from_before(tables, context, next);
            }
            Some(Frame::Before { .. }) => self.jump_out(tables, next),
            None => {
                self.exit(tables);
                let context = self.root_context(tables, next);
                self.return_from_before(tables, context, next);
            }
        }
    }

    /// Control appears at a block.
    fn resume(&mut self, tables: &mut Tables, context: ContextKey, block: BlockRef, start: Start) {
        let path = tables.trie.root(&mut tables.known, block, start).unwrap_or(NodeId::NONE);
        let n_visits_below = self.visits.len();
        self.current = Activation { path, context, checks_before: self.n_checks, n_visits_below };
        if !path.is_none() {
            self.visits.resume(&tables.known.nests, tables.trie.node(path).nest);
        }
    }

    fn drop_all(&mut self, tables: &mut Tables) {
        self.drop_path(tables, self.current.path);
        while let Some(frame) = self.frames.pop() {
            if let Frame::Seen(caller) = frame {
                self.drop_path(tables, caller.path);
            }
        }
        self.visits.lose_to(&mut tables.loops, 0);
    }

    fn caller_context(&self) -> ContextKey {
        match self.frames.last() {
            Some(Frame::Before { context, .. }) => *context,
            Some(Frame::Seen(caller)) => caller.context,
            None => ContextKey::NONE,
        }
    }

    /// Drops what is in progress and counts blocks and edges.
    fn finish(&mut self, tables: &mut Tables, last_ran: bool) {
        let last = self.current.path;
        self.drop_all(tables);
        tables.trie.expand(&tables.known.events, &mut tables.tally);
        if !last_ran && !last.is_none() {
            let block = tables.trie.node(last).block_event;
            if !block.is_none() {
                tables.tally.add(block, -1.0);
            }
        }
    }
}
