//! From a tuple to its place in a table.
//!
//! Two functions: the paper's, which hardware can do with a few gates and a table of 256 bytes, and
//! a folded multiplication, which a processor does in a few cycles. Both take their random numbers
//! from a seed.

use alloc::boxed::Box;

use crate::error::{Error, TableSize};

/// Places tuples in a table of a size that it knows.
pub trait TableHash {
    /// The size of the table.
    fn places(&self) -> TableSize;

    /// The stratum or set, below the size of the table.
    fn index(&self, key: [u64; 2]) -> usize;

    /// More bits, to tell apart tuples of the same index: 1 to 8 of them.
    fn tag(&self, key: [u64; 2], tag_bits: u32) -> u8;
}

/// A 64-by-64-bit multiplication folded to 64 bits.
#[derive(Clone, Debug)]
pub struct FastHash {
    secrets: [u64; 2],
    places: TableSize,
}

impl FastHash {
    /// A hash for a table of this size.
    #[must_use]
    pub fn new(places: TableSize, seed: u64) -> FastHash {
        let mut random = fastrand::Rng::with_seed(seed);
        FastHash { secrets: [random.u64(..), random.u64(..)], places }
    }

    /// All 64 bits.
    #[inline]
    #[must_use]
    pub fn hash(&self, [a, b]: [u64; 2]) -> u64 {
        let product = u128::from(a ^ self.secrets[0]) * u128::from(b ^ self.secrets[1]);
        let folded = (product as u64) ^ ((product >> 64) as u64);
        // Without this, keys whose first factor is small spread over few of the high bits, which
        // choose the place.
        folded.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

impl TableHash for FastHash {
    fn places(&self) -> TableSize {
        self.places
    }

    #[inline]
    fn index(&self, key: [u64; 2]) -> usize {
        // The high half as a fraction of the table, instead of a division.
        (((self.hash(key) >> 32) * u64::from(self.places.get())) >> 32) as usize
    }

    #[inline]
    fn tag(&self, key: [u64; 2], tag_bits: u32) -> u8 {
        (self.hash(key) as u8) & low_bits(tag_bits)
    }
}

/// The paper's: replace each byte by a random one, reverse the bytes of the place, exclusive-or the
/// words, fold.
///
/// Its table of 256 random numbers is a permutation here: with repeated entries, values that differ
/// in one byte would share a stratum in one of 256 cases, however large the table.
#[derive(Clone, Debug)]
pub struct PaperHash {
    randomize: Box<[u8; 256]>,
    places: TableSize,
}

impl PaperHash {
    /// A hash for a table of this size, a power of two.
    pub fn new(places: TableSize, seed: u64) -> Result<PaperHash, Error> {
        if !places.get().is_power_of_two() {
            return Err(Error::NotAPowerOfTwo(places.get()));
        }
        let mut randomize = Box::new(core::array::from_fn(|byte| byte as u8));
        fastrand::Rng::with_seed(seed).shuffle(randomize.as_mut_slice());
        Ok(PaperHash { randomize, places })
    }

    #[inline]
    fn randomize(&self, word: u64) -> u64 {
        u64::from_le_bytes(word.to_le_bytes().map(|byte| self.randomize[usize::from(byte)]))
    }
}

impl TableHash for PaperHash {
    fn places(&self) -> TableSize {
        self.places
    }

    #[inline]
    fn index(&self, [place, value]: [u64; 2]) -> usize {
        xor_fold(self.randomize(place).swap_bytes() ^ self.randomize(value), self.places.get().trailing_zeros())
            as usize
    }

    #[inline]
    fn tag(&self, [place, value]: [u64; 2], tag_bits: u32) -> u8 {
        xor_fold(place ^ value, tag_bits) as u8
    }
}

/// Either hash, chosen at run time.
#[derive(Clone, Debug)]
pub enum AnyHash {
    /// The fast one.
    Fast(FastHash),
    /// The paper's.
    Paper(PaperHash),
}

impl TableHash for AnyHash {
    fn places(&self) -> TableSize {
        match self {
            AnyHash::Fast(hash) => hash.places(),
            AnyHash::Paper(hash) => hash.places(),
        }
    }

    #[inline]
    fn index(&self, key: [u64; 2]) -> usize {
        match self {
            AnyHash::Fast(hash) => hash.index(key),
            AnyHash::Paper(hash) => hash.index(key),
        }
    }

    #[inline]
    fn tag(&self, key: [u64; 2], tag_bits: u32) -> u8 {
        match self {
            AnyHash::Fast(hash) => hash.tag(key, tag_bits),
            AnyHash::Paper(hash) => hash.tag(key, tag_bits),
        }
    }
}

/// The exclusive-or of all pieces of `bits` bits, at most 63.
#[inline]
fn xor_fold(word: u64, bits: u32) -> u64 {
    let (mut rest, mut folded) = (word, 0);
    while rest != 0 && bits != 0 {
        folded ^= rest;
        rest >>= bits;
    }
    folded & ((1 << bits) - 1)
}

#[inline]
fn low_bits(n: u32) -> u8 {
    ((1u16 << n.min(8)) - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn folding_is_the_exclusive_or_of_pieces() {
        assert_eq!(xor_fold(0xABCD, 4), 0xA ^ 0xB ^ 0xC ^ 0xD);
        assert_eq!(xor_fold(0x1_0001, 11), (0x1_0001 & 0x7FF) ^ (0x1_0001 >> 11));
        assert_eq!(xor_fold(u64::MAX, 0), 0);
    }

    /// Code addresses with small values, as loads of flags and counters have them, must not pile
    /// up.
    #[test]
    fn similar_tuples_spread_evenly() {
        let n = TableSize::new(64).unwrap();
        let hashes = [AnyHash::Fast(FastHash::new(n, 5)), AnyHash::Paper(PaperHash::new(n, 5).unwrap())];
        for hash in hashes {
            let mut load = vec![0; 64];
            for place in 0..640u64 {
                for value in 0..10 {
                    load[hash.index([0x40_1000 + 4 * place, value])] += 1;
                }
            }
            let (least, most) = (load.iter().min().copied(), load.iter().max().copied());
            assert!(least >= Some(50) && most <= Some(150), "{hash:?}: {least:?} to {most:?} where 100 is even");
        }
    }

    #[test]
    fn the_papers_hash_wants_a_power_of_two() {
        assert_eq!(PaperHash::new(TableSize::new(12).unwrap(), 1).unwrap_err(), Error::NotAPowerOfTwo(12));
        assert_eq!(PaperHash::new(TableSize::new(1).unwrap(), 1).unwrap().index([9, 9]), 0);
    }

    #[test]
    fn tags_have_their_bits() {
        let n = TableSize::new(1024).unwrap();
        let hash = FastHash::new(n, 1);
        assert!((0..1000).all(|value| hash.tag([7, value], 2) < 4));
        assert_eq!(PaperHash::new(n, 1).unwrap().tag([0b1100, 0b0001], 2), 0b11 ^ 0b01);
    }
}
