//! Joining a session: the runtime's side of [`wire::hello`].
//!
//! The socket and the descriptors that come over it live only while this runs; the program never
//! finds one of them. Whatever goes wrong, the process is left as it was and runs unprofiled. A
//! silent agent costs it two seconds, once.

use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;

use wire::clusters::{Cluster, N_CLUSTERS};
use wire::control::{Control, FILE_BYTES};
use wire::hello::{Hello, LeftAlone, N_FILES, Ready, Welcome};

use crate::process::environment;
use crate::process::session::{self, Layout};
use crate::statics::AGENT_SIDE_PID;
use crate::sys::abi::{Iovec, MessageHeader, Timeval};
use crate::sys::syscall::mapping::{FIXED_NO_REPLACE, NO_RESERVE, SHARED};
use crate::sys::syscall::protection::{EXECUTE, READ, WRITE};
use crate::sys::syscall::{self, Advice, Errno, SocketTimeout};

/// How often the agent may propose addresses.
const MAX_PROPOSALS: usize = 8;
const TIMEOUT: Timeval = Timeval { seconds: 2, microseconds: 0 };

/// How the process came to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// By `exec`.
    Program,
    /// By `fork`, from a process that had joined.
    Fork,
}

/// Joins the session. Returns whether the process is attached now.
pub fn join(origin: Origin) -> bool {
    session::prepare().is_ok() && Socket::connect().is_ok_and(|socket| negotiate(&socket, origin).is_ok())
}

/// Tells the agent why the process does not join.
pub fn decline(reason: LeftAlone) {
    let Ok(socket) = Socket::connect() else { return };
    // The agent looks at the process before it answers.
    let _ = socket.send(&Hello { left_alone: reason as u32, ..hello(Origin::Program) }).and_then(|()| socket.receive());
}

fn negotiate(socket: &Socket, origin: Origin) -> Result<(), Errno> {
    socket.send(&hello(origin))?;
    for _ in 0..MAX_PROPOSALS {
        let (welcome, files) = socket.receive()?;
        if welcome.version != wire::VERSION || welcome.refused != 0 {
            return Err(Errno::INVALID);
        }
        match Mapping::make(&welcome, &files) {
            Ok(mapping) => {
                let ready = Ready { control: mapping.control, arena: mapping.arena, ..Ready::default() };
                if let Err(error) = mapping.check().and_then(|()| socket.send(&ready)) {
                    mapping.undo();
                    return Err(error);
                }
                mapping.keep();
                return Ok(());
            }
            Err((error, index)) => {
                socket.send(&Ready { error: error.0, failed_file: index as u32, ..Ready::default() })?;
            }
        }
    }
    Err(Errno::EXISTS)
}

fn hello(origin: Origin) -> Hello {
    Hello {
        version: wire::VERSION,
        is_fork: (origin == Origin::Fork).into(),
        pid: syscall::getpid(),
        parent_pid: if origin == Origin::Fork { AGENT_SIDE_PID.load(Relaxed) } else { 0 },
        tid: syscall::gettid(),
        left_alone: 0,
        runtime_address: join as *const () as u64,
    }
}

/// A connection to the agent, closed when dropped.
struct Socket(i32);

impl Drop for Socket {
    fn drop(&mut self) {
        syscall::close(self.0);
    }
}

impl Socket {
    fn connect() -> Result<Socket, Errno> {
        const UNIX: u8 = 1;
        let name = environment::socket_name();
        let mut address = [0u8; 110];
        address[0] = UNIX;
        // The name of an abstract socket starts with a NUL.
        let place = address.get_mut(3..3 + name.len()).ok_or(Errno::INVALID)?;
        place.copy_from_slice(name);
        let socket = Socket(syscall::unix_socket()?);
        for which in [SocketTimeout::Receive, SocketTimeout::Send] {
            syscall::set_socket_timeout(socket.0, which, &TIMEOUT)?;
        }
        syscall::connect(socket.0, &address[..3 + name.len()])?;
        Ok(socket)
    }

    fn send<T: Copy>(&self, message: &T) -> Result<(), Errno> {
        let sent = syscall::send(self.0, message)?;
        if sent == size_of::<T>() { Ok(()) } else { Err(Errno::INVALID) }
    }

    fn receive(&self) -> Result<(Welcome, Files), Errno> {
        let mut welcome = Welcome::default();
        let mut rights = Rights::default();
        let part = Iovec { base: &raw mut welcome as u64, len: size_of::<Welcome>() as u64 };
        let mut header = MessageHeader {
            parts: &raw const part as u64,
            n_parts: 1,
            control: &raw mut rights as u64,
            control_len: size_of::<Rights>() as u64,
            ..MessageHeader::default()
        };
        // SAFETY: the kernel writes within the message and the rights.
        let got = unsafe { syscall::receive(self.0, &mut header) }?;
        let files = rights.files(header.control_len);
        if got != size_of::<Welcome>() || files.count != (welcome.n_files as usize) {
            return Err(Errno::INVALID);
        }
        Ok((welcome, files))
    }
}

