//! When to look again at which files a process has loaded, and at its signals and threads.
//!
//! To look means to read files of `/proc`, which takes the kernel a tenth of a millisecond and
//! more. A process that has not run since the last look is as it was then; and one in which a look
//! finds nothing new is looked at more rarely.

use std::time::{Duration, Instant};

/// When modules were looked at.
#[derive(Debug)]
pub struct Scans {
    looks: Looks,
    every: Duration,
}

/// How often modules are looked at while there are new ones,
const SCAN_EVERY: Duration = Duration::from_millis(100);
/// and when there have been none for long.
const SCAN_AT_LEAST_EVERY: Duration = Duration::from_secs(1);
/// With ticks in unknown code, so many times as often.
const STRANGERS_HURRY: u32 = 10;

impl Scans {
    /// Returns the state of a process that was never looked at.
    pub fn new() -> Scans {
        Scans { looks: Looks::new(), every: SCAN_EVERY }
    }

    /// Returns whether to look again at a process that has used so much CPU time. Ticks in unknown
    /// code are a hint that something was loaded.
    pub fn is_due(&self, cpu_ns: u64, has_strangers: bool) -> bool {
        self.looks.is_due(cpu_ns, if has_strangers { self.every / STRANGERS_HURRY } else { self.every })
    }

    /// Notes that modules were looked at, and whether there were new ones.
    pub fn done(&mut self, cpu_ns: u64, has_news: bool) {
        self.looks.done(cpu_ns);
        self.every = if has_news { SCAN_EVERY } else { (2 * self.every).min(SCAN_AT_LEAST_EVERY) };
    }
}

/// When a process was looked at.
#[derive(Debug)]
pub struct Looks {
    last: Instant,
    cpu_ns: u64,
}

impl Looks {
    /// Returns the state of a process that has just joined.
    pub fn new() -> Looks {
        Looks { last: Instant::now(), cpu_ns: 0 }
    }

    /// Returns whether to look again at a process that has used so much CPU time.
    pub fn is_due(&self, cpu_ns: u64, every: Duration) -> bool {
        cpu_ns != self.cpu_ns && self.last.elapsed() >= every
    }

    /// Notes that the process was looked at.
    pub fn done(&mut self, cpu_ns: u64) {
        (self.last, self.cpu_ns) = (Instant::now(), cpu_ns);
    }
}

/// When a process was looked at in ways that take the longer the larger it is.
#[derive(Debug)]
pub struct CostlyLooks {
    looks: Looks,
    cost: Duration,
}

/// A look that has begun.
#[derive(Debug)]
pub struct CostlyLook {
    started: Instant,
    cpu_ns: u64,
}

/// Time of costly looks, as one part in so many of the time that passes.
const COSTLY_SHARE: u32 = 1000;

impl CostlyLooks {
    /// A process that has just come.
    pub fn new() -> CostlyLooks {
        CostlyLooks { looks: Looks::new(), cost: Duration::ZERO }
    }

    /// Begins to look at a process that has used so much CPU time, if it is time for that.
    pub fn begin(&self, cpu_ns: u64) -> Option<CostlyLook> {
        let is_due = self.looks.is_due(cpu_ns, self.cost.saturating_mul(COSTLY_SHARE));
        is_due.then(|| CostlyLook { started: Instant::now(), cpu_ns })
    }

    /// Ends a look.
    pub fn end(&mut self, look: CostlyLook) {
        self.cost = look.started.elapsed();
        self.looks.done(look.cpu_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_run_is_not_looked_at() {
        let mut looks = Looks::new();
        looks.done(5);
        assert!(!looks.is_due(5, Duration::ZERO));
        assert!(looks.is_due(6, Duration::ZERO));
        assert!(!looks.is_due(6, Duration::MAX));
    }

    #[test]
    fn modules_are_looked_at_more_rarely_while_none_come() {
        let mut scans = Scans::new();
        (0..10).for_each(|_| scans.done(0, false));
        assert_eq!(scans.every, SCAN_AT_LEAST_EVERY);
        scans.done(0, true);
        assert_eq!(scans.every, SCAN_EVERY);
    }

    #[test]
    fn costly_looks_take_their_share_of_the_time() {
        let mut looks = CostlyLooks::new();
        let look = looks.begin(1).unwrap();
        looks.end(look);
        looks.cost = Duration::from_secs(3600);
        assert!(looks.begin(2).is_none());
        looks.cost = Duration::ZERO;
        assert!(looks.begin(2).is_some() && looks.begin(1).is_none());
    }
}
