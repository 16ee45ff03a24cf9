//! Writing and reading the file.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use wire::path_trace::Mark;

use super::chunk::{self, Packed};
use super::facts::{Fact, PathFact};
use crate::Error;

const MAGIC: [u8; 8] = *b"strobeTR";
/// Changes with the format.
const VERSION: u64 = 1;
const HEADER_BYTES: u64 = 16;
const FRAME_HEADER_BYTES: u64 = 12;
/// Of a frame of words: process, thread, number of the chunk among those of the thread, words.
const CHUNK_HEADER_BYTES: usize = 24;
/// Most bytes of a frame.
const MAX_FRAME_BYTES: u32 = 1 << 30;
const LEVEL: i32 = 3;

const WORDS: u32 = 1;
const FACTS: u32 = 2;

/// Which words those of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// The number of the process.
    pub process: u32,
    /// Its id.
    pub thread: u32,
    /// How many chunks of the thread there were before.
    pub sequence: u64,
}

/// A trace that is being written.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
    n_bytes: u64,
    n_words: u64,
    /// Those among them that are marks.
    n_marks: u64,
    /// Words that could not be written, and why.
    n_unwritten: u64,
    error: Option<String>,
}

impl Writer {
    /// Creates the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(path: &Path) -> Result<Writer, Error> {
        let file = File::create(path).map_err(|cause| Error::Create { path: path.to_owned(), cause })?;
        let mut writer =
            Writer { file, path: path.to_owned(), n_bytes: 0, n_words: 0, n_marks: 0, n_unwritten: 0, error: None };
        writer.write(&[MAGIC, VERSION.to_le_bytes()].concat());
        match &writer.error {
            Some(error) => Err(Error::PathTrace { path: path.to_owned(), what: error.clone() }),
            None => Ok(writer),
        }
    }

    /// Appends a chunk of words.
    pub fn words(&mut self, label: Label, packed: &Packed) {
        let Some(bytes) = &packed.bytes else {
            self.n_unwritten += packed.n_words;
            return;
        };
        let mut content = Vec::with_capacity(CHUNK_HEADER_BYTES + bytes.len());
        content.extend(label.process.to_le_bytes());
        content.extend(label.thread.to_le_bytes());
        content.extend(label.sequence.to_le_bytes());
        content.extend(packed.n_words.to_le_bytes());
        content.extend_from_slice(bytes);
        if self.frame(WORDS, &content) {
            self.n_words += packed.n_words;
            let marks = packed.counts.iter().filter(|&&(word, _)| Mark::from_word(word).is_some());
            self.n_marks += marks.map(|&(_, count)| count).sum::<u64>();
        } else {
            self.n_unwritten += packed.n_words;
        }
    }

    /// Appends a fact.
    pub fn fact(&mut self, fact: &Fact) {
        let packed = serde_json::to_vec(fact).ok().and_then(|text| zstd::bulk::compress(&text, LEVEL).ok());
        if let Some(packed) = packed {
            self.frame(FACTS, &packed);
        }
    }

    fn frame(&mut self, kind: u32, content: &[u8]) -> bool {
        let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES as usize + content.len());
        frame.extend(kind.to_le_bytes());
        frame.extend((content.len() as u32).to_le_bytes());
        frame.extend(crc32fast::hash(content).to_le_bytes());
        frame.extend_from_slice(content);
        self.write(&frame)
    }

    /// Appends. After an error nothing more is written: what is behind half a frame cannot be read.
    fn write(&mut self, bytes: &[u8]) -> bool {
        if self.error.is_none() {
            match self.file.write_all(bytes) {
                Ok(()) => self.n_bytes += bytes.len() as u64,
                Err(error) => self.error = Some(error.to_string()),
            }
        }
        self.error.is_none()
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the file.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Returns the number of words that were written.
    pub fn n_words(&self) -> u64 {
        self.n_words
    }

    /// Paths among the words.
    pub fn n_records(&self) -> u64 {
        self.n_words - self.n_marks
    }

    /// Returns the number of marks among the words.
    pub fn n_marks(&self) -> u64 {
        self.n_marks
    }

    /// Returns the number of words that could not be written.
    pub fn n_unwritten(&self) -> u64 {
        self.n_unwritten
    }

    /// Returns why writing has ended, if it has.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

/// A trace that is read. Facts are in memory, words in the file.
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    file: File,
    /// Where the chunks of each thread are, in order.
    chunks: BTreeMap<(u32, u32), Vec<ChunkAt>>,
    /// What is known of processes, by number.
    pub processes: BTreeMap<u32, Process>,
    /// Names of functions, by file of the module and entry.
    pub names: HashMap<(String, u64), String>,
    /// What is wrong with the file, if anything is.
    pub damage: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct ChunkAt {
    sequence: u64,
    at: u64,
    len: usize,
    n_words: u64,
}

/// What is known of a process.
#[derive(Debug, Default)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// By key: module and entry.
    pub functions: FxHashMap<u32, (String, u64)>,
    /// Its paths, by word.
    pub paths: FxHashMap<u64, PathFact>,
    /// By thread.
    pub underway: BTreeMap<u32, Vec<PathFact>>,
    /// Words that are missing, if the process was recorded to its end.
    pub n_lost: Option<u64>,
}

