//! The file of an event stream: what a program did, recorded once, for any number of compressors.
//!
//! All numbers are little-endian. The whole may be compressed with zstd, which [`Stream::write`]
//! does and [`Stream::read`] notices.
//!
//! | bytes | |
//! |---|---|
//! | 8 | `strbstr1` |
//! | 8 | instructions that the program executed while the events happened, 0 if unknown |
//! | 8 | number of events |
//! | 4 | kind: 0 synthetic, 1 edges, 4 addresses, 5 values, 6 call targets, 7 jump targets, 8 targets, 9 edges and call targets |
//! | 4 | bytes of the name |
//! | | the name, in UTF-8 |
//! | 16 each | the events: address of the instruction, then target, address or value |

use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

const MAGIC: &[u8; 8] = b"strbstr1";
const ZSTD_MAGIC: &[u8; 4] = &[0x28, 0xB5, 0x2F, 0xFD];
const ZSTD_LEVEL: i32 = 1;

/// A place and what happened there.
pub type Pair = (u64, u64);

/// A recorded stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The program, or the formula.
    pub name: String,
    /// What the events are.
    pub kind: Kind,
    /// Instructions that the program executed while they happened.
    pub instructions: Option<u64>,
    /// The events, in order.
    pub events: Vec<Pair>,
}

/// What the events of a stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Nothing that any program did.
    #[value(skip)]
    Synthetic,
    /// Conditional branches and indirect jumps, with their targets.
    Edges,
    /// Loads, with the addresses read.
    Addresses,
    /// Loads, with the values read.
    Values,
    /// Indirect calls, with the functions called.
    CallTargets,
    /// Indirect jumps, with where they went.
    JumpTargets,
    /// Indirect calls and jumps.
    Targets,
    /// Conditional branches, indirect jumps and indirect calls.
    EdgesAndCallTargets,
}

/// Kinds by their numbers in files.
const KINDS: [(u32, Kind); 8] = [
    (0, Kind::Synthetic),
    (1, Kind::Edges),
    (4, Kind::Addresses),
    (5, Kind::Values),
    (6, Kind::CallTargets),
    (7, Kind::JumpTargets),
    (8, Kind::Targets),
    (9, Kind::EdgesAndCallTargets),
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Synthetic => "synthetic",
            Kind::Edges => "edges",
            Kind::Addresses => "addresses",
            Kind::Values => "values",
            Kind::CallTargets => "call-targets",
            Kind::JumpTargets => "jump-targets",
            Kind::Targets => "targets",
            Kind::EdgesAndCallTargets => "edges-and-call-targets",
        })
    }
}

impl Stream {
    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Stream> {
        let mut file = BufReader::new(File::open(path).with_context(|| format!("cannot open {}", path.display()))?);
        let mut magic = [0; 4];
        file.read_exact(&mut magic).with_context(|| format!("{} is too short", path.display()))?;
        let whole = magic.as_slice().chain(file);
        let stream = if magic == *ZSTD_MAGIC {
            Stream::decode(&mut BufReader::new(zstd::Decoder::with_buffer(BufReader::new(whole))?))
        } else {
            Stream::decode(&mut BufReader::new(whole))
        };
        stream.with_context(|| format!("{} is no event stream", path.display()))
    }

    /// Writes a file, compressed.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut out = zstd::Encoder::new(BufWriter::new(file), ZSTD_LEVEL)?;
        self.encode(&mut out)?;
        out.finish()?.flush()?;
        Ok(())
    }

    fn encode(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let kind = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or(0, |(number, _)| *number);
        out.write_all(MAGIC)?;
        out.write_all(&self.instructions.unwrap_or(0).to_le_bytes())?;
        out.write_all(&(self.events.len() as u64).to_le_bytes())?;
        out.write_all(&kind.to_le_bytes())?;
        out.write_all(&u32::try_from(self.name.len())?.to_le_bytes())?;
        out.write_all(self.name.as_bytes())?;
        for (place, value) in &self.events {
            out.write_all(&place.to_le_bytes())?;
            out.write_all(&value.to_le_bytes())?;
        }
        Ok(())
    }

    fn decode(input: &mut impl Read) -> anyhow::Result<Stream> {
        ensure!(array::<8>(input)? == *MAGIC, "it does not start with `strbstr1`");
        let instructions = Some(u64::from_le_bytes(array(input)?)).filter(|&n| n != 0);
        let n_events = u64::from_le_bytes(array(input)?);
        let number = u32::from_le_bytes(array(input)?);
        let known = KINDS.iter().find(|(known, _)| *known == number);
        let Some(&(_, kind)) = known else { bail!("its kind {number} is unknown") };
        let name_len = u32::from_le_bytes(array(input)?);
        let mut name = Vec::new();
        input.take(u64::from(name_len)).read_to_end(&mut name)?;
        let mut events = Vec::new();
        for index in 0..n_events {
            let missing = || format!("it ends after {index} of {n_events} events");
            let place = u64::from_le_bytes(array(input).with_context(missing)?);
            events.push((place, u64::from_le_bytes(array(input).with_context(missing)?)));
        }
        Ok(Stream { name: String::from_utf8(name)?, kind, instructions, events })
    }
}

fn array<const N: usize>(input: &mut impl Read) -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        let events = (0..1000).map(|n| (0x40_0000 + n % 7, n * n)).collect();
        Stream { name: "gzip é".to_owned(), kind: Kind::EdgesAndCallTargets, instructions: Some(5000), events }
    }

    #[test]
    fn a_stream_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let [packed, plain] = ["packed", "plain"].map(|name| dir.path().join(name));
        stream().write(&packed).unwrap();
        assert_eq!(Stream::read(&packed).unwrap(), stream());
        let mut bytes = Vec::new();
        stream().encode(&mut bytes).unwrap();
        std::fs::write(&plain, bytes).unwrap();
        assert_eq!(Stream::read(&plain).unwrap(), stream());
    }

    #[test]
    fn damaged_files_are_refused_with_the_reason() {
        let mut bytes = Vec::new();
        stream().encode(&mut bytes).unwrap();
        let refused = |bytes: &[u8]| format!("{:#}", Stream::decode(&mut &bytes[..]).unwrap_err());
        assert!(refused(&bytes[..bytes.len() - 1]).contains("ends after 999 of 1000"));
        let mut huge = bytes.clone();
        huge[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(refused(&huge).contains("ends after 1000 of"));
        bytes[24] = 99;
        assert!(refused(&bytes).contains("kind 99"));
        assert!(refused(b"something else, long enough").contains("strbstr1"));
    }
}
