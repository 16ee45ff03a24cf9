//! How a process joins: the agent's side of `wire::hello`.
//!
//! The process waits while this runs, so its address space holds still, but for threads that other
//! libraries may have started before. If one of them maps something where a file was to go, the
//! process says so and gets another offer.
//!
//! Whatever goes wrong, the last word to the process is a refusal, and it runs on unprofiled.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use wire::hello::{Hello, LeftAlone, N_FILES, Ready, Welcome};

use crate::area::{Arena, Shape};
use crate::control::ControlFile;
use crate::copies::Copies;
use crate::error::{Error, Result, Step};
use crate::layout::{self, Layout};
use crate::maps::{self, Mapping};
use crate::modules::{self, Surroundings};
use crate::process::{Identity, Process, open_pidfd, program_link};
use crate::settings::Settings;

/// How long to wait for each message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_OFFERS: usize = 3;

/// A connection to a process that wants to join.
#[derive(Debug)]
pub(crate) struct Applicant {
    socket: OwnedFd,
    pub(crate) pid: u32,
    uid: u32,
}

/// Memory for a process, not yet mapped there.
struct Offer {
    layout: Layout,
    control: Arc<ControlFile>,
    arena: Arena,
    copies: Arc<Copies>,
    files: Vec<OwnedFd>,
    shares_copies: bool,
}

impl Applicant {
    /// Takes a connection, and the word of the kernel for who it is.
    pub(crate) fn new(socket: OwnedFd) -> Result<Applicant> {
        set_socket_timeout(&socket, Timeout::Recv, Some(MESSAGE_TIMEOUT)).step("socket")?;
        set_socket_timeout(&socket, Timeout::Send, Some(MESSAGE_TIMEOUT)).step("socket")?;
        let (pid, uid) = peer(socket.as_fd()).step("credentials of the process")?;
        Ok(Applicant { socket, pid, uid })
    }

    /// Does the whole handshake. `copies_of` gives the copies of a process that is in the session.
    pub(crate) fn join(&self, settings: &Settings, copies_of: &dyn Fn(u32) -> Option<Arc<Copies>>) -> Result<Process> {
        let joined = self.try_join(settings, copies_of);
        if joined.is_err() {
            let refusal = Welcome { version: wire::VERSION, refused: 1, ..Welcome::default() };
            // The process may be gone, or not have got so far as to listen.
            let _ = self.send(&refusal, &[]);
        }
        joined
    }

    fn try_join(&self, settings: &Settings, copies_of: &dyn Fn(u32) -> Option<Arc<Copies>>) -> Result<Process> {
        if self.uid != rustix::process::geteuid().as_raw() {
            return Err(Error::OtherUser { uid: self.uid });
        }
        if self.pid == 0 {
            return Err(Error::Invisible);
        }
        let hello = parse_hello(&self.receive()?);
        if hello.version != wire::VERSION {
            return Err(Error::Version { theirs: hello.version });
        }
        if let Some(reason) = LeftAlone::from_u32(hello.left_alone) {
            return Err(Error::LeftAlone { program: program_link(self.pid)?, reason });
        }
        let parent = (hello.is_fork != 0).then_some(hello.parent_pid);
        let inherited = parent.map(|parent| copies_of(parent).ok_or(Error::UnknownParent { parent })).transpose()?;
        let identity = Identity {
            pid: self.pid,
            parent,
            first_tid: hello.tid,
            runtime_address: hello.runtime_address,
            program: program_link(self.pid)?,
            pidfd: open_pidfd(self.pid)?,
        };
        let mut refusal = None;
        for _ in 0..MAX_OFFERS {
            let offer = Offer::new(&identity, settings, inherited.as_ref())?;
            self.send(&offer.welcome(), &offer.files)?;
            let ready = parse_ready(&self.receive()?);
            if ready.error == 0 {
                return Ok(Process::new(identity, offer.control, offer.arena, offer.copies));
            }
            let cause = io::Error::from_raw_os_error(ready.error.try_into().unwrap_or(0));
            let is_in_the_way = cause.kind() == io::ErrorKind::AlreadyExists;
            refusal = Some(Error::TargetMapping { file: ready.failed_file, cause });
            if !is_in_the_way {
                break;
            }
        }
        Err(refusal.unwrap_or(Error::NoRoom))
    }

