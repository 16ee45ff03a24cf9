//! Counting how often a thread begins some instructions, while it runs its own code.
//!
//! Processors have four registers for breakpoints, and the kernel counts with them in any process
//! that one may trace: no counter of the processor is needed, nothing is written into the program,
//! and nothing stops there. A hit costs the program some microseconds
//! ([`crate::probe::breakpoint_ns`]), so breakpoints are on for a moment only and lie where
//! control comes some thousand times a second.
//!
//! **The cost is bounded by the kernel.** A breakpoint that is hit [`MOST_HITS`] times switches
//! itself off, also if the agent is stopped meanwhile; if it dies, its descriptors go, and the
//! breakpoints with them. A debugger that is attached needs the registers itself: whoever calls
//! looks for one first.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::perf::Attributes;

/// Addresses that can be counted at once.
pub const MOST_ADDRESSES: usize = 4;
/// Hits of one breakpoint, after which it is off for good.
pub const MOST_HITS: u64 = 400;

/// Breakpoints of a thread, which are off until [`Breakpoints::switch_on`].
#[derive(Debug)]
pub struct Breakpoints {
    /// The first leads the others.
    events: Vec<OwnedFd>,
}

/// What a breakpoint has counted since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hits {
    /// Times that the instruction was begun in user mode.
    pub n: u64,
    /// CPU time of the thread while the breakpoint was on.
    pub running_ns: u64,
}

impl Hits {
    /// Returns whether the breakpoint has switched itself off.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.n >= MOST_HITS
    }

    /// Returns what has come since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Hits) -> Hits {
        Hits { n: self.n.saturating_sub(earlier.n), running_ns: self.running_ns.saturating_sub(earlier.running_ns) }
    }
}

impl Breakpoints {
    /// Makes breakpoints at up to [`MOST_ADDRESSES`] instructions of a thread. The first can have
    /// counted some hits then.
    ///
    /// # Errors
    /// When the thread is gone, the kernel does not let this user have them, or all registers are
    /// taken.
    pub fn new(tid: u32, addresses: &[u64]) -> io::Result<Breakpoints> {
        let mut events: Vec<OwnedFd> = Vec::with_capacity(addresses.len());
        for &address in addresses {
            let attributes = Attributes::breakpoint(address, MOST_HITS, events.is_empty());
            let event = attributes.open_in_group(tid.cast_signed(), events.first())?;
            events.push(event);
        }
        let breakpoints = Breakpoints { events };
        // Lets each overflow once, which also switches it on: the leader first, so that it is off
        // again when the others come.
        for event in &breakpoints.events {
            control(event, IOC_REFRESH, 1)?;
            control(event, IOC_DISABLE, 0)?;
        }
        Ok(breakpoints)
    }

    /// Starts to count.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn switch_on(&self) -> io::Result<()> {
        self.control_all(IOC_ENABLE)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn switch_off(&self) -> io::Result<()> {
        self.control_all(IOC_DISABLE)
    }

    /// Returns what was counted, by address.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn hits(&self) -> io::Result<Vec<Hits>> {
        self.events.iter().map(read_hits).collect()
    }

    fn control_all(&self, request: libc::c_ulong) -> io::Result<()> {
        self.events.first().map_or(Ok(()), |leader| control(leader, request, IOC_FLAG_GROUP))
    }
}

fn control(event: &OwnedFd, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: these requests take a number and touch no memory of ours.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request, argument) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The words are those that [`Attributes::breakpoint`] asks for: count, time since it was switched
/// on, time that it was in a register while the thread ran.
fn read_hits(event: &OwnedFd) -> io::Result<Hits> {
    let mut bytes = [0; 24];
    let n_bytes = rustix::io::read(event, &mut bytes)?;
    if n_bytes != bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let word = |index: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[8 * index + byte]));
    Ok(Hits { n: word(0), running_ns: word(2) })
}

const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_REFRESH: libc::c_ulong = 0x2402;
const IOC_FLAG_GROUP: libc::c_ulong = 1;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    static OWN_COUNT: AtomicU64 = AtomicU64::new(0);
    static IS_OVER: AtomicBool = AtomicBool::new(false);

    #[inline(never)]
    fn counted() {
        OWN_COUNT.fetch_add(1, Ordering::Relaxed);
    }

    #[inline(never)]
    fn not_counted() {
        std::hint::black_box(());
    }

    /// Runs `watch` beside a thread that calls [`counted`] all the time, with the thread's id.
    fn beside_a_busy_thread(watch: impl FnOnce(u32)) {
        IS_OVER.store(false, Ordering::Relaxed);
        let (send, receive) = std::sync::mpsc::channel();
        let busy = std::thread::spawn(move || {
            send.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
            while !IS_OVER.load(Ordering::Relaxed) {
                (0..20_000).for_each(|round| {
                    std::hint::black_box(round);
                });
                counted();
                not_counted();
            }
        });
        watch(receive.recv().unwrap());
        IS_OVER.store(true, Ordering::Relaxed);
        busy.join().unwrap();
    }

    /// Both are in one test: threads of a process share what they count.
    #[test]
    fn calls_are_counted_while_breakpoints_are_on_and_not_beyond_the_limit() {
        beside_a_busy_thread(|tid| {
            let breakpoints = Breakpoints::new(tid, &[counted as *const () as u64]).unwrap();
            let at_first = breakpoints.hits().unwrap()[0];
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(breakpoints.hits().unwrap()[0], at_first, "off at first");
            // Readings of the thread's own count lie outside the time that is counted, then inside.
            let outside = OWN_COUNT.load(Ordering::Relaxed);
            breakpoints.switch_on().unwrap();
            let inside = OWN_COUNT.load(Ordering::Relaxed);
            while OWN_COUNT.load(Ordering::Relaxed) < inside + 40 {
                std::thread::yield_now();
            }
            let inside = OWN_COUNT.load(Ordering::Relaxed) - inside;
            breakpoints.switch_off().unwrap();
            let outside = OWN_COUNT.load(Ordering::Relaxed) - outside;
            let all = breakpoints.hits().unwrap()[0];
            let hits = all.since(at_first);
            // A call is begun before it adds itself to the count: one can be under way at either
            // end.
            let possible = inside - 1..=outside + 1;
            assert!(all.is_limited() || possible.contains(&hits.n), "{inside} {hits:?} {outside}");
            assert!(hits.running_ns > 0);
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(breakpoints.hits().unwrap()[0], all, "off again");

            breakpoints.switch_on().unwrap();
            let start = OWN_COUNT.load(Ordering::Relaxed);
            while OWN_COUNT.load(Ordering::Relaxed) < start + 4 * MOST_HITS {
                std::thread::yield_now();
            }
            assert_eq!(breakpoints.hits().unwrap()[0].n, MOST_HITS);
        });
    }

    #[test]
    fn four_fit_and_five_do_not() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let address = not_counted as *const () as u64;
        let at = |n: u64| (0..n).map(|index| address + index).collect::<Vec<u64>>();
        let four = Breakpoints::new(tid, &at(MOST_ADDRESSES as u64)).unwrap();
        assert_eq!(four.hits().unwrap().len(), MOST_ADDRESSES);
        drop(four);
        Breakpoints::new(tid, &at(5)).unwrap_err();
    }
}
