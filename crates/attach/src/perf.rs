//! Ticks from perf events.
//!
//! The agent opens, for every thread of the process, a software event that counts CPU time in user
//! mode and has the kernel send the thread [`TIMER_SIGNAL`] each time its period is over. The event
//! overflows only in user mode and the signal is delivered on the spot, so that no system call of
//! the program is ever interrupted by it. The descriptors stay here: dropping them ends the ticks.
//! Threads that are made later get theirs when the agent looks again.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use wire::control::TIMER_SIGNAL;

use crate::error::{Result, Step};
use crate::process::Process;

/// Perf events that tick in the threads of a process for as long as this lives.
#[derive(Debug)]
pub struct PerfTicks {
    interval_ns: u64,
    events: Vec<(u32, OwnedFd)>,
}

impl Process {
    /// Starts ticks from perf events, in all threads that exist now.
    ///
    /// # Errors
    /// When the kernel has no such events, or does not let this user have them.
    pub fn start_perf_ticks(&self, interval_ns: u64) -> Result<PerfTicks> {
        let open = |tid: u32| open_ticks(tid, interval_ns).map(|event| (tid, event)).step("perf_event_open");
        let events = self.thread_ids()?.into_iter().map(open).collect::<Result<_>>()?;
        Ok(PerfTicks { interval_ns, events })
    }
}

impl PerfTicks {
    /// Has threads that have started since then tick as well, and forgets those that have ended.
    pub fn follow_threads(&mut self, process: &Process) {
        let Ok(tids) = process.thread_ids() else { return };
        self.events.retain(|(tid, _)| tids.contains(tid));
        for tid in tids {
            if self.events.iter().all(|(known, _)| *known != tid) {
                // A thread that has ended meanwhile needs no ticks.
                self.events.extend(open_ticks(tid, self.interval_ns).ok().map(|event| (tid, event)));
            }
        }
    }

    /// Changes the period.
    ///
    /// # Errors
    /// When the kernel refuses the period.
    pub fn set_interval_ns(&mut self, interval_ns: u64) -> Result<()> {
        self.interval_ns = interval_ns;
        for (_, event) in &self.events {
            // SAFETY: the request reads one `u64` from the place it is given.
            let result = unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_PERIOD, &raw const interval_ns) };
            if result != 0 {
                return Err(io::Error::last_os_error()).step("period of the perf event");
            }
        }
        Ok(())
    }
}

/// An event that sends ticks to the thread that it counts.
pub(crate) fn open_ticks(tid: u32, interval_ns: u64) -> io::Result<OwnedFd> {
    let event = Attributes::ticks(interval_ns).open(tid.cast_signed())?;
    let owner = FileOwner { kind: F_OWNER_TID, id: tid.cast_signed() };
    // SAFETY: the first call reads a structure of this layout from a valid place; the others take
    // numbers.
    let results = unsafe {
        [
            libc::fcntl(event.as_raw_fd(), F_SETOWN_EX, &raw const owner),
            libc::fcntl(event.as_raw_fd(), F_SETSIG, TIMER_SIGNAL),
            libc::fcntl(event.as_raw_fd(), libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK),
        ]
    };
    if results.contains(&-1) { Err(io::Error::last_os_error()) } else { Ok(event) }
}

const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;
const F_OWNER_TID: libc::c_int = 0;

/// `struct f_owner_ex`.
#[repr(C)]
struct FileOwner {
    kind: libc::c_int,
    id: libc::pid_t,
}

const PERF_EVENT_IOC_PERIOD: libc::c_ulong = 0x4008_2404;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const TYPE_BREAKPOINT: u32 = 5;
/// The instruction at an address is begun.
const BREAKPOINT_EXECUTE: u32 = 4;
/// Time that an event was on, and time that it counted, behind the count.
const FORMAT_TIMES: u64 = 1 | 2;
const SOFTWARE_TASK_CLOCK: u64 = 1;

/// What processors count, as the kernel numbers it.
#[repr(u64)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HardwareCounter {
    /// Cycles in which it was not halted.
    Cycles = 0,
    /// Instructions that were retired.
    Instructions = 1,
    /// Misses of the last cache.
    CacheMisses = 3,
}

/// Bits of `perf_event_attr`.
mod bit {
    pub(super) const DISABLED: u64 = 1;
    pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub(super) const EXCLUDE_HV: u64 = 1 << 6;
    pub(super) const REMOVE_ON_EXEC: u64 = 1 << 36;
}

/// `struct perf_event_attr`, version 7.
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
    /// Overflows after every period of CPU time, if the thread is in user mode then.
    pub(crate) fn ticks(interval_ns: u64) -> Attributes {
        Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: SOFTWARE_TASK_CLOCK,
            sample_period: interval_ns,
            wakeup_events: 1,
            bits: bit::EXCLUDE_KERNEL | bit::EXCLUDE_HV | bit::REMOVE_ON_EXEC,
            ..Attributes::default()
        }
    }

    /// Counts something in user mode; only to see whether there is a counter.
    pub(crate) fn hardware(counter: HardwareCounter) -> Attributes {
        Attributes {
            kind: TYPE_HARDWARE,
            size: size_of::<Attributes>() as u32,
            config: counter as u64,
            bits: bit::EXCLUDE_KERNEL | bit::EXCLUDE_HV,
            ..Attributes::default()
        }
    }

    /// Counts how often the instruction at an address is begun, and overflows after so many times.
    /// The leader of a group is off at first, and with it the others.
    pub(crate) fn breakpoint(address: u64, most_hits: u64, is_leader: bool) -> Attributes {
        Attributes {
            kind: TYPE_BREAKPOINT,
            size: size_of::<Attributes>() as u32,
            sample_period: most_hits,
            read_format: FORMAT_TIMES,
            bits: bit::EXCLUDE_KERNEL | bit::EXCLUDE_HV | if is_leader { bit::DISABLED } else { 0 },
            breakpoint_type: BREAKPOINT_EXECUTE,
            config1: address,
            // Breakpoints on instructions are as long as an address.
            config2: size_of::<u64>() as u64,
            ..Attributes::default()
        }
    }

    /// Opens the event for a thread, on any CPU.
    pub(crate) fn open(&self, tid: i32) -> io::Result<OwnedFd> {
        self.open_in_group(tid, None)
    }

    /// The same, in the group of another event that leads it.
    pub(crate) fn open_in_group(&self, tid: i32, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        const ANY_CPU: libc::c_int = -1;
        const NO_GROUP: libc::c_int = -1;
        let group = leader.map_or(NO_GROUP, AsRawFd::as_raw_fd);
        // SAFETY: the kernel reads `size` bytes of attributes, which is the size of the structure.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                self as *const Attributes,
                tid,
                ANY_CPU,
                group,
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
