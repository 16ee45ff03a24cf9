//! Procedure linkage table stubs, recognised by their bytes.
//!
//! Every linker (bfd, gold, lld) ends a stub with `jmp *slot(%rip)`; around it come `endbr64`, a
//! `bnd` prefix and a tail that pushes an index or pads to 8 or 16 bytes. The shapes, `[...]`
//! optional:
//!
//! ```text
//! jump       [f3 0f 1e fa] [f2] ff 25 <slot>  tail      .plt, .plt.sec, .plt.got
//! lazy        f3 0f 1e fa  68 <index> [f2] e9 <header>   .plt beside a .plt.sec: the slot's first value
//! header     [f3 0f 1e fa] ff 35 <slot> [f2] ff 25 <slot>  PLT0, and the stub of lazy TLS descriptors
//! ```
//!
//! The slot's relocation gives the name. In a file without section headers the executable segments
//! are searched instead, where a jump counts only if its slot is bound by a relocation and its tail
//! is that of a stub, since `-fno-plt` code jumps through slots as well.

use crate::elf::Section;
use crate::memory::CodeRegion;
use crate::relocation::Relocations;
use crate::{Svma, SvmaRange};

/// One stub of a procedure linkage table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PltStub {
    /// The stub's bytes with padding.
    pub range: SvmaRange,
    /// The word it jumps through; for a lazy stub the word that is bound, for a header that of the
    /// loader's entry.
    pub slot: Svma,
    /// What it does.
    pub kind: PltStubKind,
    /// Mangled, unversioned name of the function that the slot is bound to; none for headers and
    /// lazy stubs.
    pub symbol: Option<String>,
}

/// What a stub does.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum PltStubKind {
    /// Jumps to the function its slot is bound to.
    Jump,
    /// Asks the loader to bind a slot, then goes on in the function.
    Lazy,
    /// Enters the loader on behalf of lazy stubs.
    Header,
}

const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
const STUB_ALIGNMENT: usize = 8;

/// All stubs of the image, sorted by address; symbols are those of the relocations.
pub(crate) fn find_stubs(
    code: &[CodeRegion<'_>],
    sections: &[Section<'_>],
    relocations: &Relocations<'_>,
) -> Vec<PltStub> {
    let is_stub = |shape: &Shape| {
        let is_bound = shape.kind != PltStubKind::Jump || relocations.bound_at(shape.slot).is_some();
        shape.is_certain && is_bound
    };
    let mut stubs = Vec::new();
    for region in code {
        if sections.is_empty() {
            scan(region, relocations, is_stub, &mut stubs);
        } else if matches!(region.name, ".plt" | ".plt.sec" | ".plt.got" | ".plt.bnd" | ".iplt") {
            scan(region, relocations, |_| true, &mut stubs);
        }
    }
    stubs
}

fn scan(
    region: &CodeRegion<'_>,
    relocations: &Relocations<'_>,
    accept: impl Fn(&Shape) -> bool,
    stubs: &mut Vec<PltStub>,
) {
    let mut offset = 0;
    while let Some(bytes) = region.bytes.get(offset..).filter(|bytes| !bytes.is_empty()) {
        let at = region.range.start.offset(offset as u64);
        let Some(shape) = Shape::of(bytes, at, relocations).filter(&accept) else {
            offset += STUB_ALIGNMENT;
            continue;
        };
        let len = shape.len.min(bytes.len());
        stubs.push(PltStub {
            range: SvmaRange { start: at, end: at.offset(len as u64) },
            slot: shape.slot,
            kind: shape.kind,
            symbol: None,
        });
        offset += len;
    }
}

/// A stub as recognised by its bytes.
struct Shape {
    kind: PltStubKind,
    slot: Svma,
    len: usize,
    /// Nothing but a stub has these bytes.
    is_certain: bool,
}

impl Shape {
    fn of(bytes: &[u8], at: Svma, relocations: &Relocations<'_>) -> Option<Shape> {
        let mut cursor = Cursor { bytes, at };
        let has_endbr = cursor.skip(ENDBR64);
        if cursor.skip(&[0x68]) {
            let index = cursor.u32()?;
            cursor.skip(&[0xf2]);
            let is_lazy = has_endbr && cursor.skip(&[0xe9]);
            let slot = relocations.plt_slot(index)?;
            return is_lazy.then_some(Shape { kind: PltStubKind::Lazy, slot, len: 16, is_certain: true });
        }
        if cursor.skip(&[0xff, 0x35]) {
            cursor.u32()?;
            cursor.skip(&[0xf2]);
            let slot = cursor.skip(&[0xff, 0x25]).then(|| cursor.rip_relative())??;
            return Some(Shape { kind: PltStubKind::Header, slot, len: 16, is_certain: true });
        }
        cursor.skip(&[0xf2]);
        let slot = cursor.skip(&[0xff, 0x25]).then(|| cursor.rip_relative())??;
        let (len, is_certain) = jump_stub_len(cursor.at - at, cursor.bytes);
        Some(Shape { kind: PltStubKind::Jump, slot, len, is_certain })
    }
}

/// Length of a stub whose jump ends after `jump_len` bytes, and whether what follows is the tail of
/// one.
fn jump_stub_len(jump_len: u64, tail: &[u8]) -> (usize, bool) {
    match tail {
        [0x68, _, _, _, _, 0xe9, ..] => (16, true),
        [0x66, 0x90, ..] | [0x90, ..] if jump_len < 8 => (8, true),
        [0x0f, 0x1f, ..] | [0x66, 0x0f, 0x1f, ..] | [0x66, 0x2e, ..] => (16, true),
        _ => (if jump_len > 8 { 16 } else { 8 }, false),
    }
}

/// The bytes still to match, and where they are.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: Svma,
}

impl Cursor<'_> {
    fn skip(&mut self, expected: &[u8]) -> bool {
        let rest = self.bytes.strip_prefix(expected);
        if let Some(rest) = rest {
            self.bytes = rest;
            self.at = self.at.offset(expected.len() as u64);
        }
        rest.is_some()
    }

    fn u32(&mut self) -> Option<u32> {
        let (value, rest) = self.bytes.split_first_chunk::<4>()?;
        self.bytes = rest;
        self.at = self.at.offset(4);
        Some(u32::from_le_bytes(*value))
    }

    /// The operand of an instruction that ends with its displacement.
    fn rip_relative(&mut self) -> Option<Svma> {
        let displacement = self.u32()?.cast_signed();
        Some(self.at.offset_signed(i64::from(displacement)))
    }
}
