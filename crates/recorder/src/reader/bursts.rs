//! Reads the samples of a process: ticks, and the bursts that they started.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use attach::SampleRef;
use profile::builder::BlockRef;
use store::burst_log::LoggedBurst;
use wire::control::Policy;
use wire::sample::{EndReason, Outcome, RIP};

use super::Reader;
use crate::burst_log::{BurstLog, log_place};
use crate::bursts::check::{self, Burst, CheckedModule};
use crate::bursts::digest::Digest;
use crate::bursts::tally::end_reason_name;
use crate::plan::{Bursts, Sampling};
use crate::process::threads::ThreadFilter;
use crate::process::{Module, Watched};
use crate::sums::Sums;
use crate::translation::Translation;
use crate::translation::work::Work;

/// Longest wait for the control flow of code that a process ran that has ended.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// The samples of one process.
#[derive(Debug)]
pub struct BurstReader {
    digest: Digest,
    threads: ThreadFilter,
    /// Modules whose bursts are checked.
    checked: Option<Vec<CheckedModule>>,
    /// The block records of bursts, if they are kept.
    log: Option<BurstLog>,
    /// Where bursts ended before their time, and why.
    departures: BTreeMap<(EndReason, u64), u64>,
}

impl BurstReader {
    /// Returns the reader of a process that has just joined.
    pub fn new(bursts: &Bursts, threads: &[String], pid: u32, command: String) -> BurstReader {
        let stride = match bursts.sampling {
            Some(Sampling { policy: Policy::Full, stride, .. }) => stride,
            _ => 1,
        };
        BurstReader {
            digest: Digest::new(pid, command, stride),
            threads: ThreadFilter::new(threads),
            checked: bursts.verifies.then(Vec::new),
            log: bursts.keeps_log.then(BurstLog::default),
            departures: BTreeMap::new(),
        }
    }

    fn take(&mut self, of: &mut Watched, sums: &mut Sums, sample: &SampleRef<'_>, ns_per_cycle: f64) {
        let header = &sample.header;
        sums.tally.add(header);
        if !self.threads.wants(of.process.pid(), header.tid) {
            return;
        }
        let Some(outcome) = Outcome::from_u8(header.outcome) else { return };
        sums.lot.add(of.process.pid(), header.tid);
        let frames = of.unwinder.unwind(header, sample.stack);
        self.digest.take(&mut sums.builder, &mut of.layout, sample, &frames, ns_per_cycle);
        match outcome {
            Outcome::Burst => self.take_burst(of, sums, sample),
            Outcome::NoCopy | Outcome::Outside => {
                let module = of.modules.iter().find(|module| module.contains(header.registers[RIP]));
                *of.wanted.entry(module.map_or(0, |module| module.mapped.base)).or_default() += 1;
            }
            _ => {}
        }
    }

    fn take_burst(&mut self, of: &Watched, sums: &mut Sums, sample: &SampleRef<'_>) {
        let header = &sample.header;
        let end_reason = EndReason::from_u8(header.end_reason).unwrap_or(EndReason::None);
        if end_reason != EndReason::Full {
            *self.departures.entry((end_reason, header.end_pc)).or_default() += 1;
        }
        if let Some(modules) = &self.checked {
            let blocks: Vec<u64> = sample.records.iter().map(|&record| of.layout.record_address(record)).collect();
            let burst = Burst { start_pc: header.registers[RIP], blocks: &blocks, end_reason, end_pc: header.end_pc };
            check::check(modules, &burst, &mut sums.findings);
        }
        if let Some(log) = &mut self.log {
            let burst = LoggedBurst {
                thread: header.tid,
                end_reason: header.end_reason,
                n_to_skip: header.checks_to_skip,
                start: log_place(&of.layout, header.registers[RIP]),
                end: log_place(&of.layout, header.end_pc),
                blocks: sample
                    .records
                    .iter()
                    .map(|&record| log_place(&of.layout, of.layout.record_address(record)))
                    .collect(),
            };
            log.keep(of.id, &burst, &mut sums.recording);
        }
    }
}

impl Reader for BurstReader {
    fn drain(&mut self, of: &mut Watched, sums: &mut Sums, is_last: bool) {
        let process = Arc::clone(&of.process);
        let ns_per_cycle = sums.clock.ns_per_cycle();
        let mut sink = |sample: SampleRef<'_>| self.take(of, sums, &sample, ns_per_cycle);
        let drained = if is_last { process.salvage(&mut sink) } else { process.drain(&mut sink) };
        sums.counters.bad_streams += drained.bad_streams;
    }

    fn translated(&mut self, module: &Module, translation: &Translation) {
        if let (Some(checked), Some(blocks)) = (&mut self.checked, translation.blocks.get()) {
            checked.push(CheckedModule {
                name: module.mapped.path.display().to_string(),
                start: module.mapped.base,
                end: module.mapped.end,
                bias: module.mapped.bias,
                blocks: Arc::clone(blocks),
            });
        }
    }

    fn code_known(&mut self, of: &mut Watched, base: u64, first: BlockRef, translation: &Translation, sums: &mut Sums) {
        let Some(code) = translation.code.get() else { return };
        of.layout.set_code(base, first, Arc::clone(code));
        self.digest.release(&mut sums.builder, &mut of.layout, false);
    }

    fn unloaded(&mut self, base: u64) {
        self.checked.iter_mut().for_each(|checked| checked.retain(|module| module.start != base));
    }

    fn flush(&mut self, of: &mut Watched, sums: &mut Sums) {
        if let Some(log) = &mut self.log {
            log.write(of.id, &mut sums.recording);
        }
    }

    fn longest_wait(&self, _of: &Watched, work: &Work) -> Option<Duration> {
        let waits = self.digest.is_waiting() && (!work.is_idle() || work.is_indexing());
        waits.then_some(LONGEST_WAIT)
    }

    fn conclude(&mut self, of: &mut Watched, sums: &mut Sums) {
        self.digest.release(&mut sums.builder, &mut of.layout, true);
        sums.counters.unknown_bursts += self.digest.n_unknown;
        self.flush(of, sums);
        for (&(reason, pc), n) in &self.departures {
            let place = format!("{} at {}", end_reason_name(reason), of.place_in_words(pc));
            *sums.counters.departures.entry(place).or_default() += n;
        }
    }
}
