//! Signals that end, stop and continue programs, passed on to the program.
//!
//! **The rule.** What is sent to strobe is meant for the program. A signal that was sent to the
//! process group has reached the program already, if that is still in the group, and is not sent
//! again; any other is passed on, once. The [`Witness`] says which is which; should it be gone,
//! what comes from the kernel is taken to be from the terminal, and so for the group. Two of the
//! same within a millisecond or so may count as one, as they may anywhere.
//!
//! strobe itself neither ends nor stops by such a signal. It goes on until the program has ended,
//! and then ends as the program did ([`crate::die_by`]); when the program has stopped, it stops
//! ([`crate::stop`]). Signals that were ignored on entry stay ignored.
//!
//! **Before the program runs.** Its process is a copy of this one until it executes the program.
//! What was caught until then, before or after the fork, is in the copy's memory, and takes effect
//! there ([`take_effect`]). The system makes a fork and signals to the group follow each other, so
//! that nothing is lost between.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::EventfdFlags;

use crate::error::{Result, Step};
use crate::join::retry;
use crate::signal_set::{change_mask, each, signal_set};
use crate::target::{Recipient, Target};
use crate::witness::Witness;

const ENDING: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
const JOB_CONTROL: [i32; 2] = [libc::SIGTSTP, libc::SIGCONT];

/// Signals that have a handler of ours.
static HANDLED: AtomicU64 = AtomicU64::new(0);
/// Signals that have come and not been dealt with.
static CAUGHT: AtomicU64 = AtomicU64::new(0);
/// Of these, those that the kernel has sent by itself since the last time.
static BY_KERNEL: AtomicU64 = AtomicU64::new(0);
/// The eventfd that wakes the thread that passes on; -1: none.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// Signals of this process that are the program's. There is one of it.
#[derive(Debug)]
pub struct Signals {
    wake: OwnedFd,
    witness: Mutex<Option<Witness>>,
    /// The program has, and signals are for strobe now.
    has_ended: AtomicBool,
}

/// The thread that passes signals on.
#[derive(Debug)]
pub struct PassingOn {
    signals: Arc<Signals>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Signals {
    /// Catches signals, but those that are `ignored` (bit `n - 1` for signal `n`). To be called
    /// while there are no other threads.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn catch(ignored: u64) -> Result<Arc<Signals>> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).step("eventfd")?;
        let wanted = mask(&ENDING) | mask(&JOB_CONTROL);
        let handled = wanted & !ignored;
        // Without a witness, the word of the kernel has to do.
        let witness = Mutex::new(Witness::start(handled).ok());
        WAKE.store(wake.as_raw_fd(), Ordering::Release);
        HANDLED.store(handled, Ordering::Release);
        for signal in each(handled) {
            handle(signal).step("sigaction")?;
        }
        Ok(Arc::new(Signals { wake, witness, has_ended: AtomicBool::new(false) }))
    }

