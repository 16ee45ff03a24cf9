//! The compiler's ids of machine basic blocks, from the section that
//! `clang -fbasic-block-address-map` writes.
//!
//! The section `.llvm_bb_addr_map` holds one entry per function: version and features, then ranges
//! of blocks, each with a base address. A block has an id, the distance of its start from the end
//! of the previous block, perhaps the ends of its calls, and its size after the last of those. What
//! profile-guided optimization adds behind the ranges is skipped. Versions 2 to 5 are known, and
//! every feature of them except that which changes the shape of the skipped part.

use crate::elf::{Elf, section_bytes};
use crate::problem::Problems;
use crate::{BlockMapFault, Error, Svma};
use gimli::{EndianSlice, LittleEndian, Reader as _};

const SECTION: &str = ".llvm_bb_addr_map";

/// The compiler's ids of machine basic blocks, by address.
#[derive(Debug, Default)]
pub struct BasicBlockIds(Vec<MachineBlock>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MachineBlock {
    start: u64,
    size: u64,
    id: u32,
}

/// Features of an entry, as bits.
mod feature {
    pub const ENTRY_COUNT: u16 = 1 << 0;
    pub const BLOCK_FREQUENCY: u16 = 1 << 1;
    pub const BRANCH_PROBABILITY: u16 = 1 << 2;
    pub const RANGES: u16 = 1 << 3;
    pub const NO_BLOCKS: u16 = 1 << 4;
    pub const CALL_ENDS: u16 = 1 << 5;
    pub const HASHES: u16 = 1 << 6;
    pub const KNOWN: u16 = (1 << 7) - 1;
}

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

impl BasicBlockIds {
    /// Reads the ids that an ELF file has; none if it was built without.
    ///
    /// # Errors
    /// If the file is no ELF file of ours, or its table of ids cannot be read.
    pub fn of_file(data: &[u8]) -> std::result::Result<BasicBlockIds, Error> {
        let elf = Elf::parse(data, &mut Problems::default())?;
        let mut blocks = Vec::new();
        for (_, header) in elf.sections().filter(|(name, _)| *name == SECTION) {
            read_section(section_bytes(data, header).unwrap_or_default(), &mut blocks).map_err(Error::BlockMap)?;
        }
        blocks.sort_unstable();
        Ok(BasicBlockIds(blocks))
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the id of the block that an address lies in.
    #[must_use]
    pub fn at(&self, Svma(address): Svma) -> Option<u32> {
        let last = self.0.partition_point(|block| block.start <= address).checked_sub(1)?;
        self.0.get(last).filter(|block| address - block.start < block.size).map(|block| block.id)
    }
}

type Result<T> = std::result::Result<T, BlockMapFault>;

fn read_section(bytes: &[u8], blocks: &mut Vec<MachineBlock>) -> Result<()> {
    let mut rest = EndianSlice::new(bytes, LittleEndian);
    while !rest.is_empty() {
        read_function(&mut rest, blocks)?;
    }
    Ok(())
}

fn read_function(rest: &mut Bytes<'_>, blocks: &mut Vec<MachineBlock>) -> Result<()> {
    let version = rest.read_u8().map_err(truncated)?;
    let features = match version {
        2..=4 => u16::from(rest.read_u8().map_err(truncated)?),
        5 => rest.read_u16().map_err(truncated)?,
        _ => return Err(BlockMapFault::Version(version)),
    };
    if features & !feature::KNOWN != 0 {
        return Err(BlockMapFault::Features(features));
    }
    let n_ranges = if features & feature::RANGES == 0 { 1 } else { number(rest)? };
    let mut n_blocks = 0u64;
    for _ in 0..n_ranges {
        n_blocks = n_blocks.saturating_add(read_range(rest, features, blocks)?);
    }
    skip_optimizer_data(rest, features, n_blocks)
}

/// Returns how many blocks it has.
fn read_range(rest: &mut Bytes<'_>, features: u16, blocks: &mut Vec<MachineBlock>) -> Result<u64> {
    let mut end = rest.read_u64().map_err(truncated)?;
    let n_blocks = number(rest)?;
    if features & feature::NO_BLOCKS != 0 {
        return Ok(n_blocks);
    }
    for _ in 0..n_blocks {
        let id = number(rest)?;
        let start = end.wrapping_add(number(rest)?);
        let mut size = 0u64;
        if features & feature::CALL_ENDS != 0 {
            for _ in 0..number(rest)? {
                size = size.wrapping_add(number(rest)?);
            }
        }
        size = size.wrapping_add(number(rest)?);
        let _metadata = number(rest)?;
        if features & feature::HASHES != 0 {
            rest.read_u64().map_err(truncated)?;
        }
        let id = u32::try_from(id).map_err(|_| BlockMapFault::Id(id))?;
        blocks.push(MachineBlock { start, size, id });
        end = start.wrapping_add(size);
    }
    Ok(n_blocks)
}

fn skip_optimizer_data(rest: &mut Bytes<'_>, features: u16, n_blocks: u64) -> Result<()> {
    if features & feature::ENTRY_COUNT != 0 {
        number(rest)?;
    }
    if features & (feature::BLOCK_FREQUENCY | feature::BRANCH_PROBABILITY) == 0 {
        return Ok(());
    }
    for _ in 0..n_blocks {
        if features & feature::BLOCK_FREQUENCY != 0 {
            number(rest)?;
        }
        if features & feature::BRANCH_PROBABILITY != 0 {
            for _ in 0..number(rest)? {
                let _successor = number(rest)?;
                let _probability = number(rest)?;
            }
        }
    }
    Ok(())
}

fn number(rest: &mut Bytes<'_>) -> Result<u64> {
    rest.read_uleb128().map_err(truncated)
}

fn truncated(_: gimli::Error) -> BlockMapFault {
    BlockMapFault::Truncated
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<BasicBlockIds> {
        let mut blocks = Vec::new();
        read_section(bytes, &mut blocks)?;
        blocks.sort_unstable();
        Ok(BasicBlockIds(blocks))
    }

    /// Version 2: two blocks at 0x1000, of 4 bytes and, 2 bytes behind it, of 200.
    const PLAIN: &[u8] = &[2, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 2, 0, 0, 4, 1, 7, 2, 0xc8, 1, 8];

    #[test]
    fn blocks_follow_each_other() {
        let ids = read(PLAIN).unwrap();
        let found = [0xfff, 0x1000, 0x1003, 0x1004, 0x1006, 0x10cd, 0x10ce].map(|address| ids.at(Svma(address)));
        assert_eq!(found, [None, Some(0), Some(0), None, Some(7), Some(7), None]);
    }

    #[test]
    fn sizes_count_from_the_last_call_and_optimizer_data_is_skipped() {
        // Version 4 with entry count, frequencies, probabilities, ranges, ends of calls and hashes.
        let mut bytes = vec![4, 0b110_1111, 1, 0, 0x20, 0, 0, 0, 0, 0, 0, 1, 3, 0, 2, 5, 6, 1, 0];
        bytes.extend([9; 8]);
        bytes.extend([50, 60, 1, 3, 70]);
        bytes.extend(PLAIN);
        let ids = read(&bytes).unwrap();
        assert_eq!([0x2000, 0x200b, 0x200c].map(|address| ids.at(Svma(address))), [Some(3), Some(3), None]);
        assert_eq!(ids.at(Svma(0x1000)), Some(0));
    }

    #[test]
    fn other_versions_and_ends_are_refused() {
        assert_eq!(read(&[9, 0]).unwrap_err(), BlockMapFault::Version(9));
        assert_eq!(read(&[2, 0x80]).unwrap_err(), BlockMapFault::Features(0x80));
        for length in 1..PLAIN.len() {
            assert_eq!(read(&PLAIN[..length]).unwrap_err(), BlockMapFault::Truncated, "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
        }
    }
}
