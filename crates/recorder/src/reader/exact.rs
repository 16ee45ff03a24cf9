//! Reads the counters of a process whose threads never leave the copies, and the paths that it
//! writes one by one.
//!
//! Counters are read when their process has ended.

use std::time::Duration;

use store::path_trace::facts::Fact;

use super::waiting::{self, Answering};
use super::{Reader, Request};
use crate::exact;
use crate::exact::path_trace::{self, ProcessTrace};
use crate::exact::stops;
use crate::process::{Module, Watched};
use crate::sums::Sums;
use crate::translation::work::Work;

/// The counters of one process.
#[derive(Debug)]
pub struct ExactReader {
    answering: Answering,
    /// Paths one by one, if they are traced.
    path_trace: Option<ProcessTrace>,
}

impl ExactReader {
    /// Returns the reader of a process that has just joined, with its number if its paths are
    /// traced.
    pub fn new(traced: Option<u32>) -> ExactReader {
        ExactReader { answering: Answering::default(), path_trace: traced.map(ProcessTrace::new) }
    }
}

impl Reader for ExactReader {
    fn drain(&mut self, of: &mut Watched, sums: &mut Sums, is_last: bool) {
        if let (Some(trace), Some(writer)) = (&mut self.path_trace, &mut sums.path_trace) {
            path_trace::drain(trace, &of.process, writer, is_last);
        }
    }

    fn may_unload(&self, of: &Watched, work: &Work) -> bool {
        waiting::may_unload(of, work)
    }

    fn unloading(&mut self, of: &Watched) {
        exact::forget_targets(of);
    }

    fn attend(&mut self, of: &Watched, progress: u32) -> Option<Request> {
        self.answering.attend(of, progress)
    }

    fn flush(&mut self, of: &mut Watched, sums: &mut Sums) {
        if let (Some(trace), Some(writer)) = (&mut self.path_trace, &mut sums.path_trace) {
            path_trace::write(trace, of, writer);
        }
    }

    fn longest_wait(&self, of: &Watched, work: &Work) -> Option<Duration> {
        waiting::longest_wait(of, work)
    }

    fn conclude(&mut self, of: &mut Watched, sums: &mut Sums) {
        self.flush(of, sums);
        let stops = stops::stops(of);
        sums.exact.take(of, &stops, self.path_trace.as_ref());
        let (Some(trace), Some(writer)) = (&mut self.path_trace, &mut sums.path_trace) else { return };
        // What was not known before, and what did not end.
        path_trace::write(trace, of, writer);
        let module_at = |base: u64| of.modules.iter().find(|module| module.mapped.base == base);
        let stops: Vec<_> =
            stops.iter().filter_map(|each| Some((each.thread, module_at(each.module_base)?, each.stop))).collect();
        let first_key = |module: &Module| Some(of.process.first_counters(module.placed?.copy).key);
        trace.write_underway(&stops, &first_key, writer);
        let n_lost = of.process.event_counters().lost;
        sums.exact.n_words_lost += n_lost;
        writer.fact(&Fact::End { process: trace.number(), n_lost });
    }
}
