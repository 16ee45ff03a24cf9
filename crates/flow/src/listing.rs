//! The instructions of one function, found by following control flow.
//!
//! A function is a few address ranges (*parts*; more than one when the compiler split off cold
//! code). Starting from known entries, [`Listing::explore`] decodes each address at most once and
//! follows every direct jump and fall-through that stays inside the parts. It decodes addresses,
//! not byte ranges, because instructions can overlap: glibc jumps past a `lock` prefix when there
//! is one thread, so that `lock cmpxchg` and `cmpxchg` are both instructions, one byte apart.
//!
//! What no known flow reaches is decoded afterwards by [`Listing::fill_gaps`]: code behind a jump
//! we could not resolve is still code that may run, and a translator needs its instruction
//! boundaries. Padding is left out; bytes that do not decode are counted as data.

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic};
use image::{Image, Svma, SvmaRange};

use crate::transfer::Transfer;

/// Index of an instruction in its [`Listing`].
pub(crate) type InsnIndex = u32;

const NONE: InsnIndex = InsnIndex::MAX;

/// Decoded instructions of one function, addressable by address.
#[derive(Debug, Default)]
pub(crate) struct Listing<'data> {
    parts: Vec<Part<'data>>,
    insns: Vec<Instruction>,
    /// Instructions from here on were found by filling gaps.
    first_gap_insn: usize,
    /// Where decoding of gaps began: control comes there in ways that are not known, if at all.
    gap_roots: Vec<InsnIndex>,
    /// Addresses in the parts that the program keeps or computes, ascending: control may come there
    /// by them.
    labels: Vec<Svma>,
    /// Bytes in gaps that are neither padding nor instructions, or were declared data.
    data_bytes: u64,
    padding_bytes: u64,
}

#[derive(Debug)]
struct Part<'data> {
    range: SvmaRange,
    bytes: &'data [u8],
    /// For each byte, the instruction that starts there.
    starts: Vec<InsnIndex>,
}

