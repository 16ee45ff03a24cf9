//! The verifier must notice every change to a good copy.
//!
//! Copies are changed in their stored form, whose arrays come one after the other behind a header of words (see `codec`).

use emit::{Counting, Events, ModuleCopy, Probe};
use flow::ModuleFlow;
use image::Image;
use wire::recovery::{Run, kind, saves};
use wire::sample::EndReason;

use crate::fixture::{assemble, parse, translate_with};
use crate::golden::disassembly;
use crate::shapes::{COUNTED, SHAPES};
use crate::storing::reseal;

/// A good copy, stored.
struct Subject<'data> {
    image: Image<'data>,
    flow: ModuleFlow,
    bytes: Vec<u8>,
    layout: Layout,
}

/// Where the arrays are in the stored form.
#[derive(Clone, Copy)]
struct Layout {
    code: usize,
    literals: usize,
    addresses: usize,
    records: usize,
    runs: usize,
    stretches: usize,
    lengths: usize,
    end: usize,
    /// Fix-ups of cells and keys, and the list of cells.
    cells: usize,
    cell_uses: usize,
    cell_uses_end: usize,
}

const NO_EVENTS: Events = Events::NONE;
const HEADER_WORDS: usize = 19;
const COUNTERS: usize = 14 + EndReason::ALL.len();
const RUN_BYTES: usize = 16;
const STRETCH_BYTES: usize = 16;
const SKIPPED_BYTES: usize = 16;
const CELL_BYTES: usize = 12;
const LANDING_BYTES: usize = 8;

impl Layout {
    fn of(bytes: &[u8]) -> Layout {
        let word = |index: usize| {
            let bytes = bytes[index * 8..].first_chunk::<8>().expect("a header");
            u64::from_le_bytes(*bytes) as usize
        };
        let code = (HEADER_WORDS + COUNTERS) * 8;
        let addresses = code + word(6);
        let records = addresses + word(7) * 4;
        let runs = records + word(8) * 4;
        let stretches = runs + word(9) * RUN_BYTES;
        let lengths = stretches + word(10) * STRETCH_BYTES;
        let end = lengths + word(11);
        let cells = end + word(12) * SKIPPED_BYTES;
        let cell_uses = cells + (word(13) + word(15)) * 4;
        let cell_uses_end = cell_uses + word(14) * CELL_BYTES;
        let literals = code + word(5);
        Layout { code, literals, addresses, records, runs, stretches, lengths, end, cells, cell_uses, cell_uses_end }
    }
}

impl<'data> Subject<'data> {
    fn new(file: &'data [u8], probe: Probe, events: Events) -> Subject<'data> {
        let image = parse(file);
        let (flow, copy) = translate_with(&image, probe, events);
        assert_eq!(emit::verify(&image, &flow, &copy), Ok(()));
        let bytes = copy.to_bytes();
        let layout = Layout::of(&bytes);
        Subject { image, flow, bytes, layout }
    }

    /// The copy with some bytes changed; `None` if it cannot even be read.
    fn changed(&self, change: impl FnOnce(&mut [u8])) -> Option<ModuleCopy> {
        let mut bytes = self.bytes.clone();
        change(&mut bytes);
        reseal(&mut bytes);
        ModuleCopy::from_bytes(&bytes).ok()
    }

    fn is_noticed(&self, change: impl FnOnce(&mut [u8])) -> bool {
        self.changed(change).is_none_or(|copy| emit::verify(&self.image, &self.flow, &copy).is_err())
    }

    /// Where to start, in bytes of code. What all functions share has nothing to do with events, and need not be in use; but the last of it is what
    /// asks a data cache.
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
        for at in self.layout.code + first..self.layout.literals {
            for bit in 0..8 {
                let flip = |bytes: &mut [u8]| bytes[at] ^= 1 << bit;
                let is_same = || self.changed(flip).is_some_and(|copy| disassembly(&copy) == good);
                assert!(
                    self.is_noticed(flip) || is_same(),
                    "bit {bit} of byte {:#x} of the code",
                    at - self.layout.code
                );
            }
        }
        self.runs_matter_from(first);
    }

    fn runs_matter_from(&self, first: usize) {
        for (index, run) in self.copy().runs().iter().enumerate() {
            let at = self.layout.runs + index * RUN_BYTES;
            let Run { copy, original, kind, .. } = *run;
            if kind == kind::NEVER || (copy as usize) < first {
                continue;
            }
            assert!(self.is_noticed(|bytes| bytes[at + 8] = kind::NEVER), "kind of the run at {copy:#x}");
            if !matches!(kind, kind::FORWARD | kind::EXIT) {
                let change = |bytes: &mut [u8]| bytes[at + 4..at + 8].copy_from_slice(&(original ^ 1).to_le_bytes());
                assert!(self.is_noticed(change), "original of the run at {copy:#x}");
            }
            if matches!(kind, kind::FORWARD | kind::EXIT | kind::AFTER_SYSTEM_CALL) && run.saves > saves::RAX {
                assert!(self.is_noticed(|bytes| bytes[at + 9] = 1), "saves of the run at {copy:#x}");
            }
            if kind == kind::FORWARD && run.save_end[1] != 0 {
                for save in 0..2 {
                    // Late enough for both registers to have changed.
                    let change = |bytes: &mut [u8]| bytes[at + 10 + save] += 60;
                    assert!(self.is_noticed(change), "end of save {save} of the run at {copy:#x}");
                }
            }
        }
    }

