//! How long the session sleeps between two steps.
//!
//! Samples wait in shared memory; whatever else needs an answer wakes the session
//! ([`crate::wake`]). So naps grow while nothing happens, and even while threads tick: many samples
//! that are read at once cost less than one by one, because what reading them needs is still in the
//! caches. The ring of a thread must not fill up meanwhile, and until everything is translated,
//! what ticks say of what is wanted first should not wait.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use super::Session;
use super::processes::Followed;
use crate::plan::Mode;

/// Right after something has happened.
pub const SHORTEST_NAP: Duration = Duration::from_millis(1);
/// A ring of values or of paths that nobody reads makes the program wait.
const STREAM_NAP: Duration = Duration::from_micros(200);
/// While modules are being translated.
const TRANSLATING_NAP: Duration = Duration::from_millis(10);
/// While threads tick.
const BUSY_NAP: Duration = Duration::from_millis(100);
/// While nothing happens.
const IDLE_NAP: Duration = Duration::from_millis(250);
/// Part of the time since libraries were unloaded: until the session has looked, no burst starts in
/// that process, and a program that unloads does it again.
const OF_TIME_SINCE_UNLOAD: u32 = 8;
/// Bytes of a thread's samples in one nap: half a ring.
const ROOM: f64 = (2 << 20) as f64;
/// Bytes of a sample before any is known.
const USUAL_SAMPLE: f64 = (96 << 10) as f64;

/// What a nap depends on.
#[derive(Debug, Clone, Copy)]
struct Situation {
    has_samples: bool,
    is_translating: bool,
    /// Ticks per second of a thread.
    rate_hz: f64,
    /// Bytes of a sample; nothing if there was none.
    sample_bytes: Option<f64>,
    /// Since a process waited for the session to deal with an unload.
    since_unload: Option<Duration>,
}

impl Session {
    /// Returns how long to sleep after a step, by the nap before it and whether there was anything
    /// to drain.
    pub fn next_nap(&self, before: Duration, has_samples: bool) -> Duration {
        let plan = &self.plan;
        match plan.mode {
            // The program waits for answers.
            Mode::Counted(_) => STREAM_NAP,
            Mode::Exact(_) | Mode::Pep(_) if plan.noting.is_some() || plan.mode.traces_paths() => STREAM_NAP,
            Mode::Exact(_) | Mode::Pep(_) => SHORTEST_NAP,
            Mode::Bursts(_) => {
                let tally = &self.sums.tally;
                let n_bytes = (4 * tally.n_records + tally.n_stack_bytes) as f64;
                let situation = Situation {
                    has_samples,
                    is_translating: self.is_translating(),
                    rate_hz: self.pace.budget.setting().rate_hz,
                    sample_bytes: (tally.n_samples > 0).then(|| n_bytes / tally.n_samples as f64),
                    since_unload: self.last_unload.map(|last| last.elapsed()),
                };
                self.until_due((2 * before).min(longest(situation)))
            }
        }
    }

    /// Returns what ends a nap before its time: ends of processes, and [`crate::wake`].
    pub fn wakening(&self) -> Vec<BorrowedFd<'_>> {
        let living = self.processes.iter().filter(|followed| !followed.has_ended());
        let ends = living.map(|Followed { of, .. }| of.process.pidfd().as_fd());
        std::iter::once(self.requests.wakening().as_fd()).chain(ends).collect()
    }

    /// Forgets what has ended naps so far.
    pub fn clear_wakening(&self) {
        self.requests.wakening().clear();
    }
}

fn longest(situation: Situation) -> Duration {
    let Situation { has_samples, is_translating, rate_hz, sample_bytes, since_unload } = situation;
    let usual = match (is_translating, has_samples) {
        (true, _) => TRANSLATING_NAP,
        (false, true) => BUSY_NAP,
        (false, false) => IDLE_NAP,
    };
    let wanted = since_unload.map_or(usual, |since| usual.min(since / OF_TIME_SINCE_UNLOAD));
    let seconds = ROOM / (rate_hz * sample_bytes.unwrap_or(USUAL_SAMPLE)).max(1.0);
    wanted.min(Duration::from_secs_f64(seconds)).max(SHORTEST_NAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Situation =
        Situation { has_samples: false, is_translating: false, rate_hz: 100.0, sample_bytes: None, since_unload: None };

    #[test]
    fn what_happens_makes_naps_shorter() {
        let busy = longest(Situation { has_samples: true, ..QUIET });
        let translating = longest(Situation { is_translating: true, ..QUIET });
        assert!(translating < busy && busy < longest(QUIET));
    }

    #[test]
    fn unloads_are_looked_for_where_they_were() {
        let after = |ms| longest(Situation { since_unload: Some(Duration::from_millis(ms)), ..QUIET });
        assert_eq!(after(1), SHORTEST_NAP);
        assert_eq!(after(80), Duration::from_millis(10));
        assert_eq!(after(1 << 20), longest(QUIET));
    }

    #[test]
    fn rings_do_not_fill_up() {
        for rate_hz in [1.0, 100.0, 200.0, 4000.0] {
            for sample_bytes in [1e3, 50e3, 160e3] {
                let nap = longest(Situation { rate_hz, sample_bytes: Some(sample_bytes), ..QUIET });
                assert!(nap == SHORTEST_NAP || nap.as_secs_f64() * rate_hz * sample_bytes <= 1.001 * ROOM);
            }
        }
    }
}
