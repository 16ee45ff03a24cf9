//! Calling contexts: unwinds the stack that a tick kept.
//!
//! Frames are followed by the call frame information of their modules ([`rules`]); where there is
//! none, the code is followed to its return ([`flow::returning`]); and code of no module is taken
//! to have a frame pointer.

mod rules;

use std::ops::Range;
use std::sync::Arc;

use flow::returning::{Interrupted, find_return};
use object::{Object, ObjectSection as _};
use wire::sample::{RIP, RSP, SampleHeader};

use self::rules::Rules;

/// Index of the frame pointer among registers.
const RBP: usize = 5;
/// Deeper stacks are cut.
const MAX_FRAMES: usize = 512;

/// Bytes of a section, shared by all that read them.
type Bytes = Arc<[u8]>;

/// The sections of a module that unwinding needs.
#[derive(Debug, Clone, Default)]
pub struct UnwindSections {
    text: Option<(Range<u64>, Bytes)>,
    eh_frame: Option<(Range<u64>, Bytes)>,
    eh_frame_hdr: Option<(Range<u64>, Bytes)>,
}

impl UnwindSections {
    pub fn of<'data>(file: &impl Object<'data>) -> UnwindSections {
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            let start = section.address();
            Some((start..start.checked_add(section.size())?, Arc::from(section.data().ok()?)))
        };
        UnwindSections {
            text: section(".text"),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
        }
    }
}

/// An activation of a function: its registers, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    registers: [Option<u64>; 17],
    /// The instruction pointer is that behind a call.
    is_behind_call: bool,
}

impl Frame {
    /// A frame of which the pointers of instruction, stack and frame are known.
    pub fn of_pointers([rip, rsp, rbp]: [u64; 3]) -> Frame {
        let mut registers = [None; 17];
        registers[RIP] = Some(rip);
        registers[RSP] = Some(rsp);
        registers[RBP] = Some(rbp);
        Frame { registers, is_behind_call: false }
    }

    /// An address in the instruction that is being executed.
    fn code(&self) -> Option<u64> {
        self.registers[RIP]?.checked_sub(u64::from(self.is_behind_call))
    }
}

/// Unwinds stacks of one process.
#[derive(Default)]
pub struct StackUnwinder {
    modules: Vec<UnwindModule>,
}

struct UnwindModule {
    range: Range<u64>,
    bias: u64,
    rules: Option<Rules>,
    text: Option<(Range<u64>, Bytes)>,
}

impl std::fmt::Debug for StackUnwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StackUnwinder")
    }
}

impl StackUnwinder {
    /// Adds a module that is loaded at `range`, with this difference between addresses in the
    /// process and in its file.
    pub fn add(&mut self, range: Range<u64>, bias: u64, sections: &UnwindSections) {
        self.modules.push(UnwindModule { range, bias, rules: Rules::new(sections), text: sections.text.clone() });
    }

    pub fn remove(&mut self, start: u64) {
        self.modules.retain(|module| module.range.start != start);
    }

    /// Frames that called `frame`, from the innermost outwards: the return address, and the stack
    /// pointer before the call.
    pub fn calls(&mut self, frame: Frame, stack: &[u8]) -> Vec<(u64, u64)> {
        let Some(sp) = frame.registers[RSP] else { return Vec::new() };
        let read = |address: u64| word_at(stack, address.wrapping_sub(sp));
        let callers = std::iter::successors(self.caller(&frame, &read), |frame| self.caller(frame, &read));
        callers.filter_map(|frame| Some((frame.registers[RIP]?, frame.registers[RSP]?))).take(stack.len()).collect()
    }

