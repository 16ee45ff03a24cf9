//! Addresses as a file states them.
//!
//! strobe meets three address spaces: offsets in a file, addresses stated in the file (`Svma`,
//! "stated virtual memory address") and addresses in a running process. Only the second kind exists
//! in this crate, and it is a type of its own so that the others cannot be mixed in. Arithmetic
//! wraps: a hostile file states any number it likes, and an absurd sum is then simply an address
//! where nothing is mapped.

use std::fmt;
use std::ops::Sub;

/// A virtual address as stated in the file: the run-time address minus the module's load bias.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Svma(pub u64);

impl Svma {
    /// The address `bytes` further on, wrapping.
    pub const fn offset(self, bytes: u64) -> Svma {
        Svma(self.0.wrapping_add(bytes))
    }

    /// The address `bytes` further on, or back when negative, wrapping.
    pub const fn offset_signed(self, bytes: i64) -> Svma {
        Svma(self.0.wrapping_add_signed(bytes))
    }
}

/// Distance in bytes from the right to the left address, wrapping.
impl Sub for Svma {
    type Output = u64;

    fn sub(self, from: Svma) -> u64 {
        self.0.wrapping_sub(from.0)
    }
}

impl fmt::Display for Svma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Svma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::LowerHex for Svma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// A half-open range of addresses.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SvmaRange {
    /// First address inside.
    pub start: Svma,
    /// First address after the range.
    pub end: Svma,
}

impl SvmaRange {
    /// The range of `len` bytes at `start`, unless it runs past the end of the address space.
    pub const fn at(start: Svma, len: u64) -> Option<SvmaRange> {
        match start.0.checked_add(len) {
            Some(end) => Some(SvmaRange { start, end: Svma(end) }),
            None => None,
        }
    }

    /// Whether `address` lies inside.
    pub const fn contains(self, address: Svma) -> bool {
        self.start.0 <= address.0 && address.0 < self.end.0
    }

    /// Length in bytes; 0 for a range that ends before it starts.
    pub const fn len(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Whether no address lies inside.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for SvmaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// Index of the range that contains `address` among disjoint ranges sorted by address.
pub(crate) fn find_range<T>(sorted: &[T], address: Svma, range: impl Fn(&T) -> SvmaRange) -> Option<usize> {
    let index = sorted.partition_point(|item| range(item).start <= address).checked_sub(1)?;
    range(sorted.get(index)?).contains(address).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open() {
        let range = SvmaRange::at(Svma(0x10), 4).unwrap();
        assert!(range.contains(Svma(0x10)) && range.contains(Svma(0x13)));
        assert!(!range.contains(Svma(0xf)) && !range.contains(Svma(0x14)));
        assert_eq!(range.len(), 4);
        assert_eq!(format!("{range:?}"), "0x10..0x14");
        assert!(SvmaRange::at(Svma(u64::MAX), 2).is_none());
    }

    #[test]
    fn arithmetic_wraps() {
        assert_eq!(Svma(u64::MAX).offset(2), Svma(1));
        assert_eq!(Svma(1).offset_signed(-2), Svma(u64::MAX));
        assert_eq!(Svma(1) - Svma(2), u64::MAX);
    }

    #[test]
    fn find_range_needs_containment() {
        let sorted = [SvmaRange::at(Svma(0), 2).unwrap(), SvmaRange::at(Svma(8), 2).unwrap()];
        let find = |address| find_range(&sorted, Svma(address), |range| *range);
        assert_eq!([0, 1, 2, 7, 8, 9, 10].map(find), [Some(0), Some(0), None, None, Some(1), Some(1), None]);
    }
}
