//! The bursts of a process on their way into the profile file, if they are kept
//! ([`store::burst_log`]).

use store::burst_log::{LogPlace, LoggedBurst};
use store::{ProcessId, Recording};

use crate::process::layout::Layout;

/// Bytes of a burst log before they are compressed and written.
const LOG_BYTES: usize = 4 << 20;

/// Bursts that have not been written yet.
#[derive(Debug, Default)]
pub struct BurstLog {
    bytes: Vec<u8>,
    n_bursts: u64,
}

impl BurstLog {
    /// Keeps a burst.
    pub fn keep(&mut self, process: ProcessId, burst: &LoggedBurst, recording: &mut Recording) {
        burst.append_to(&mut self.bytes);
        self.n_bursts += 1;
        if self.bytes.len() >= LOG_BYTES {
            self.write(process, recording);
        }
    }

    /// Writes what is there.
    pub fn write(&mut self, process: ProcessId, recording: &mut Recording) {
        let raw = std::mem::take(&mut self.bytes);
        let n_bursts = std::mem::take(&mut self.n_bursts);
        if raw.is_empty() {
            return;
        }
        if let Ok(compressed) = zstd::bulk::compress(&raw, 1) {
            recording.trace(process, n_bursts, raw.len() as u64, compressed);
        }
    }
}

/// Returns an address of the process as a log has it.
pub fn log_place(layout: &Layout, pc: u64) -> LogPlace {
    let place = layout.place(pc);
    LogPlace::new(place.module.map(|module| module.0), place.address)
}
