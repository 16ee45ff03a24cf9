//! Turns the words of a thread area into bursts.
//!
//! Words come in the order in which the area's threads wrote them. A signal handler runs in the
//! middle of what its thread was doing, in a burst or between two; what it records are bursts of
//! its own, and the one that it interrupted goes on behind it.

use wire::path_trace::Mark;

/// Handlers within handlers that are believed; beyond that, they have been left by jumps.
const MAX_DEPTH: usize = 64;

/// A burst that has ended.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The thread's id.
    pub thread: u32,
    /// Records of the blocks that it reached ([`wire::sample`]).
    pub records: Vec<u32>,
    /// Whether it used up its checks; the last block was then not executed.
    pub is_whole: bool,
}

/// The log of one thread area.
#[derive(Debug, Default)]
pub struct AreaLog {
    thread: u32,
    open: Vec<u32>,
    /// What handlers have interrupted, the outermost first.
    interrupted: Vec<Vec<u32>>,
}

impl AreaLog {
    /// Takes words; bursts that have ended go to `sink`.
    pub fn take(&mut self, words: &[u64], sink: &mut dyn FnMut(Recorded)) {
        for &word in words {
            match Mark::from_word(word) {
                None => self.open.push((word >> 32) as u32),
                Some(Mark::BurstEnd) => self.finish(true, sink),
                Some(Mark::Handler) => {
                    if self.interrupted.len() == MAX_DEPTH {
                        self.interrupted.remove(0);
                    }
                    self.interrupted.push(std::mem::take(&mut self.open));
                }
                Some(Mark::HandlerEnd) => {
                    self.finish(false, sink);
                    self.open = self.interrupted.pop().unwrap_or_default();
                }
                Some(Mark::Thread(thread)) => {
                    self.end(sink);
                    self.thread = thread;
                }
            }
        }
    }

    /// Ends the burst that is under way, because the thread has ended.
    pub fn end(&mut self, sink: &mut dyn FnMut(Recorded)) {
        self.finish(false, sink);
        while let Some(interrupted) = self.interrupted.pop() {
            self.open = interrupted;
            self.finish(false, sink);
        }
    }

    fn finish(&mut self, is_whole: bool, sink: &mut dyn FnMut(Recorded)) {
        let records = std::mem::take(&mut self.open);
        if !records.is_empty() {
            sink(Recorded { thread: self.thread, records, is_whole });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bursts(words: &[u64]) -> Vec<(u32, Vec<u32>, bool)> {
        let (mut log, mut bursts) = (AreaLog::default(), Vec::new());
        let mut sink = |Recorded { thread, records, is_whole }| bursts.push((thread, records, is_whole));
        log.take(words, &mut sink);
        log.end(&mut sink);
        bursts
    }

    fn block(record: u32) -> u64 {
        u64::from(record) << 32
    }

    #[test]
    fn marks_end_bursts() {
        let end = Mark::BurstEnd.word();
        let words = [Mark::Thread(7).word(), block(1), block(2), end, block(3), end, Mark::Thread(8).word(), block(4)];
        let expected = vec![(7, vec![1, 2], true), (7, vec![3], true), (8, vec![4], false)];
        assert_eq!(bursts(&words), expected);
    }

    #[test]
    fn handlers_have_bursts_of_their_own() {
        let [thread, handler, back, end] =
            [Mark::Thread(7), Mark::Handler, Mark::HandlerEnd, Mark::BurstEnd].map(Mark::word);
        let words = [thread, block(1), handler, block(2), end, block(3), back, block(4), end];
        let expected = vec![(7, vec![2], true), (7, vec![3], false), (7, vec![1, 4], true)];
        assert_eq!(bursts(&words), expected);
        // A handler that never returns, because it jumps.
        assert_eq!(bursts(&[thread, block(1), handler, block(2)]), vec![(7, vec![2], false), (7, vec![1], false)]);
    }
}
