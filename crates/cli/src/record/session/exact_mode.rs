//! Exact mode: processes wait for copies of everything that they have loaded, and in the end their counters are the profile.

use std::time::{Duration, Instant};

use crate::record::exact;
use crate::record::process::{Module, Watched};
use crate::record::session::Session;
use crate::record::tracing;
use crate::trace::facts::Fact;

/// For the control flow of modules of a process that has ended.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
const WAIT_EVERY: Duration = Duration::from_millis(20);

impl Session<'_> {
    /// Sees to the processes that wait for copies.
    pub(super) fn answer_requests(&mut self) {
        if self.props.exact.is_none() {
            return;
        }
        let mut processes = std::mem::take(&mut self.processes);
        for watched in &mut processes {
            watched.process.show_life(self.translator.progress());
            let Some(request) = watched.process.open_request() else { continue };
            if watched.answering != Some(request) {
                self.scan(watched);
                watched.answering = Some(request);
            }
            if !self.work.has_jobs_for(watched.process.pid()) {
                watched.process.answer(request);
                watched.answering = None;
            }
        }
        self.processes = processes;
    }

    /// Takes the counters of a process that has ended.
    pub(super) fn take_counters(&mut self, watched: &mut Watched) {
        if self.props.exact.is_none() {
            return;
        }
        let started = Instant::now();
        while self.awaits_modules(watched) && started.elapsed() < LONGEST_WAIT {
            // Others must not give up meanwhile.
            self.processes.iter().for_each(|other| other.process.show_life(self.translator.progress()));
            let Ok(done) = self.done.recv_timeout(WAIT_EVERY) else { continue };
            self.take_translation(done, Some(&mut *watched));
        }
        // What was sent before the last of them was counted as done.
        while let Ok(done) = self.done.try_recv() {
            self.take_translation(done, Some(&mut *watched));
        }
        self.exact.take(watched);
    }

    /// Writes the rest of the trace of a process that has ended: what was not known before, and what did not end.
    pub(super) fn end_trace(&mut self, watched: &mut Watched) {
        let Some(writer) = &mut self.trace else { return };
        tracing::write(watched, writer);
        let Watched { path_trace: Some(trace), modules, stops, process, .. } = watched else { return };
        let module_at = |base: u64| modules.iter().find(|module| module.mapped.base == base);
        let stops: Vec<_> =
            stops.iter().filter_map(|each| Some((each.thread, module_at(each.module_base)?, each.stop))).collect();
        let first_key = |module: &Module| Some(process.first_counters(module.placed?).key);
        trace.write_underway(&stops, &first_key, writer);
        let n_lost = process.event_counters().lost;
        self.exact.n_words_lost += n_lost;
        writer.fact(&Fact::End { process: trace.number(), n_lost });
    }

    /// Takes the values of a process that has ended.
    pub(super) fn take_values(&mut self, watched: &mut Watched) {
        if !self.props.noted.is_empty() {
            self.drain_events(watched, false);
            let n_salvaged = self.drain_events(watched, true);
            self.exact.values.take(watched, n_salvaged);
        }
    }

    /// Takes what has arrived of values; if it is the last time, also what has not been sent. How many messages.
    pub(super) fn drain_events(&mut self, watched: &mut Watched, is_last: bool) -> u64 {
        let Watched { process, events, converging, layout, .. } = watched;
        let mut sink = |messages: &[wire::events::Event]| match &mut self.value_stream {
            Some(stream) => stream.take(layout, messages),
            None => events.take(messages),
        };
        if is_last {
            return process.salvage_events(&mut sink);
        }
        let n_messages = process.drain_events(&mut sink);
        if let Some(converging) = converging {
            converging.look(process, events);
        }
        n_messages
    }

    /// Whether modules of a process are being translated, or their control flow found.
    pub(super) fn awaits_modules(&self, watched: &Watched) -> bool {
        watched.has_gaps() && (self.work.has_jobs_for(watched.process.pid()) || self.work.is_indexing())
    }

    /// The profile from the counters.
    pub fn exact_outcome(&self, exact: crate::props::ExactProps) -> exact::Outcome {
        let names = self.known_files.iter().map(|(key, known)| (known.id, key.path.display().to_string())).collect();
        self.exact.outcome(self.props, exact, 1e9 / self.clock.cycles_per_second(), &names)
    }
}
