//! Writing while the program runs: burst logs, and snapshots of the profile, so that a recording
//! that is killed leaves one.
//!
//! A snapshot costs what the whole profile costs, however little has changed. So the next one waits
//! for as long as it takes that its cost is [`SHARE`] of the time; if somebody looks at each,
//! [`WATCHED_SHARE`].

use std::time::{Duration, Instant};

use profile::Profile;

use super::Session;
use super::processes::Followed;
use crate::bursts::shares::Shares;
use crate::plan::Mode;
use crate::rows::{Fact, seconds};

const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// CPU time of snapshots, as one part in so many of the time that passes.
const SHARE: u32 = 500;
/// The same while each is shown to somebody.
const WATCHED_SHARE: u32 = 20;

/// Snapshots of the profile while the program runs.
#[derive(Debug)]
pub(super) struct Writing {
    last_flush: Instant,
    last_write: Instant,
    /// CPU time that the last snapshot took,
    cost: Duration,
    /// and how many samples it was made of.
    n_samples: Option<u64>,
    pub error: Option<String>,
    /// Somebody asks for what was written.
    is_watched: bool,
    /// What was written last, if somebody asks for it.
    latest: Option<Profile>,
}

impl Writing {
    pub fn new(now: Instant) -> Writing {
        Writing {
            last_flush: now,
            last_write: now,
            cost: Duration::ZERO,
            n_samples: None,
            error: None,
            is_watched: false,
            latest: None,
        }
    }

    pub fn is_flush_due(&self) -> bool {
        self.last_flush.elapsed() >= FLUSH_EVERY
    }

    /// Returns whether to write a snapshot of so many samples.
    fn is_snapshot_due(&self, n_samples: u64) -> bool {
        self.n_samples != Some(n_samples) && self.last_write.elapsed() >= pause(self.cost, self.is_watched)
    }
}

/// Returns how long to wait after a snapshot of this cost.
fn pause(cost: Duration, is_watched: bool) -> Duration {
    cost.saturating_mul(if is_watched { WATCHED_SHARE } else { SHARE })
}

impl Session {
    /// Writes what has been read so far, and a snapshot of the profile where the mode has one and
    /// it does not cost too much.
    pub(super) fn flush(&mut self) {
        self.writing.last_flush = Instant::now();
        for Followed { of, reader, .. } in self.processes.iter_mut().filter(|followed| !followed.has_ended()) {
            reader.flush(of, &mut self.sums);
            let Some(look) = of.costly_looks.begin(of.cpu_ns) else { continue };
            for path in of.unplace_changed() {
                self.sums.counters.problem(format!("{}: the program has changed this code", path.display()));
            }
            of.blind_threads.extend(of.process.threads_that_block_ticks().unwrap_or_default());
            of.costly_looks.end(look);
        }
        if let Some(n_samples) = self.n_samples().filter(|&n_samples| self.writing.is_snapshot_due(n_samples)) {
            self.write_snapshot(n_samples);
        }
    }

    /// Returns how many samples a snapshot would be made of, where the mode has snapshots.
    fn n_samples(&self) -> Option<u64> {
        match self.plan.mode {
            Mode::Bursts(_) => Some(self.sums.tally.n_samples),
            Mode::Counted(_) => Some(self.sums.counted.n_bursts),
            // Counters are read when their process has ended.
            Mode::Exact(_) | Mode::Pep(_) => None,
        }
    }

    fn write_snapshot(&mut self, n_samples: u64) {
        let before = thread_cpu_time();
        let facts = so_far(self);
        for (name, value) in &facts {
            self.sums.recording.fact(name, value);
        }
        let mut profile = self.sums.builder.profile();
        self.write(&profile);
        if self.writing.is_watched {
            profile.facts.extend(facts.into_iter().map(|(name, value)| (name.to_owned(), value)));
            self.writing.latest = Some(profile);
        }
        self.writing.n_samples = Some(n_samples);
        self.writing.cost = thread_cpu_time().saturating_sub(before);
    }

    /// Returns the profile so far, if it has been written since the last time. Whoever asks is
    /// taken to look at each, so that they come more often.
    pub fn take_latest(&mut self) -> Option<Profile> {
        self.writing.is_watched = true;
        self.writing.latest.take()
    }

    /// Writes a profile. One that cannot be written does not stop the program; the loss is reported
    /// at the end.
    pub fn write(&mut self, profile: &Profile) {
        if let Err(error) = self.sums.recording.write(profile) {
            self.writing.error.get_or_insert(error.to_string());
        }
        self.writing.last_write = Instant::now();
    }
}

/// Returns what can be said while the program runs, for those who read the profile meanwhile, or
/// after strobe was killed.
fn so_far(session: &Session) -> Vec<Fact> {
    let cpu_seconds = session.cpu_seconds();
    let mut rows = vec![
        ("command", session.plan.command_line()),
        ("strobe", env!("CARGO_PKG_VERSION").to_owned()),
        ("cpu_s", format!("{cpu_seconds:.3}")),
        ("elapsed_s", seconds(session.started().elapsed())),
    ];
    match &session.plan.mode {
        Mode::Counted(trigger) => {
            rows.extend([("trigger", trigger.to_string()), ("bursts", session.sums.counted.n_bursts.to_string())]);
        }
        Mode::Bursts(_) | Mode::Exact(_) | Mode::Pep(_) => {
            let tally = &session.sums.tally;
            rows.extend([("ticks", tally.n_samples.to_string()), ("bursts", tally.n_bursts.to_string())]);
            rows.extend(Shares::of(&session.cost(), cpu_seconds).rows());
        }
    }
    rows
}

/// Returns the CPU time of this thread: what strobe costs, however busy the machine and its disk
/// are.
fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_take_their_share_of_the_time() {
        let cost = Duration::from_millis(20);
        assert_eq!(cost.div_duration_f64(pause(cost, false)), 0.002);
        assert_eq!(cost.div_duration_f64(pause(cost, true)), 0.05);
    }
}
