//! The program that was started: waiting for it, how it ended, and where signals for it go.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Result, Step};
use crate::process::open_pidfd;

/// Longest wait for a program whose end shows in no descriptor.
const LONGEST_BLIND_WAIT: Duration = Duration::from_millis(10);

/// A program that was started.
#[derive(Debug)]
pub struct Target {
    pid: u32,
    pidfd: Option<Arc<OwnedFd>>,
    exit: Option<Exit>,
    /// The signal that has stopped it, until somebody asks.
    stop: Option<i32>,
}

/// Where signals for a program go, from any thread.
#[derive(Debug)]
pub(crate) struct Recipient {
    pid: u32,
    /// Stands for the process even when its number is another's; kernels before 5.3 have none.
    pidfd: Option<Arc<OwnedFd>>,
}

impl Recipient {
    /// Sends a signal. A program that has ended, or has taken the rights of another user, needs
    /// none.
    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: no memory is involved.
        unsafe {
            match &self.pidfd {
                Some(pidfd) => {
                    let nothing = std::ptr::null::<libc::siginfo_t>();
                    libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, nothing, 0);
                }
                None => drop(libc::kill(self.pid.cast_signed(), signal)),
            }
        }
    }

    /// Returns whether it waits to be waited for.
    pub(crate) fn has_ended(&self) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_readable =
            |pidfd: &Arc<OwnedFd>| poll(&mut [PollFd::new(&**pidfd, PollFlags::IN)], Some(&at_once)) == Ok(1);
        self.pidfd.as_ref().is_some_and(is_readable)
    }

    /// Returns whether what is sent to the agent's process group reaches it.
    pub(crate) fn is_in_our_group(&self) -> bool {
        // SAFETY: no memory is involved.
        unsafe { libc::getpgid(self.pid.cast_signed()) == libc::getpgrp() }
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It left a core dump.
    pub dumped_core: bool,
    /// What it and the children that it waited for have used.
    pub used: ResourceUse,
}

/// Resources, as `wait4` reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceUse {
    /// CPU time in user mode.
    pub user_us: u64,
    /// CPU time in the kernel.
    pub system_us: u64,
    /// Most memory at any time.
    pub max_resident_bytes: u64,
    /// Context switches because it waited.
    pub voluntary_switches: u64,
    /// Context switches because others had their turn.
    pub involuntary_switches: u64,
}

impl From<std::process::Child> for Target {
    fn from(child: std::process::Child) -> Target {
        Target::from_pid(child.id())
    }
}

impl Target {
    /// A child of this process that nobody else waits for.
    pub(crate) fn from_pid(pid: u32) -> Target {
        Target { pid, pidfd: open_pidfd(pid).ok().map(Arc::new), exit: None, stop: None }
    }

    /// Returns its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the program has ended.
    ///
    /// # Errors
    /// When somebody else has waited for it.
    pub fn wait(&mut self) -> Result<Exit> {
        loop {
            if let Some(exit) = self.reap(0)? {
                return Ok(exit);
            }
        }
    }

    /// Returns how the program ended, if it has.
    ///
    /// # Errors
    /// When somebody else has waited for it.
    pub fn try_wait(&mut self) -> Result<Option<Exit>> {
        self.reap(libc::WNOHANG | libc::WUNTRACED)
    }

    /// Waits until the program has ended, one of `others` becomes readable, or for this long.
    pub fn wait_for(&self, timeout: Duration, others: &[BorrowedFd<'_>]) {
        let own = self.pidfd.as_ref().map(|pidfd| pidfd.as_fd());
        // On kernels that cannot tell of its end, somebody has to look for it.
        let timeout = if own.is_some() { timeout } else { timeout.min(LONGEST_BLIND_WAIT) };
        let timeout = Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
        let mut fds: Vec<PollFd<'_>> =
            own.iter().chain(others).map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Returns whether a shell or a terminal has stopped the program and with it the agent's
    /// process group, if [`Target::try_wait`] has seen that since the last time. What stops it by
    /// other means (SIGSTOP) may continue it without a word to the agent.
    pub fn take_stop_of_job(&mut self) -> bool {
        let is_of_job = |signal: &i32| [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(signal);
        self.stop.take().filter(is_of_job).is_some() && self.recipient().is_in_our_group()
    }

    pub(crate) fn recipient(&self) -> Recipient {
        Recipient { pid: self.pid, pidfd: self.pidfd.clone() }
    }

    fn reap(&mut self, options: i32) -> Result<Option<Exit>> {
        if self.exit.is_some() {
            return Ok(self.exit);
        }
        let mut status = 0;
        // SAFETY: `rusage` is plain numbers, for which zeros are fine.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both places are valid for the results.
        let pid = unsafe { libc::wait4(self.pid.cast_signed(), &mut status, options, &mut usage) };
        if pid < 0 {
            let error = io::Error::last_os_error();
            let is_interrupted = error.kind() == io::ErrorKind::Interrupted;
            return if is_interrupted { Ok(None) } else { Err(error).step("wait4") };
        }
        if pid > 0 && libc::WIFSTOPPED(status) {
            self.stop = Some(libc::WSTOPSIG(status));
        } else if pid > 0 {
            self.exit = Some(exit(status, &usage));
        }
        Ok(self.exit)
    }
}

fn exit(status: i32, usage: &libc::rusage) -> Exit {
    let microseconds = |time: libc::timeval| time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_usec.cast_unsigned();
    Exit {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        dumped_core: libc::WIFSIGNALED(status) && libc::WCOREDUMP(status),
        used: ResourceUse {
            user_us: microseconds(usage.ru_utime),
            system_us: microseconds(usage.ru_stime),
            max_resident_bytes: usage.ru_maxrss.cast_unsigned() * 1024,
            voluntary_switches: usage.ru_nvcsw.cast_unsigned(),
            involuntary_switches: usage.ru_nivcsw.cast_unsigned(),
        },
    }
}
