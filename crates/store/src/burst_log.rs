//! The burst log of a profile: which blocks each burst reached, burst by burst.
//!
//! A recording appends bursts to bytes ([`LoggedBurst::append_to`]), which it keeps, compressed, in
//! the table `trace`; [`for_each_burst`] reads them back. Addresses are those of the modules'
//! files, so that the logs of two runs that did the same are the same wherever the modules were
//! loaded.
//!
//! A burst is, in little-endian numbers: the thread (4 bytes), why it ended (4), how many blocks it
//! reached (4), the checks to skip by the sampling policy (4); then the place where it started, the
//! place where it ended, and the blocks. A place is 8 bytes: the number of the module in the upper
//! 16 bits, [`NO_MODULE`] for none, and the address in the others.

use std::ops::ControlFlow;
use std::path::Path;

use crate::reading::connect;
use crate::{Error, SCHEMA_VERSION};

/// Stands for no module in a place.
pub const NO_MODULE: u16 = u16::MAX;
const ADDRESS_BITS: u32 = 48;
const HEAD_BYTES: usize = 16;
/// Most bytes of a chunk of bursts that are believed.
const MOST_BYTES: u64 = 1 << 30;

/// A burst as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedBurst {
    /// The thread's id.
    pub thread: u32,
    /// Why it ended: a [`wire::sample::EndReason`].
    pub end_reason: u8,
    /// Checks to skip by the sampling policy.
    pub n_to_skip: u32,
    /// Where it started.
    pub start: LogPlace,
    /// Where it ended.
    pub end: LogPlace,
    /// The blocks that it reached, in order. It need not have executed the last one.
    pub blocks: Vec<LogPlace>,
}

/// An address of a module's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPlace(u64);

impl LogPlace {
    /// Returns the place at an address of a module of the profile; outside of all modules,
    /// addresses are those of the process.
    #[must_use]
    pub fn new(module: Option<u32>, address: u64) -> LogPlace {
        let module = module.and_then(|module| u16::try_from(module).ok()).unwrap_or(NO_MODULE);
        LogPlace(u64::from(module) << ADDRESS_BITS | address & ((1 << ADDRESS_BITS) - 1))
    }

    /// Returns the number of the module, if there is one.
    #[must_use]
    pub fn module(self) -> Option<u32> {
        let module = (self.0 >> ADDRESS_BITS) as u16;
        (module != NO_MODULE).then_some(module.into())
    }

    /// Returns the address.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0 & ((1 << ADDRESS_BITS) - 1)
    }
}

impl LoggedBurst {
    /// Appends the burst to bytes.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        let head = [self.thread, u32::from(self.end_reason), self.blocks.len() as u32, self.n_to_skip];
        bytes.extend(head.into_iter().flat_map(u32::to_le_bytes));
        let places = [self.start, self.end].into_iter().chain(self.blocks.iter().copied());
        bytes.extend(places.flat_map(|place| place.0.to_le_bytes()));
    }

    /// Takes the first burst from bytes; `None` if they do not begin with a whole one.
    fn take_from(bytes: &mut &[u8]) -> Option<LoggedBurst> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let number = |index: usize| u32::from_le_bytes(head[4 * index..4 * index + 4].try_into().unwrap_or_default());
        let (places, rest) = rest.split_at_checked(8 * (2 + number(2) as usize))?;
        let mut places =
            places.chunks_exact(8).map(|place| LogPlace(u64::from_le_bytes(place.try_into().unwrap_or_default())));
        let burst = LoggedBurst {
            thread: number(0),
            end_reason: u8::try_from(number(1)).ok()?,
            n_to_skip: number(3),
            start: places.next()?,
            end: places.next()?,
            blocks: places.collect(),
        };
        *bytes = rest;
        Some(burst)
    }
}

/// A process whose bursts are in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedProcess {
    /// Its number in the recording, from 1.
    pub number: u64,
    /// Its process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// Reads the bursts of a profile in the order in which they were kept, until told to stop.
///
/// # Errors
/// If the file is no profile, is damaged, or has bursts of a format that is gone.
pub fn for_each_burst(
    path: &Path,
    take: &mut dyn FnMut(&LoggedProcess, LoggedBurst) -> ControlFlow<()>,
) -> Result<(), Error> {
    let (connection, version) = connect(path)?;
    let database = |cause| Error::database(path, cause);
    if version != SCHEMA_VERSION {
        return Err(Error::Version { path: path.to_owned(), version });
    }
    let mut statement = connection
        .prepare("SELECT process.id, pid, command, bytes, data FROM trace JOIN process ON process = process.id ORDER BY trace.id")
        .map_err(database)?;
    let mut rows = statement.query([]).map_err(database)?;
    while let Some(row) = rows.next().map_err(database)? {
        let read = || -> rusqlite::Result<(LoggedProcess, i64, Vec<u8>)> {
            let number: i64 = row.get(0)?;
            let process = LoggedProcess { number: number.unsigned_abs(), pid: row.get(1)?, command: row.get(2)? };
            Ok((process, row.get(3)?, row.get(4)?))
        };
        let (process, n_bytes, data) = read().map_err(database)?;
        let damaged = || Error::Damaged { path: path.to_owned(), what: "table trace".to_owned() };
        let n_bytes = u64::try_from(n_bytes).ok().filter(|&n_bytes| n_bytes <= MOST_BYTES).ok_or_else(damaged)?;
        let raw = zstd::bulk::decompress(&data, n_bytes as usize).map_err(|_| damaged())?;
        let mut rest = raw.as_slice();
        while !rest.is_empty() {
            let burst = LoggedBurst::take_from(&mut rest).ok_or_else(damaged)?;
            if take(&process, burst).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_survive_being_bytes() {
        let place = LogPlace::new(Some(3), 0x7fff_1234);
        assert_eq!((place.module(), place.address()), (Some(3), 0x7fff_1234));
        assert_eq!(LogPlace::new(Some(70_000), 5).module(), None);
        let nowhere = LogPlace::new(None, 0x7f00_0000_1000);
        assert_eq!((nowhere.module(), nowhere.address()), (None, 0x7f00_0000_1000));
        let one = LoggedBurst {
            thread: 77,
            end_reason: 1,
            n_to_skip: 4,
            start: place,
            end: nowhere,
            blocks: vec![place, nowhere, place],
        };
        let none = LoggedBurst { thread: 78, ..LoggedBurst::default() };
        let mut bytes = Vec::new();
        one.append_to(&mut bytes);
        none.append_to(&mut bytes);
        let mut rest = bytes.as_slice();
        assert_eq!(LoggedBurst::take_from(&mut rest), Some(one));
        assert_eq!(LoggedBurst::take_from(&mut &rest[..rest.len() - 1]), None, "cut off");
        assert_eq!(LoggedBurst::take_from(&mut rest), Some(none));
        assert!(rest.is_empty());
    }
}