    /// Addresses from the innermost frame outwards: the interrupted one, then return addresses less
    /// one.
    pub fn unwind(&mut self, header: &SampleHeader, stack: &[u8]) -> Vec<u64> {
        let (inner, outer) = stack.split_at(stack.len().saturating_sub(8 * usize::from(header.outer_words)));
        let [inner_start, outer_start] = [header.registers[RSP], header.outer_stack];
        let read = |address: u64| {
            let in_outer = || word_at(outer, address.wrapping_sub(outer_start));
            word_at(inner, address.wrapping_sub(inner_start)).or_else(in_outer)
        };
        let innermost = Frame { registers: header.registers.map(Some), is_behind_call: false };
        let frames = std::iter::successors(Some(innermost), |frame| self.caller(frame, &read));
        frames.map_while(|frame| frame.code()).take(MAX_FRAMES).collect()
    }

    fn caller(&mut self, frame: &Frame, read: &dyn Fn(u64) -> Option<u64>) -> Option<Frame> {
        let code = frame.code()?;
        let module = self.modules.iter_mut().find(|module| module.range.contains(&code));
        let by_rules = module.and_then(|module| {
            let address = code.wrapping_sub(module.bias);
            module.rules.as_mut()?.caller(frame, address, read)
        });
        by_rules.unwrap_or_else(|| self.caller_by_code(frame, read))
    }

    fn caller_by_code(&self, frame: &Frame, read: &dyn Fn(u64) -> Option<u64>) -> Option<Frame> {
        let code = frame.code()?;
        let Some(module) = self.modules.iter().find(|module| module.range.contains(&code)) else {
            return self.caller_by_frame_pointer(frame, read);
        };
        let (range, code) = module.text.as_ref()?;
        let mut registers = [None; 16];
        registers.copy_from_slice(&frame.registers[..16]);
        let returned = find_return(&Interrupted {
            code,
            code_start: range.start,
            at: frame.registers[RIP]?.wrapping_sub(module.bias),
            registers,
            read,
            is_behind_call: &|address| self.is_behind_call(address),
        })?;
        let mut registers = [None; 17];
        registers[..16].copy_from_slice(&returned.registers);
        registers[RIP] = Some(returned.to);
        (registers[RSP] > frame.registers[RSP]).then_some(Frame { registers, is_behind_call: true })
    }

    /// Code that was made while the program runs mostly keeps frame pointers.
    fn caller_by_frame_pointer(&self, frame: &Frame, read: &dyn Fn(u64) -> Option<u64>) -> Option<Frame> {
        let rbp = frame.registers[RBP].filter(|rbp| Some(*rbp) >= frame.registers[RSP])?;
        let [caller, to] = [read(rbp)?, read(rbp.wrapping_add(8))?];
        let frame = Frame::of_pointers([to, rbp.wrapping_add(16), caller]);
        (to != 0).then_some(Frame { is_behind_call: true, ..frame })
    }

    /// Whether a call ends at an address of code: by a displacement of 4 bytes, or through a
    /// register or memory.
    fn is_behind_call(&self, address: u64) -> bool {
        let before = || {
            let module = self.modules.iter().find(|module| module.range.contains(&address))?;
            let (range, code) = module.text.as_ref()?;
            let end = usize::try_from(address.wrapping_sub(module.bias).checked_sub(range.start)?).ok()?;
            code.get(end.checked_sub(LONGEST_CALL)?..end)
        };
        before().is_some_and(ends_in_call)
    }
}

/// An indirect call with a displacement of 4 bytes, an index, and a prefix.
const LONGEST_CALL: usize = 8;

fn ends_in_call(bytes: &[u8]) -> bool {
    let is_direct = bytes.len() >= 5 && bytes[bytes.len() - 5] == 0xe8;
    // `ff /2`, with a register or memory: the operand takes 0, 1, 2, 4 or 5 bytes more.
    let is_indirect = [2, 3, 4, 6, 7].iter().any(|&length| {
        let start = bytes.len().checked_sub(length);
        start.is_some_and(|start| bytes[start] == 0xff && bytes[start + 1] >> 3 & 7 == 2)
    });
    is_direct || is_indirect
}

fn word_at(stack: &[u8], offset: u64) -> Option<u64> {
    let offset = usize::try_from(offset).ok()?;
    let word = stack.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}
