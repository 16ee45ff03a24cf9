//! A stand-in for the agent: it answers [`wire::hello`], makes the shared memory, and afterwards
//! reads what the runtime left there.
//!
//! By default it has no copies, so that no burst ever starts; a test can fill the map and the
//! copies of the program itself.

use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use wire::clusters::{Cluster, LEADER, N_CLUSTERS, PROGRAM};
use wire::control::{Control, FILE_BYTES, MODULES_OFFSET, ModuleSlot, SYSTEM_CALLS_OFFSET, SYSTEM_CALLS_THAT_LEAVE};
use wire::exact::{AREA_BITS, CELLS};
use wire::hello::{Hello, Ready, Welcome, flag};
use wire::sample::SampleHeader;
use wire::thread::{AREA_BYTES, FIRST_SEGMENT, MAX_THREADS, N_SEGMENTS, SEGMENT_BYTES, ThreadHeader, segment_state};

use crate::maps;

/// Thread areas in exact mode.
const N_EXACT_AREAS: u32 = 64;
const COPY_BYTES: u64 = 1 << 20;

/// What the agent does with a process.
#[derive(Clone)]
pub struct Settings {
    pub interval_ns: u64,
    pub burst_checks: u32,
    pub follow: bool,
    pub no_op: bool,
    pub refuse: bool,
    /// Say nothing after the hello.
    pub mute: bool,
    /// Proposals with an address in use before a good one.
    pub bad_proposals: u32,
    /// Fills in copies, before the runtime is told that it may go on.
    pub copies: Option<fn(&mut Copies<'_>)>,
    pub exact: bool,
    /// Do not answer requests of exact mode.
    pub silent: bool,
}

impl Settings {
    pub fn fast() -> Settings {
        Settings {
            interval_ns: 1_000_000,
            burst_checks: 1000,
            follow: true,
            no_op: false,
            refuse: false,
            mute: false,
            bad_proposals: 0,
            copies: None,
            exact: false,
            silent: false,
        }
    }
}

/// The copies of the program in one process, for a test to fill in.
pub struct Copies<'a> {
    pub pid: i32,
    pub cluster: Cluster,
    bytes: &'a Mapping,
    map: &'a Mapping,
    control: &'a Mapping,
}

impl Copies<'_> {
    /// Writes bytes of the area of copies.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= COPY_BYTES as usize);
        // SAFETY: within the mapping.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes.at.add(offset), bytes.len()) };
    }

    /// Says that `original` has its twin at `offset`.
    pub fn map(&mut self, original: u64, offset: u32, is_leader: bool) {
        assert!(self.cluster.contains(original));
        let entry = offset | if is_leader { LEADER } else { 0 };
        // SAFETY: the map has an entry for each address of the cluster.
        unsafe { self.map.at.cast::<u32>().add((original - self.cluster.lo) as usize).write(entry) };
    }

    /// Describes the one module.
    pub fn module(&mut self, base: u64, code_bytes: u64, runs: &[wire::recovery::Run]) {
        let start = code_bytes.next_multiple_of(16);
        for (index, run) in runs.iter().enumerate() {
            // SAFETY: runs are plain data.
            let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(run).cast::<u8>(), size_of_val(run)) };
            self.write(start as usize + index * size_of_val(run), bytes);
        }
        // SAFETY: the slots lie in the control file.
        let slot = unsafe { &*self.control.at.add(MODULES_OFFSET as usize).cast::<ModuleSlot>() };
        slot.copy.store(self.cluster.copy_base, Relaxed);
        slot.copy_len.store(code_bytes, Relaxed);
        slot.runs.store(self.cluster.copy_base + start, Relaxed);
        slot.base.store(base, Relaxed);
        slot.n_runs.store(runs.len() as u64, Release);
        // SAFETY: as above.
        unsafe { &*self.control.at.cast::<Control>() }.modules.n_modules.store(1, Release);
    }
}

/// One sample, taken out of the shared memory.
#[derive(Clone, Debug)]
pub struct Sample {
    pub header: SampleHeader,
    pub stack: Vec<u8>,
    pub records: Vec<u32>,
}

