//! A first look at each piece of code by itself: what it calls, jumps to and points at.
//!
//! The look assumes that calls return (except of imports known not to) and resolves no jump tables;
//! code behind unknown jumps is decoded as a gap. The result is enough to find more functions, to
//! see which pieces belong together and to work out which functions return.

use iced_x86::{Instruction, Mnemonic, OpKind};
use image::{Image, ImageKind, Svma};

use crate::cfg::{self, Cfg, EdgeKind, EntryKind, IndirectEdges, Surroundings};
use crate::listing::Listing;
use crate::noreturn_names::{calls_noreturn_import, constant_slot};
use crate::pieces::Piece;
use crate::transfer::Transfer;

/// What one piece was seen to do.
#[derive(Debug)]
pub(crate) struct Scouted {
    pub cfg: Cfg,
    /// Targets of direct calls. Those seen only in gaps come with `false`: they may be misread
    /// data.
    pub calls: Vec<(Svma, bool)>,
    /// Jumps to elsewhere.
    pub exits: Vec<Exit>,
    /// Code addresses that instructions compute.
    pub pointers: Vec<Svma>,
}

/// A direct jump, or a fall-through, out of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    pub at: Svma,
    pub target: Svma,
    /// Whether known flow reaches it; if not, it may be misread data.
    pub reached: bool,
}

pub(crate) fn scout(image: &Image<'_>, piece: &Piece) -> Scouted {
    let surroundings = Alone { image };
    let returns = |call: &Instruction| surroundings.returns(call);
    let entries: Vec<(Svma, EntryKind)> = std::iter::once((piece.range.start, EntryKind::Primary))
        .chain(piece.entries.iter().map(|&at| (at, EntryKind::Secondary)))
        .chain(landing_pads(image, piece).into_iter().map(|at| (at, EntryKind::LandingPad)))
        .collect();
    let mut listing = Listing::new(image, &[piece.range]);
    listing.explore(entries.iter().map(|&(at, _)| at), &returns);
    listing.fill_gaps(&[], &returns);
    let cfg = cfg::build(&listing, &entries, &surroundings);
    let mut scouted = Scouted { cfg, calls: Vec::new(), exits: Vec::new(), pointers: Vec::new() };
    for (index, insn) in listing.iter() {
        scouted.look(image, &listing, insn, !listing.is_gap(index));
    }
    scouted
}

/// Landing pads of a piece's calls, wherever they lie; ascending and distinct.
pub(crate) fn landing_pads(image: &Image<'_>, piece: &Piece) -> Vec<Svma> {
    let Some(frame) = piece.frame.and_then(|index| image.frames().get(index)) else { return Vec::new() };
    let mut pads: Vec<Svma> =
        image.call_sites(frame).unwrap_or_default().iter().filter_map(|site| site.landing_pad).collect();
    pads.sort_unstable();
    pads.dedup();
    pads
}

impl Scouted {
    fn look(&mut self, image: &Image<'_>, listing: &Listing<'_>, insn: &Instruction, reached: bool) {
        match Transfer::of(insn) {
            Transfer::Call(target) => self.calls.push((target, reached)),
            Transfer::Jump(target) | Transfer::Branch(target) if !listing.covers(target) => {
                self.exits.push(Exit { at: Svma(insn.ip()), target, reached });
            }
            Transfer::Next if reached => self.pointers.extend(code_pointer(image, insn)),
            _ => {}
        }
        // Hand-written code runs on past the end of its unwind entry.
        let next = Svma(insn.next_ip());
        if matches!(Transfer::of(insn), Transfer::Next | Transfer::Branch(_)) && !listing.covers(next) {
            self.exits.push(Exit { at: Svma(insn.ip()), target: next, reached });
        }
    }
}

/// A code address that the instruction puts into a register or memory.
fn code_pointer(image: &Image<'_>, insn: &Instruction) -> Option<Svma> {
    let address = match insn.mnemonic() {
        Mnemonic::Lea if insn.is_ip_rel_memory_operand() => insn.memory_displacement64(),
        Mnemonic::Mov | Mnemonic::Push if image.kind() == ImageKind::Executable => {
            let last = insn.op_count() - 1;
            match insn.op_kind(last) {
                OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 => insn.immediate(last),
                _ => return None,
            }
        }
        _ => return None,
    };
    image.code_regions().iter().any(|region| region.range.contains(Svma(address))).then_some(Svma(address))
}

/// The surroundings of a piece of which only the file is known.
struct Alone<'a, 'data> {
    image: &'a Image<'data>,
}

impl Surroundings for Alone<'_, '_> {
    fn returns(&self, call: &Instruction) -> bool {
        !calls_noreturn_import(self.image, call)
    }

    fn exit_kind(&self, _jump: &Instruction, _target: Svma) -> EdgeKind {
        EdgeKind::TailCall
    }

    fn indirect(&self, jump: &Instruction) -> IndirectEdges<'_> {
        let kind = if calls_noreturn_import(self.image, jump) { EdgeKind::Trap } else { EdgeKind::Unresolved };
        IndirectEdges::Exit(kind, constant_slot(jump).and_then(|slot| self.image.slot_target(slot)))
    }
}
