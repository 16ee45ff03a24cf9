//! Blocks in the order in which they ran, from paths in the order in which they ended.
//!
//! A callee's paths end before the path of its caller that has the call: the order is that of
//! expressions with their operator last. Read backwards it is one with the operator first, and that
//! needs no look ahead. So a thread is read from its end to its start, with a stack of paths of
//! which a part is yet to come. At its bottom are the paths that were under way when the thread
//! ended.
//!
//! * The blocks of a path come from its last to its first. Before a block that ends in a call comes
//!   what was called: the path that is read next, if that returned (or jumped from the function
//!   that is known to be called to one that leaves no paths), and the paths before it, until one
//!   starts at an entry that was not jumped to from the path before. If it is known what is called,
//!   and it is another function, these were *displaced*, and what was called is yet to come.
//! * A path that starts where another one of the same activation ended comes directly behind that
//!   one. What is found instead is displaced.
//! * What is displaced comes where it was found, and is counted: it is left of activations that
//!   `longjmp` or an exception ended.
//! * Between the marks of a signal handler, the same applies by itself. What the handler ran comes
//!   before the blocks of the path that it interrupted, back to the call that was made last before:
//!   paths do not tell where in between the signal came.
//!
//! **Not told apart.** A callee of unknown address that leaves no paths (it has no copy, or is
//! counted by blocks) takes those that the call before it left.

use rustc_hash::FxHashSet;
use wire::path_trace::Mark;

use super::facts::{End, PathFact, Start};
use super::file::{Process, Trace};
use crate::Error;

/// Most words of a thread that are put in order, which is done in memory.
const MAX_WORDS: u64 = 1 << 26;

/// Something that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A block, of the path with this word.
    Block {
        /// The word of the path.
        word: u64,
        /// Where the block starts.
        at: u64,
    },
    /// A path whose blocks are not known.
    Unknown(u64),
    /// Something else happened.
    Mark(Mark),
}

/// What a thread ran.
#[derive(Debug, Default)]
pub struct Ran {
    /// The last first.
    steps: Vec<Step>,
    n_displaced: u64,
}

impl Ran {
    /// In order.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.steps.iter().rev().copied()
    }

    /// Paths that fit nowhere.
    pub fn n_displaced(&self) -> u64 {
        self.n_displaced
    }
}

/// What a thread ran.
///
/// # Errors
/// If the thread ran too long for that, or the trace is damaged.
pub fn blocks(trace: &Trace, process: &Process, thread: (u32, u32)) -> Result<Ran, Error> {
    if trace.n_words(thread) > MAX_WORDS {
        let what = format!("thread {}: too long for --blocks", thread.1);
        return Err(Error::PathTrace { path: trace.path().to_owned(), what });
    }
    let mut words = Vec::new();
    trace.for_each_part(thread, 0, |_, part| -> Result<bool, Error> {
        words.extend_from_slice(part);
        Ok(true)
    })?;
    let known = process.functions.values().map(|(module, entry)| (module.as_str(), *entry)).collect();
    let mut reader = Reader { process, known, stack: Vec::new(), ran: Ran::default() };
    reader.begin(process.underway.get(&thread.1).map_or(&[][..], Vec::as_slice));
    words.iter().rev().for_each(|&word| reader.read(word));
    reader.finish();
    Ok(reader.ran)
}

/// What the reader is inside of.
#[derive(Debug)]
enum Frame<'a> {
    /// A path of which the first `n_left` blocks are yet to come, the last of them without what it
    /// called if `has_called`.
    Path {
        word: u64,
        path: &'a PathFact,
        n_left: usize,
        has_called: bool,
    },
    /// What a block called: the function at an address, or at 0 if that is not known.
    Call {
        target: u64,
    },
    Handler,
}

struct Reader<'a> {
    process: &'a Process,
    /// Functions that have paths.
    known: FxHashSet<(&'a str, u64)>,
    stack: Vec<Frame<'a>>,
    ran: Ran,
}

impl<'a> Reader<'a> {
    /// Starts with what was under way, the innermost first.
    fn begin(&mut self, underway: &'a [PathFact]) {
        for (index, path) in underway.iter().enumerate().rev() {
            self.open(path.word, path);
            if index != 0 {
                self.stack.push(Frame::Call { target: 0 });
            }
        }
        self.advance();
    }

    fn open(&mut self, word: u64, path: &'a PathFact) {
        self.stack.push(Frame::Path { word, path, n_left: path.blocks.len(), has_called: false });
    }

