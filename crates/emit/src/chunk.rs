//! The copies of some consecutive functions, as they come out of the translation and before they
//! are linked.
//!
//! Offsets are from the start of the chunk. What depends on other chunks is listed in `externals`;
//! what depends on where the module is loaded is listed in `addresses` and `records` (see
//! [`crate::ModuleCopy`]).

mod behind;

use wire::recovery::{Run, kind};
use wire::sample::EndReason;

use crate::asm::{Asm, Gpr, Label};
use crate::cell::Cell;
use crate::statistics::Statistics;
pub(crate) use behind::{Ended, FullEvents, MissedEnd, OtherEnd, OtherLine, Owner, Switch};

/// An address of original code, less the address of the image base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Original(
    /// The distance in bytes.
    pub u32,
);

/// Copies reach this far from the image base, in original addresses and in bytes of copy. Any two
/// distances of this kind differ by less than 2 GiB, so that the difference always fits in a
/// displacement.
pub(crate) const REACH: u64 = 1 << 30;

/// Consecutive original instructions whose copies are as far from each other as they are
/// themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first instruction.
    pub original: Original,
    /// Its copy.
    pub copy: u32,
    /// Where control that comes to the first instruction must go: the probe of the block that
    /// starts there. The same as `copy` or before it; meaningful only if `is_leader`.
    pub record: u32,
    /// Number of instructions. Their lengths are in a list that all stretches share, in order.
    pub n_insns: u32,
    /// Whether the first instruction starts a block.
    pub is_leader: bool,
}

/// How often the cache is told of accesses in one execution of a block, and how often it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAccesses {
    /// Where the block is, relative to the image base.
    pub at: u32,
    /// Accesses that the cache is told of.
    pub simulated: u32,
    /// Those that it is not told of.
    pub not_simulated: u32,
}

/// A displacement that leads out of the chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct External {
    /// Where the displacement is; it ends its instruction.
    pub hole: u32,
    pub to: Destination,
}

/// What is outside the chunk, or may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination {
    /// The copy of a block, by its first address.
    Leader(Original),
    /// Code that all functions of the module share.
    Stub(Stub),
    /// A word that holds this address.
    Literal(Original),
}

/// Code that all functions of a module share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stub {
    /// The burst ends at the address in `rax`.
    Exit,
    /// The burst ends at the target: it has no copy, or starts no block.
    Miss,
    /// The burst ends at the target: the buffer is full.
    Full,
    /// The target is not in the module's own cluster.
    Other,
    /// The target is to be looked up, and flags are dead; only in copies that are never left.
    LookUp,
    /// The same after a return; goes to where the call's return leads.
    Land,
    /// A path, or whom a call calls, is to be counted in the path table; only in copies that are
    /// never left.
    CountPath,
    /// Bytes are accessed that are not where the data cache was used last; likewise.
    Access,
    /// The thread goes on at the target in the other version, whose block makes the same check once
    /// more.
    SwitchAtCheck,
    /// The thread goes on at the target in the other version, whose block makes no check.
    Switch,
}

/// An exit that the present function needs; all are written behind its code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    pub original: Original,
    pub reason: EndReason,
    pub state: ExitState,
    pub label: Label,
}

/// What is to be done before an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExitState {
    /// All registers and flags are those of the program.
    Clean,
    /// `rax`, `rcx` and the flags are where the probe has saved them.
    FlagsSaved,
    /// `rcx` must become the address, because a system call would have left it there.
    AfterSystemCall,
}

#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub asm: Asm,
    pub runs: Vec<Run>,
    pub stretches: Vec<Stretch>,
    /// Lengths of original instructions, by stretch.
    pub lengths: Vec<u8>,
    /// Where returns of calls lead: the last byte of the call, and the place in the copy.
    pub landings: Vec<(Original, u32)>,
    /// Where displacements to original addresses are. They hold the address less the end of the
    /// instruction.
    pub addresses: Vec<u32>,
    /// Where block records are.
    pub records: Vec<u32>,
    /// Where offsets of cells are. They hold the offset of the chunk's cell.
    pub cells: Vec<u32>,
    /// What the chunk's cells are, and how many there are.
    pub cell_uses: Vec<Cell>,
    pub n_cells: u32,
    /// Where keys of the path table are. They hold the number of the function among those of the
    /// chunk that have one.
    pub keys: Vec<u32>,
    pub n_keys: u32,
    pub externals: Vec<External>,
    /// Those of the present function.
    pub exits: Vec<Exit>,
    /// Where probes of the present function go that have filled the buffer of events.
    pub full_events: Vec<FullEvents>,
    /// Where probes of the present function go that have not found their line of the data cache.
    pub other_lines: Vec<OtherLine>,
    /// Where paths of the present function go that have ended and missed.
    pub missed_ends: Vec<MissedEnd>,
    /// How often blocks access memory, if a data cache is simulated.
    pub accesses: Vec<BlockAccesses>,
    /// Where path ends of the present function go that have not found their place in the path
    /// table, or that a sample is wanted of.
    pub other_ends: Vec<OtherEnd>,
    /// Where checks of the present function go that are the last ones of their version.
    pub switches: Vec<Switch>,
    pub statistics: Statistics,
}

