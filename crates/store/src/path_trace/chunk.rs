//! Words of one thread, packed.
//!
//! Programs repeat themselves: what followed the last few words when they were last seen mostly
//! follows again. So a table remembers, by a hash of the words before, which word came then. As
//! long as it is right, only a run is counted; a word that it did not expect is written as a
//! number, in the order in which words first occur, and the table learns it. The reader has the
//! same table and needs nothing else. What is left goes through zstd.
//!
//! A table entry also counts how often it was right, and a new word how often it was written. So
//! packing counts all words without a further look at each ([`Packer::close`]).
//!
//! A chunk needs nothing of the chunks before it: one that is damaged costs no other.
//!
//! Packed, a chunk is the lengths of two streams in bytes (4 bytes each, little-endian) and three
//! streams: runs and numbers, as LEB128, and the words that are numbered, 8 bytes each. A run that
//! is followed by a number is longer by that word; the last one by nothing.

use rustc_hash::FxHashMap;

/// Entries of the table: what fits into a cache.
const TABLE_BITS: u32 = 14;
const TABLE_LEN: usize = 1 << TABLE_BITS;
const MASK: u32 = (1 << TABLE_BITS) - 1;
/// Entries of the table of numbers that were looked up last.
const RECENT_BITS: u32 = 10;
/// How far older words move up in the hash; after `TABLE_BITS / SHIFT` words one is forgotten.
const SHIFT: u32 = 4;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

const LEVEL: i32 = 1;
/// Most words of a chunk that is read.
pub const MAX_WORDS: u64 = 1 << 26;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    word: u64,
    number: u32,
    /// How often it was right since it was last wrong.
    hits: u32,
}

/// The upper bits of a hash.
#[inline]
fn upper(word: u64, n_bits: u32) -> u32 {
    (word.wrapping_mul(FACTOR) >> (64 - n_bits)) as u32
}

#[inline]
fn next_context(context: u32, word: u64) -> u32 {
    (context << SHIFT ^ upper(word, TABLE_BITS)) & MASK
}

/// A chunk that is being filled.
#[derive(Debug, Default)]
pub struct Packer {
    /// Nothing until the first word.
    table: Option<Box<[Slot; TABLE_LEN]>>,
    /// Words that were not expected, with their numbers.
    recent: Vec<(u64, u32)>,
    context: u32,
    run: u64,
    runs: Vec<u8>,
    numbers: Vec<u8>,
    /// By number.
    words: Vec<u64>,
    counts: Vec<u64>,
    index: FxHashMap<u64, u32>,
    n_words: u64,
}

/// A chunk that is complete.
#[derive(Debug)]
pub struct Packed {
    /// Words in it.
    pub n_words: u64,
    /// Nothing if there is no memory for it.
    pub bytes: Option<Vec<u8>>,
    /// Words, and how often each occurred.
    pub counts: Vec<(u64, u64)>,
}

impl Packer {
    /// Returns the number of words since the last chunk.
    pub fn n_words(&self) -> u64 {
        self.n_words
    }

    /// Adds words.
    pub fn push(&mut self, words: &[u64]) {
        let mut table = self.table.take().unwrap_or_else(|| Box::new([Slot::default(); TABLE_LEN]));
        let (mut context, mut run) = (self.context, self.run);
        for &word in words {
            let slot = &mut table[(context & MASK) as usize];
            if slot.word == word {
                slot.hits += 1;
                run += 1;
            } else {
                let number = self.number_of(word);
                let old = std::mem::replace(slot, Slot { word, number, hits: 0 });
                self.add_hits(old);
                self.counts[number as usize] += 1;
                put(&mut self.runs, run);
                put(&mut self.numbers, number.into());
                run = 0;
            }
            context = next_context(context, word);
        }
        (self.table, self.context, self.run) = (Some(table), context, run);
        self.n_words += words.len() as u64;
    }

    fn number_of(&mut self, word: u64) -> u32 {
        if self.recent.is_empty() {
            self.recent = vec![(0, 0); 1 << RECENT_BITS];
        }
        let at = upper(word, RECENT_BITS) as usize;
        if let Some(&(known, number)) = self.recent.get(at)
            && known == word
            && word != 0
        {
            return number;
        }
        let next = self.words.len() as u32;
        let number = *self.index.entry(word).or_insert(next);
        if number == next {
            self.words.push(word);
            self.counts.push(0);
        }
        self.recent[at] = (word, number);
        number
    }

    fn add_hits(&mut self, slot: Slot) {
        if let Some(count) = self.counts.get_mut(slot.number as usize) {
            *count += u64::from(slot.hits);
        }
    }

