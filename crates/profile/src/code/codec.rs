//! [`ModuleCode`] as bytes.
//!
//! Little-endian, without compression, so that a module of a million blocks is read at the speed of
//! memory:
//!
//! ```text
//! magic 8 | version u32 | n_functions u32 | n_blocks u32 | n_loops u32 | n_cuts u32 | n_insns u32
//! functions: address u64, size u64, is_stub u8
//! blocks:    address u64, target u64, size u32, last u32, n_insns u32, function u32, innermost_loop u32, end u8, is_entry u8, 0 u16
//! loops:     header u32, parent u32
//! cuts:      from u32, to u32
//! insns:     inputs 4 u8, outputs 3 u8, latency u8
//! ```
//!
//! The length must be exactly that, and what is read must pass [`ModuleCode::check`]: bytes from
//! anywhere give an error or a code that is safe to use.

use super::{CodeBlock, CodeFunction, CodeInsn, CodeLoop, ModuleCode};
use crate::error::Error;
use crate::model::BlockEnd;

const MAGIC: [u8; 8] = *b"strbcode";
const VERSION: u32 = 3;
const HEADER_BYTES: usize = 8 + 6 * 4;
const FUNCTION_BYTES: usize = 17;
const BLOCK_BYTES: usize = 40;
const PAIR_BYTES: usize = 8;
const INSN_BYTES: usize = 8;

impl ModuleCode {
    /// The code as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let counts = [self.functions.len(), self.blocks.len(), self.loops.len(), self.cuts.len(), self.insns.len()];
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body_bytes(counts) as usize);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        for count in counts {
            bytes.extend((count as u32).to_le_bytes());
        }
        for function in &self.functions {
            bytes.extend(function.address.to_le_bytes());
            bytes.extend(function.size.to_le_bytes());
            bytes.push(function.is_stub.into());
        }
        for block in &self.blocks {
            bytes.extend(block_to_bytes(block));
        }
        for each in &self.loops {
            bytes.extend(pair_to_bytes(each.header, each.parent));
        }
        for &(from, to) in &self.cuts {
            bytes.extend(pair_to_bytes(from, to));
        }
        for insn in &self.insns {
            bytes.extend(insn.inputs);
            bytes.extend(insn.outputs);
            bytes.push(insn.latency);
        }
        bytes
    }

    /// Reads what [`ModuleCode::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<ModuleCode, Error> {
        let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Error::NotCode)?;
        if !header.starts_with(&MAGIC) {
            return Err(Error::NotCode);
        }
        let version = u32_at(header, 8);
        if version != VERSION {
            return Err(Error::CodeVersion(version));
        }
        let counts = [12, 16, 20, 24, 28].map(|offset| u32_at(header, offset) as usize);
        let expected = body_bytes(counts);
        if expected != body.len() as u64 {
            return Err(Error::CodeLength { expected, actual: body.len() as u64 });
        }
        let [n_functions, n_blocks, n_loops, n_cuts, _] = counts;
        let (functions, rest) = body.split_at(n_functions * FUNCTION_BYTES);
        let (blocks, rest) = rest.split_at(n_blocks * BLOCK_BYTES);
        let (loops, rest) = rest.split_at(n_loops * PAIR_BYTES);
        let (cuts, insns) = rest.split_at(n_cuts * PAIR_BYTES);
        let function =
            |b: &[u8; FUNCTION_BYTES]| CodeFunction { address: u64_at(b, 0), size: u64_at(b, 8), is_stub: b[16] != 0 };
        let a_loop = |b: &[u8; PAIR_BYTES]| CodeLoop { header: u32_at(b, 0), parent: u32_at(b, 4) };
        let code = ModuleCode {
            functions: functions.as_chunks().0.iter().map(function).collect(),
            blocks: blocks.as_chunks().0.iter().map(block_from_bytes).collect::<Option<_>>().ok_or(BAD_END)?,
            loops: loops.as_chunks().0.iter().map(a_loop).collect(),
            cuts: cuts.as_chunks::<PAIR_BYTES>().0.iter().map(|b| (u32_at(b, 0), u32_at(b, 4))).collect(),
            insns: insns.as_chunks().0.iter().map(insn_from_bytes).collect(),
        };
        code.check()?;
        Ok(code)
    }
}

const BAD_END: Error = Error::BadCode("a block that ends in no known way");

/// In 64 bits and of 32-bit counts: cannot overflow.
fn body_bytes([functions, blocks, loops, cuts, insns]: [usize; 5]) -> u64 {
    let bytes = |count: usize, each: usize| count as u64 * each as u64;
    bytes(functions, FUNCTION_BYTES)
        + bytes(blocks, BLOCK_BYTES)
        + bytes(loops, PAIR_BYTES)
        + bytes(cuts, PAIR_BYTES)
        + bytes(insns, INSN_BYTES)
}

fn block_to_bytes(block: &CodeBlock) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    let mut put = |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
    put(0, &block.address.to_le_bytes());
    put(8, &block.target.to_le_bytes());
    put(16, &block.size.to_le_bytes());
    put(20, &block.last.to_le_bytes());
    put(24, &block.n_insns.to_le_bytes());
    put(28, &block.function.to_le_bytes());
    put(32, &block.innermost_loop.to_le_bytes());
    put(36, &[block.end as u8, u8::from(block.is_entry)]);
    bytes
}

fn block_from_bytes(bytes: &[u8; BLOCK_BYTES]) -> Option<CodeBlock> {
    Some(CodeBlock {
        address: u64_at(bytes, 0),
        target: u64_at(bytes, 8),
        size: u32_at(bytes, 16),
        last: u32_at(bytes, 20),
        n_insns: u32_at(bytes, 24),
        function: u32_at(bytes, 28),
        innermost_loop: u32_at(bytes, 32),
        end: block_end(bytes[36])?,
        is_entry: bytes[37] != 0,
    })
}

fn insn_from_bytes(&[a, b, c, d, x, y, z, latency]: &[u8; INSN_BYTES]) -> CodeInsn {
    CodeInsn { inputs: [a, b, c, d], outputs: [x, y, z], latency }
}

fn block_end(number: u8) -> Option<BlockEnd> {
    use BlockEnd::{Branch, Call, IndirectCall, IndirectJump, Jump, Next, Return, Trap};
    [Next, Jump, Branch, IndirectJump, Call, IndirectCall, Return, Trap].into_iter().find(|&end| end as u8 == number)
}

fn pair_to_bytes(a: u32, b: u32) -> [u8; PAIR_BYTES] {
    (u64::from(a) | u64::from(b) << 32).to_le_bytes()
}

/// Offsets are constants within the array.
fn u32_at<const N: usize>(bytes: &[u8; N], offset: usize) -> u32 {
    u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

fn u64_at<const N: usize>(bytes: &[u8; N], offset: usize) -> u64 {
    u64::from(u32_at(bytes, offset)) | u64::from(u32_at(bytes, offset + 4)) << 32
}
