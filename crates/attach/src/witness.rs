//! Whether a signal that reached this process was sent to its whole process group.
//!
//! The system does not tell a receiver: `kill -INT PID` and `kill -INT -GROUP` come with the same
//! information. So there is a witness, a process of the same group that is nobody's aim by itself.
//! It blocks the signals in question and, when asked, says which of them are waiting for it, and
//! forgets them. The system sends to a group in one go, the youngest member first, so that what has
//! reached the older process is waiting for the younger one.
//!
//! The witness is a fork that executes nothing else: it makes system calls only, holds no file but
//! its socket, and dies with its parent. It has another name and no command line, so that `pkill
//! strobe` does not aim at it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::signal_set::{change_mask, signal_set};

/// A witness that takes longer is stopped. One that is gone is noticed at once.
const TIMEOUT: Duration = Duration::from_secs(10);
const NAME: &std::ffi::CStr = c"signal-witness";

/// The process.
#[derive(Debug)]
pub(crate) struct Witness {
    socket: OwnedFd,
    pid: libc::pid_t,
}

impl Witness {
    /// Starts it. Bit `n - 1` of `signals` is for signal `n`; none of them may be in use for
    /// anything but this in the calling thread.
    pub(crate) fn start(signals: u64) -> io::Result<Witness> {
        let flags = SocketFlags::CLOEXEC;
        let (socket, far_end) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let command_line = command_line();
        let set = signal_set(signals);
        // SAFETY: no memory is involved.
        let parent = unsafe { libc::getpid() };
        // Blocked before there is a second process, so that it never runs a handler of the first.
        let before = change_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: the child makes only system calls, on what lies on its stack, and never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            witness(far_end.as_raw_fd(), parent, &set, command_line);
        }
        let error = io::Error::last_os_error();
        change_mask(libc::SIG_SETMASK, &before)?;
        if pid < 0 { Err(error) } else { Ok(Witness { socket, pid }) }
    }

    /// Returns the signals that have reached it since the last time. `None`: it does not answer.
    pub(crate) fn ask(&self) -> Option<u64> {
        rustix::io::write(&self.socket, &[0]).ok()?;
        let timeout = Timespec { tv_sec: TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let n_ready = crate::join::retry(|| poll(&mut fds, Some(&timeout))).ok()?;
        let mut answer = [0; 8];
        let is_whole = n_ready == 1 && rustix::io::read(&self.socket, &mut answer) == Ok(answer.len());
        is_whole.then(|| u64::from_ne_bytes(answer))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: our child, which nobody else waits for, so that the number is its own.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// The life of the witness.
fn witness(socket: i32, parent: libc::pid_t, set: &libc::sigset_t, command_line: std::ops::Range<u64>) -> ! {
    // SAFETY: this process has one thread and shares no memory. The range is that of the command
    // line, as the kernel made it, which nothing here reads.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(0);
        }
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        let length = command_line.end.saturating_sub(command_line.start) as usize;
        std::ptr::write_bytes(std::ptr::without_provenance_mut::<u8>(command_line.start as usize), 0, length);
        libc::dup2(socket, 0);
        // It must not keep the far end of somebody's pipe.
        if libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0) != 0 {
            libc::_exit(0);
        }
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let mut question = 0u8;
        while libc::read(0, (&raw mut question).cast(), 1) == 1 {
            let mut seen = 0u64;
            loop {
                let signal = libc::sigtimedwait(set, std::ptr::null_mut(), &at_once);
                if signal <= 0 {
                    break;
                }
                seen |= 1 << (signal - 1);
            }
            if libc::write(0, (&raw const seen).cast(), size_of::<u64>()) < 0 {
                break;
            }
        }
        libc::_exit(0);
    }
}

/// Returns where the command line of this process is in its memory; nowhere, if the system does not
/// say.
fn command_line() -> std::ops::Range<u64> {
    // By the numbers of proc(5), which start at 1; what follows the name is the third.
    const START: usize = 48 - 3;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
    let numbers: Vec<u64> = fields.skip(START).take(2).filter_map(|field| field.parse().ok()).collect();
    if let [start, end] = numbers[..] { start..end } else { 0..0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one test, because signals are a matter of the whole process.
    #[test]
    fn it_tells_a_group_from_a_process() {
        const WINDOW: u64 = 1 << (libc::SIGWINCH - 1);
        let witness = Witness::start(WINDOW).unwrap();
        assert_eq!(witness.ask(), Some(0));
        // SAFETY: the signal is ignored by default in whatever else is in the group.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGWINCH);
            assert_eq!(witness.ask(), Some(0));
            libc::kill(0, libc::SIGWINCH);
        }
        assert_eq!(witness.ask(), Some(WINDOW));
        assert_eq!(witness.ask(), Some(0));
        let of = |name: &str| std::fs::read(format!("/proc/{}/{name}", witness.pid)).unwrap();
        assert_eq!(of("comm"), b"signal-witness\n");
        assert!(of("cmdline").iter().all(|&byte| byte == 0));
        assert_eq!(std::fs::read_dir(format!("/proc/{}/fd", witness.pid)).unwrap().count(), 1);
        // SAFETY: our child.
        unsafe { libc::kill(witness.pid, libc::SIGKILL) };
        assert_eq!(witness.ask(), None);
    }
}
