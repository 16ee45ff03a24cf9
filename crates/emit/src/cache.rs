//! A data cache that copies simulate with the addresses of the program, for programs and machines
//! without hardware counters.
//!
//! It has sets of some lines each, of which the one that was used longest ago goes. In the thread's
//! area ([`wire::exact::CACHE`]) a set is the addresses of its lines, in the order of their last
//! use. So an access to the line that was used last in its set changes nothing, and that is most of
//! them: before an instruction that accesses memory, a probe looks just there.
//!
//! ```text
//!     lea r, operand
//!     mov s, r; shr s, line_bits - way_bits; and s, mask          the set, in words; of 32 bits
//!     xor r, gs:[s * 8 + CACHE]                                   how far into the line the access is, if it is the line
//!     cmp r, line - size                                          else more than that; also if it goes on to the next line
//!     ja other
//! back:
//! ```
//!
//! Two registers are needed: dead ones, or of `rax`, `rcx` and `rdx`, saved. Where flags are alive
//! they are saved, and `rcx` and `rax` are used. Behind the function, `other` restores everything
//! and has the module's stub do what is to be done:
//!
//! ```text
//!     save rax, rcx, rdx; lea rdx, operand; save flags            flags if they are alive
//!     lea rcx, [rdx + size - 1]
//!     lea rax, [rip + original]; mov gs:[target], rax
//!     lea rax, [rip + 1f]; mov gs:[twin], rax
//!     jmp stub
//! 1:  restore all
//!     jmp back
//!
//! stub:
//!     and rdx, -line; and rcx, -line
//!     mov gs:[last_line], rcx
//!     mov dword gs:[has_missed], 0
//! next:
//!     mov gs:[line], rdx
//!     mov ecx, edx; shr ecx, line_bits - way_bits; and ecx, mask
//!     mov rax, gs:[rcx * 8 + CACHE]; mov gs:[rcx * 8 + CACHE], rdx            each line takes the place of the next,
//!     cmp rax, gs:[line]; je found
//!     mov rdx, gs:[rcx * 8 + CACHE + 8]; mov gs:[rcx * 8 + CACHE + 8], rax    until the one is found that came first
//!     cmp rdx, gs:[line]; je found
//!     ...
//!     mov dword gs:[has_missed], 1
//! found:
//!     mov rdx, gs:[line]
//!     cmp rdx, gs:[last_line]
//!     je done
//!     lea rdx, [rdx + line]
//!     jmp next
//! done:
//!     mov eax, gs:[has_missed]
//!     add gs:[misses], rax
//!     jmp gs:[twin]
//! ```
//!
//! An access that goes on to the next line touches both, and misses once at most. One that is
//! larger than a line counts as one of a line. A handler that interrupts this may find a line twice
//! in its set, or not at all; that is all that can go wrong.
//!
//! **Which accesses.** What operands name, and what calls, returns, pushes, pops and string
//! instructions do. Not known are those relative to `fs`, those of vectors of addresses, and
//! repeated string instructions ([`crate::Statistics::accesses_not_simulated`]).

mod accesses;

use flow::graph::BlockId;
use flow::liveness::LiveSet;
use iced_x86::Instruction;
use image::Svma;
use wire::exact::{CACHE, CACHE_BYTES};
use wire::recovery::{kind, saves};
use wire::thread::offset;

use crate::asm::{Condition, Gpr};
use crate::chunk::{BlockAccesses, Chunk, Destination, Original, OtherLine, Stub};
use crate::function::Function;
use crate::memory::{LEA, Operand, write_with_operand};
use crate::probe;
use accesses::Access;

/// A data cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cache {
    line_bits: u8,
    set_bits: u8,
    n_ways: u8,
}

impl Cache {
    /// Smallest line, in bytes.
    pub const MIN_LINE: u64 = 16;
    /// Largest line.
    pub const MAX_LINE: u64 = 4096;
    /// Most ways.
    pub const MAX_WAYS: u32 = 16;
    /// Most lines, with ways rounded up to a power of two.
    pub const MAX_LINES: u64 = CACHE_BYTES as u64 / 8;