/// A process that joined.
pub struct Process {
    pub hello: Hello,
    pub cluster: Cluster,
    control: Mapping,
    arena: Mapping,
    area_bytes: u64,
}

impl Process {
    pub fn control(&self) -> &Control {
        // SAFETY: mapped as long as the process is known.
        unsafe { &*self.control.at.cast() }
    }

    pub fn header(&self, index: usize) -> &ThreadHeader {
        // SAFETY: in the arena.
        unsafe { &*self.arena.at.add(index * self.area_bytes as usize).cast() }
    }

    pub fn ticks(&self) -> u64 {
        self.areas().map(|area| self.header(area).ticks.delivered.load(Relaxed)).sum()
    }

    pub fn ticks_in_burst(&self) -> u64 {
        self.areas().map(|area| self.header(area).ticks.in_burst.load(Relaxed)).sum()
    }

    /// A counter of exact mode, over all threads.
    pub fn cell(&self, index: u32) -> u64 {
        // SAFETY: in the arena, because exact mode is on.
        let of = |area| unsafe { self.arena.at.add(area * self.area_bytes as usize + CELLS as usize).cast::<u64>() };
        // SAFETY: cells are 8 bytes each.
        self.areas().map(|area| unsafe { of(area).add(index as usize).read_volatile() }).sum()
    }

    /// Does what the agent has to do in exact mode.
    fn answer(&self) {
        let control = self.control();
        control.exact.heartbeat.fetch_add(1, Relaxed);
        control.exact.answered.store(control.exact.requests.load(Acquire), Release);
        control.modules.unloads_cleared.store(control.modules.unloads.load(Acquire), Release);
    }

    fn areas(&self) -> std::ops::Range<usize> {
        0..self.control().threads.n_areas.load(Relaxed) as usize
    }

    /// Everything that was committed and is still there.
    pub fn samples(&self) -> Vec<Sample> {
        self.areas().flat_map(|area| (0..N_SEGMENTS).flat_map(move |segment| self.samples_of(area, segment))).collect()
    }

    fn samples_of(&self, area: usize, segment: usize) -> Vec<Sample> {
        let state = &self.header(area).stream.segments[segment];
        let mut samples = Vec::new();
        if state.state.load(Relaxed) == segment_state::FREE {
            return samples;
        }
        let start = area as u64 * self.area_bytes + FIRST_SEGMENT + segment as u64 * SEGMENT_BYTES;
        // SAFETY: the segment is in the arena.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.arena.at.add(start as usize), state.committed.load(Relaxed) as usize)
        };
        let mut at = 0;
        while at < bytes.len() {
            // SAFETY: headers are plain data; the slice check below proves that it is inside.
            let header: SampleHeader = unsafe { bytes[at..].as_ptr().cast::<SampleHeader>().read() };
            assert!(header.size >= size_of::<SampleHeader>() as u32 && at + header.size as usize <= bytes.len());
            let stack = at + size_of::<SampleHeader>();
            let records = stack + header.stack_bytes as usize;
            samples.push(Sample {
                header,
                stack: bytes[stack..records].to_vec(),
                records: bytes[records..records + 4 * header.n_records as usize]
                    .as_chunks()
                    .0
                    .iter()
                    .map(|&record| u32::from_le_bytes(record))
                    .collect(),
            });
            at += header.size as usize;
        }
        samples
    }
}

