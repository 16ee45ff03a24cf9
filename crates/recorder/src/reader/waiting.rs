//! Processes whose threads never leave the copies: each waits for copies of everything that it
//! loads, and is answered when they are in place.

use std::time::Duration;

use super::Request;
use crate::process::Watched;
use crate::translation::work::Work;

/// Longest time that an ended process waits for the control flow of its modules.
pub const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// The request of a process that is being worked on.
#[derive(Debug, Default)]
pub struct Answering {
    number: Option<u32>,
}

impl Answering {
    /// Returns the open request of a process, after telling the process that the agent is alive:
    /// translating gets on as long as `progress` changes.
    pub fn attend(&mut self, of: &Watched, progress: u32) -> Option<Request> {
        of.process.show_life(progress);
        let number = of.process.open_request()?;
        let is_new = self.number.replace(number) != Some(number);
        Some(Request { number, is_new })
    }
}

/// Returns whether unloading may go on: the process waits until it is answered, and that needs to
/// know all its copies.
pub fn may_unload(of: &Watched, work: &Work) -> bool {
    !awaits(of, work)
}

/// Returns how long the end of a process waits for what is still being translated.
pub fn longest_wait(of: &Watched, work: &Work) -> Option<Duration> {
    awaits(of, work).then_some(LONGEST_WAIT)
}

fn awaits(of: &Watched, work: &Work) -> bool {
    of.awaits_copies() && (work.has_jobs_for(of.process.pid()) || work.is_indexing())
}