    /// A cache of so many bytes. `None` unless lines and sets are powers of two, and everything is
    /// in bounds.
    #[must_use]
    pub fn new(n_bytes: u64, n_ways: u32, line: u64) -> Option<Cache> {
        let is_right = (Cache::MIN_LINE..=Cache::MAX_LINE).contains(&line)
            && line.is_power_of_two()
            && (1..=Cache::MAX_WAYS).contains(&n_ways)
            && n_bytes.is_multiple_of(u64::from(n_ways) * line);
        let n_sets = n_bytes.checked_div(u64::from(n_ways) * line).filter(|n| n.is_power_of_two() && is_right)?;
        let n_places = n_sets.checked_mul(u64::from(n_ways.next_power_of_two()))?;
        (n_places <= Cache::MAX_LINES).then_some(Cache {
            line_bits: line.ilog2() as u8,
            set_bits: n_sets.ilog2() as u8,
            n_ways: n_ways as u8,
        })
    }

    /// Bytes of all lines.
    #[must_use]
    pub fn n_bytes(self) -> u64 {
        u64::from(self.n_ways) << (self.line_bits + self.set_bits)
    }

    /// Lines of a set.
    #[must_use]
    pub fn n_ways(self) -> u32 {
        self.n_ways.into()
    }

    /// Bytes of a line.
    #[must_use]
    pub fn line(self) -> u64 {
        1 << self.line_bits
    }

    /// By how much the lower half of an address goes down to be the number of its set, in words.
    #[must_use]
    pub fn set_shift(self) -> u8 {
        self.line_bits - self.way_bits()
    }

    /// What then remains of it.
    #[must_use]
    pub fn set_mask(self) -> u32 {
        ((1 << self.set_bits) - 1) << self.way_bits()
    }

    /// Logarithm of the words from set to set.
    fn way_bits(self) -> u8 {
        self.n_ways.next_power_of_two().ilog2() as u8
    }

    pub(crate) fn bits(self) -> u32 {
        u32::from(self.line_bits) | u32::from(self.set_bits) << 8 | u32::from(self.n_ways) << 16
    }

    pub(crate) fn from_bits(bits: u32) -> Option<Cache> {
        let [line_bits, set_bits, n_ways, rest] = bits.to_le_bytes();
        let line = 1u64.checked_shl(line_bits.into())?;
        let n_bytes = line.checked_mul(1u64.checked_shl(set_bits.into())?)?.checked_mul(n_ways.into())?;
        Cache::new(n_bytes, n_ways.into(), line).filter(|_| rest == 0)
    }
}

/// Bytes of a store of a register.
const STORE_LEN: u8 = 9;
/// Registers that can be saved, with the field and the bit of each.
const SPILLED: [(Gpr, u32, u8); 3] = [
    (Gpr::RAX, offset::SAVED_RAX, saves::RAX),
    (Gpr::RCX, offset::SAVED_RCX, saves::RCX),
    (Gpr::RDX, offset::SAVED_RDX, saves::RDX),
];

impl Function<'_, '_> {
    /// Tells the cache what an instruction of the block is about to access, where `live` is needed.
    /// Whether there was anything.
    pub fn write_accesses(&mut self, block: BlockId, insn: &Instruction, live: LiveSet) -> bool {
        let Some(cache) = self.module.options.probe.cache() else { return false };
        let (all, mut n_unknown) = accesses::of(insn);
        let at = self.original(Svma(insn.ip()));
        let mut n_known = 0;
        for Access { operand, size } in all {
            let target = match operand {
                Operand::At(target) => self.module.distance(target),
                Operand::Registers(..) => None,
            };
            if matches!(operand, Operand::At(_)) && target.is_none() {
                n_unknown += 1;
                continue;
            }
            n_known += 1;
            let size = size.min(1 << cache.line_bits);
            let [label, back] = [self.chunk.asm.new_label(), self.chunk.asm.new_label()];
            let keeps_flags = !(live & LiveSet::ARITHMETIC_FLAGS).is_empty();
            let mut other = OtherLine { label, back, at, operand, target, size, saved: 0, keeps_flags };
            other.saved = write(self.chunk, cache, &other, live);
            self.chunk.asm.bind(back);
            self.chunk.other_lines.push(other);
        }
        self.count_accesses(block, n_known, n_unknown);
        n_known != 0
    }

    fn count_accesses(&mut self, block: BlockId, simulated: u32, not_simulated: u32) {
        let Original(at) = self.original(self.flow.cfg.block(block).range.start);
        self.chunk.statistics.accesses += u64::from(simulated);
        self.chunk.statistics.accesses_not_simulated += u64::from(not_simulated);
        match self.chunk.accesses.last_mut().filter(|last| last.at == at) {
            Some(last) => {
                last.simulated += simulated;
                last.not_simulated += not_simulated;
            }
            None if simulated + not_simulated == 0 => {}
            None => self.chunk.accesses.push(BlockAccesses { at, simulated, not_simulated }),
        }
    }
}

