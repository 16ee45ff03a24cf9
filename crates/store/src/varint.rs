//! Sequences of blocks as bytes.
//!
//! Blocks of a path are near each other, so that differences are small: most take one byte. The
//! format is described at the column `path.blocks` in `schema.sql`.

const MORE: u8 = 0x80;
const BITS: u32 = 7;

/// Packs numbers.
pub(crate) fn pack(numbers: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut before = 0;
    for number in numbers.map(i64::from) {
        let difference = number - before;
        let mut rest = ((difference << 1) ^ (difference >> 63)) as u64;
        while u64::from(MORE) <= rest {
            bytes.push(rest as u8 | MORE);
            rest >>= BITS;
        }
        bytes.push(rest as u8);
        before = number;
    }
    bytes
}

/// Unpacks numbers; nothing if the bytes are not those of a sequence.
pub(crate) fn unpack(bytes: &[u8]) -> Option<Vec<u32>> {
    let mut numbers = Vec::with_capacity(bytes.len());
    let mut before = 0u32;
    let mut rest = bytes.iter();
    while let Some(&first) = rest.next() {
        let mut group = first;
        let mut zigzag = u64::from(first & !MORE);
        let mut shift = BITS;
        while group & MORE != 0 {
            group = *rest.next()?;
            // Differences of 32-bit numbers have 33 bits, hence at most five groups.
            if 4 * BITS < shift {
                return None;
            }
            zigzag |= u64::from(group & !MORE) << shift;
            shift += BITS;
        }
        let difference = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        before = u32::try_from(i64::from(before) + difference).ok()?;
        numbers.push(before);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(numbers: Vec<u32>) {
            prop_assert_eq!(unpack(&pack(numbers.iter().copied())), Some(numbers));
        }

        #[test]
        fn any_bytes_are_safe(bytes: Vec<u8>) {
            if let Some(numbers) = unpack(&bytes) {
                prop_assert!(numbers.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn neighbours_take_a_byte() {
        assert_eq!(pack([3, 4, 2, 70].into_iter()), [6, 2, 3, 0x88, 0x01]);
    }

    #[test]
    fn cut_and_overlong_numbers_are_refused() {
        assert_eq!(unpack(&[0x80]), None);
        assert_eq!(unpack(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x01]), None);
        assert_eq!(unpack(&[0x01]), None, "a negative number");
        assert_eq!(unpack(&[]), Some(vec![]));
    }
}
