//! What is known about the addresses of one module, as bytes that are the same in memory and on
//! disk.
//!
//! A profile has hundreds of thousands of addresses, and a reader wants the names of a few at once.
//! So the table is searched in place: opening one checks its lengths and its checksum and decodes
//! nothing. All numbers are little-endian:
//!
//! ```text
//! magic, version                  8 bytes
//! checksum of all that follows    u32
//! counts                          addresses, frames, strings, bytes of strings: 4 * u32
//! origin                          flags, debug link, debug file: 3 * u32; the last two are strings
//! addresses                       u64 each, ascending and distinct
//! answers                         symbol, innermost frame + 1: 2 * u32 each
//! frames                          function, linkage name, file, line, discriminator, function line, outer frame + 1: 7 * u32 each
//! ends of the strings             u32 each; string 0 is empty
//! bytes of the strings
//! ```
//!
//! Frames are shared: the chain of callers around two inlined calls is stored once, because a frame
//! names the one around it. A frame comes after the one around it, so that following a chain ends
//! whatever the bytes are. A table from disk may hold anything; every access is checked against the
//! bytes that are there, and what does not fit is unknown.

use std::hash::Hash;

use profile::symbols::SourceFrame;
use rustc_hash::FxHashMap;

const MAGIC: [u8; 8] = *b"strbsym\x01";
const HEADER_LEN: usize = 8 + 4 + 7 * 4;
const CHECKED_FROM: usize = 12;
const ADDRESS_LEN: usize = 8;
const ANSWER_LEN: usize = 2 * 4;
const FRAME_LEN: usize = 7 * 4;

const HAS_LINES: u32 = 1;

/// Where answers come from. Answers of different origins are not mixed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Whether there was DWARF with line tables.
    pub has_lines: bool,
    /// The file name in the module's `.gnu_debuglink`; empty if it has none.
    pub debug_link: String,
    /// The separate debug file that was read; empty if there was none.
    pub debug_file: String,
}

/// Answers by address.
#[derive(Clone, PartialEq, Eq)]
pub struct Table {
    bytes: Vec<u8>,
    layout: Layout,
}

/// Offsets of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    n_addresses: usize,
    n_frames: usize,
    n_strings: usize,
    answers: usize,
    frames: usize,
    string_ends: usize,
    strings: usize,
}

/// What is known about one address.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'t> {
    table: &'t Table,
    symbol: u32,
    innermost: u32,
}

impl Table {
    /// A table that was written by [`TableBuilder::finish`]; nothing if the bytes were damaged
    /// since.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Table> {
        let layout = Layout::of(&bytes)?;
        let checksum = u32_at(&bytes, MAGIC.len())?;
        let is_intact = bytes.starts_with(&MAGIC) && crc32fast::hash(bytes.get(CHECKED_FROM..)?) == checksum;
        is_intact.then_some(Table { bytes, layout })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn origin(&self) -> Origin {
        let field = |index: usize| u32_at(&self.bytes, CHECKED_FROM + (4 + index) * 4).unwrap_or(0);
        Origin {
            has_lines: field(0) & HAS_LINES != 0,
            debug_link: self.string(field(1)).to_owned(),
            debug_file: self.string(field(2)).to_owned(),
        }
    }

