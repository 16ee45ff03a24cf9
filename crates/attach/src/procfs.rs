//! What the kernel says of a process: threads, CPU time, signals, tracer.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

use wire::control::TIMER_SIGNAL;

use crate::error::{Error, Result, Step};
use crate::process::Process;

/// Signals of a process or thread, bit `n - 1` for signal `n`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SignalState {
    blocked: u64,
    /// With a handler.
    caught: u64,
}

/// Why no bursts should start in a process for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hindrance {
    /// A debugger is attached: it sees every tick before the process does.
    Debugger,
    /// A signal has a handler that the runtime does not know, installed by a system call of its
    /// own, and that handler might see a copy.
    UnknownHandler {
        /// The signal.
        signal: u32,
    },
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hindrance::Debugger => f.write_str("a debugger is attached"),
            Hindrance::UnknownHandler { signal } => {
                write!(f, "signal {signal} has a handler that was installed past the C library")
            }
        }
    }
}

/// Signals whose handlers are no business of the program: the ticks, and two of the C library's
/// own.
const SIGNALS_OF_OTHERS: u64 = 1 << (TIMER_SIGNAL - 1) | 0b11 << 31;

impl Process {
    /// Returns the ids of the threads that exist now.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn thread_ids(&self) -> Result<Vec<u32>> {
        let path = PathBuf::from(format!("/proc/{}/task", self.pid()));
        let names = fs::read_dir(&path).map_err(|cause| Error::ProcessFile { path, cause })?;
        Ok(names.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
    }

    /// Returns why ticks would not be harmless just now, if anything stands against them.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn hindrance(&self) -> Result<Option<Hindrance>> {
        let status = read(self.pid(), "status")?;
        let is_traced = status_field(&status, "TracerPid:").is_some_and(|pid| pid != "0");
        let strangers = signal_state(&status).caught & !self.counters().wrapped_signals & !SIGNALS_OF_OTHERS;
        Ok(if is_traced {
            Some(Hindrance::Debugger)
        } else if strangers != 0 {
            Some(Hindrance::UnknownHandler { signal: strangers.trailing_zeros() + 1 })
        } else {
            None
        })
    }

    /// Returns the exact CPU time of all its threads since it started, ended ones included.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn cpu_ns(&self) -> Result<u64> {
        process_cpu_ns(self.pid()).step("CPU clock of the process")
    }

    /// Returns the threads that block the tick signal and so get no ticks.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn threads_that_block_ticks(&self) -> Result<Vec<u32>> {
        let bit = 1 << (TIMER_SIGNAL - 1);
        let blocks = |tid: &u32| {
            read(self.pid(), &format!("task/{tid}/status")).is_ok_and(|text| signal_state(&text).blocked & bit != 0)
        };
        Ok(self.thread_ids()?.into_iter().filter(blocks).collect())
    }
}

fn read(pid: u32, name: &str) -> Result<String> {
    let path = PathBuf::from(format!("/proc/{pid}/{name}"));
    let bytes = fs::read(&path).map_err(|cause| Error::ProcessFile { path, cause })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn signal_state(status: &str) -> SignalState {
    let mask = |name| status_field(status, name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
    SignalState { blocked: mask("SigBlk:"), caught: mask("SigCgt:") }
}

fn process_cpu_ns(pid: u32) -> io::Result<u64> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut clock = 0;
    // SAFETY: `clock` is a valid place for the result.
    let error = unsafe { libc::clock_getcpuclockid(pid, &mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks() {
        let status = "Name:\tx\nSigBlk:\t0000000000400000\nSigIgn:\t0000000000001000\nSigCgt:\t0000000180000002\n";
        let state = signal_state(status);
        assert_eq!(state, SignalState { blocked: 0x40_0000, caught: 0x1_8000_0002 });
    }

    #[test]
    fn own_cpu_time_is_counted() {
        assert!(process_cpu_ns(std::process::id()).unwrap() > 0);
        assert!(process_cpu_ns(u32::MAX).is_err());
    }
}