struct Mapping {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: memory shared between processes anyway; every use is through atomics or after the writer
// has ended.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn of(file: &OwnedFd, bytes: u64) -> Mapping {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes as usize, prot, flags, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Mapping { at: at.cast(), bytes: bytes as usize }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing else points into it.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

/// The agent, in a thread of its own.
pub struct Agent {
    name: String,
    settings: Settings,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    stopped: AtomicBool,
    processes: Mutex<Vec<Process>>,
    failures: Mutex<Vec<Ready>>,
}

impl Agent {
    pub fn start(settings: Settings) -> Agent {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("strobe-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let listener = listen(&name).expect("an abstract socket");
        let shared = Arc::new(Shared {
            stopped: AtomicBool::new(false),
            processes: Mutex::default(),
            failures: Mutex::default(),
        });
        let thread = std::thread::spawn({
            let (shared, settings) = (Arc::clone(&shared), settings.clone());
            move || serve(&listener, &shared, &settings)
        });
        Agent { name, settings, shared, thread: Mutex::new(Some(thread)) }
    }

    /// The value of the environment variable.
    pub fn session(&self, runtime: &Path) -> String {
        let mut flags = String::new();
        for (is_set, letter) in [(self.settings.follow, flag::FOLLOW), (self.settings.no_op, flag::NO_OP)] {
            if is_set {
                flags.push(char::from(letter));
            }
        }
        format!("{};{};{flags}", self.name, runtime.display())
    }

    pub fn stop(&self) {
        self.shared.stopped.store(true, Relaxed);
        if let Some(thread) = self.thread.lock().expect("not poisoned").take() {
            thread.join().expect("the agent's thread did not panic");
        }
    }

    /// Looks at the processes that joined, in the order in which they did.
    pub fn with_processes<T>(&self, look: impl FnOnce(&[Process]) -> T) -> T {
        look(&self.shared.processes.lock().expect("not poisoned"))
    }

    /// Mappings that failed.
    pub fn failures(&self) -> Vec<Ready> {
        self.shared.failures.lock().expect("not poisoned").clone()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Relaxed);
    }
}

fn listen(name: &str) -> io::Result<OwnedFd> {
    // SAFETY: plain socket calls on complete structures.
    unsafe {
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(socket);
        let mut address: libc::sockaddr_un = zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let len = 2 + 1 + name.len();
        if libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len as u32) != 0
            || libc::listen(socket.as_raw_fd(), 128) != 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(socket)
    }
}

fn serve(listener: &OwnedFd, shared: &Shared, settings: &Settings) {
    while !shared.stopped.load(Relaxed) {
        let mut poll = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        if settings.exact && !settings.silent {
            shared.processes.lock().expect("not poisoned").iter().for_each(Process::answer);
        }
        let timeout_ms = if settings.exact { 1 } else { 5 };
        // SAFETY: one complete structure.
        if unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } <= 0 {
            continue;
        }
        // SAFETY: a listening socket.
        let connection = unsafe {
            let fd =
                libc::accept4(listener.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC);
            OwnedFd::from_raw_fd(fd)
        };
        welcome(&connection, shared, settings);
    }
}

fn receive<T: Copy + Default>(connection: &OwnedFd) -> Option<T> {
    let mut message = T::default();
    // SAFETY: the message is plain data.
    let got = unsafe { libc::recv(connection.as_raw_fd(), (&raw mut message).cast(), size_of::<T>(), 0) };
    (got == size_of::<T>() as isize).then_some(message)
}

