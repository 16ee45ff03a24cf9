//! Calling contexts: unwinds the stack that a tick kept.
//!
//! Frames are followed by the call frame information of their modules ([`rules`]); where there is none, framehop finds what it can from
//! the code and the frame pointer.

mod rules;

use std::ops::Range;
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use object::{Object, ObjectSection as _};
use wire::sample::{RIP, RSP, SampleHeader};

use self::rules::Rules;

/// Index of the frame pointer among registers.
const RBP: usize = 5;
/// Deeper stacks are cut.
const MAX_FRAMES: usize = 512;

/// Bytes of a section, shared by all that read them.
type Bytes = Arc<[u8]>;

/// What unwinding needs of a module.
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
pub struct StackUnwinder {
    modules: Vec<UnwindModule>,
    by_code: UnwinderX86_64<Bytes>,
    cache: CacheX86_64,
}

struct UnwindModule {
    range: Range<u64>,
    bias: u64,
    rules: Rules,
}

impl std::fmt::Debug for StackUnwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StackUnwinder")
    }
}

impl StackUnwinder {
    pub fn new() -> StackUnwinder {
        StackUnwinder { modules: Vec::new(), by_code: UnwinderX86_64::new(), cache: CacheX86_64::new() }
    }

    /// Adds a module that is loaded at `range`, with this difference between addresses in the process and in its file.
    pub fn add(&mut self, name: &str, range: Range<u64>, bias: u64, sections: &UnwindSections) {
        if let Some(rules) = Rules::new(sections) {
            self.modules.push(UnwindModule { range: range.clone(), bias, rules });
        }
        let range_of = |section: &Option<(Range<u64>, Bytes)>| section.as_ref().map(|(range, _)| range.clone());
        let bytes_of = |section: &Option<(Range<u64>, Bytes)>| section.as_ref().map(|(_, bytes)| Arc::clone(bytes));
        let info = ExplicitModuleSectionInfo {
            base_svma: range.start.wrapping_sub(bias),
            text_svma: range_of(&sections.text),
            text: bytes_of(&sections.text),
            ..ExplicitModuleSectionInfo::default()
        };
        let base = range.start;
        self.by_code.add_module(Module::new(name.to_owned(), range, base, info));
    }

    pub fn remove(&mut self, start: u64) {
        self.modules.retain(|module| module.range.start != start);
        self.by_code.remove_module(start);
    }

    /// Frames that called `frame`, from the innermost outwards: the return address, and the stack pointer before the call.
    pub fn calls(&mut self, frame: Frame, stack: &[u8]) -> Vec<(u64, u64)> {
        let Some(sp) = frame.registers[RSP] else { return Vec::new() };
        let read = |address: u64| word_at(stack, address.wrapping_sub(sp));
        let callers = std::iter::successors(self.caller(&frame, &read), |frame| self.caller(frame, &read));
        callers.filter_map(|frame| Some((frame.registers[RIP]?, frame.registers[RSP]?))).take(stack.len()).collect()
    }

    /// Addresses from the innermost frame outwards: the interrupted one, then return addresses less one.
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
        let by_rules = module.and_then(|module| module.rules.caller(frame, code.wrapping_sub(module.bias), read));
        by_rules.unwrap_or_else(|| self.caller_by_code(frame, read))
    }

    fn caller_by_code(&mut self, frame: &Frame, read: &dyn Fn(u64) -> Option<u64>) -> Option<Frame> {
        let [rip, rsp, rbp] = [RIP, RSP, RBP].map(|register| frame.registers[register]);
        let rip = rip?;
        let address = if frame.is_behind_call {
            FrameAddress::from_return_address(rip)?
        } else {
            FrameAddress::from_instruction_pointer(rip)
        };
        let mut registers = UnwindRegsX86_64::new(rip, rsp?, rbp?);
        let mut read = |address: u64| read(address).ok_or(());
        let caller = self.by_code.unwind_frame(address, &mut registers, &mut self.cache, &mut read).ok()??;
        Some(Frame { is_behind_call: true, ..Frame::of_pointers([caller, registers.sp(), registers.bp()]) })
    }
}

fn word_at(stack: &[u8], offset: u64) -> Option<u64> {
    let offset = usize::try_from(offset).ok()?;
    let word = stack.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}
