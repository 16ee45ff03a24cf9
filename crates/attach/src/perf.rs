//! Ticks from perf events.
//!
//! The agent opens, for every thread that the process has when it joins, a software event that counts CPU time in user mode and sends a
//! synchronous `SIGTRAP` each time its period is over. Threads that are made later inherit it; other processes do not, and a new program
//! does not. The descriptors stay here: dropping them ends the ticks.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use wire::control::TICK_COOKIE;

use crate::error::{Result, Step};
use crate::process::Process;

/// Perf events that tick in the threads of a process for as long as this lives.
#[derive(Debug)]
pub struct PerfTicks {
    events: Vec<OwnedFd>,
}

impl Process {
    /// Starts ticks from perf events, in all threads that exist and all that they will make.
    ///
    /// # Errors
    /// When the kernel has no such events, or does not let this user have them.
    pub fn start_perf_ticks(&self, interval_ns: u64) -> Result<PerfTicks> {
        let attributes = Attributes::ticks(interval_ns, TICK_COOKIE);
        let open = |tid: u32| attributes.open(tid.cast_signed()).step("perf_event_open");
        let events = self.thread_ids()?.into_iter().map(open).collect::<Result<_>>()?;
        Ok(PerfTicks { events })
    }
}

impl PerfTicks {
    /// Changes the period, for the threads that had events of their own from the start and for threads that are made from now on.
    ///
    /// # Errors
    /// When the kernel refuses the period.
    pub fn set_interval_ns(&self, interval_ns: u64) -> Result<()> {
        for event in &self.events {
            // SAFETY: the request reads one `u64` from the place it is given.
            let result = unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_PERIOD, &raw const interval_ns) };
            if result != 0 {
                return Err(io::Error::last_os_error()).step("period of the perf event");
            }
        }
        Ok(())
    }
}

const PERF_EVENT_IOC_PERIOD: libc::c_ulong = 0x4008_2404;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const HARDWARE_CPU_CYCLES: u64 = 0;
const SOFTWARE_TASK_CLOCK: u64 = 1;

/// Bits of `perf_event_attr`.
mod bit {
    pub(super) const INHERIT: u64 = 1 << 1;
    pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub(super) const EXCLUDE_HV: u64 = 1 << 6;
    pub(super) const INHERIT_THREAD: u64 = 1 << 35;
    pub(super) const REMOVE_ON_EXEC: u64 = 1 << 36;
    pub(super) const SIGTRAP: u64 = 1 << 37;
}

/// `struct perf_event_attr`, version 7: the first with `sig_data`.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    bits: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock_id: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved_2: u16,
    aux_sample_size: u32,
    reserved_3: u32,
    sig_data: u64,
}

impl Attributes {
    /// Ticks by signal, inherited by threads.
    pub(crate) fn ticks(interval_ns: u64, cookie: u64) -> Attributes {
        Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: SOFTWARE_TASK_CLOCK,
            sample_period: interval_ns,
            bits: bit::INHERIT
                | bit::EXCLUDE_KERNEL
                | bit::EXCLUDE_HV
                | bit::INHERIT_THREAD
                | bit::REMOVE_ON_EXEC
                | bit::SIGTRAP,
            sig_data: cookie,
            ..Attributes::default()
        }
    }

    /// Counts cycles in user mode; only to see whether there is a counter.
    pub(crate) fn cycles() -> Attributes {
        Attributes {
            kind: TYPE_HARDWARE,
            size: size_of::<Attributes>() as u32,
            config: HARDWARE_CPU_CYCLES,
            bits: bit::EXCLUDE_KERNEL | bit::EXCLUDE_HV,
            ..Attributes::default()
        }
    }

    /// Opens the event for a thread, on any CPU.
    pub(crate) fn open(&self, tid: i32) -> io::Result<OwnedFd> {
        const ANY_CPU: libc::c_int = -1;
        const NO_GROUP: libc::c_int = -1;
        // SAFETY: the kernel reads `size` bytes of attributes, which is the size of the structure.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                self as *const Attributes,
                tid,
                ANY_CPU,
                NO_GROUP,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        match i32::try_from(fd) {
            // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
            Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

const _: () = assert!(size_of::<Attributes>() == 128);