impl Trace {
    /// Opens a path trace and reads its facts.
    ///
    /// # Errors
    /// If it cannot be read, or is something else. Damage behind its beginning is no error
    /// ([`Trace::damage`]).
    pub fn open(path: &Path) -> Result<Trace, Error> {
        let wrong = |what: &str| Error::PathTrace { path: path.to_owned(), what: what.to_owned() };
        let unreadable = |cause: std::io::Error| wrong(&format!("cannot be read: {cause}"));
        let file = File::open(path).map_err(unreadable)?;
        let len = file.metadata().map_err(unreadable)?.len();
        let mut header = [0; HEADER_BYTES as usize];
        let has_header = file.read_exact_at(&mut header, 0).is_ok();
        if !has_header || header[..8] != MAGIC {
            return Err(wrong("not a path trace; `strobe trace` makes one"));
        }
        if header[8..] != VERSION.to_le_bytes() {
            return Err(wrong("a path trace of another version of strobe"));
        }
        let path = path.to_owned();
        let mut trace = Trace {
            path,
            file,
            chunks: BTreeMap::new(),
            processes: BTreeMap::new(),
            names: HashMap::new(),
            damage: None,
        };
        let mut at = HEADER_BYTES;
        while at < len && trace.damage.is_none() {
            match trace.take_frame(at, len) {
                Ok(next) => at = next,
                Err(error) => trace.damage = Some(format!("{error}; what is before byte {at} of {len} can be read")),
            }
        }
        trace.chunks.values_mut().for_each(|chunks| chunks.sort_by_key(|chunk| chunk.sequence));
        Ok(trace)
    }

    fn take_frame(&mut self, at: u64, end: u64) -> Result<u64, &'static str> {
        let mut header = [0; FRAME_HEADER_BYTES as usize];
        self.file.read_exact_at(&mut header, at).map_err(|_| "a frame is cut off")?;
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let (kind, len, checksum) = (number(0), number(4), number(8));
        let content_at = at + FRAME_HEADER_BYTES;
        if len > MAX_FRAME_BYTES || content_at + u64::from(len) > end {
            return Err("a frame is cut off");
        }
        let mut content = vec![0; len as usize];
        self.file.read_exact_at(&mut content, content_at).map_err(|_| "a frame cannot be read")?;
        if crc32fast::hash(&content) != checksum {
            return Err("a checksum is wrong");
        }
        match kind {
            WORDS => self.take_words(&content, content_at)?,
            FACTS => self.take_fact(&content)?,
            _ => return Err("a frame of unknown kind"),
        }
        Ok(content_at + u64::from(len))
    }

    fn take_words(&mut self, content: &[u8], at: u64) -> Result<(), &'static str> {
        let (header, packed) = content.split_at_checked(CHUNK_HEADER_BYTES).ok_or("a frame without a header")?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let (process, thread) = (word(0) as u32, (word(0) >> 32) as u32);
        let at = at + CHUNK_HEADER_BYTES as u64;
        let chunk = ChunkAt { sequence: word(8), at, len: packed.len(), n_words: word(16) };
        self.chunks.entry((process, thread)).or_default().push(chunk);
        Ok(())
    }

    fn take_fact(&mut self, content: &[u8]) -> Result<(), &'static str> {
        let text = zstd::bulk::decompress(content, MAX_FRAME_BYTES as usize).map_err(|_| "facts cannot be unpacked")?;
        match serde_json::from_slice(&text).map_err(|_| "facts cannot be understood")? {
            Fact::Process { process, pid, command } => {
                let known = self.processes.entry(process).or_default();
                (known.pid, known.command) = (pid, command);
            }
            Fact::Module { process, first_key, path, functions } => {
                let known = self.processes.entry(process).or_default();
                let functions = functions.into_iter();
                known.functions.extend(functions.map(|each| (first_key + each.key, (path.clone(), each.entry))));
            }
            Fact::Paths { process, paths } => {
                let known = self.processes.entry(process).or_default();
                known.paths.extend(paths.into_iter().map(|path| (path.word, path)));
            }
            Fact::Underway { process, thread, paths } => {
                self.processes.entry(process).or_default().underway.entry(thread).or_default().extend(paths);
            }
            Fact::Names { path, names } => {
                self.names.extend(names.into_iter().map(|(at, name)| ((path.clone(), at), name)));
            }
            Fact::End { process, n_lost } => {
                self.processes.entry(process).or_default().n_lost = Some(n_lost);
            }
        }
        Ok(())
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns processes and threads that have words.
    pub fn threads(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.chunks.keys().copied()
    }

    /// Words of a thread.
    pub fn n_words(&self, thread: (u32, u32)) -> u64 {
        self.chunks.get(&thread).into_iter().flatten().map(|chunk| chunk.n_words).sum()
    }

    /// Hands on the words of a thread from a place on, in parts, until the sink has had enough.
    ///
    /// # Errors
    /// If a part is missing or damaged, or the sink has one.
    pub fn for_each_part<E: From<Error>>(
        &self,
        thread: (u32, u32),
        from: u64,
        mut sink: impl FnMut(u64, &[u64]) -> Result<bool, E>,
    ) -> Result<(), E> {
        let damaged = |what: String| Error::Damaged { path: self.path.clone(), what };
        let mut first = 0;
        for (expected, chunk) in (0..).zip(self.chunks.get(&thread).into_iter().flatten()) {
            if chunk.sequence != expected {
                return Err(damaged(format!("a part of thread {} is missing", thread.1)).into());
            }
            if first + chunk.n_words > from {
                let mut packed = vec![0; chunk.len];
                self.file.read_exact_at(&mut packed, chunk.at).map_err(|cause| damaged(cause.to_string()))?;
                let words = chunk::unpack(&packed, chunk.n_words).map_err(|what| damaged(what.to_owned()))?;
                let skipped = from.saturating_sub(first);
                if !sink(first + skipped, &words[skipped as usize..])? {
                    return Ok(());
                }
            }
            first += chunk.n_words;
        }
        Ok(())
    }
}
