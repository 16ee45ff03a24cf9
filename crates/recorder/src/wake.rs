//! What ends a nap of the recording before its time: processes that join, translations that are
//! done, signals that ask for something, and children that stop.
//!
//! Whoever has something for the session writes a byte into a socket that the nap watches. The
//! target writes nothing: its ticks lie in shared memory until the session looks.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The end that wakes; may be handed to any thread.
#[derive(Debug, Clone)]
pub struct Waker {
    socket: Arc<UnixStream>,
}

/// The end that is waited for.
#[derive(Debug, Clone)]
pub struct Wakening {
    socket: Arc<UnixStream>,
}

/// Returns both ends.
pub fn pair() -> Result<(Waker, Wakening)> {
    let ends = || {
        let (from, to) = UnixStream::pair()?;
        from.set_nonblocking(true)?;
        to.set_nonblocking(true)?;
        Ok((Waker { socket: Arc::new(from) }, Wakening { socket: Arc::new(to) }))
    };
    ends().map_err(Error::io("cannot make a pair of sockets"))
}

impl Waker {
    /// Ends the present nap, or the next one.
    pub fn wake(&self) {
        // A socket that is full wakes all the same.
        let _ = (&*self.socket).write(&[0]);
    }

    /// Wakes at a signal, too.
    pub fn wake_at(&self, signal: i32) -> Result<()> {
        let listen = || {
            let socket = self.socket.try_clone()?;
            signal_hook::low_level::pipe::register(signal, socket)
        };
        listen().map(drop).map_err(Error::io("cannot listen to signals"))
    }
}

impl Wakening {
    /// Forgets what has woken so far.
    pub fn clear(&self) {
        let mut bytes = [0; 64];
        while matches!((&*self.socket).read(&mut bytes), Ok(1..)) {}
    }
}

impl AsFd for Wakening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_awake(wakening: &Wakening) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(wakening, PollFlags::IN)], Some(&at_once)) == Ok(1)
    }

    #[test]
    fn a_wake_lasts_until_it_is_cleared() {
        let (waker, wakening) = pair().unwrap();
        assert!(!is_awake(&wakening));
        (0..100_000).for_each(|_| waker.wake());
        assert!(is_awake(&wakening), "however many there were");
        wakening.clear();
        assert!(!is_awake(&wakening));
    }

    #[test]
    fn signals_wake() {
        let (waker, wakening) = pair().unwrap();
        waker.wake_at(signal_hook::consts::SIGWINCH).unwrap();
        signal_hook::low_level::raise(signal_hook::consts::SIGWINCH).unwrap();
        assert!(is_awake(&wakening));
    }
}