/// Writes the probe; returns what it has saved when it goes elsewhere.
fn write(chunk: &mut Chunk, cache: Cache, access: &OtherLine, live: LiveSet) -> u8 {
    if access.keeps_flags {
        chunk.statistics.probes_flags_saved += 1;
        let saved = saves::RAX | saves::RCX | saves::FLAGS;
        chunk.begin_run(kind::PROBE, access.at, saved, [STORE_LEN, 2 * STORE_LEN, 0, 0]);
        chunk.asm.store(offset::SAVED_RAX, Gpr::RAX);
        chunk.asm.store(offset::SAVED_RCX, Gpr::RCX);
        write_address(chunk, access, Gpr::RCX);
        save_flags_in_run(chunk, 2);
        write_look(chunk, cache, access, [Gpr::RCX, Gpr::RAX]);
        probe::restore_all(&mut chunk.asm);
        return saved;
    }
    let mut dead = probe::dead_registers(live);
    let mut chosen = [dead.next(), dead.next()];
    let mut saved = 0;
    for place in chosen.iter_mut().filter(|place| place.is_none()) {
        let is_free = |&&(register, _, bit): &&(Gpr, u32, u8)| live.has_register(register.0) && saved & bit == 0;
        let (register, _, bit) = SPILLED.iter().find(is_free).expect("of three registers, two are free or dead");
        (*place, saved) = (Some(*register), saved | bit);
    }
    if saved == 0 {
        chunk.statistics.probes_dead_register += 1;
    } else {
        chunk.statistics.probes_spilled += 1;
    }
    chunk.begin_run(kind::PROBE, access.at, saved, [STORE_LEN, 2 * STORE_LEN, 0, 0]);
    for (register, field, _) in SPILLED.into_iter().filter(|(_, _, bit)| saved & bit != 0) {
        chunk.asm.store(field, register);
    }
    let [address, set] = chosen.map(|register| register.unwrap_or(Gpr::RAX));
    write_address(chunk, access, address);
    write_look(chunk, cache, access, [address, set]);
    restore(chunk, saved);
    saved
}

/// `lea register, operand`
fn write_address(chunk: &mut Chunk, access: &OtherLine, register: Gpr) {
    write_with_operand(&mut chunk.asm, LEA, register, access.operand);
    if let Some(target) = access.target {
        chunk.set_address(chunk.position() - 4, chunk.position(), target);
    }
}

/// Saves flags in the present run, behind so many other saves.
fn save_flags_in_run(chunk: &mut Chunk, n_saves: usize) {
    probe::save_flags(&mut chunk.asm);
    let position = chunk.position();
    if let Some(run) = chunk.runs.last_mut() {
        run.save_end[n_saves] = (position - run.copy) as u8;
    }
}

/// Looks whether the line of an address is the one that was used last in its set. Changes flags.
fn write_look(chunk: &mut Chunk, cache: Cache, access: &OtherLine, [address, set]: [Gpr; 2]) {
    write_set(chunk, cache, address, set);
    chunk.asm.cache_entry(XOR, address, set, CACHE);
    chunk.asm.compare_immediate(address, (1 << cache.line_bits) - access.size as i32);
    chunk.asm.jump_to_if(Condition::A, access.label);
}

/// The number of the set of an address, in words.
fn write_set(chunk: &mut Chunk, cache: Cache, address: Gpr, set: Gpr) {
    chunk.asm.move_dword(set, address);
    chunk.asm.shift_right_dword(set, cache.set_shift());
    chunk.asm.and_dword(set, cache.set_mask());
}

fn restore(chunk: &mut Chunk, saved: u8) {
    for (register, field, _) in SPILLED.into_iter().rev().filter(|(_, _, bit)| saved & bit != 0) {
        chunk.asm.load(register, field);
    }
}

const LOAD: u8 = 0x8b;
const STORE: u8 = 0x89;
const XOR: u8 = 0x33;

