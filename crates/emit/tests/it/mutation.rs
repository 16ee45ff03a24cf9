//! The verifier must notice every change to a good copy.
//!
//! Copies are changed in their stored form, of which the codec says what is where. A run tries a
//! sample of the changes (`sample`).

use emit::{Counting, Events, Layout, ModuleCopy, Probe};
use std::mem::offset_of;

use flow::ModuleFlow;
use image::Image;
use wire::recovery::{Run, kind, saves};

use crate::fixture::{assemble, parse, translate_with};
use crate::golden::disassembly;
use crate::sample::sampled;
use crate::shapes::{COUNTED, SHAPES};
use crate::storing::reseal;

/// A good copy, stored.
struct Subject<'data> {
    image: Image<'data>,
    flow: ModuleFlow,
    bytes: Vec<u8>,
    layout: Layout,
}

const NO_EVENTS: Events = Events::NONE;
/// Of so many changes a run tries one.
const ONE_IN: usize = 7;
const RUN_BYTES: usize = size_of::<Run>();
const RUN_FIELDS: [usize; 4] =
    [offset_of!(Run, original), offset_of!(Run, kind), offset_of!(Run, saves), offset_of!(Run, save_end)];

impl<'data> Subject<'data> {
    fn new(file: &'data [u8], probe: Probe, events: Events) -> Subject<'data> {
        let image = parse(file);
        let (flow, copy) = translate_with(&image, probe, events);
        assert_eq!(emit_verify::verify(&image, &flow, &copy), Ok(()));
        let (bytes, layout) = copy.to_bytes_with_layout();
        let subject = Subject { image, flow, bytes, layout };
        // Otherwise all changes would be noticed, for the wrong reason.
        assert_eq!(subject.changed(|_| {}).as_ref(), Some(&copy), "what is read is what was stored");
        subject
    }

    /// The copy with some bytes changed; `None` if it cannot even be read.
    fn changed(&self, change: impl FnOnce(&mut [u8])) -> Option<ModuleCopy> {
        let mut bytes = self.bytes.clone();
        change(&mut bytes);
        reseal(&mut bytes);
        ModuleCopy::from_bytes(&bytes).ok()
    }

    fn is_noticed(&self, change: impl FnOnce(&mut [u8])) -> bool {
        self.changed(change).is_none_or(|copy| emit_verify::verify(&self.image, &self.flow, &copy).is_err())
    }

    /// Where to start, in bytes of code. What all functions share has nothing to do with events,
    /// and need not be in use; but the last of it is what asks a data cache.
    fn first_byte(&self, events: Events) -> usize {
        let copy = self.copy();
        let first = copy.entries().map(|entry| entry.copy).min().unwrap_or(0);
        let shared = copy.runs().iter().filter(|run| run.copy < first && run.kind == kind::FORWARD);
        let asks_cache = !copy.accesses().is_empty();
        let start =
            if asks_cache { shared.map(|run| run.copy).max() } else { Some(first).filter(|_| !events.is_empty()) };
        start.unwrap_or(0) as usize
    }

    /// Whether a byte of code fills up what is before the functions.
    fn is_early_padding(&self, at: usize) -> bool {
        let copy = self.copy();
        let first = copy.entries().map(|entry| entry.copy).min().unwrap_or(0);
        let run = copy.runs().iter().rfind(|run| run.copy as usize <= at);
        at < first as usize && run.is_some_and(|run| run.kind == kind::NEVER)
    }

    /// All of the code from this byte on, and its rules of recovery.
    fn bits_matter_from(&self, first: usize) {
        let good = disassembly(&self.copy());
        let code = self.layout.code.clone();
        for at in sampled(code.start + first..code.end, ONE_IN) {
            for bit in 0..8 {
                let flip = |bytes: &mut [u8]| bytes[at] ^= 1 << bit;
                let is_same = || self.changed(flip).is_some_and(|copy| disassembly(&copy) == good);
                assert!(self.is_noticed(flip) || is_same(), "bit {bit} of byte {:#x} of the code", at - code.start);
            }
        }
        self.runs_matter_from(first);
    }

    fn runs_matter_from(&self, first: usize) {
        for (index, run) in sampled(self.copy().runs().iter().enumerate(), ONE_IN) {
            let at = self.layout.runs.start + index * RUN_BYTES;
            let Run { copy, original, kind, .. } = *run;
            let [at_original, at_kind, at_saves, at_ends] = RUN_FIELDS.map(|offset| at + offset);
            if kind == kind::NEVER || (copy as usize) < first {
                continue;
            }
            assert!(self.is_noticed(|bytes| bytes[at_kind] = kind::NEVER), "kind of the run at {copy:#x}");
            // A probe that reads nothing has no page faults.
            if kind == kind::STRAIGHT || run.writes != 0 {
                let change = |bytes: &mut [u8]| bytes[at + offset_of!(Run, writes)] ^= 1;
                assert!(self.is_noticed(change), "writes of the run at {copy:#x}");
            }
            if !matches!(kind, kind::FORWARD | kind::EXIT) {
                let change =
                    |bytes: &mut [u8]| bytes[at_original..][..4].copy_from_slice(&(original ^ 1).to_le_bytes());
                assert!(self.is_noticed(change), "original of the run at {copy:#x}");
            }
            if matches!(kind, kind::FORWARD | kind::EXIT | kind::AFTER_SYSTEM_CALL) && run.saves > saves::RAX {
                assert!(self.is_noticed(|bytes| bytes[at_saves] = saves::RAX), "saves of the run at {copy:#x}");
            }
            if kind == kind::FORWARD && run.save_end[1] != 0 {
                // Who switches versions saves flags in the next run, and changes only rcx before.
                let keeps_rax = run.save_end[2] == 0;
                for save in usize::from(keeps_rax)..2 {
                    // Late enough for both registers to have changed.
                    let change = |bytes: &mut [u8]| bytes[at_ends + save] += 60;
                    assert!(self.is_noticed(change), "end of save {save} of the run at {copy:#x}");
                }
            }
        }
    }

    fn copy(&self) -> ModuleCopy {
        ModuleCopy::from_bytes(&self.bytes).expect("a good copy")
    }
}

/// One bit of each byte is changed, which is allowed to go unnoticed only if the processor cannot
/// tell, either: some bits of prefixes mean nothing.
pub fn every_bit_of_code_matters(source: &str, probe: Probe, events: Events) {
    let file = assemble(source);
    let subject = Subject::new(&file, probe, events);
    let good = disassembly(&subject.copy());
    let asks_cache = !subject.copy().accesses().is_empty();
    let Layout { code, literals, .. } = subject.layout.clone();
    for at in sampled(code.start + subject.first_byte(events)..literals.end, ONE_IN) {
        let flip = |bytes: &mut [u8]| bytes[at] ^= 1 << (at * 5 % 8);
        let is_same = || subject.changed(flip).is_some_and(|copy| disassembly(&copy) == good);
        let is_filler = at + 8 >= literals.end && literals.start < at;
        let is_padding = || subject.is_early_padding(at - code.start);
        assert!(
            subject.is_noticed(flip) || is_same() && !is_filler || asks_cache && is_padding(),
            "byte {:#x} of the code",
            at - code.start
        );
    }
}

#[test]
fn every_bit_of_traced_code_matters() {
    every_bit_of_code_matters(SHAPES, Probe::Trace, NO_EVENTS);
}

#[test]
fn every_bit_of_bare_code_matters() {
    every_bit_of_code_matters(SHAPES, Probe::None, NO_EVENTS);
}

/// Everything that copies which are never left have.
fn counted() -> String {
    [SHAPES, COUNTED].concat()
}

#[test]
fn every_bit_of_code_that_counts_blocks_matters() {
    every_bit_of_code_matters(&counted(), Probe::Exact(Counting::Blocks), NO_EVENTS);
}

#[test]
fn every_bit_of_code_that_counts_paths_matters() {
    every_bit_of_code_matters(&counted(), Probe::Exact(Counting::Paths), NO_EVENTS);
}

#[test]
fn every_bit_of_code_that_keeps_contexts_matters() {
    every_bit_of_code_matters(SHAPES, Probe::Exact(Counting::CONTEXT_PATHS.by_call_site()), NO_EVENTS);
}

#[test]
fn every_bit_of_code_that_charges_cycles_matters() {
    every_bit_of_code_matters(SHAPES, Probe::Exact(Counting::CONTEXT_CYCLES), NO_EVENTS);
}

#[test]
fn every_bit_of_code_that_times_paths_matters() {
    every_bit_of_code_matters(SHAPES, Probe::Exact(Counting::PATH_CYCLES), NO_EVENTS);
}

/// A loop that passes flags from one turn to the next, and a call: what path ends do, and the code
/// that they share, is all that is looked at.
const PATH_ENDS: &str = "
        .globl _start
        _start: clc
        1:      adc (%rsi), %rax
                lea 8(%rsi), %rsi
                lea -1(%rcx), %rcx
                jrcxz 2f
                jmp 1b
        2:      call 3f
                ret
        3:      cmp $1, %rax
                je 4f
                inc %rax
        4:      ret
    ";

#[test]
fn every_bit_of_code_that_samples_paths_matters() {
    let file = assemble(PATH_ENDS);
    let subject = Subject::new(&file, Probe::Exact(Counting::SampledPaths), NO_EVENTS);
    let copy = subject.copy();
    assert!(copy.statistics().probes_flags_saved > 0, "{:?}", copy.statistics());
    let stub = copy.runs().iter().find(|run| run.kind == kind::FORWARD && run.saves & saves::RDX != 0).expect("a stub");
    subject.bits_matter_from(stub.copy as usize);
}

/// A path end with flags alive and ends without a dead register; one with two dead registers, and
/// one with one.
#[test]
fn every_bit_of_code_that_traces_paths_matters() {
    const DEAD: &str = "
        .globl _start
        _start: mov (%rsi), %rax
                mov (%rdi), %rdx
                add %rdx, %rax
                mov %rax, (%rdi)
                dec %r8
                jnz _start
        1:      mov (%rsi), %rdx
                add %rdx, %rax
                dec %r9
                jnz 1b
                ret
    ";
    for (source, has_dead) in [(PATH_ENDS, false), (DEAD, true)] {
        let file = assemble(source);
        let subject = Subject::new(&file, Probe::Exact(Counting::TracedPaths), NO_EVENTS);
        let copy = subject.copy();
        let statistics = copy.statistics();
        assert!(statistics.probes_spilled > 0 && (statistics.probes_dead_register > 0) == has_dead, "{statistics:?}");
        // What stubs do is looked at elsewhere.
        let first = copy.runs().iter().find(|run| run.kind == kind::STRAIGHT).expect("code of the program");
        subject.bits_matter_from(first.copy as usize);
    }
}

/// Every kind of exact counting that differs by its code.
fn all_countings() -> [Counting; 8] {
    [
        Counting::Nothing,
        Counting::Blocks,
        Counting::Paths,
        Counting::PATH_CYCLES,
        Counting::CONTEXTS,
        Counting::CONTEXT_PATHS,
        Counting::CONTEXT_PATH_CYCLES.by_call_site(),
        Counting::CONTEXT_CYCLES,
    ]
}

#[test]
fn every_cell_matters() {
    let file = assemble(&counted());
    for counting in all_countings() {
        let subject = Subject::new(&file, Probe::Exact(counting), NO_EVENTS);
        let Layout { addresses, records, cells, keys, cell_uses, .. } = subject.layout.clone();
        assert!(!(cell_uses.is_empty() || cells.is_empty() && keys.is_empty()), "{counting:?}");
        for at in sampled(addresses.chain(records).chain(cells).chain(keys).step_by(4), ONE_IN) {
            assert!(subject.is_noticed(|bytes| bytes[at] ^= 1), "{counting:?}: fix-up at {at:#x}");
        }
        for at in sampled(cell_uses.step_by(Layout::CELL_BYTES), ONE_IN) {
            assert!(subject.is_noticed(|bytes| bytes[at] ^= 1), "{counting:?}: kind of the cell at {at:#x}");
            assert!(subject.is_noticed(|bytes| bytes[at + 4] ^= 1), "{counting:?}: address of the cell at {at:#x}");
        }
    }
}

#[test]
fn every_landing_matters() {
    let file = assemble(&counted());
    for counting in all_countings() {
        let subject = Subject::new(&file, Probe::Exact(counting), NO_EVENTS);
        let landings = subject.layout.landings.clone();
        assert_eq!(landings.len(), subject.copy().landings().count() * Layout::LANDING_BYTES);
        let landings = landings.step_by(4);
        assert!(landings.len() > 2, "{counting:?}");
        for at in landings {
            assert!(subject.is_noticed(|bytes| bytes[at] ^= 1), "{counting:?}: landing at {at:#x}");
        }
    }
}

#[test]
fn every_fix_up_matters() {
    every_fix_up_of_a_copy_matters(&assemble(SHAPES), Probe::Trace, NO_EVENTS);
}

pub fn every_fix_up_of_a_copy_matters(file: &[u8], probe: Probe, events: Events) {
    let subject = Subject::new(file, probe, events);
    let Layout { addresses, records, .. } = subject.layout.clone();
    assert!(!addresses.is_empty() && !records.is_empty());
    for at in sampled(addresses.chain(records).step_by(4), ONE_IN) {
        assert!(subject.is_noticed(|bytes| bytes[at] ^= 1), "fix-up at {at:#x}");
    }
}

#[test]
fn every_run_matters() {
    every_run_of_a_copy_matters(&assemble(SHAPES), Probe::Trace, NO_EVENTS);
    every_run_of_a_copy_matters(&assemble(&counted()), Probe::Exact(Counting::Blocks), NO_EVENTS);
    every_run_of_a_copy_matters(&assemble(&counted()), Probe::Exact(Counting::Paths), NO_EVENTS);
    every_run_of_a_copy_matters(&assemble(&counted()), Probe::Exact(Counting::CONTEXT_PATHS.by_call_site()), NO_EVENTS);
    every_run_of_a_copy_matters(&assemble(&counted()), Probe::Exact(Counting::CONTEXT_CYCLES), NO_EVENTS);
    every_run_of_a_copy_matters(&assemble(&counted()), Probe::Exact(Counting::PATH_CYCLES), NO_EVENTS);
}

pub fn every_run_of_a_copy_matters(file: &[u8], probe: Probe, events: Events) {
    let subject = Subject::new(file, probe, events);
    subject.runs_matter_from(subject.first_byte(events));
}

#[test]
fn every_twin_matters() {
    every_twin_of_a_copy_matters(&assemble(SHAPES), Probe::Trace);
    every_twin_of_a_copy_matters(&assemble(&counted()), Probe::Exact(Counting::Blocks));
    every_twin_of_a_copy_matters(&assemble(&counted()), Probe::Exact(Counting::Paths));
    every_twin_of_a_copy_matters(&assemble(&counted()), Probe::Exact(Counting::CONTEXT_PATHS));
}

pub fn every_twin_of_a_copy_matters(file: &[u8], probe: Probe) {
    const LEADER: u8 = Layout::LEADER_BIT.to_le_bytes()[3];
    let subject = Subject::new(file, probe, NO_EVENTS);
    let Layout { stretches, lengths, .. } = subject.layout.clone();
    for at in sampled(stretches.step_by(Layout::STRETCH_BYTES), ONE_IN) {
        let is_leader = subject.bytes[at + 15] & LEADER != 0;
        assert!(subject.is_noticed(|bytes| bytes[at] ^= 1), "original of stretch {at:#x}");
        assert!(subject.is_noticed(|bytes| bytes[at + 4] ^= 1), "copy of stretch {at:#x}");
        assert!(!is_leader || subject.is_noticed(|bytes| bytes[at + 8] ^= 1), "record of stretch {at:#x}");
        assert!(subject.is_noticed(|bytes| bytes[at + 12] ^= 1), "instructions of stretch {at:#x}");
        assert!(subject.is_noticed(|bytes| bytes[at + 15] ^= LEADER), "leader bit of stretch {at:#x}");
    }
    for at in sampled(lengths, ONE_IN) {
        assert!(subject.is_noticed(|bytes| bytes[at] ^= 1), "length {at:#x}");
    }
}
