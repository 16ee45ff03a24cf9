//! Streams of values, from `strobe record --values`, which writes every load with its value.
//!
//! Recording ends when there are enough; the program then runs on by itself.

use std::io::Read as _;
use std::path::Path;

use anyhow::ensure;

use super::stream::Stream;
use super::trace::{Wanted, start};

/// Where the kind of an event is in its address, and what that is for loads.
const KIND_SHIFT: u32 = 60;
const LOAD: u64 = 0;

/// Runs `program`, a piece of shell that starts one, in `dir`, and records what it loads.
pub fn record(strobe: &Path, name: &str, program: &str, dir: &Path, wanted: Wanted) -> anyhow::Result<Stream> {
    // The stream goes where the standard error was, and the program's output goes nowhere.
    let record = format!("'{}' record -q --exact=nothing --values --value-stream /dev/fd/9", strobe.display());
    let script = format!("exec 9>&2 2>/dev/null >/dev/null; exec {record} -o /dev/shm/strobe-values-$$ -- {program}");
    let (mut child, mut input) = start(&script, dir)?;
    let mut events = Vec::new();
    let mut n_seen = 0;
    let mut pair = [0; 16];
    while (events.len() as u64) < wanted.n_events && input.read_exact(&mut pair).is_ok() {
        let [address, value] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| pair[at + byte])));
        // Arguments come, too.
        if address >> KIND_SHIFT == LOAD {
            n_seen += 1;
            if n_seen > wanted.skip {
                events.push((address, value));
            }
        }
    }
    let _ = child.kill();
    child.wait()?;
    let _ = std::fs::remove_file(format!("/dev/shm/strobe-values-{}", child.id()));
    ensure!(!events.is_empty(), "`{program}` gave {n_seen} values, not more than the {} to skip", wanted.skip);
    Ok(Stream { name: name.to_owned(), kind: wanted.kind, instructions: None, events })
}
