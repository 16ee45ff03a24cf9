//! The socket on which processes join.
//!
//! Its name is in the abstract name space, so that nothing is left on disk and a program that
//! changes its root directory can still join, and random, so that it cannot be occupied in advance.
//! Whoever connects must belong to the agent's user.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::copies::Copies;
use crate::error::{Error, Result, Step};
use crate::join::{Applicant, retry};
use crate::process::Process;
use crate::settings::Settings;

/// Processes that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Where processes join the session.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    name: String,
    stop: OwnedFd,
    /// Copies of the processes that have joined, for the children that they fork.
    copies: Mutex<HashMap<u32, Weak<Copies>>>,
}

/// The outcome of waiting for a process.
#[derive(Debug)]
#[non_exhaustive]
pub enum Joined {
    /// A process has joined.
    Process(Box<Process>),
    /// A process wanted to join and now runs unprofiled.
    Refused {
        /// Its id; 0 if it is not visible.
        pid: u32,
        /// Why.
        error: Error,
    },
    /// [`Listener::stop`] was called.
    Stopped,
}

impl Listener {
    /// Opens a socket with a new name.
    ///
    /// # Errors
    /// When the system has no socket to give.
    pub fn bind() -> Result<Listener> {
        let name = format!("strobe-{:032x}", random()?);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).step("socket")?;
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).step("name of the socket")?;
        rustix::net::bind(&socket, &address).step("bind")?;
        rustix::net::listen(&socket, BACKLOG).step("listen")?;
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).step("eventfd")?;
        Ok(Listener { socket, name, stop, copies: Mutex::default() })
    }

    /// Returns the name of the socket, without the leading zero byte.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for a process to say hello, and does the handshake with it. The process starts with
    /// `settings`.
    ///
    /// # Errors
    /// When the socket itself fails. What is wrong with one process is not an error but
    /// [`Joined::Refused`].
    pub fn accept(&self, settings: &Settings) -> Result<Joined> {
        let Some(socket) = self.wait()? else { return Ok(Joined::Stopped) };
        let applicant = match Applicant::new(socket) {
            Ok(applicant) => applicant,
            Err(error) => return Ok(Joined::Refused { pid: 0, error }),
        };
        Ok(match applicant.join(settings, &|pid| self.copies_of(pid)) {
            Ok(process) => {
                self.remember(&process);
                Joined::Process(Box::new(process))
            }
            Err(error) => Joined::Refused { pid: applicant.pid, error },
        })
    }

    /// Makes this and every later [`Listener::accept`] return [`Joined::Stopped`].
    pub fn stop(&self) {
        // The counter of an eventfd that is never read can only fail to take more, and then it is
        // readable already.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    fn wait(&self) -> Result<Option<OwnedFd>> {
        loop {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            retry(|| rustix::event::poll(&mut fds, None)).step("poll")?;
            if !fds[1].revents().is_empty() {
                return Ok(None);
            }
            match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => return Ok(Some(socket)),
                // The process has given up, or another thread was faster.
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN | rustix::io::Errno::CONNABORTED) => {}
                Err(error) => return Err(error).step("accept"),
            }
        }
    }

    fn copies_of(&self, pid: u32) -> Option<Arc<Copies>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).get(&pid)?.upgrade()
    }

    fn remember(&self, process: &Process) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.retain(|_, each| each.strong_count() != 0);
        copies.insert(process.pid(), Arc::downgrade(process.copies()));
    }
}

fn random() -> Result<u128> {
    let mut bytes = [0; 16];
    let got = retry(|| rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())).step("getrandom")?;
    debug_assert_eq!(got, bytes.len(), "the kernel gives up to 256 bytes at once");
    Ok(u128::from_ne_bytes(bytes))
}
