//! Running the analysis on several threads, which the analysis itself never starts.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flow::Executor;

/// Runs work on this many threads; each takes the next item when it is free.
#[derive(Clone, Copy, Debug)]
pub struct Threads(pub NonZeroUsize);

impl Threads {
    /// As many threads as there are processors to use.
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
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return done };
                done.push((index, work(item)));
            }
        };
        let mut results = thread::scope(|scope| {
            let others: Vec<_> = (1..self.0.get()).map(|_| scope.spawn(take_items)).collect();
            let mut results = take_items();
            for other in others {
                match other.join() {
                    Ok(done) => results.extend(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            results
        });
        results.sort_unstable_by_key(|&(index, _)| index);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..1000).collect();
        let threads = Threads(NonZeroUsize::new(4).unwrap());
        assert_eq!(threads.map(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
    }
}
