//! What a signal interrupted, so that the return from its handler can go on there, exactly.
//!
//! A handler sees the program's state at a twin point, not the state in the copy. In exact mode the
//! thread must go on in the middle of the probe or transfer that was interrupted, or a count would
//! be lost or made twice. So the state in the copy is kept in a [`Record`], and when the handler
//! returns with the context as it was given to it, the state comes back. A handler that changed its
//! context, or jumped out, has no use for the record; a later signal whose context lies in the same
//! place takes it away.
//!
//! Everything happens with all signals blocked, so that there is one user at a time.

use wire::events::Event;

use crate::bursts::recover::Machine;

/// Handlers that can be interrupted by each other before the outermost ones lose their records.
const N_RECORDS: usize = 16;

/// Fields of the thread's header that probes and the gate use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scratchpad {
    pub saved: [u64; 4],
    pub target: u64,
    pub twin: u64,
    pub frame: u64,
    pub end_reason: u32,
    pub system_call_number: u64,
    pub system_call_start: u64,
    pub events: Underway,
    /// What the metric's counter has gone up by since `charged`.
    pub uncharged: u64,
    pub ended_metric: u64,
    /// The access to the simulated cache: `line`, `last_line` and `has_missed`.
    pub access: [u64; 3],
    /// With the counted trigger: the checks that are left, and whether the version is the
    /// instrumented one.
    pub trigger: [u32; 2],
    /// If the interrupted code is the kernel's: how it comes back.
    pub hooked: Hooked,
    pub was_native: bool,
}

/// The place of a probe that was interrupted, or could have been, and what it may have written
/// there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Underway {
    pub next_event: u64,
    pub event: Event,
}

/// A return address that the runtime has replaced; see [`crate::exact::hook`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooked {
    /// Where it is; 0: nowhere.
    pub slot: u64,
    pub address: u64,
}

/// What was interrupted, and as what the handler sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupted {
    pub presented: Machine,
    pub truth: Machine,
    pub scratchpad: Scratchpad,
    /// Addresses of copies that were in registers which the program does not need, by index of the
    /// register; 0: none.
    pub hidden: [u64; N_REGISTERS],
}

/// General registers of a context.
pub const N_REGISTERS: usize = 16;

/// What the handler interrupted whose context is at `context`.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    context: u64,
    interrupted: Interrupted,
}

/// The records of one thread. All zero: there are none.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Records {
    records: [Record; N_RECORDS],
    next: usize,
}

impl Records {
    /// Keeps what a handler interrupted that gets its context at `context`.
    pub fn note(&mut self, context: u64, interrupted: &Interrupted) {
        self.forget(context);
        // One that is not in use, or else the oldest that was left behind.
        let free = self.records.iter().position(|record| record.context == 0);
        self.records[free.unwrap_or(self.next % N_RECORDS)] = Record { context, interrupted: *interrupted };
        self.next = self.next.wrapping_add(usize::from(free.is_none()));
    }

    /// Forgets what was kept for a context at `context`: another handler gets its context there,
    /// and what it interrupted is not known.
    pub fn forget(&mut self, context: u64) {
        for record in self.records.iter_mut().filter(|record| record.context == context) {
            record.context = 0;
        }
    }

    /// Takes out what the handler interrupted whose context is at `context`, if the state that it
    /// returns to is that.
    pub fn take(&mut self, context: u64, returning_to: &Machine) -> Option<Interrupted> {
        let record = self.records.iter_mut().find(|record| record.context == context && context != 0)?;
        record.context = 0;
        (record.interrupted.presented == *returning_to).then_some(record.interrupted)
    }
}
