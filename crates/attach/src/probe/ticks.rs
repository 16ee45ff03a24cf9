//! What a tick costs on this machine, and how often it can be had.
//!
//! A child process does nothing but read the time stamp counter. When its signal handler, which
//! only counts, has run between two readings, their distance is what the tick took from the
//! program: interrupt, delivery, handler, return. The median of these is the cost. Ticks at which
//! the thread lost the processor do not count; so other programs do not disturb the result, as they
//! would a comparison of times.
//!
//! The child is made by `fork` from a process that may have other threads. It therefore uses
//! nothing but system calls and its own stack, and leaves by `_exit`.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wire::control::{TIMER_SIGNAL, TickSource};

use crate::error::{Result, Step};
use crate::own::time_stamp;
use crate::perf::open_ticks;
use crate::target::Target;

/// Cost of ticks at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TickCost {
    /// Ticks asked for, per second of CPU time.
    pub asked_hz: u32,
    /// Ticks that arrived, per second of CPU time.
    pub attained_hz: f64,
    /// Time that one took from the program; 0 if none came.
    pub ns_per_tick: f64,
    /// How many came.
    pub ticks: u64,
}

/// Measures ticks from a source at several rates, each for this much CPU time.
///
/// # Errors
/// When the source is not to be had on this system.
pub fn tick_costs(source: TickSource, rates_hz: &[u32], per_rate: Duration) -> Result<Vec<TickCost>> {
    let budget_ns = u64::try_from(per_rate.as_nanos()).unwrap_or(u64::MAX);
    rates_hz.iter().map(|&hz| measure(source, hz.max(1), budget_ns).step("measuring ticks")).collect()
}

/// What the child reports.
#[derive(Debug, Clone, Copy, Default)]
struct Report {
    error: u64,
    ticks: u64,
    /// CPU time in which they came.
    cpu_ns: u64,
    /// What a tick took.
    cycles_per_tick: u64,
    /// Two readings of the time stamp counter and of the clock, less each other.
    cycles: u64,
    ns: u64,
}

const REPORT_BYTES: usize = size_of::<Report>();
/// Ticks whose cost is kept.
const MAX_GAPS: usize = 8192;
/// Readings of the counter between two looks at the clock.
const READINGS: u32 = 4096;

fn measure(source: TickSource, hz: u32, budget_ns: u64) -> io::Result<TickCost> {
    let report = run_in_child(|| experiment(source, 1_000_000_000 / u64::from(hz), budget_ns))?;
    if report.error != 0 {
        return Err(io::Error::from_raw_os_error(report.error as i32));
    }
    let ns_per_cycle = report.ns as f64 / (report.cycles as f64).max(1.0);
    Ok(TickCost {
        asked_hz: hz,
        attained_hz: report.ticks as f64 * 1e9 / (report.cpu_ns as f64).max(1.0),
        ns_per_tick: report.cycles_per_tick as f64 * ns_per_cycle,
        ticks: report.ticks,
    })
}

fn run_in_child(work: impl Fn() -> Report) -> io::Result<Report> {
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the child calls only functions that are safe in the child of a process with threads,
    // see above.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let bytes = to_bytes(&work());
        // SAFETY: the bytes are valid; nothing of the parent's is run or dropped after this.
        unsafe {
            libc::write(theirs.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
            libc::_exit(0);
        }
    }
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    drop(theirs);
    let mut bytes = [0; REPORT_BYTES];
    let read = std::fs::File::from(ours).read_exact(&mut bytes);
    let waited = Target::from_pid(pid.cast_unsigned()).wait();
    read?;
    waited.map_err(io::Error::other)?;
    Ok(from_bytes(&bytes))
}

static TICKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_tick(_signal: libc::c_int) {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

/// Runs in the child.
fn experiment(source: TickSource, interval_ns: u64, budget_ns: u64) -> Report {
    TICKS.store(0, Ordering::Relaxed);
    let ticker = match Ticker::start(source, interval_ns) {
        Ok(ticker) => ticker,
        Err(error) => return Report { error, ..Report::default() },
    };
    let mut gaps = Gaps { cycles: [0; MAX_GAPS], n: 0, smallest: u64::MAX };
    let (cpu, clock, counter) = (clock_ns(CPU_TIME), clock_ns(TIME), time_stamp());
    while clock_ns(CPU_TIME).saturating_sub(cpu) < budget_ns {
        gaps.watch();
    }
    let cpu_ns = clock_ns(CPU_TIME).saturating_sub(cpu);
    ticker.stop();
    Report {
        error: 0,
        ticks: TICKS.load(Ordering::Relaxed),
        cpu_ns,
        cycles_per_tick: gaps.typical(),
        cycles: time_stamp().saturating_sub(counter),
        ns: clock_ns(TIME).saturating_sub(clock),
    }
}

/// What ticks took.
struct Gaps {
    /// Of ticks at which the thread kept the processor.
    cycles: [u64; MAX_GAPS],
    n: usize,
    /// Of all ticks.
    smallest: u64,
}

impl Gaps {
    /// Reads the counter for a while, and notes how long each tick took.
    fn watch(&mut self) {
        let mut seen = TICKS.load(Ordering::Relaxed);
        let mut switches = context_switches();
        let mut last = time_stamp();
        for _ in 0..READINGS {
            let mut now = time_stamp();
            if TICKS.load(Ordering::Relaxed) != seen {
                // The tick came after the last look at the count, which is after `last`, and before
                // this one.
                let gap = time_stamp().saturating_sub(last);
                let switches_now = context_switches();
                self.note(gap, switches_now == switches);
                switches = switches_now;
                seen = TICKS.load(Ordering::Relaxed);
                now = time_stamp();
            }
            last = now;
        }
    }

    fn note(&mut self, gap: u64, is_undisturbed: bool) {
        self.smallest = self.smallest.min(gap);
        if let Some(place) = self.cycles.get_mut(self.n).filter(|_| is_undisturbed) {
            *place = gap;
            self.n += 1;
        }
    }

    /// Returns the median, or the best there is; 0 without ticks.
    fn typical(&mut self) -> u64 {
        let undisturbed = &mut self.cycles[..self.n];
        undisturbed.sort_unstable();
        let best = if self.smallest == u64::MAX { 0 } else { self.smallest };
        undisturbed.get(undisturbed.len() / 2).copied().unwrap_or(best)
    }
}

/// Times that the thread has lost the processor.
fn context_switches() -> libc::c_long {
    // SAFETY: `rusage` is plain numbers, for which zeros are fine.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the place is valid for the result.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    usage.ru_nvcsw + usage.ru_nivcsw
}

const CPU_TIME: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;
const TIME: libc::clockid_t = libc::CLOCK_MONOTONIC;

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid for the result; these clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// A source of ticks in the calling thread.
enum Ticker {
    Timer(libc::c_int),
    Perf(OwnedFd),
    Nothing,
}

impl Ticker {
    /// The error is an error number.
    fn start(source: TickSource, interval_ns: u64) -> std::result::Result<Ticker, u64> {
        match source {
            TickSource::PosixTimer => {
                handle(TIMER_SIGNAL)?;
                start_timer(interval_ns).map(Ticker::Timer)
            }
            TickSource::Perf => {
                handle(TIMER_SIGNAL)?;
                // SAFETY: no memory is involved.
                let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
                let event = open_ticks(tid, interval_ns);
                event.map(Ticker::Perf).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO) as u64)
            }
            TickSource::Off => Ok(Ticker::Nothing),
        }
    }

    fn stop(self) {
        match self {
            // SAFETY: the timer is ours; no memory is involved.
            Ticker::Timer(id) => drop(unsafe { libc::syscall(libc::SYS_timer_delete, id) }),
            Ticker::Perf(event) => drop(event),
            Ticker::Nothing => {}
        }
    }
}

fn handle(signal: i32) -> std::result::Result<(), u64> {
    // SAFETY: zeros are an empty action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count_tick as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler only adds to an atomic; the action is complete.
    check(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }.into()).map(drop)
}

fn start_timer(interval_ns: u64) -> std::result::Result<libc::c_int, u64> {
    // SAFETY: zeros are an empty event.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = TIMER_SIGNAL;
    // SAFETY: no memory is involved.
    event.sigev_notify_thread_id = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
    let mut id: libc::c_int = 0;
    let clock = libc::CLOCK_THREAD_CPUTIME_ID;
    // SAFETY: both places are valid.
    check(unsafe { libc::syscall(libc::SYS_timer_create, clock, &raw const event, &raw mut id) })?;
    let interval = libc::timespec {
        tv_sec: (interval_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (interval_ns % 1_000_000_000) as libc::c_long,
    };
    let times = libc::itimerspec { it_interval: interval, it_value: interval };
    let nothing = std::ptr::null_mut::<libc::itimerspec>();
    // SAFETY: the place is valid; the old value is not wanted.
    check(unsafe { libc::syscall(libc::SYS_timer_settime, id, 0, &raw const times, nothing) })?;
    Ok(id)
}

fn check(result: libc::c_long) -> std::result::Result<libc::c_long, u64> {
    if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) as u64) }
}

fn to_bytes(report: &Report) -> [u8; REPORT_BYTES] {
    let mut bytes = [0; REPORT_BYTES];
    let Report { error, ticks, cpu_ns, cycles_per_tick, cycles, ns } = *report;
    let words = [error, ticks, cpu_ns, cycles_per_tick, cycles, ns];
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}

fn from_bytes(bytes: &[u8; REPORT_BYTES]) -> Report {
    let word = |index: usize| bytes.as_chunks::<8>().0.get(index).map_or(0, |word| u64::from_le_bytes(*word));
    Report { error: word(0), ticks: word(1), cpu_ns: word(2), cycles_per_tick: word(3), cycles: word(4), ns: word(5) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_ticks_are_counted() {
        let costs = tick_costs(TickSource::PosixTimer, &[100], Duration::from_millis(200)).unwrap();
        assert_eq!(costs[0].asked_hz, 100);
        assert!(costs[0].ticks > 0);
        assert!(costs[0].attained_hz > 0.0);
    }

    #[test]
    fn nothing_ticks_when_the_source_is_off() {
        let costs = tick_costs(TickSource::Off, &[100], Duration::from_millis(20)).unwrap();
        assert_eq!(costs[0].ticks, 0);
    }

    #[test]
    fn reports_survive_the_pipe() {
        let report = Report { error: 1, ticks: 2, cpu_ns: 3, cycles_per_tick: 4, cycles: 5, ns: u64::MAX };
        assert_eq!(format!("{:?}", from_bytes(&to_bytes(&report))), format!("{report:?}"));
    }
}