    /// The chunk, and room for the next.
    pub fn close(&mut self) -> Packed {
        let table = self.table.take();
        table.iter().flat_map(|table| table.iter()).for_each(|&slot| self.add_hits(slot));
        put(&mut self.runs, self.run);
        let mut raw = Vec::with_capacity(8 + self.runs.len() + self.numbers.len() + self.words.len() * 8);
        for len in [self.runs.len(), self.numbers.len()] {
            raw.extend((len as u32).to_le_bytes());
        }
        raw.extend_from_slice(&self.runs);
        raw.extend_from_slice(&self.numbers);
        raw.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        let bytes = zstd::bulk::compress(&raw, LEVEL).ok();
        let counts = self.words.iter().copied().zip(self.counts.iter().copied()).collect();
        let packed = Packed { n_words: self.n_words, bytes, counts };
        *self = Packer::default();
        packed
    }
}

/// The words of a chunk.
///
/// # Errors
/// With what is wrong with them.
pub fn unpack(bytes: &[u8], n_words: u64) -> Result<Vec<u64>, &'static str> {
    if n_words > MAX_WORDS {
        return Err("more words than a chunk has");
    }
    // Each word takes at most a run, a number and itself.
    let raw = zstd::bulk::decompress(bytes, 16 + n_words as usize * 24).map_err(|_| "words cannot be unpacked")?;
    let mut parts = raw.as_slice();
    let mut take = |n: usize| -> Result<&[u8], &'static str> {
        let (part, rest) = parts.split_at_checked(n).ok_or("a chunk is shorter than it says")?;
        parts = rest;
        Ok(part)
    };
    let lens = take(8)?;
    let len = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| lens[at + byte])) as usize;
    let (mut runs, mut numbers) = (take(len(0))?, take(len(4))?);
    let known: Vec<u64> = parts.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let mut table = vec![0u64; TABLE_LEN];
    let mut words = Vec::with_capacity(n_words as usize);
    let mut context = 0;
    while (words.len() as u64) < n_words {
        let run = get(&mut runs).ok_or("a chunk ends early")?;
        if run > n_words - words.len() as u64 {
            return Err("a chunk has more words than it says");
        }
        for _ in 0..run {
            let word = table[context as usize];
            words.push(word);
            context = next_context(context, word);
        }
        if words.len() as u64 == n_words {
            break;
        }
        let number = get(&mut numbers).ok_or("a chunk ends early")?;
        let &word = known.get(number as usize).ok_or("a number of no word")?;
        table[context as usize] = word;
        words.push(word);
        context = next_context(context, word);
    }
    Ok(words)
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn get(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn packed(parts: &[&[u64]]) -> Packed {
        let mut packer = Packer::default();
        parts.iter().for_each(|part| packer.push(part));
        packer.close()
    }

    fn bytes(chunk: &Packed) -> Vec<u8> {
        chunk.bytes.clone().expect("there is memory")
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out_and_is_counted(words in prop::collection::vec(prop_oneof![1u64..6, 1u64 << 32..1 << 33], 0..3000), cut in 0usize..3000) {
            let (before, behind) = words.split_at(cut.min(words.len()));
            let chunk = packed(&[before, behind]);
            prop_assert_eq!(unpack(&bytes(&chunk), chunk.n_words).expect("the words"), words.clone());
            let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
            words.iter().for_each(|&word| *expected.entry(word).or_default() += 1);
            prop_assert_eq!(chunk.counts.into_iter().collect::<BTreeMap<_, _>>(), expected);
        }

        #[test]
        fn broken_chunks_are_refused_or_read(words in prop::collection::vec(1u64..50, 1..500), n_words in 0u64..700, at in 0usize..500, bit in 0u8..8) {
            let mut broken = bytes(&packed(&[&words]));
            let at = at % broken.len();
            broken[at] ^= 1 << bit;
            if let Ok(read) = unpack(&broken, n_words) {
                prop_assert_eq!(read.len() as u64, n_words);
            }
        }
    }

    #[test]
    fn what_repeats_takes_no_room() {
        let words: Vec<u64> = (0..1_000_000).map(|at| (1 << 32) + at % 300).collect();
        let n_bytes = bytes(&packed(&[&words])).len();
        assert!(n_bytes < 5000, "{n_bytes} bytes");
    }

    #[test]
    fn a_chunk_starts_anew() {
        let mut packer = Packer::default();
        packer.push(&[7, 8, 9]);
        let first = packer.close();
        packer.push(&[7, 8, 9]);
        assert_eq!(packer.close().bytes, first.bytes);
    }
}
