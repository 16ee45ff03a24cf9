//! Calling contexts: unwinds the stack that a tick kept.

use std::ops::Range;
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use object::{Object, ObjectSection as _};
use wire::sample::{RIP, RSP, Registers};

/// Index of the frame pointer in [`Registers`].
const RBP: usize = 5;
/// Deeper stacks are cut.
const MAX_FRAMES: usize = 512;

/// What unwinding needs of a module.
#[derive(Debug, Clone, Default)]
pub struct UnwindSections {
    text: Option<(Range<u64>, Arc<[u8]>)>,
    eh_frame: Option<(Range<u64>, Arc<[u8]>)>,
    eh_frame_hdr: Option<(Range<u64>, Arc<[u8]>)>,
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

/// Unwinds stacks of one process.
pub struct StackUnwinder {
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    cache: CacheX86_64,
}

impl std::fmt::Debug for StackUnwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StackUnwinder")
    }
}

impl StackUnwinder {
    pub fn new() -> StackUnwinder {
        StackUnwinder { unwinder: UnwinderX86_64::new(), cache: CacheX86_64::new() }
    }

    /// Adds a module that is loaded at `range`, with this difference between addresses in the process and in its file.
    pub fn add(&mut self, name: &str, range: Range<u64>, bias: u64, sections: &UnwindSections) {
        let range_of = |section: &Option<(Range<u64>, Arc<[u8]>)>| section.as_ref().map(|(range, _)| range.clone());
        let bytes_of = |section: &Option<(Range<u64>, Arc<[u8]>)>| section.as_ref().map(|(_, bytes)| Arc::clone(bytes));
        let info = ExplicitModuleSectionInfo {
            base_svma: range.start.wrapping_sub(bias),
            text_svma: range_of(&sections.text),
            text: bytes_of(&sections.text),
            eh_frame_svma: range_of(&sections.eh_frame),
            eh_frame: bytes_of(&sections.eh_frame),
            eh_frame_hdr_svma: range_of(&sections.eh_frame_hdr),
            eh_frame_hdr: bytes_of(&sections.eh_frame_hdr),
            ..ExplicitModuleSectionInfo::default()
        };
        let base = range.start;
        self.unwinder.add_module(Module::new(name.to_owned(), range, base, info));
    }

    pub fn remove(&mut self, start: u64) {
        self.unwinder.remove_module(start);
    }

    /// Calls that a thread is in, from the innermost outwards: the return address, and the stack pointer before the call.
    pub fn calls(&mut self, [rip, rsp, rbp]: [u64; 3], stack: &[u8]) -> Vec<(u64, u64)> {
        let mut read = |address: u64| word_of_stack(stack, rsp, address).ok_or(());
        let mut registers = UnwindRegsX86_64::new(rip, rsp, rbp);
        let mut at = Some(FrameAddress::from_instruction_pointer(rip));
        let mut calls = Vec::new();
        while let Some(address) = at
            && let Ok(Some(return_address)) =
                self.unwinder.unwind_frame(address, &mut registers, &mut self.cache, &mut read)
            && calls.len() < stack.len()
        {
            calls.push((return_address, registers.sp()));
            at = FrameAddress::from_return_address(return_address);
        }
        calls
    }

    /// Addresses from the innermost frame outwards: the interrupted one, then return addresses less one.
    pub fn unwind(&mut self, registers: &Registers, stack: &[u8]) -> Vec<u64> {
        let sp = registers[RSP];
        let mut read = |address: u64| word_of_stack(stack, sp, address).ok_or(());
        let start = UnwindRegsX86_64::new(registers[RIP], sp, registers[RBP]);
        let mut frames = Vec::new();
        let mut iter = self.unwinder.iter_frames(registers[RIP], start, &mut self.cache, &mut read);
        while let Ok(Some(frame)) = iter.next() {
            frames.push(frame.address_for_lookup());
            if frames.len() == MAX_FRAMES {
                break;
            }
        }
        frames
    }
}

/// The word at an address of a stack whose lowest address is `sp`.
fn word_of_stack(stack: &[u8], sp: u64, address: u64) -> Option<u64> {
    let offset = usize::try_from(address.wrapping_sub(sp)).ok()?;
    let word = stack.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}
