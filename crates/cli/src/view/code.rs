//! Instructions of blocks, read from the files that ran.
//!
//! Only the bytes of the blocks themselves are read, however large a file is. A file counts only if
//! it is the one that ran, which the symbolizer has checked; of any other module there are no
//! instructions.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use image::{NameKind, Svma};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSegment as _, ReadCache};
use profile::model::{BlockId, ModuleId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::listing::Listing;
use crate::props::Syntax;
use crate::report::Address;
use crate::view::subject::{Place, Subject};

/// Larger blocks are none.
const MAX_BLOCK_BYTES: u32 = 1 << 20;

/// Files that are open, by module.
#[derive(Debug, Default)]
pub struct CodeFiles(RefCell<FxHashMap<ModuleId, Option<Rc<CodeFile>>>>);

#[derive(Debug)]
struct CodeFile {
    file: File,
    segments: Vec<Segment>,
}

/// Bytes of a file that are loaded at an address.
#[derive(Debug, Clone, Copy)]
struct Segment {
    address: u64,
    offset: u64,
    n_bytes: u64,
}

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
        let Some(file) = self.code_file(module) else { return Vec::new() };
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

    fn code_file(&self, module: ModuleId) -> Option<Rc<CodeFile>> {
        let mut files = self.code.0.borrow_mut();
        let file = files
            .entry(module)
            .or_insert_with(|| self.symbolizer.file_that_ran(module).and_then(CodeFile::open).map(Rc::new));
        file.clone()
    }
}

/// What instructions of a block refer to by name, and where they are themselves: what has to be
/// resolved to show them.
pub fn targets(module: ModuleId, insns: &[Instruction]) -> impl Iterator<Item = Place> {
    let is_direct = |insn: &&Instruction| 0 < insn.op_count() && insn.op0_kind() == OpKind::NearBranch64;
    let called = insns.iter().filter(is_direct).map(Instruction::near_branch_target);
    insns.iter().map(Instruction::ip).chain(called).map(move |address| (module, address))
}

impl CodeFile {
    fn open(path: &Path) -> Option<CodeFile> {
        // Opening a named pipe would wait for a writer that never comes.
        fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let cache = ReadCache::new(File::open(path).ok()?);
        let elf = ElfFile64::<LittleEndian, _>::parse(&cache).ok()?;
        let segments = elf.segments().map(|segment| {
            let (offset, n_bytes) = segment.file_range();
            Segment { address: segment.address(), offset, n_bytes }
        });
        let segments = segments.collect();
        Some(CodeFile { file: File::open(path).ok()?, segments })
    }

    fn read(&self, address: u64, n_bytes: u32) -> Option<Vec<u8>> {
        let n_bytes = u64::from(n_bytes);
        let offset = self.segments.iter().find_map(|segment| {
            let distance = address.checked_sub(segment.address)?;
            let is_inside = distance.checked_add(n_bytes)? <= segment.n_bytes;
            is_inside.then(|| segment.offset.checked_add(distance)).flatten()
        })?;
        let mut bytes = vec![0; n_bytes as usize];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}
