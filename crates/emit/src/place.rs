//! The bytes of a copy at a given address.

use wire::sample::RECORD_ADDRESS_BITS;

use crate::copy::ModuleCopy;
use crate::error::Error;

/// Where a module and its copy are in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Address of the image base ([`crate::image_base`]).
    pub module_base: u64,
    /// Address of the module's copy.
    pub copy: u64,
    /// First address of the module's cluster.
    pub cluster_lo: u64,
    /// The number of its first counter ([`wire::exact::CELLS`]).
    pub first_cell: u32,
    /// The number of its first function that counts in the path table, not 0.
    pub first_key: u32,
}

impl ModuleCopy {
    /// The final bytes for this position.
    ///
    /// # Errors
    /// [`Error::OutOfReach`] if the copy is too far from the module, [`Error::OutsideCluster`] if a
    /// block is too far from the start of the cluster or before it.
    pub fn place(&self, at: &Position) -> Result<Vec<u8>, Error> {
        let mut code = self.code.clone();
        let distance = at.module_base.wrapping_sub(at.copy) as i64;
        for &place in &self.addresses {
            let field = dword(&mut code, place)?;
            let relative = i64::from(i32::from_le_bytes(*field));
            let displacement = relative.checked_add(distance).and_then(|sum| i32::try_from(sum).ok());
            *field = displacement.ok_or(Error::OutOfReach)?.to_le_bytes();
        }
        let from_lo = at.module_base.wrapping_sub(at.cluster_lo);
        for &place in &self.records {
            let field = dword(&mut code, place)?;
            let record = u32::from_le_bytes(*field);
            let offset = u64::from(record & ADDRESS_MASK).wrapping_add(from_lo);
            let address = u32::try_from(offset).ok().filter(|address| address & !ADDRESS_MASK == 0);
            *field = (record & !ADDRESS_MASK | address.ok_or(Error::OutsideCluster)?).to_le_bytes();
        }
        for (places, amount) in [(&self.cells, at.first_cell.wrapping_mul(8)), (&self.keys, at.first_key)] {
            for &place in places {
                let field = dword(&mut code, place)?;
                *field = u32::from_le_bytes(*field).wrapping_add(amount).to_le_bytes();
            }
        }
        let literals = code.get_mut(self.literals as usize..).ok_or(Error::Inconsistent)?;
        for literal in literals.as_chunks_mut::<8>().0 {
            *literal = u64::from_le_bytes(*literal).wrapping_add(at.module_base).to_le_bytes();
        }
        Ok(code)
    }
}

/// The bits of a block record that hold the address.
const ADDRESS_MASK: u32 = (1 << RECORD_ADDRESS_BITS) - 1;

fn dword(code: &mut [u8], place: u32) -> Result<&mut [u8; 4], Error> {
    code.get_mut(place as usize..).and_then(|tail| tail.first_chunk_mut::<4>()).ok_or(Error::Inconsistent)
}
