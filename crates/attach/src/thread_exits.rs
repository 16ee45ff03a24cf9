//! The records that threads leave in exact mode when they end, out of memory that the target can
//! have filled with anything.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::exact::ThreadExit;

use crate::area::Area;

/// What a thread left when it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadExitRecord {
    /// Where it was.
    pub exit: ThreadExit,
    /// Its stack, from the stack pointer on.
    pub stack: Vec<u8>,
    /// Stack pointers before calls that it may have been in, and what each call left in its frame.
    pub frames: Vec<(u64, u64)>,
}

impl Area<'_> {
    /// Hands on what the area's threads left, in order. Ends where the target wrote nonsense.
    pub(crate) fn for_each_thread_exit(&self, sink: &mut dyn FnMut(&ThreadExitRecord)) {
        let mut rest = self.thread_exits();
        while let Some((words, behind)) = next(rest) {
            sink(&words);
            rest = behind;
        }
    }
}

fn next(words: &[AtomicU64]) -> Option<(ThreadExitRecord, &[AtomicU64])> {
    let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let (head, behind) = words.split_at_checked(ThreadExit::WORDS)?;
    let [rip, rsp, rbp, frame, n_stack_words, n_frames, thread] = head else { return None };
    let exit = ThreadExit {
        rip: load(rip),
        rsp: load(rsp),
        rbp: load(rbp),
        frame: load(frame),
        n_stack_words: load(n_stack_words),
        n_frames: load(n_frames),
        thread: load(thread),
    };
    let (stack, behind) = behind.split_at_checked(usize::try_from(exit.n_stack_words).ok()?)?;
    let (frames, behind) = behind.split_at_checked(usize::try_from(exit.n_frames).ok()?.checked_mul(2)?)?;
    let stack = stack.iter().flat_map(|word| load(word).to_le_bytes()).collect();
    let frames = frames.as_chunks().0.iter().map(|[key, frame]| (load(key), load(frame))).collect();
    Some((ThreadExitRecord { exit, stack, frames }, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[u64]) -> Vec<AtomicU64> {
        values.iter().copied().map(AtomicU64::new).collect()
    }

    #[test]
    fn records_follow_each_other() {
        let log = words(&[1, 2, 3, 4, 1, 1, 9, 77, 10, 11, 5, 6, 7, 8, 0, 0, 9]);
        let (first, behind) = next(&log).expect("a record");
        let exit = ThreadExit { rip: 1, rsp: 2, rbp: 3, frame: 4, n_stack_words: 1, n_frames: 1, thread: 9 };
        assert_eq!(first, ThreadExitRecord { exit, stack: 77u64.to_le_bytes().to_vec(), frames: vec![(10, 11)] });
        let (second, behind) = next(behind).expect("another");
        assert_eq!((second.exit.rip, second.stack.len(), second.frames.len()), (5, 0, 0));
        assert!(next(behind).is_none());
    }

    #[test]
    fn nonsense_ends_them() {
        assert!(next(&words(&[1, 2, 3, 4, 5, 0, 9])).is_none(), "more stack than there is");
        assert!(next(&words(&[1, 2, 3, 4, 0, u64::MAX, 9])).is_none(), "more frames than there can be");
        assert!(next(&words(&[1, 2, 3])).is_none(), "less than a head");
    }
}