    /// The answer for an address; `None` if nobody asked before, which is not the same as an empty
    /// answer.
    pub fn get(&self, address: u64) -> Option<Answer<'_>> {
        let (mut low, mut high) = (0, self.layout.n_addresses);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.address(middle)?.cmp(&address) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return self.answer(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Whether every address of the other table is also in this one.
    pub fn covers(&self, other: &Table) -> bool {
        let mut addresses = (0..other.layout.n_addresses).map_while(|index| other.address(index));
        addresses.all(|address| self.get(address).is_some())
    }

    fn address(&self, index: usize) -> Option<u64> {
        let bytes = self.bytes.get(HEADER_LEN + index * ADDRESS_LEN..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    fn answer(&self, index: usize) -> Option<Answer<'_>> {
        let [symbol, innermost] = u32s_at(&self.bytes, self.layout.answers + index * ANSWER_LEN)?;
        Some(Answer { table: self, symbol, innermost })
    }

    fn frame(&self, index: usize) -> Option<Frame> {
        let inside = index < self.layout.n_frames;
        let words = inside.then(|| u32s_at(&self.bytes, self.layout.frames + index * FRAME_LEN))??;
        let [function, linkage_name, file, line, discriminator, function_line, outer] = words;
        let outer = if (outer as usize) <= index { outer } else { 0 };
        Some(Frame { function, linkage_name, file, line, discriminator, function_line, outer })
    }

    fn string(&self, index: u32) -> &str {
        self.checked_string(index as usize).unwrap_or_default()
    }

    fn checked_string(&self, index: usize) -> Option<&str> {
        let end = |index: usize| {
            let at = self.layout.string_ends + index * 4;
            (index < self.layout.n_strings).then(|| u32_at(&self.bytes, at)).flatten()
        };
        let start = if index == 0 { 0 } else { end(index - 1)? };
        let strings = self.bytes.get(self.layout.strings..)?;
        std::str::from_utf8(strings.get(start as usize..end(index)? as usize)?).ok()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl<'t> Answer<'t> {
    /// Linkage name of the symbol that covers the address; empty if there is none.
    pub fn symbol(self) -> &'t str {
        self.table.string(self.symbol)
    }

    /// What DWARF says, innermost first.
    pub fn frames(self) -> impl Iterator<Item = SourceFrame> {
        std::iter::successors(self.frame(self.innermost), move |frame| self.frame(frame.outer)).map(move |frame| {
            let string = |index| self.table.string(index).to_owned();
            SourceFrame {
                function: string(frame.function),
                linkage_name: string(frame.linkage_name),
                file: string(frame.file),
                line: frame.line,
                discriminator: frame.discriminator,
                function_line: frame.function_line,
            }
        })
    }

    fn frame(self, index_plus_1: u32) -> Option<Frame> {
        self.table.frame((index_plus_1 as usize).checked_sub(1)?)
    }
}

impl Layout {
    /// The parts of a table whose counts add up to exactly its length.
    fn of(bytes: &[u8]) -> Option<Layout> {
        let counts: [u32; 4] = u32s_at(bytes, CHECKED_FROM)?;
        let [n_addresses, n_frames, n_strings, n_string_bytes] = counts.map(|count| count as usize);
        let after = |start: usize, n: usize, len: usize| start.checked_add(n.checked_mul(len)?);
        let answers = after(HEADER_LEN, n_addresses, ADDRESS_LEN)?;
        let frames = after(answers, n_addresses, ANSWER_LEN)?;
        let string_ends = after(frames, n_frames, FRAME_LEN)?;
        let strings = after(string_ends, n_strings, 4)?;
        let is_whole = after(strings, n_string_bytes, 1)? == bytes.len();
        is_whole.then_some(Layout { n_addresses, n_frames, n_strings, answers, frames, string_ends, strings })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    u32s_at::<1>(bytes, at).map(|[word]| word)
}

fn u32s_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u32; N]> {
    let (words, _) = bytes.get(at..)?.get(..N * 4)?.as_chunks::<4>();
    words.try_into().ok().map(|words: [[u8; 4]; N]| words.map(u32::from_le_bytes))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Frame {
    function: u32,
    linkage_name: u32,
    file: u32,
    line: u32,
    discriminator: u32,
    function_line: u32,
    outer: u32,
}

/// Collects answers for a new table.
#[derive(Debug)]
pub struct TableBuilder {
    answers: Vec<(u64, [u32; 2])>,
    frames: Interned<Frame>,
    strings: Interned<Box<str>>,
    n_string_bytes: usize,
}

#[derive(Debug)]
struct Interned<T> {
    values: Vec<T>,
    indices: FxHashMap<T, u32>,
}

impl TableBuilder {
    pub fn new() -> TableBuilder {
        let (frames, strings) = (Interned::new(), Interned::new());
        let mut builder = TableBuilder { answers: Vec::new(), frames, strings, n_string_bytes: 0 };
        builder.string("");
        builder
    }

    /// Adds an answer; of several for one address, the first counts.
    pub fn add(&mut self, address: u64, symbol: &str, frames: &[SourceFrame]) {
        let mut outer = 0;
        for frame in frames.iter().rev() {
            let frame = Frame {
                function: self.string(&frame.function),
                linkage_name: self.string(&frame.linkage_name),
                file: self.string(&frame.file),
                line: frame.line,
                discriminator: frame.discriminator,
                function_line: frame.function_line,
                outer,
            };
            outer = self.frames.intern(frame) + 1;
        }
        let symbol = self.string(symbol);
        self.answers.push((address, [symbol, outer]));
    }

    /// Adds the answers of another table.
    pub fn absorb(&mut self, table: &Table) {
        let strings: Vec<u32> =
            (0..table.layout.n_strings as u32).map(|index| self.string(table.string(index))).collect();
        let string = |index: u32| strings.get(index as usize).copied().unwrap_or(0);
        let mut frames = vec![0];
        for frame in (0..table.layout.n_frames).map_while(|index| table.frame(index)) {
            let index = self.frames.intern(Frame {
                function: string(frame.function),
                linkage_name: string(frame.linkage_name),
                file: string(frame.file),
                outer: frames.get(frame.outer as usize).copied().unwrap_or(0),
                ..frame
            });
            frames.push(index + 1);
        }
        for index in 0..table.layout.n_addresses {
            let Some((address, answer)) = table.address(index).zip(table.answer(index)) else { break };
            let innermost = frames.get(answer.innermost as usize).copied().unwrap_or(0);
            self.answers.push((address, [string(answer.symbol), innermost]));
        }
    }

    /// The table of everything added; nothing if it is beyond what 32-bit numbers can count.
    pub fn finish(mut self, origin: &Origin) -> Option<Table> {
        self.answers.sort_by_key(|&(address, _)| address);
        self.answers.dedup_by_key(|&mut (address, _)| address);
        let origin_words =
            [u32::from(origin.has_lines) * HAS_LINES, self.string(&origin.debug_link), self.string(&origin.debug_file)];
        let counts = [self.answers.len(), self.frames.values.len(), self.strings.values.len(), self.n_string_bytes];
        let mut checked = Vec::new();
        for count in counts {
            // Numbers of frames and strings were cut to 32 bits on the way; only here it shows that
            // they fit.
            put(&mut checked, u32::try_from(count).ok()?);
        }
        origin_words.iter().for_each(|&word| put(&mut checked, word));
        self.answers.iter().for_each(|(address, _)| checked.extend(address.to_le_bytes()));
        self.answers.iter().flat_map(|(_, words)| words).for_each(|&word| put(&mut checked, word));
        for frame in &self.frames.values {
            let Frame { function, linkage_name, file, line, discriminator, function_line, outer } = *frame;
            let words = [function, linkage_name, file, line, discriminator, function_line, outer];
            words.iter().for_each(|&word| put(&mut checked, word));
        }
        let mut end = 0;
        for string in &self.strings.values {
            end += string.len() as u32;
            put(&mut checked, end);
        }
        self.strings.values.iter().for_each(|string| checked.extend(string.as_bytes()));
        let checksum = crc32fast::hash(&checked).to_le_bytes();
        Table::from_bytes([&MAGIC[..], &checksum, &checked].concat())
    }

    fn string(&mut self, string: &str) -> u32 {
        if let Some(&index) = self.strings.indices.get(string) {
            return index;
        }
        self.n_string_bytes += string.len();
        self.strings.intern(string.into())
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    fn new() -> Interned<T> {
        Interned { values: Vec::new(), indices: FxHashMap::default() }
    }

    fn intern(&mut self, value: T) -> u32 {
        let next = self.values.len() as u32;
        *self.indices.entry(value).or_insert_with_key(|value| {
            self.values.push(value.clone());
            next
        })
    }
}

fn put(bytes: &mut Vec<u8>, word: u32) {
    bytes.extend(word.to_le_bytes());
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