impl<'data> Listing<'data> {
    /// An empty listing of the given parts. Bytes outside the file end a part early.
    pub fn new(image: &Image<'data>, parts: &[SvmaRange]) -> Listing<'data> {
        let parts = parts
            .iter()
            .filter_map(|&range| {
                let bytes = image.read(range.start, usize::try_from(range.len()).ok()?)?;
                Some(Part { range, bytes, starts: vec![NONE; bytes.len()] })
            })
            .collect();
        Listing { parts, ..Listing::default() }
    }

    /// Takes in the addresses that the program keeps or computes, ascending.
    pub fn label(&mut self, labels: &[Svma]) {
        for part in &self.parts {
            let from = labels.partition_point(|&at| at < part.range.start);
            self.labels.extend(labels[from..].iter().take_while(|&&at| at < part.range.end));
        }
    }

    /// Instructions at such addresses.
    pub fn labelled(&self) -> impl Iterator<Item = InsnIndex> {
        self.labels.iter().filter_map(|&at| self.at(at))
    }

    pub fn len(&self) -> usize {
        self.insns.len()
    }

    pub fn get(&self, index: InsnIndex) -> &Instruction {
        &self.insns[index as usize]
    }

    pub fn iter(&self) -> impl Iterator<Item = (InsnIndex, &Instruction)> {
        self.insns.iter().enumerate().map(|(index, insn)| (index as InsnIndex, insn))
    }

    pub fn is_gap(&self, index: InsnIndex) -> bool {
        index as usize >= self.first_gap_insn
    }

    /// First instructions of the code that no known flow reached. Padding may be before them, so
    /// that no instruction comes right before.
    pub fn gap_roots(&self) -> &[InsnIndex] {
        &self.gap_roots
    }

    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    pub fn padding_bytes(&self) -> u64 {
        self.padding_bytes
    }

    /// Whether `at` lies in one of the parts.
    pub fn covers(&self, at: Svma) -> bool {
        self.locate(at).is_some()
    }

    /// The instruction that starts at `at`.
    pub fn at(&self, at: Svma) -> Option<InsnIndex> {
        let (part, offset) = self.locate(at)?;
        let index = self.parts[part].starts[offset];
        (index != NONE).then_some(index)
    }

    /// Decodes everything that direct control flow reaches from `roots`.
    /// `returns` tells whether control comes back after a call.
    pub fn explore(&mut self, roots: impl IntoIterator<Item = Svma>, returns: &dyn Fn(&Instruction) -> bool) {
        let mut pending: Vec<Svma> = roots.into_iter().collect();
        while let Some(root) = pending.pop() {
            self.follow(root, returns, &mut pending);
        }
        self.first_gap_insn = self.insns.len();
    }

    /// Decodes straight on from `root` until control cannot fall through, or meets a known
    /// instruction, or leaves the part.
    fn follow(&mut self, root: Svma, returns: &dyn Fn(&Instruction) -> bool, pending: &mut Vec<Svma>) {
        let Some((part, mut offset)) = self.locate(root) else { return };
        let part = &mut self.parts[part];
        let mut decoder = Decoder::with_ip(64, part.bytes, part.range.start.0, DecoderOptions::NONE);
        if decoder.set_position(offset).is_err() {
            return;
        }
        decoder.set_ip(root.0);
        while part.starts.get(offset) == Some(&NONE) {
            let insn = decoder.decode();
            part.starts[offset] = self.insns.len() as InsnIndex;
            self.insns.push(insn);
            offset = decoder.position();
            match Transfer::of(&insn) {
                Transfer::Next => {}
                Transfer::Branch(target) => pending.push(target),
                Transfer::Call(_) | Transfer::IndirectCall if returns(&insn) => {}
                Transfer::Jump(target) => {
                    pending.push(target);
                    return;
                }
                _ => return,
            }
        }
    }

    /// Decodes the bytes that no known flow reached, except padding and the ranges in `data`; tells
    /// whether there were any.
    pub fn fill_gaps(&mut self, data: &[SvmaRange], returns: &dyn Fn(&Instruction) -> bool) -> bool {
        let first_gap_insn = self.insns.len();
        for part in 0..self.parts.len() {
            for gap in self.gaps(part, data) {
                self.fill_gap(part, gap, returns);
            }
        }
        self.first_gap_insn = first_gap_insn;
        self.insns.len() > first_gap_insn
    }

    fn fill_gap(&mut self, part: usize, gap: Range<usize>, returns: &dyn Fn(&Instruction) -> bool) {
        let base = self.parts[part].range.start;
        let mut offset = gap.start;
        while offset < gap.end {
            let bytes = &self.parts[part].bytes[offset..gap.end];
            let padding = padding_len(bytes);
            if padding != 0 {
                self.padding_bytes += padding as u64;
                offset += padding;
                continue;
            }
            let before = self.insns.len();
            let mut pending = vec![base.offset(offset as u64)];
            while let Some(root) = pending.pop() {
                self.follow(root, returns, &mut pending);
            }
            if self.insns.len() > before {
                self.gap_roots.push(before as InsnIndex);
            }
            let undecodable = self.insns[before..].iter().filter(|insn| insn.code() == Code::INVALID);
            self.data_bytes += undecodable.map(|insn| insn.len() as u64).sum::<u64>();
            offset = self.next_uncovered(part, offset, gap.end);
        }
    }

    /// First offset at or after `from` that no instruction decoded so far covers.
    fn next_uncovered(&self, part: usize, from: usize, end: usize) -> usize {
        let mut offset = from;
        while offset < end {
            match self.parts[part].starts[offset] {
                NONE => return offset,
                index => offset += self.insns[index as usize].len().max(1),
            }
        }
        end
    }

    /// Maximal runs of bytes covered by neither instructions nor `data`.
    fn gaps(&mut self, part: usize, data: &[SvmaRange]) -> Vec<Range<usize>> {
        let part = &self.parts[part];
        let mut covered = vec![false; part.bytes.len()];
        let mut cover = |start: u64, len: u64| {
            let start = usize::try_from(start).unwrap_or(usize::MAX).min(covered.len());
            let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX)).min(covered.len());
            covered[start..end].fill(true);
        };
        for (offset, &index) in part.starts.iter().enumerate() {
            if index != NONE {
                cover(offset as u64, self.insns[index as usize].len() as u64);
            }
        }
        for range in data.iter().filter(|range| part.range.contains(range.start)) {
            cover(range.start - part.range.start, range.len());
            self.data_bytes += range.len();
        }
        let mut gaps = Vec::new();
        let mut offset = 0;
        while offset < covered.len() {
            let run = covered[offset..].iter().take_while(|&&byte| byte == covered[offset]).count();
            if !covered[offset] {
                gaps.push(offset..offset + run);
            }
            offset += run;
        }
        gaps
    }

    fn locate(&self, at: Svma) -> Option<(usize, usize)> {
        self.parts.iter().enumerate().find_map(|(index, part)| {
            let offset = usize::try_from(at.0.checked_sub(part.range.start.0)?).ok()?;
            (offset < part.bytes.len()).then_some((index, offset))
        })
    }
}

/// Length of the padding that `bytes` starts with: no-ops of any length, `int3`, zeros.
fn padding_len(bytes: &[u8]) -> usize {
    let single = bytes.iter().take_while(|&&byte| matches!(byte, 0x00 | 0x90 | 0xcc)).count();
    if single != 0 {
        return single;
    }
    let insn = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode();
    match insn.mnemonic() {
        Mnemonic::Nop => insn.len(),
        _ => 0,
    }
}
