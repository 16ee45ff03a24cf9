//! Instructions of blocks, read from the files that ran; none where [`crate::view::code_files`]
//! knows no file.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use image::{NameKind, Svma};
use profile::model::{BlockId, ModuleId};
use serde::Serialize;

use crate::listing::Listing;
use crate::props::Syntax;
use crate::report::Address;
use crate::view::subject::{Place, Subject};

/// Larger blocks are none.
const MAX_BLOCK_BYTES: u32 = 1 << 20;

/// An instruction as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InstructionLine {
    pub address: Address,
    pub text: String,
}

impl Subject {
    /// The instructions of a block; none if the file that ran is not there.
    pub fn instructions(&self, id: BlockId) -> Vec<Instruction> {
        let block = self.block(id);
        let module = self.module_of(id);
        let Some(file) = self.code.of(module, &self.symbolizer) else { return Vec::new() };
        let bytes = file.read(block.address, block.size.min(MAX_BLOCK_BYTES)).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, &bytes, block.address, DecoderOptions::NONE);
        decoder.iter().take_while(|insn| !insn.is_invalid()).collect()
    }

    /// Instructions as text, with the names of what they call. Those of other functions must have
    /// been resolved: see [`targets`].
    pub fn listing(&self, id: BlockId, insns: &[Instruction]) -> Vec<InstructionLine> {
        let module = self.module_of(id);
        let own = self.function(self.block(id).function).address;
        let mut listing = Listing::new(Syntax::Intel, |at: Svma| {
            let name = self.symbolizer.function_name(module, at.0);
            let is_inside = self.is_inside(id, at.0) && at.0 != own;
            (name.kind != NameKind::Synthetic && !is_inside).then(|| name.demangled())
        });
        insns
            .iter()
            .map(|insn| InstructionLine { address: Address(Svma(insn.ip())), text: listing.line(insn) })
            .collect()
    }

    fn is_inside(&self, id: BlockId, address: u64) -> bool {
        let function = self.function(self.block(id).function);
        address.checked_sub(function.address).is_some_and(|distance| distance < function.size)
    }
}

/// What instructions of a block refer to by name, and where they are themselves: what has to be
/// resolved to show them.
pub fn targets(module: ModuleId, insns: &[Instruction]) -> impl Iterator<Item = Place> {
    let is_direct = |insn: &&Instruction| 0 < insn.op_count() && insn.op0_kind() == OpKind::NearBranch64;
    let called = insns.iter().filter(is_direct).map(Instruction::near_branch_target);
    insns.iter().map(Instruction::ip).chain(called).map(move |address| (module, address))
}
