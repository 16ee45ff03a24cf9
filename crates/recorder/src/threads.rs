//! Runs the independent work of the analysis on several threads.
//!
//! Idle threads take the next item by an atomic counter, so that one huge function does not keep a
//! thread's fixed share waiting. The pure crates start no thread; they are handed this.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flow::Executor;

/// An executor of this many threads, the calling one included.
#[derive(Debug, Clone, Copy)]
pub struct Threads(pub NonZeroUsize);

impl Threads {
    /// Returns as many threads as there are processors to use.
    #[must_use]
    pub fn available() -> Threads {
        Threads(thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
    }
}

impl Executor for Threads {
    fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let take_items = || {
            let mut done = Vec::new();
            while let index = next.fetch_add(1, Ordering::Relaxed)
                && let Some(item) = items.get(index)
            {
                done.push((index, work(item)));
            }
            done
        };
        let n_helpers = self.0.get().min(items.len()).saturating_sub(1);
        let mut done = thread::scope(|scope| {
            let helpers: Vec<_> = (0..n_helpers).map(|_| scope.spawn(take_items)).collect();
            let mut done = take_items();
            for helper in helpers {
                done.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            done
        });
        done.sort_unstable_by_key(|&(index, _)| index);
        done.into_iter().map(|(_, result)| result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for n_threads in [1, 2, 7] {
            let threads = Threads(NonZeroUsize::new(n_threads).unwrap());
            for n_items in [0, 1, 5, 1000] {
                let items: Vec<usize> = (0..n_items).collect();
                let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
                assert_eq!(threads.map(&items, |item| item * 2), doubled);
            }
        }
    }
}