impl Chunk {
    pub fn position(&self) -> u32 {
        self.asm.position()
    }

    /// From here on, recovery follows this rule. A run that would be empty gives way to the next.
    pub fn begin_run(&mut self, kind: u8, original: Original, saves: u8, save_end: [u8; 4]) {
        let run = Run { copy: self.position(), original: original.0, kind, saves, save_end, writes: 0, reserved: 0 };
        match self.runs.last_mut() {
            Some(last) if last.copy == run.copy => *last = run,
            _ => self.runs.push(run),
        }
    }

    /// From here on, the thread is about to be at `original` with all its registers in place.
    pub fn begin_clean_probe(&mut self, original: Original) {
        self.begin_run(kind::PROBE, original, 0, [0; 4]);
    }

    /// Makes the displacement at `hole` lead to something outside.
    pub fn refer(&mut self, hole: u32, to: Destination) {
        self.externals.push(External { hole, to });
    }

    /// Pushes the original address.
    pub fn push_original(&mut self, original: Original) {
        let hole = self.asm.push_literal();
        self.refer(hole, Destination::Literal(original));
    }

    /// Loads the original address.
    pub fn load_original(&mut self, register: Gpr, original: Original) {
        let hole = self.asm.address_of(register);
        self.set_address(hole, self.position(), i64::from(original.0));
    }

    /// Makes the displacement at `hole`, of an instruction that ends at `end`, lead to the target
    /// in the original module.
    pub fn set_address(&mut self, hole: u32, end: u32, target: i64) {
        let displacement = (target as u32).wrapping_sub(end);
        self.asm.code[hole as usize..hole as usize + 4].copy_from_slice(&displacement.to_le_bytes());
        self.addresses.push(hole);
    }

    /// Takes cells; returns the number of the first.
    pub fn new_cells(&mut self, cell: Cell) -> u32 {
        let first = self.n_cells;
        self.n_cells += cell.n_cells();
        self.cell_uses.push(cell);
        first
    }

    /// Makes the offset at `hole`, which holds an offset from the first cell of all, that of a cell
    /// of the chunk.
    pub fn set_cell(&mut self, hole: u32, cell: u32) {
        let field = &mut self.asm.code[hole as usize..hole as usize + 4];
        let offset = field.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
        field.copy_from_slice(&offset.wrapping_add(cell * 8).to_le_bytes());
        self.cells.push(hole);
    }

    /// A label for an exit to `original`.
    pub fn exit(&mut self, original: Original, reason: EndReason, state: ExitState) -> Label {
        let label = self.asm.new_label();
        self.exits.push(Exit { original, reason, state, label });
        self.statistics.leaving[reason as usize] += 1;
        label
    }

    /// Leaves the copy here, instead of executing the instruction at `original`.
    pub fn leave(&mut self, original: Original, reason: EndReason) {
        let label = self.exit(original, reason, ExitState::Clean);
        self.asm.jump_to(label);
    }

    /// Gives back what vectors have in reserve: all chunks of a module are in memory at the same
    /// time.
    pub fn shrink(&mut self) {
        self.asm.code.shrink_to_fit();
        self.runs.shrink_to_fit();
        self.stretches.shrink_to_fit();
        self.lengths.shrink_to_fit();
        self.landings.shrink_to_fit();
        self.addresses.shrink_to_fit();
        self.records.shrink_to_fit();
        self.externals.shrink_to_fit();
    }

    /// Fills up to a multiple of `alignment` with bytes that trap.
    pub fn align(&mut self, alignment: u32) {
        let end = self.position().next_multiple_of(alignment);
        if end != self.position() {
            self.begin_run(kind::NEVER, Original(0), 0, [0; 4]);
            self.asm.code.resize(end as usize, 0xcc);
        }
    }
}
