//! How independent pieces of work are run.
//!
//! This crate starts no threads. It hands out work that may run in any order and at the same time;
//! the caller decides how. Results come back in the order of the items, so that the outcome does
//! not depend on the decision.

/// Runs independent work.
pub trait Executor {
    /// Applies `work` to every item and returns the results in the order of the items.
    fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R>;
}

/// Runs everything in the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequential;

impl Executor for Sequential {
    fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
        items.iter().map(work).collect()
    }
}