    /// Passes signals on to a program that was just started, also those that came before.
    #[must_use]
    pub fn pass_on_to(self: &Arc<Signals>, target: &Target) -> PassingOn {
        self.has_ended.store(false, Ordering::Release);
        let is_over = Arc::new(AtomicBool::new(false));
        let recipient = target.recipient();
        let (signals, is_told) = (Arc::clone(self), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            while !is_told.load(Ordering::Acquire) {
                signals.pass_on(&recipient);
                signals.wait();
            }
        });
        PassingOn { signals: Arc::clone(self), is_over, thread }
    }

    /// Returns, once the program has ended, whether another signal came: strobe itself is meant to
    /// end.
    #[must_use]
    pub fn is_hurried(&self) -> bool {
        self.has_ended.load(Ordering::Acquire) && CAUGHT.load(Ordering::Acquire) & mask(&ENDING) != 0
    }

    fn wait(&self) {
        let mut fds = [rustix::event::PollFd::new(&self.wake, rustix::event::PollFlags::IN)];
        if retry(|| rustix::event::poll(&mut fds, None)).is_ok() {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.wake, &mut count);
        }
    }

    fn pass_on(&self, recipient: &Recipient) {
        if self.has_ended.load(Ordering::Acquire) {
            return;
        }
        let job_control = mask(&JOB_CONTROL);
        let mut of_group = 0;
        // Until nothing new has come, so that a signal of the group that came twice does not count
        // as a second one for strobe alone.
        loop {
            let caught = CAUGHT.swap(0, Ordering::AcqRel);
            if caught == 0 {
                break;
            }
            of_group |= self.sent_to_group();
            // One to stop and one to continue cancel each other where they wait.
            if of_group & job_control != 0 {
                of_group |= job_control;
            }
            let known = if recipient.is_in_our_group() { of_group } else { 0 };
            for signal in each(caught & !known) {
                recipient.signal(signal);
            }
        }
        // Strobe may be too busy to notice.
        self.has_ended.fetch_or(recipient.has_ended(), Ordering::AcqRel);
    }

    fn sent_to_group(&self) -> u64 {
        let by_kernel = BY_KERNEL.swap(0, Ordering::AcqRel);
        let mut witness = self.witness.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = witness.as_ref().and_then(Witness::ask);
        if seen.is_none() {
            *witness = None;
        }
        seen.unwrap_or(by_kernel)
    }
}

impl PassingOn {
    /// The program has ended. What comes from now on is for strobe ([`Signals::is_hurried`]).
    pub fn end(self) {
        self.is_over.store(true, Ordering::Release);
        // An eventfd that nobody reads can only fail to take more, and is readable then.
        let _ = rustix::io::write(&self.signals.wake, &1u64.to_ne_bytes());
        // A thread that panicked has passed on what it could.
        let _ = self.thread.join();
        if !self.signals.has_ended.swap(true, Ordering::AcqRel) {
            CAUGHT.store(0, Ordering::Release);
        }
    }
}

/// In the process that is about to execute the program: what was caught takes effect, as it would
/// have there.
pub(crate) fn take_effect() -> io::Result<()> {
    let handled = HANDLED.load(Ordering::Acquire);
    if handled == 0 {
        return Ok(());
    }
    // A process that stopped here would hold up whoever waits for it to execute the program.
    // Executing it ends handlers, too.
    let ending = handled & !mask(&JOB_CONTROL);
    let before = change_mask(libc::SIG_BLOCK, &signal_set(ending))?;
    for signal in each(ending) {
        // SAFETY: the default action is no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    for signal in each(CAUGHT.load(Ordering::Acquire) & ending) {
        // SAFETY: no memory is involved; the signal waits until the mask is restored.
        unsafe { libc::kill(libc::getpid(), signal) };
    }
    change_mask(libc::SIG_SETMASK, &before)?;
    Ok(())
}

fn handle(signal: i32) -> io::Result<()> {
    // SAFETY: plain numbers and a pointer, for which zeros are fine.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = note as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
    // SAFETY: the action is complete, and its handler may interrupt anything.
    let result = unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The handler: notes the signal and wakes whoever passes it on.
extern "C" fn note(signal: i32, info: *const libc::siginfo_t, _context: *const libc::c_void) {
    const BY_ITSELF: i32 = 0x80;
    let one = 1u64;
    // SAFETY: the kernel passes a complete `siginfo_t`; `write` may be called anywhere, and `errno`
    // is put back.
    unsafe {
        if (*info).si_code == BY_ITSELF {
            BY_KERNEL.fetch_or(mask(&[signal]), Ordering::AcqRel);
        }
        CAUGHT.fetch_or(mask(&[signal]), Ordering::AcqRel);
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(WAKE.load(Ordering::Acquire), (&raw const one).cast(), size_of::<u64>());
        *errno = before;
    }
}

fn mask(signals: &[i32]) -> u64 {
    signals.iter().fold(0, |mask, signal| mask | 1 << (signal - 1))
}