/// An `SCM_RIGHTS` control message.
#[repr(C)]
#[derive(Default)]
struct Rights {
    len: u64,
    level: i32,
    kind: i32,
    descriptors: [i32; N_FILES],
}

impl Rights {
    fn files(&self, control_len: u64) -> Files {
        const SOL_SOCKET: i32 = 1;
        const SCM_RIGHTS: i32 = 1;
        let start = offset_of!(Rights, descriptors) as u64;
        let count = if control_len < start || self.level != SOL_SOCKET || self.kind != SCM_RIGHTS {
            0
        } else {
            (self.len.min(control_len).saturating_sub(start) / 4).min(N_FILES as u64)
        };
        Files { descriptors: self.descriptors, count: count as usize }
    }
}

/// Descriptors from the agent, closed when dropped.
struct Files {
    descriptors: [i32; N_FILES],
    count: usize,
}

impl Files {
    fn get(&self, index: usize) -> Result<i32, (Errno, usize)> {
        self.descriptors[..self.count].get(index).copied().ok_or((Errno::INVALID, index))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for &descriptor in &self.descriptors[..self.count] {
            syscall::close(descriptor);
        }
    }
}

/// The first two files of a welcome; copies and maps follow.
const CONTROL_FILE: usize = 0;
const ARENA_FILE: usize = 1;

/// Everything that a session needs, mapped.
struct Mapping {
    control: u64,
    arena: u64,
    layout: Layout,
    clusters: Option<[Cluster; N_CLUSTERS]>,
    /// Address and size of each mapping.
    made: [(u64, u64); N_FILES],
}

impl Mapping {
    fn make(welcome: &Welcome, files: &Files) -> Result<Mapping, (Errno, usize)> {
        if syscall::address_space_is_limited() {
            return Err((Errno::NO_MEMORY, 0));
        }
        let mut mapping = Mapping {
            control: 0,
            arena: 0,
            layout: Layout::of(welcome).map_err(|error| (error, ARENA_FILE))?,
            clusters: (welcome.shares_copies == 0).then_some(welcome.clusters),
            made: [(0, 0); N_FILES],
        };
        let result = mapping.fill(welcome, files);
        if result.is_err() {
            mapping.undo();
        }
        result.map(|()| mapping)
    }

    fn fill(&mut self, welcome: &Welcome, files: &Files) -> Result<(), (Errno, usize)> {
        self.control = self.map(CONTROL_FILE, files, welcome.control, FILE_BYTES, READ | WRITE)?;
        self.arena = self.map(ARENA_FILE, files, welcome.arena, self.layout.arena_bytes(), READ | WRITE)?;
        for index in [CONTROL_FILE, ARENA_FILE] {
            let (at, bytes) = self.made[index];
            // SAFETY: concerns only children and the mapping just made.
            unsafe { syscall::madvise(at, bytes, Advice::DontFork) }.map_err(|error| (error, index))?;
        }
        let mut next = 2;
        let clusters = self.clusters.unwrap_or_default();
        for cluster in clusters.iter().filter(|cluster| cluster.span != 0) {
            self.map(next, files, cluster.copy_base, cluster.copy_len, READ | EXECUTE)?;
            self.map(next + 1, files, cluster.map, cluster.maps_bytes(), READ)?;
            next += 2;
        }
        Ok(())
    }

    fn map(
        &mut self,
        index: usize,
        files: &Files,
        at: u64,
        bytes: u64,
        protection: usize,
    ) -> Result<u64, (Errno, usize)> {
        let file = files.get(index)?;
        let fixed = if at == 0 { 0 } else { FIXED_NO_REPLACE };
        // SAFETY: replaces nothing; a kernel that does not know the flag takes the address as a
        // hint, which is noticed.
        unsafe {
            let got = syscall::mmap(at, bytes, protection, SHARED | NO_RESERVE | fixed, file)
                .map_err(|error| (error, index))?;
            if at != 0 && got != at {
                syscall::munmap(got, bytes);
                return Err((Errno::EXISTS, index));
            }
            self.made[index] = (got, bytes);
            let _ = syscall::madvise(got, bytes, Advice::DontDump);
            Ok(got)
        }
    }

    /// Returns whether the control file is one of ours.
    fn check(&self) -> Result<(), Errno> {
        // SAFETY: mapped, and large enough.
        let version = unsafe { (*(self.control as *const Control)).identity.version };
        if version == wire::VERSION { Ok(()) } else { Err(Errno::INVALID) }
    }

    fn undo(&self) {
        for &(at, bytes) in self.made.iter().filter(|&&(_, bytes)| bytes != 0) {
            // SAFETY: nobody has been told of the mapping.
            unsafe { syscall::munmap(at, bytes) };
        }
    }

    fn keep(&self) {
        let control = self.control as *mut Control;
        // SAFETY: everything is mapped for good, and no session is in use.
        unsafe {
            AGENT_SIDE_PID.store((*control).identity.pid, Relaxed);
            session::attach(control, self.arena, self.layout, self.clusters.as_ref());
        }
    }
}