/// Writes where probes of the function go that have not found their line.
pub(crate) fn write_others(chunk: &mut Chunk) {
    for other in std::mem::take(&mut chunk.other_lines) {
        let OtherLine { label, back, at, size, saved, keeps_flags, .. } = other;
        chunk.asm.bind(label);
        chunk.begin_run(kind::PROBE, at, saved, [0; 4]);
        if keeps_flags {
            probe::restore_all(&mut chunk.asm);
        } else {
            restore(chunk, saved);
        }
        let flags = if keeps_flags { saves::FLAGS } else { 0 };
        let all = saves::RAX | saves::RCX | saves::RDX | flags;
        chunk.begin_run(kind::PROBE, at, all, [STORE_LEN, 2 * STORE_LEN, 3 * STORE_LEN, 0]);
        for (register, field, _) in SPILLED {
            chunk.asm.store(field, register);
        }
        write_address(chunk, &other, Gpr::RDX);
        if keeps_flags {
            save_flags_in_run(chunk, 3);
        }
        chunk.asm.bytes(&[0x48, 0x8d, 0x8a]); // lea rcx, [rdx + size - 1]
        chunk.asm.bytes(&(size - 1).to_le_bytes());
        chunk.load_original(Gpr::RAX, at);
        chunk.asm.store(offset::TARGET, Gpr::RAX);
        let done = chunk.asm.new_label();
        let hole = chunk.asm.address_of(Gpr::RAX);
        chunk.asm.use_label(hole, done);
        chunk.asm.store(offset::TWIN, Gpr::RAX);
        let hole = chunk.asm.jump();
        chunk.refer(hole, Destination::Stub(Stub::Access));
        chunk.asm.bind(done);
        chunk.begin_run(kind::PROBE, at, all, [0; 4]);
        chunk.asm.load(Gpr::RDX, offset::SAVED_RDX);
        if keeps_flags {
            probe::restore_flags(&mut chunk.asm);
        }
        chunk.asm.load(Gpr::RCX, offset::SAVED_RCX);
        chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
        chunk.begin_clean_probe(at);
        chunk.asm.jump_to(back);
    }
}

/// The stub that accesses the bytes from `rdx` to `rcx`.
pub(crate) fn write_stub(chunk: &mut Chunk, cache: Cache) {
    let all = saves::RAX | saves::RCX | saves::RDX | saves::FLAGS;
    chunk.begin_run(kind::FORWARD, Original(0), all, [0; 4]);
    let [next, found, done] = [(); 3].map(|()| chunk.asm.new_label());
    let line = 1i32 << cache.line_bits;
    for register in [Gpr::RDX, Gpr::RCX] {
        chunk.asm.bytes(&[0x48, 0x81, 0xe0 | register.0]); // and register, -line
        chunk.asm.bytes(&(-line).to_le_bytes());
    }
    chunk.asm.store(offset::LAST_LINE, Gpr::RCX);
    chunk.asm.store_constant(offset::HAS_MISSED, 0);
    chunk.asm.bind(next);
    chunk.asm.store(offset::LINE, Gpr::RDX);
    write_set(chunk, cache, Gpr::RDX, Gpr::RCX);
    let [mut put, mut taken] = [Gpr::RDX, Gpr::RAX];
    for way in 0..u32::from(cache.n_ways) {
        chunk.asm.cache_entry(LOAD, taken, Gpr::RCX, CACHE + way * 8);
        chunk.asm.cache_entry(STORE, put, Gpr::RCX, CACHE + way * 8);
        chunk.asm.compare(taken, offset::LINE);
        chunk.asm.jump_to_if(Condition::Z, found);
        std::mem::swap(&mut put, &mut taken);
    }
    chunk.asm.store_constant(offset::HAS_MISSED, 1);
    chunk.asm.bind(found);
    chunk.asm.load(Gpr::RDX, offset::LINE);
    chunk.asm.compare(Gpr::RDX, offset::LAST_LINE);
    chunk.asm.jump_to_if(Condition::Z, done);
    chunk.asm.bytes(&[0x48, 0x8d, 0x92]); // lea rdx, [rdx + line]
    chunk.asm.bytes(&line.to_le_bytes());
    chunk.asm.jump_to(next);
    chunk.asm.bind(done);
    chunk.asm.load_dword(Gpr::RAX, offset::HAS_MISSED);
    chunk.asm.bytes(&[0x65, 0x48, 0x01, 0x04, 0x25]); // add gs:[misses], rax
    chunk.asm.bytes(&offset::MISSES.to_le_bytes());
    chunk.asm.jump_through(offset::TWIN);
    chunk.asm.resolve_labels();
}
