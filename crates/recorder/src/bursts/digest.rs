//! From the samples of a process to ticks of the profile.
//!
//! A tick stands for the CPU time of its thread since the thread's last tick, so that changes of
//! the rate need no care. A burst through code whose control flow is not known yet is held back,
//! with its tick, until it is; copies can be in place a moment earlier.

use std::collections::HashMap;

use attach::SampleRef;
use profile::Builder;
use profile::builder::{BlockRef, Burst, Place, Taken, Tick, TimeModel};
use profile::model::ThreadId;
use wire::sample::{EndReason, Outcome, RIP, SampleHeader};

use super::tally::outcome_name;
use crate::process::layout::{Layout, Lookup};

/// Block records that are held back at most; ticks beyond that count without their bursts.
const MAX_HELD_RECORDS: usize = 16 << 20;

/// Fitted to programs of the corpus whose every block was counted, and to their phases among each
/// other (`docs/lab/recording.md`).
pub const TIMES: TimeModel = TimeModel {
    cycle_ns: 0.34,
    surprise_ns: 8.0,
    transfer_ns: 1.15,
    log_error: 0.25,
    watch_burst_ns: 1300.0,
    watch_record_ns: 1.9,
    watch_block_ns: 32.0,
    watch_page_ns: 1300.0,
    watch_transfer_ns: 8.4,
    watch_error: 0.5,
    tick_ns: 15_000.0,
};

/// What the samples of one process add up to on their way to the profile.
#[derive(Debug)]
pub struct Digest {
    pid: u32,
    command: String,
    /// One in so many intervals between checks counts.
    stride: u32,
    threads: HashMap<u32, KnownThread>,
    held: Vec<Held>,
    n_held_records: usize,
    /// Bursts that could not be told, because no control flow is known where they were.
    pub n_untold: u64,
    blocks: Vec<BlockRef>,
}

#[derive(Debug, Clone, Copy)]
struct KnownThread {
    id: ThreadId,
    cpu_ns: u64,
}

/// A sample as it is looked at.
#[derive(Debug, Clone, Copy)]
struct Seen<'a> {
    header: &'a SampleHeader,
    records: &'a [u32],
    /// Innermost first.
    frames: &'a [u64],
    thread: ThreadId,
    cpu_ns: u64,
    ns_per_cycle: f64,
}

/// A sample that waits for control flow.
#[derive(Debug)]
struct Held {
    header: SampleHeader,
    records: Vec<u32>,
    frames: Vec<u64>,
    thread: ThreadId,
    cpu_ns: u64,
    ns_per_cycle: f64,
}

impl Held {
    fn new(seen: Seen<'_>) -> Held {
        let Seen { header, records, frames, thread, cpu_ns, ns_per_cycle } = seen;
        Held { header: *header, records: records.to_vec(), frames: frames.to_vec(), thread, cpu_ns, ns_per_cycle }
    }

    fn seen(&self) -> Seen<'_> {
        let Held { header, records, frames, thread, cpu_ns, ns_per_cycle } = self;
        Seen { header, records, frames, thread: *thread, cpu_ns: *cpu_ns, ns_per_cycle: *ns_per_cycle }
    }
}

impl Digest {
    pub fn new(pid: u32, command: String, stride: u32) -> Digest {
        Digest {
            pid,
            command,
            stride,
            threads: HashMap::new(),
            held: Vec::new(),
            n_held_records: 0,
            n_untold: 0,
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
        let seen = Seen { header, records: sample.records, frames, thread, cpu_ns, ns_per_cycle };
        let told = self.tell_blocks(layout, seen);
        if told == Lookup::Later && self.n_held_records < MAX_HELD_RECORDS {
            self.n_held_records += seen.records.len();
            self.held.push(Held::new(seen));
        } else {
            self.hand_on(builder, layout, seen, told);
        }
    }

    /// Hands on what can be told by now. With `is_last`, everything.
    pub fn release(&mut self, builder: &mut Builder, layout: &mut Layout, is_last: bool) {
        for held in std::mem::take(&mut self.held) {
            let told = self.tell_blocks(layout, held.seen());
            if !is_last && told == Lookup::Later {
                self.held.push(held);
            } else {
                self.n_held_records -= held.records.len();
                self.hand_on(builder, layout, held.seen(), told);
            }
        }
    }

    pub fn is_waiting(&self) -> bool {
        !self.held.is_empty()
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

    fn hand_on(&mut self, builder: &mut Builder, layout: &Layout, seen: Seen<'_>, told: Lookup) {
        let header = seen.header;
        let Some(outcome) = Outcome::from_u8(header.outcome) else { return };
        let end_reason = EndReason::from_u8(header.end_reason).unwrap_or(EndReason::None);
        let is_burst = outcome == Outcome::Burst && end_reason != EndReason::Died;
        let is_told = is_burst && matches!(told, Lookup::Block(_));
        self.n_untold += u64::from(is_burst && !is_told);
        let starts_mid_block =
            seen.records.first().is_none_or(|&first| layout.record_address(first) != header.registers[RIP]);
        let ends_before_last = seen.records.last().is_some_and(|&last| layout.record_address(last) == header.end_pc);
        let burst = Burst {
            blocks: &self.blocks,
            starts_mid_block,
            last_ran: !ends_before_last,
            taken: Taken { n_skipped: header.checks_to_skip, stride: self.stride },
            spent_ns: spent_ns(header, seen.ns_per_cycle),
            n_system_calls: header.n_system_calls,
        };
        let stack: Vec<Place> = seen.frames.iter().skip(1).rev().map(|&pc| layout.place(pc)).collect();
        builder.tick(&Tick {
            thread: seen.thread,
            cpu_ns: seen.cpu_ns,
            outcome: outcome_name(outcome),
            is_kernel: outcome == Outcome::SystemCall,
            place: layout.place(header.registers[RIP]),
            stack: &stack,
            burst: is_told.then_some(burst),
        });
    }

    /// Turns the records of a burst into blocks, from the one that the tick hit to the first that
    /// is unknown. Says whether that can be done.
    fn tell_blocks(&mut self, layout: &mut Layout, seen: Seen<'_>) -> Lookup {
        self.blocks.clear();
        if seen.header.outcome != Outcome::Burst as u8 {
            return Lookup::Unknown;
        }
        let pc = seen.header.registers[RIP];
        let start = layout.block_containing(pc);
        let Lookup::Block(first) = start else { return start };
        let begins_with_it = seen.records.first().is_some_and(|&record| layout.record_address(record) == pc);
        if !begins_with_it {
            self.blocks.push(first);
        }
        for &record in seen.records {
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