    fn receive<const N: usize>(&self) -> Result<[u8; N]> {
        let mut message = [0; N];
        let (_, got) =
            retry(|| rustix::net::recv(&self.socket, &mut message, RecvFlags::TRUNC)).step("message of the process")?;
        match got {
            0 => Err(Error::Left),
            _ if got == N => Ok(message),
            _ => Err(Error::BadMessage { got, expected: N }),
        }
    }

    fn send(&self, welcome: &Welcome, files: &[OwnedFd]) -> Result<()> {
        let bytes = welcome_bytes(welcome);
        let fds: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(N_FILES))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        }
        retry(|| rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL))
            .step("answer to the process")?;
        Ok(())
    }
}

impl Offer {
    fn new(identity: &Identity, settings: &Settings, inherited: Option<&Arc<Copies>>) -> Result<Offer> {
        let maps = maps::of_process(identity.pid)?;
        let shape = if settings.mode.is_exact() { Shape::EXACT } else { Shape::BURSTS };
        let layout = choose_layout(identity, &maps, inherited, shape)?;
        let (control, control_file) = ControlFile::create(identity.pid, settings)?;
        let (arena, arena_file) = Arena::create(shape)?;
        let control = Arc::new(control);
        let mut files = vec![control_file, arena_file];
        let copies = match inherited {
            Some(copies) => copies.clone(),
            None => {
                let (copies, more) = Copies::create(layout.clusters)?;
                files.extend(more);
                Arc::new(copies)
            }
        };
        copies.share_with(identity.pid, &control, &maps)?;
        Ok(Offer { layout, control, arena, copies, files, shares_copies: inherited.is_some() })
    }

    fn welcome(&self) -> Welcome {
        Welcome {
            version: wire::VERSION,
            refused: 0,
            n_files: self.files.len() as u32,
            shares_copies: self.shares_copies.into(),
            area_bits: self.arena.shape().area_bits,
            n_areas: self.arena.shape().n_areas as u32,
            control: self.layout.control,
            arena: self.layout.arena,
            clusters: self.layout.clusters,
        }
    }
}

fn choose_layout(
    identity: &Identity,
    maps: &[Mapping],
    inherited: Option<&Arc<Copies>>,
    shape: Shape,
) -> Result<Layout> {
    if let Some(copies) = inherited {
        return layout::choose_for_fork(maps, copies.clusters, shape).ok_or(Error::NoRoom);
    }
    let around = Surroundings { program: &identity.program, runtime_address: identity.runtime_address, clusters: &[] };
    let read = &mut |mapping: &Mapping| modules::segments_of_mapped_file(identity.pid, mapping);
    layout::choose(maps, &modules::modules(maps, around, read), shape).ok_or(Error::NoRoom)
}

/// Process and user at the other end of a socket. The process is 0 if it is in a name space that
/// cannot be seen from here.
fn peer(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let place = (&raw mut credentials).cast();
    // SAFETY: `place` and `len` describe a valid, writable `ucred`.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, place, &mut len) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((credentials.pid.try_into().unwrap_or(0), credentials.uid))
}

pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other,
        }
    }
}

fn parse_hello(message: &[u8; size_of::<Hello>()]) -> Hello {
    let words = words(message);
    let low = |index: usize| words[index] as u32;
    let high = |index: usize| (words[index] >> 32) as u32;
    Hello {
        version: low(0),
        is_fork: high(0),
        pid: low(1),
        parent_pid: high(1),
        tid: low(2),
        left_alone: high(2),
        runtime_address: words[3],
    }
}

fn parse_ready(message: &[u8; size_of::<Ready>()]) -> Ready {
    let words = words(message);
    Ready { error: words[0] as u32, failed_file: (words[0] >> 32) as u32, control: words[1], arena: words[2] }
}

fn words(message: &[u8]) -> Vec<u64> {
    message.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

fn welcome_bytes(welcome: &Welcome) -> Vec<u8> {
    let halves =
        [welcome.version, welcome.refused, welcome.n_files, welcome.shares_copies, welcome.area_bits, welcome.n_areas];
    let clusters = welcome.clusters.iter().flat_map(|each| {
        let maps = [each.map, each.checking_map];
        [each.lo, each.span].into_iter().chain(maps).chain([each.leader_base, each.copy_base, each.copy_len])
    });
    let wholes = [welcome.control, welcome.arena].into_iter().chain(clusters);
    halves.into_iter().flat_map(u32::to_le_bytes).chain(wholes.flat_map(u64::to_le_bytes)).collect()
}