    fn read(&mut self, word: u64) {
        if let Some(mark) = Mark::from_word(word) {
            self.read_mark(mark);
        } else if let Some(path) = self.process.paths.get(&word) {
            self.make_way(Some(path));
            self.open(word, path);
            self.advance();
        } else {
            self.ran.steps.push(Step::Unknown(word));
        }
    }

    fn read_mark(&mut self, mark: Mark) {
        let begun = self.stack.iter().rposition(|frame| matches!(frame, Frame::Handler));
        if mark == Mark::Handler
            && let Some(begun) = begun
        {
            while self.stack.len() > begun {
                self.close();
            }
        }
        self.ran.steps.push(Step::Mark(mark));
        if mark == Mark::HandlerEnd {
            self.stack.push(Frame::Handler);
        }
    }

    fn finish(&mut self) {
        self.make_way(None);
        while !self.stack.is_empty() {
            self.close();
        }
    }

    /// The innermost frame is over, whatever it has waited for.
    fn close(&mut self) {
        if let Some(Frame::Path { word, path, n_left, .. }) = self.stack.pop() {
            let blocks = path.blocks[..n_left].iter().rev();
            self.ran.steps.extend(blocks.map(|block| Step::Block { word, at: block.at }));
        }
    }

    /// Goes through the blocks of the innermost path, back to one that called something.
    fn advance(&mut self) {
        let Reader { process, known, stack, ran } = self;
        let Some(Frame::Path { word, path, n_left, has_called }) = stack.last_mut() else { return };
        let module = process.functions.get(&((*word >> 32) as u32)).map(|(module, _)| module.as_str());
        while let Some(block) = n_left.checked_sub(1).map(|last| path.blocks[last]) {
            let leaves_paths =
                |target: u64| target == 0 || module.is_some_and(|module| known.contains(&(module, target)));
            if let Some(target) = block.calls.filter(|&target| !*has_called && leaves_paths(target)) {
                stack.push(Frame::Call { target });
                return;
            }
            ran.steps.push(Step::Block { word: *word, at: block.at });
            (*n_left, *has_called) = (*n_left - 1, false);
        }
    }

    /// The innermost call is over: its caller goes on.
    fn end_call(&mut self) {
        self.stack.pop();
        if let Some(Frame::Path { has_called, .. }) = self.stack.last_mut() {
            *has_called = true;
        }
        self.advance();
    }

    fn entry(&self, word: u64) -> u64 {
        self.process.functions.get(&((word >> 32) as u32)).map_or(0, |(_, entry)| *entry)
    }

