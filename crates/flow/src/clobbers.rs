//! Which registers a small function leaves alone.
//!
//! The calling convention lets a callee change nine registers. gcc knows better for functions it
//! compiles in the same unit (`-fipa-ra`), and keeps values, such as the address of a jump table,
//! in registers that a particular callee does not touch.

use iced_x86::InstructionInfoFactory;
use image::{Image, Svma};

use crate::listing::Listing;
use crate::liveness::writes;
use crate::pieces::Pieces;
use crate::transfer::Transfer;

/// Registers that a callee may change by the calling convention, as bits by hardware number: rax,
/// rcx, rdx, rsi, rdi, r8 to r11.
pub(crate) const CALLER_SAVED: u16 = 0x0fc7;

/// Those among them that have no result either. Code that uses one behind a call, as the call left
/// it, knows more about the callee than the convention says.
pub(crate) const UNDEFINED_BEHIND_CALL: u16 = CALLER_SAVED & !0b101;

/// Functions longer than this are not looked into.
const MAX_BYTES: u64 = 4096;

/// Registers that the code at `callee` may change, if that is a small function that calls nothing.
pub(crate) fn clobbered_by(image: &Image<'_>, pieces: &Pieces, callee: Svma) -> u16 {
    let range = pieces.find(callee).map(|id| pieces.get(id).range).filter(|range| range.len() <= MAX_BYTES);
    let Some(range) = range else { return CALLER_SAVED };
    let mut listing = Listing::new(image, &[range]);
    listing.explore([callee], &|_| true);
    let mut info = InstructionInfoFactory::new();
    let mut clobbered = 0;
    for (_, insn) in listing.iter() {
        match Transfer::of(insn) {
            Transfer::Next | Transfer::Return | Transfer::Trap => {}
            Transfer::Jump(target) | Transfer::Branch(target) if listing.covers(target) => {}
            _ => return CALLER_SAVED,
        }
        let used = info.info(insn).used_registers().iter().filter(|used| writes(used.access()));
        let registers = used.map(|used| used.register().full_register()).filter(|register| register.is_gpr64());
        clobbered |= registers.fold(0, |set, register| set | 1 << register.number());
    }
    clobbered & CALLER_SAVED
}
