//! Recording in bursts that a count of checks starts: from the block log of a process
//! ([`wire::path_trace`]) to bursts of the profile.
//!
//! Threads never leave the copies, of which there are two versions; what one records between two
//! marks is a burst. Bursts go to the profile in the order in which they were recorded, whenever
//! control flow becomes known: so that two runs with the same bursts have the same profile.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use profile::builder::{BlockRef, Burst, Taken, Tick};
use profile::model::ThreadId;
use store::burst_log::LoggedBurst;
use wire::sample::EndReason;

use super::waiting::{self, Answering};
use super::{Reader, Request};
use crate::burst_log::{BurstLog, log_place};
use crate::counted::log::{AreaLog, Recorded};
use crate::exact;
use crate::plan::Counted;
use crate::process::layout::Lookup;
use crate::process::threads::ThreadFilter;
use crate::process::{Module, Watched};
use crate::sums::Sums;
use crate::translation::Translation;
use crate::translation::work::Work;

/// Block records that wait for control flow at most; bursts beyond that are counted as unknown.
const MAX_WAITING_RECORDS: usize = 256 << 20;

/// The bursts of one process.
#[derive(Debug)]
pub struct CountedReader {
    pid: u32,
    command: String,
    answering: Answering,
    /// Whether bursts record blocks.
    logs: bool,
    filter: ThreadFilter,
    threads: HashMap<u32, ThreadId>,
    areas: Vec<AreaLog>,
    /// Bursts whose control flow is not known yet, and those behind them.
    waiting: VecDeque<Recorded>,
    n_waiting_records: usize,
    blocks: Vec<BlockRef>,
    log: Option<BurstLog>,
}

impl CountedReader {
    /// Returns the reader of a process that has just joined.
    pub fn new(counted: &Counted, threads: &[String], pid: u32, command: String) -> CountedReader {
        CountedReader {
            pid,
            command,
            answering: Answering::default(),
            logs: counted.logs,
            filter: ThreadFilter::new(threads),
            threads: HashMap::new(),
            areas: Vec::new(),
            waiting: VecDeque::new(),
            n_waiting_records: 0,
            blocks: Vec::new(),
            log: counted.keeps_log.then(BurstLog::default),
        }
    }

    /// Takes a burst that has ended.
    fn take(&mut self, burst: Recorded, of: &Watched, sums: &mut Sums) {
        if burst.records.is_empty() || !self.filter.wants(self.pid, burst.thread) {
            return;
        }
        sums.counted.n_bursts += 1;
        sums.counted.n_whole += u64::from(burst.is_whole);
        sums.counted.n_records += burst.records.len() as u64;
        if let Some(log) = &mut self.log {
            let places = burst.records.iter().map(|&record| log_place(&of.layout, of.layout.record_address(record)));
            let blocks: Vec<_> = places.collect();
            let end_reason = if burst.is_whole { EndReason::Full } else { EndReason::None };
            let logged = LoggedBurst {
                thread: burst.thread,
                end_reason: end_reason as u8,
                n_to_skip: 0,
                start: blocks.first().copied().unwrap_or_default(),
                end: blocks.last().copied().unwrap_or_default(),
                blocks,
            };
            log.keep(of.id, &logged, &mut sums.recording);
        }
        if self.n_waiting_records + burst.records.len() > MAX_WAITING_RECORDS {
            sums.counters.unknown_bursts += 1;
            return;
        }
        self.n_waiting_records += burst.records.len();
        self.waiting.push_back(burst);
    }

    /// Hands bursts on to the profile, up to the first that has to wait; with `is_last`, all.
    fn release(&mut self, of: &mut Watched, sums: &mut Sums, is_last: bool) {
        while let Some(burst) = self.waiting.pop_front() {
            self.blocks.clear();
            let mut looked_up = burst.records.iter().map(|&record| of.layout.block(record));
            let end = looked_up.find(|&found| match found {
                Lookup::Block(block) => {
                    self.blocks.push(block);
                    false
                }
                Lookup::Later | Lookup::Unknown => true,
            });
            if end == Some(Lookup::Later) && !is_last {
                return self.waiting.push_front(burst);
            }
            self.n_waiting_records -= burst.records.len();
            if self.blocks.is_empty() {
                sums.counters.unknown_bursts += 1;
                continue;
            }
            let (pid, command) = (self.pid, self.command.as_str());
            let builder = &mut sums.builder;
            let thread =
                *self.threads.entry(burst.thread).or_insert_with(|| builder.thread(pid, burst.thread, command));
            let is_told = end.is_none();
            builder.tick(&Tick {
                thread,
                cpu_ns: 0,
                outcome: "burst",
                is_kernel: false,
                place: of.layout.place(of.layout.record_address(burst.records[0])),
                stack: &[],
                burst: Some(Burst {
                    blocks: &self.blocks,
                    starts_mid_block: false,
                    last_ran: !burst.is_whole && is_told,
                    taken: Taken::ALL,
                    spent_ns: 0.0,
                    n_system_calls: 0,
                }),
            });
        }
    }
}

impl Reader for CountedReader {
    fn drain(&mut self, of: &mut Watched, sums: &mut Sums, is_last: bool) {
        if !self.logs {
            return;
        }
        let process = std::sync::Arc::clone(&of.process);
        let mut areas = std::mem::take(&mut self.areas);
        let mut sink = |area: usize, words: &[u64]| {
            if areas.len() <= area {
                areas.resize_with(area + 1, AreaLog::default);
            }
            areas[area].take(words, &mut |burst| self.take(burst, of, sums));
        };
        if is_last {
            process.salvage_words(&mut sink);
            for area in &mut areas {
                area.end(&mut |burst| self.take(burst, of, sums));
            }
        } else {
            process.drain_words(&mut sink);
        }
        self.areas = areas;
        self.release(of, sums, false);
    }

    fn code_known(&mut self, of: &mut Watched, base: u64, first: BlockRef, translation: &Translation, sums: &mut Sums) {
        let Some(code) = translation.code.get() else { return };
        of.layout.set_code(base, first, std::sync::Arc::clone(code));
        self.release(of, sums, false);
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
        if let Some(log) = &mut self.log {
            log.write(of.id, &mut sums.recording);
        }
    }

    fn longest_wait(&self, of: &Watched, work: &Work) -> Option<Duration> {
        let waits_for_code = !self.waiting.is_empty() && (!work.is_idle() || work.is_indexing());
        waiting::longest_wait(of, work).or(waits_for_code.then_some(waiting::LONGEST_WAIT))
    }

    fn conclude(&mut self, of: &mut Watched, sums: &mut Sums) {
        self.release(of, sums, true);
        self.flush(of, sums);
        sums.exact.stay.take(of);
        if self.logs {
            sums.counted.n_records_lost += of.process.event_counters().lost;
        }
    }

    fn unloaded(&mut self, _base: u64) {}

    fn translated(&mut self, _module: &Module, _translation: &Translation) {}
}
