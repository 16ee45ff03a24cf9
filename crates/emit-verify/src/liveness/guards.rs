//! Code from which exceptions reach a landing pad of its own function.
//!
//! Compilers have only calls throw, unless they are told that faults do, too
//! (`-fnon-call-exceptions`, Ada). Then a handler of the signal throws, and the landing pad finds
//! in the registers that calls keep what they held at the fault. Tables of exceptions do not tell
//! how their code was compiled, so this holds for all of it.

use flow::FunctionFlow;
use iced_x86::Instruction;
use image::{Image, Svma, SvmaRange};

use super::evidence::KEPT;
use super::set::Set;

/// The guarded code of a function.
#[derive(Debug)]
pub(super) struct Guards(Vec<SvmaRange>);

impl Guards {
    pub fn new(image: &Image<'_>, function: &FunctionFlow) -> Guards {
        let frames = function.parts.iter().filter_map(|part| image.frame_at(part.start));
        let sites = frames.flat_map(|frame| image.call_sites(frame).unwrap_or_default());
        Guards(sites.filter(|site| site.landing_pad.is_some()).map(|site| site.range).collect())
    }

    /// Returns what a landing pad may find of the registers as they are before an instruction.
    pub fn reads(&self, insn: &Instruction) -> Set {
        let is_guarded = self.0.iter().any(|range| range.contains(Svma(insn.ip())));
        if is_guarded { KEPT } else { Set::NONE }
    }
}