    fn copy(&self) -> ModuleCopy {
        ModuleCopy::from_bytes(&self.bytes).expect("a good copy")
    }
}

/// A change of a bit is allowed to go unnoticed only if the processor cannot tell, either: some bits of prefixes mean nothing.
pub fn every_bit_of_code_matters(source: &str, probe: Probe, events: Events) {
    bits_of_code_matter(source, probe, events, 1);
}

/// The same of one byte in so many: for code most of which is that of another probe, too.
fn bits_of_code_matter(source: &str, probe: Probe, events: Events, one_in: usize) {
    let file = assemble(source);
    let subject = Subject::new(&file, probe, events);
    let good = disassembly(&subject.copy());
    let asks_cache = !subject.copy().accesses().is_empty();
    for at in (subject.layout.code + subject.first_byte(events)..subject.layout.addresses).step_by(one_in) {
        let flip = |bytes: &mut [u8]| bytes[at] ^= 1 << (at * 5 % 8);
        let is_same = || subject.changed(flip).is_some_and(|copy| disassembly(&copy) == good);
        let is_filler = at + 8 >= subject.layout.addresses && subject.layout.literals < at;
        let is_padding = || subject.is_early_padding(at - subject.layout.code);
        assert!(
            subject.is_noticed(flip) || is_same() && !is_filler || asks_cache && is_padding(),
            "byte {:#x} of the code",
            at - subject.layout.code
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
fn bits_of_code_that_keeps_contexts_matter() {
    bits_of_code_matter(SHAPES, Probe::Exact(Counting::CONTEXT_PATHS.by_call_site()), NO_EVENTS, 3);
}

#[test]
fn bits_of_code_that_charges_cycles_matter() {
    bits_of_code_matter(SHAPES, Probe::Exact(Counting::CONTEXT_CYCLES), NO_EVENTS, 3);
}

#[test]
fn bits_of_code_that_times_paths_matter() {
    bits_of_code_matter(SHAPES, Probe::Exact(Counting::PATH_CYCLES), NO_EVENTS, 3);
}

/// A loop that passes flags from one turn to the next, and a call: what path ends do, and the code that they share, is all that is looked at.
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

/// A path end with flags alive and ends without a dead register; one with two dead registers, and one with one.
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
        let Layout { addresses, runs, cells, cell_uses, cell_uses_end, .. } = subject.layout;
        assert!(cells < cell_uses && cell_uses < cell_uses_end, "{counting:?}");
        for at in (addresses..runs).chain(cells..cell_uses).step_by(4) {
            assert!(subject.is_noticed(|bytes| bytes[at] ^= 1), "{counting:?}: fix-up at {at:#x}");
        }
        for at in (cell_uses..cell_uses_end).step_by(CELL_BYTES) {
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
        let start = subject.layout.cell_uses_end;
        let landings = (start..start + subject.copy().landings().count() * LANDING_BYTES).step_by(4);
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
    for at in (subject.layout.addresses..subject.layout.runs).step_by(4) {
        assert!(subject.is_noticed(|bytes| bytes[at] ^= 1), "fix-up at {at:#x}");
    }
    assert!(subject.layout.addresses < subject.layout.records && subject.layout.records < subject.layout.runs);
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

fn every_twin_of_a_copy_matters(file: &[u8], probe: Probe) {
    let subject = Subject::new(file, probe, NO_EVENTS);
    let Layout { stretches, lengths, end, .. } = subject.layout;
    for at in (stretches..lengths).step_by(STRETCH_BYTES) {
        let is_leader = subject.bytes[at + 15] & 0x80 != 0;
        assert!(subject.is_noticed(|bytes| bytes[at] ^= 1), "original of stretch {at:#x}");
        assert!(subject.is_noticed(|bytes| bytes[at + 4] ^= 1), "copy of stretch {at:#x}");
        assert!(!is_leader || subject.is_noticed(|bytes| bytes[at + 8] ^= 1), "record of stretch {at:#x}");
        assert!(subject.is_noticed(|bytes| bytes[at + 12] ^= 1), "instructions of stretch {at:#x}");
        assert!(subject.is_noticed(|bytes| bytes[at + 15] ^= 0x80), "leader bit of stretch {at:#x}");
    }
    for at in lengths..end {
        assert!(subject.is_noticed(|bytes| bytes[at] ^= 1), "length {at:#x}");
    }
}
