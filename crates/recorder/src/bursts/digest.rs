//! Turns the samples of a process into ticks of the profile.
//!
//! A tick stands for the CPU time of its thread since the thread's last tick, so that changes of
//! the rate need no care. A burst through code whose control flow is not known yet waits, with its
//! tick, until it is; copies can be in place a moment earlier.

use std::borrow::Cow;
use std::collections::HashMap;

use attach::SampleRef;
use profile::Builder;
use profile::builder::{BlockRef, Burst, Place, Taken, Tick};
use profile::model::ThreadId;
use wire::sample::{EndReason, Outcome, RIP, SampleHeader};

use super::tally::outcome_name;
use crate::process::layout::{Layout, Lookup};

/// Most block records that wait for control flow; ticks beyond that count without their bursts.
const MAX_WAITING_RECORDS: usize = 16 << 20;

/// The samples of one process on their way to the profile.
#[derive(Debug)]
pub struct Digest {
    pid: u32,
    command: String,
    /// One in so many intervals between checks counts.
    stride: u32,
    threads: HashMap<u32, KnownThread>,
    /// Samples that wait for control flow.
    waiting: Vec<Sample<'static>>,
    n_waiting_records: usize,
    /// Bursts that are not in the profile, because the control flow of their code is not known.
    pub n_unknown: u64,
    blocks: Vec<BlockRef>,
}

#[derive(Debug, Clone, Copy)]
struct KnownThread {
    id: ThreadId,
    cpu_ns: u64,
}

/// A sample on its way to the profile. One that waits for control flow owns what it refers to.
#[derive(Debug, Clone)]
struct Sample<'a> {
    header: Cow<'a, SampleHeader>,
    records: Cow<'a, [u32]>,
    /// Innermost first.
    frames: Cow<'a, [u64]>,
    thread: ThreadId,
    cpu_ns: u64,
    ns_per_cycle: f64,
}

impl Sample<'_> {
    fn into_owned(self) -> Sample<'static> {
        Sample {
            header: Cow::Owned(self.header.into_owned()),
            records: Cow::Owned(self.records.into_owned()),
            frames: Cow::Owned(self.frames.into_owned()),
            ..self
        }
    }
}

impl Digest {
    pub fn new(pid: u32, command: String, stride: u32) -> Digest {
        Digest {
            pid,
            command,
            stride,
            threads: HashMap::new(),
            waiting: Vec::new(),
            n_waiting_records: 0,
            n_unknown: 0,
            blocks: Vec::new(),
        }
    }

    /// Takes a sample, whose stack is `frames`, innermost first.
    pub fn take(
        &mut self,
        builder: &mut Builder,
        layout: &mut Layout,
        sample: &SampleRef<'_>,
        frames: &[u64],
        ns_per_cycle: f64,
    ) {
        let header = &sample.header;
        let (thread, cpu_ns) = self.time_since_last(builder, header);
        if header.outcome == Outcome::Paused as u8 {
            return;
        }
        let sample = Sample {
            header: Cow::Borrowed(header),
            records: Cow::Borrowed(sample.records),
            frames: Cow::Borrowed(frames),
            thread,
            cpu_ns,
            ns_per_cycle,
        };
        let lookup = self.find_blocks(layout, &sample);
        if lookup == Lookup::Later && self.n_waiting_records < MAX_WAITING_RECORDS {
            self.n_waiting_records += sample.records.len();
            self.waiting.push(sample.into_owned());
        } else {
            self.pass_on(builder, layout, &sample, lookup);
        }
    }

    /// Passes on the samples whose control flow is known by now; all of them if `is_last`.
    pub fn release(&mut self, builder: &mut Builder, layout: &mut Layout, is_last: bool) {
        for sample in std::mem::take(&mut self.waiting) {
            let lookup = self.find_blocks(layout, &sample);
            if !is_last && lookup == Lookup::Later {
                self.waiting.push(sample);
            } else {
                self.n_waiting_records -= sample.records.len();
                self.pass_on(builder, layout, &sample, lookup);
            }
        }
    }

    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn time_since_last(&mut self, builder: &mut Builder, header: &SampleHeader) -> (ThreadId, u64) {
        let (pid, command) = (self.pid, self.command.as_str());
        let known = self
            .threads
            .entry(header.tid)
            .or_insert_with(|| KnownThread { id: builder.thread(pid, header.tid, command), cpu_ns: 0 });
        // Ids are used again: less time than before is another thread's.
        let before = if header.cpu_ns >= known.cpu_ns { known.cpu_ns } else { 0 };
        known.cpu_ns = header.cpu_ns;
        (known.id, header.cpu_ns - before)
    }

    fn pass_on(&mut self, builder: &mut Builder, layout: &Layout, sample: &Sample<'_>, lookup: Lookup) {
        let header = &*sample.header;
        let Some(outcome) = Outcome::from_u8(header.outcome) else { return };
        let end_reason = EndReason::from_u8(header.end_reason).unwrap_or(EndReason::None);
        let is_burst = outcome == Outcome::Burst && end_reason != EndReason::Died;
        let is_known = is_burst && matches!(lookup, Lookup::Block(_));
        self.n_unknown += u64::from(is_burst && !is_known);
        let starts_mid_block =
            sample.records.first().is_none_or(|&first| layout.record_address(first) != header.registers[RIP]);
        let ends_before_last = sample.records.last().is_some_and(|&last| layout.record_address(last) == header.end_pc);
        let burst = Burst {
            blocks: &self.blocks,
            starts_mid_block,
            last_ran: !ends_before_last,
            taken: Taken { n_skipped: header.checks_to_skip, stride: self.stride },
            spent_ns: spent_ns(header, sample.ns_per_cycle),
            n_system_calls: header.n_system_calls,
        };
        let stack: Vec<Place> = sample.frames.iter().skip(1).rev().map(|&pc| layout.place(pc)).collect();
        builder.tick(&Tick {
            thread: sample.thread,
            cpu_ns: sample.cpu_ns,
            outcome: outcome_name(outcome),
            is_kernel: outcome == Outcome::SystemCall,
            place: layout.place(header.registers[RIP]),
            stack: &stack,
            burst: is_known.then_some(burst),
        });
    }

    /// Turns the records of a burst into blocks, from the one that the tick hit to the first that
    /// is unknown. Returns whether that is possible.
    fn find_blocks(&mut self, layout: &mut Layout, sample: &Sample<'_>) -> Lookup {
        self.blocks.clear();
        if sample.header.outcome != Outcome::Burst as u8 {
            return Lookup::Unknown;
        }
        let pc = sample.header.registers[RIP];
        let start = layout.block_containing(pc);
        let Lookup::Block(first) = start else { return start };
        let begins_with_it = sample.records.first().is_some_and(|&record| layout.record_address(record) == pc);
        if !begins_with_it {
            self.blocks.push(first);
        }
        for &record in &*sample.records {
            match layout.block(record) {
                Lookup::Block(block) => self.blocks.push(block),
                Lookup::Later => return Lookup::Later,
                Lookup::Unknown => break,
            }
        }
        start
    }
}

/// Time in the burst, system calls not included.
fn spent_ns(header: &SampleHeader, ns_per_cycle: f64) -> f64 {
    let cycles = header.end_tsc.saturating_sub(header.resume_tsc).saturating_sub(header.system_call_cycles);
    cycles as f64 * ns_per_cycle
}
