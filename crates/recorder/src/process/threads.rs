//! Which threads are recorded.

use std::collections::HashSet;

/// A choice of threads by id or name.
#[derive(Debug)]
pub struct ThreadFilter {
    patterns: Vec<String>,
    wanted: HashSet<u32>,
    unwanted: HashSet<u32>,
}

impl ThreadFilter {
    /// Returns the filter of a user's patterns: ids, or parts of names. No patterns want all
    /// threads.
    pub fn new(patterns: &[String]) -> ThreadFilter {
        ThreadFilter { patterns: patterns.to_vec(), wanted: HashSet::new(), unwanted: HashSet::new() }
    }

    /// Returns whether a thread is recorded. Its name is what it was when it was first met.
    pub fn wants(&mut self, pid: u32, tid: u32) -> bool {
        if self.patterns.is_empty() || self.wanted.contains(&tid) {
            return true;
        }
        if self.unwanted.contains(&tid) {
            return false;
        }
        let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        let is_wanted =
            self.patterns.iter().any(|pattern| *pattern == tid.to_string() || name.contains(pattern.as_str()));
        if is_wanted {
            self.wanted.insert(tid)
        } else {
            self.unwanted.insert(tid)
        };
        is_wanted
    }
}
