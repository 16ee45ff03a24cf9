//! Reading what one process leaves, for each way of recording.

pub mod bursts;
pub mod counted;
pub mod exact;
mod waiting;

use std::fmt::Debug;
use std::time::Duration;

use profile::builder::BlockRef;

use crate::process::{Module, Watched};
use crate::sums::Sums;
use crate::translation::Translation;
use crate::translation::work::Work;

/// Reads what one process leaves in shared memory. There is one implementation for each way of
/// recording ([`crate::Mode`]); none of its methods blocks.
pub trait Reader: Debug {
    /// Takes what has arrived; if `is_last`, all that is left.
    fn drain(&mut self, of: &mut Watched, sums: &mut Sums, is_last: bool);

    /// Learns that a module has been translated.
    fn translated(&mut self, _module: &Module, _translation: &Translation) {}

    /// Learns that the control flow of the module at `base` is known, its blocks numbered from
    /// `first`.
    fn code_known(
        &mut self,
        _of: &mut Watched,
        _base: u64,
        _first: BlockRef,
        _translation: &Translation,
        _sums: &mut Sums,
    ) {
    }

    /// Learns that the module at `base` is gone.
    fn unloaded(&mut self, _base: u64) {}

    /// Returns whether unloading may go on in a process that waits for that.
    fn may_unload(&self, _of: &Watched, _work: &Work) -> bool {
        true
    }

    /// Prepares the process for code that is going away.
    fn unloading(&mut self, _of: &Watched) {}

    /// Sees to a process that waits for copies of what it has loaded; returns whether its modules
    /// must be looked at first.
    fn attend(&mut self, _of: &Watched, _progress: u32) -> Option<Request> {
        None
    }

    /// Writes what is kept so far to files.
    fn flush(&mut self, of: &mut Watched, sums: &mut Sums);

    /// Returns how long the end of a process that has ended may wait, if it has to: for control
    /// flow that is still being found, without which what has been read says nothing.
    fn longest_wait(&self, of: &Watched, work: &Work) -> Option<Duration>;

    /// Adds what is left to the sums: the process has ended, and nothing more will be known.
    fn conclude(&mut self, of: &mut Watched, sums: &mut Sums);
}

/// A process that waits for copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The number of the request.
    pub number: u32,
    /// Whether it is new.
    pub is_new: bool,
}