    /// Ends what the path that is read next, if there is one, cannot be part of.
    fn make_way(&mut self, next: Option<&PathFact>) {
        while let Some(top) = self.stack.last() {
            match *top {
                Frame::Handler => return,
                Frame::Call { target } => {
                    let is_called = |next: &PathFact| match next.end {
                        End::Return => true,
                        // To what leaves no paths.
                        End::Jump(_) => self.entry(next.word) == target,
                        _ => false,
                    };
                    if next.is_some_and(is_called) {
                        return;
                    }
                    self.end_call();
                }
                Frame::Path { word, path, .. } if path.start == Start::Cut => {
                    let is_behind = |next: &PathFact| {
                        next.word >> 32 == word >> 32
                            && path.blocks.first().map(|block| End::Cut(block.at)) == Some(next.end)
                    };
                    match next {
                        Some(next) if !is_behind(next) => {
                            self.ran.n_displaced += 1;
                            return;
                        }
                        Some(_) => {
                            self.stack.pop();
                            return;
                        }
                        None => drop(self.stack.pop()),
                    }
                }
                Frame::Path { word, path, .. } => {
                    let entry = self.entry(word);
                    self.stack.pop();
                    let called = match self.stack.last() {
                        Some(&Frame::Call { target }) => Some(target),
                        _ => None,
                    };
                    let has_jumped = next.is_some_and(|next| match next.end {
                        End::Jump(0) => path.start != Start::Entry || called != Some(entry),
                        End::Jump(to) => path.blocks.first().is_some_and(|block| block.at == to),
                        _ => false,
                    });
                    if has_jumped {
                        return;
                    }
                    match called {
                        Some(target) if target != 0 && target != entry && path.start == Start::Entry => {
                            self.ran.n_displaced += 1;
                        }
                        Some(_) => self.end_call(),
                        None => {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::BlockFact;
    use super::*;

    const MODULE: &str = "program";

    /// A process with functions 1, 2 and 3 at 0x100, 0x200 and 0x300.
    fn process(paths: Vec<PathFact>) -> Process {
        let functions = (1..4).map(|key| (key, (MODULE.to_owned(), u64::from(key) << 8))).collect();
        Process { functions, paths: paths.into_iter().map(|path| (path.word, path)).collect(), ..Process::default() }
    }

    fn path(key: u64, number: u64, start: Start, blocks: &[(u64, Option<u64>)], end: End) -> PathFact {
        let blocks = blocks.iter().map(|&(at, calls)| BlockFact { at, calls }).collect();
        PathFact { word: key << 32 | number, start, blocks, end }
    }

    fn ran(process: &Process, words: &[u64]) -> (Vec<u64>, u64) {
        let known = process.functions.values().map(|(module, entry)| (module.as_str(), *entry)).collect();
        let mut reader = Reader { process, known, stack: Vec::new(), ran: Ran::default() };
        words.iter().rev().for_each(|&word| reader.read(word));
        reader.finish();
        let at = |step| match step {
            Step::Block { at, .. } => at,
            Step::Mark(Mark::Handler) => 1,
            _ => 2,
        };
        (reader.ran.steps().map(at).collect(), reader.ran.n_displaced)
    }

    #[test]
    fn callees_come_between_the_blocks_of_their_callers() {
        let process = process(vec![
            path(1, 0, Start::Entry, &[(0x100, Some(0x200)), (0x110, Some(0)), (0x120, None)], End::Return),
            path(2, 0, Start::Entry, &[(0x200, None)], End::Cut(0x210)),
            path(2, 1, Start::Cut, &[(0x210, Some(0x300)), (0x220, None)], End::Cut(0x210)),
            path(2, 2, Start::Cut, &[(0x210, Some(0x300)), (0x230, None)], End::Return),
            path(3, 0, Start::Entry, &[(0x300, None)], End::Return),
        ]);
        let [f, g, again, last, h] = [1 << 32, 2 << 32, 2 << 32 | 1, 2 << 32 | 2, 3 << 32];
        let (order, n_displaced) = ran(&process, &[g, h, again, h, last, h, f]);
        let expected = [0x100, 0x200, 0x210, 0x300, 0x220, 0x210, 0x300, 0x230, 0x110, 0x300, 0x120];
        assert_eq!((order, n_displaced), (expected.to_vec(), 0));
    }

    #[test]
    fn a_function_that_is_jumped_to_follows_the_one_that_jumped() {
        let process = process(vec![
            path(1, 0, Start::Entry, &[(0x100, Some(0x200)), (0x110, None)], End::Return),
            path(2, 0, Start::Entry, &[(0x200, None)], End::Jump(0)),
            path(3, 0, Start::Entry, &[(0x300, None)], End::Return),
        ]);
        let (order, n_displaced) = ran(&process, &[2 << 32, 3 << 32, 1 << 32]);
        assert_eq!((order, n_displaced), (vec![0x100, 0x200, 0x300, 0x110], 0));
    }

    #[test]
    fn a_function_may_jump_to_one_without_paths() {
        let process = process(vec![
            path(1, 0, Start::Entry, &[(0x100, Some(0x200)), (0x110, None)], End::Return),
            path(2, 0, Start::Entry, &[(0x200, None)], End::Jump(0)),
        ]);
        assert_eq!(ran(&process, &[2 << 32, 1 << 32]), (vec![0x100, 0x200, 0x110], 0));
    }

    #[test]
    fn callees_without_paths_are_passed_over() {
        let process = process(vec![
            path(1, 0, Start::Entry, &[(0x100, Some(0x200)), (0x110, Some(0x900)), (0x120, None)], End::Return),
            path(2, 0, Start::Entry, &[(0x200, None)], End::Return),
        ]);
        assert_eq!(ran(&process, &[2 << 32, 1 << 32]), (vec![0x100, 0x200, 0x110, 0x120], 0));
    }

    #[test]
    fn handlers_are_by_themselves_and_leftovers_are_displaced() {
        let process = process(vec![
            path(1, 0, Start::Entry, &[(0x100, Some(0x200)), (0x110, None)], End::Return),
            path(2, 0, Start::Entry, &[(0x200, None)], End::Return),
            path(3, 0, Start::Entry, &[(0x300, None)], End::Return),
        ]);
        let marked = [2 << 32, Mark::Handler.word(), 3 << 32, Mark::HandlerEnd.word(), 1 << 32];
        assert_eq!(ran(&process, &marked), (vec![0x100, 0x200, 1, 0x300, 2, 0x110], 0));
        // What the third function returned to was left by a jump.
        assert_eq!(ran(&process, &[2 << 32, 3 << 32, 1 << 32]), (vec![0x100, 0x200, 0x300, 0x110], 1));
    }
}