fn welcome(connection: &OwnedFd, shared: &Shared, settings: &Settings) {
    let Some(hello) = receive::<Hello>(connection) else { return };
    if settings.mute {
        while !shared.stopped.load(Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        return;
    }
    let mut message = Welcome { version: wire::VERSION, refused: settings.refuse.into(), ..Welcome::default() };
    if settings.refuse {
        send(connection, &message, &[]);
        return;
    }
    let (area_bits, n_areas) =
        if settings.exact { (AREA_BITS, N_EXACT_AREAS) } else { (AREA_BYTES.ilog2(), MAX_THREADS as u32) };
    let arena_bytes = u64::from(n_areas) << area_bits;
    (message.area_bits, message.n_areas) = (area_bits, n_areas);
    let control_file = memory_file(FILE_BYTES);
    let arena_file = memory_file(arena_bytes);
    let control = Mapping::of(&control_file, FILE_BYTES);
    let arena = Mapping::of(&arena_file, arena_bytes);
    fill_control(&control, &hello, settings);
    let mut files = vec![control_file, arena_file];
    let mut cluster = Cluster::default();
    let mut memory = None;
    if hello.is_fork != 0 {
        message.shares_copies = 1;
    } else {
        cluster = program_cluster(hello.pid as i32);
        message.clusters[PROGRAM] = cluster;
        files.push(memory_file(COPY_BYTES));
        files.push(memory_file(cluster.span * 4));
        let (bytes, map) = (Mapping::of(&files[2], COPY_BYTES), Mapping::of(&files[3], cluster.span * 4));
        if let Some(fill) = settings.copies {
            fill(&mut Copies { pid: hello.pid as i32, cluster, bytes: &bytes, map: &map, control: &control });
        }
        memory = Some((bytes, map));
    }
    message.n_files = files.len() as u32;
    for _ in 0..settings.bad_proposals {
        let in_use = Welcome { control: cluster.lo, ..message };
        send(connection, &in_use, &files);
        let Some(ready) = receive::<Ready>(connection) else { return };
        shared.failures.lock().expect("not poisoned").push(ready);
    }
    send(connection, &message, &files);
    let Some(ready) = receive::<Ready>(connection) else { return };
    drop(memory);
    if ready.error == 0 {
        shared.processes.lock().expect("not poisoned").push(Process {
            hello,
            cluster,
            control,
            arena,
            area_bytes: 1 << area_bits,
        });
    } else {
        shared.failures.lock().expect("not poisoned").push(ready);
    }
}

fn fill_control(control: &Mapping, hello: &Hello, settings: &Settings) {
    let file = control.at;
    // SAFETY: the file is large enough for everything that the layout says is in it, and nobody
    // else has it yet.
    unsafe {
        let control = &mut *file.cast::<Control>();
        control.identity.version = wire::VERSION;
        control.identity.pid = hello.pid;
        *control.settings.enabled.get_mut() = 1;
        *control.exact.is_on.get_mut() = settings.exact.into();
        *control.settings.burst_checks.get_mut() = settings.burst_checks;
        *control.settings.tick_interval_ns.get_mut() = settings.interval_ns;
        *control.settings.stack_bytes.get_mut() = 4096;
        *control.settings.samples.get_mut() = 1;
        *control.settings.stride.get_mut() = 1;
        for number in SYSTEM_CALLS_THAT_LEAVE {
            *file.add(SYSTEM_CALLS_OFFSET as usize + usize::from(number)) = 1;
        }
    }
}

/// The program of process `pid`, with room for copies below it.
fn program_cluster(pid: i32) -> Cluster {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).expect("the process lives");
    let (lo, end) = maps::range_of(pid, &program).expect("the program is mapped");
    let copy_base = lo - (256 << 20);
    Cluster {
        lo,
        span: end - lo,
        map: lo - (1 << 30),
        checking_map: 0,
        leader_base: copy_base.wrapping_sub(u64::from(LEADER)),
        copy_base,
        copy_len: COPY_BYTES,
    }
}

fn memory_file(bytes: u64) -> OwnedFd {
    // SAFETY: a new descriptor.
    let file = unsafe { libc::memfd_create(c"strobe-test".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(file >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the descriptor is new.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(file) });
    file.set_len(bytes).expect("a sparse file");
    file.into()
}

fn send(connection: &OwnedFd, message: &Welcome, files: &[OwnedFd]) {
    let descriptors: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let mut part =
        libc::iovec { iov_base: std::ptr::from_ref(message).cast_mut().cast(), iov_len: size_of::<Welcome>() };
    let mut rights = [0u64; 8];
    // SAFETY: the structures are complete, and the buffer has room for the descriptors.
    unsafe {
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !descriptors.is_empty() {
            let bytes = size_of_val(&descriptors[..]) as u32;
            header.msg_control = rights.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(bytes) as usize;
            let message = &mut *libc::CMSG_FIRSTHDR(&raw const header);
            message.cmsg_level = libc::SOL_SOCKET;
            message.cmsg_type = libc::SCM_RIGHTS;
            message.cmsg_len = libc::CMSG_LEN(bytes) as usize;
            std::ptr::copy_nonoverlapping(descriptors.as_ptr(), libc::CMSG_DATA(message).cast(), descriptors.len());
        }
        libc::sendmsg(connection.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL);
    }
}

const _: () = assert!(N_CLUSTERS >= 1);
