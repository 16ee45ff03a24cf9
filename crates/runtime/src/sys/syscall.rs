//! System calls, one function for each, without libc: nothing here touches `errno`, takes a lock or
//! can be interposed.

use core::arch::asm;
use core::sync::atomic::AtomicU32;

use crate::sys::abi::{
    KernelSigAction, MessageHeader, SigInfo, SignalEvent, SignalStack, TimerSetting, Timespec, Timeval,
};

/// Numbers of system calls.
pub mod number {
    pub const READ: u64 = 0;
    pub const CLOSE: u64 = 3;
    pub const FSTAT: u64 = 5;
    pub const MMAP: u64 = 9;
    pub const MPROTECT: u64 = 10;
    pub const MUNMAP: u64 = 11;
    pub const RT_SIGACTION: u64 = 13;
    pub const RT_SIGPROCMASK: u64 = 14;
    pub const RT_SIGRETURN: u64 = 15;
    pub const PREAD64: u64 = 17;
    pub const SCHED_YIELD: u64 = 24;
    pub const MREMAP: u64 = 25;
    pub const MADVISE: u64 = 28;
    pub const NANOSLEEP: u64 = 35;
    pub const GETPID: u64 = 39;
    pub const SOCKET: u64 = 41;
    pub const CONNECT: u64 = 42;
    pub const SENDTO: u64 = 44;
    pub const RECVMSG: u64 = 47;
    pub const SETSOCKOPT: u64 = 54;
    pub const CLONE: u64 = 56;
    pub const FORK: u64 = 57;
    pub const VFORK: u64 = 58;
    pub const EXIT: u64 = 60;
    pub const KILL: u64 = 62;
    pub const GETRLIMIT: u64 = 97;
    pub const GETUID: u64 = 102;
    pub const RT_SIGTIMEDWAIT: u64 = 128;
    pub const RT_SIGQUEUEINFO: u64 = 129;
    pub const SIGALTSTACK: u64 = 131;
    pub const PRCTL: u64 = 157;
    pub const ARCH_PRCTL: u64 = 158;
    pub const GETTID: u64 = 186;
    pub const FUTEX: u64 = 202;
    pub const TIMER_CREATE: u64 = 222;
    pub const TIMER_SETTIME: u64 = 223;
    pub const TIMER_DELETE: u64 = 226;
    pub const CLOCK_GETTIME: u64 = 228;
    pub const EXIT_GROUP: u64 = 231;
    pub const TGKILL: u64 = 234;
    pub const OPENAT: u64 = 257;
    pub const RT_TGSIGQUEUEINFO: u64 = 297;
    pub const SECCOMP: u64 = 317;
    pub const RSEQ: u64 = 334;
    pub const CLONE3: u64 = 435;
}

/// Operations of `arch_prctl`.
pub mod arch {
    pub const SET_GS: u64 = 0x1001;
    pub const GET_GS: u64 = 0x1004;
    pub const SHADOW_STACK_STATUS: u64 = 0x5005;
}

/// An error number of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub u32);

impl Errno {
    pub const NO_MEMORY: Errno = Errno(12);
    pub const EXISTS: Errno = Errno(17);
    pub const INVALID: Errno = Errno(22);
}

/// Makes any system call.
///
/// # Safety
/// Whatever the call does must be sound.
#[inline(always)]
pub unsafe fn any(number: u64, arguments: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the registers are those of the system call interface; the caller answers for the
    // effect.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if (-4095..0).contains(&result) { Err(Errno(-result as u32)) } else { Ok(result as usize) }
}

/// Returns the process id.
pub fn getpid() -> u32 {
    // SAFETY: has no effect.
    unsafe { any(number::GETPID, [0; 6]) }.unwrap_or(0) as u32
}

/// Returns the user id.
pub fn getuid() -> u32 {
    // SAFETY: has no effect.
    unsafe { any(number::GETUID, [0; 6]) }.unwrap_or(0) as u32
}

/// Returns the id of the calling thread.
pub fn gettid() -> u32 {
    // SAFETY: has no effect.
    unsafe { any(number::GETTID, [0; 6]) }.unwrap_or(0) as u32
}

/// Lets other threads run.
pub fn sched_yield() {
    // SAFETY: has no effect on memory.
    let _ = unsafe { any(number::SCHED_YIELD, [0; 6]) };
}

/// Sleeps; a signal makes that shorter.
pub fn nanosleep(time: &Timespec) {
    // SAFETY: reads a complete structure.
    let _ = unsafe { any(number::NANOSLEEP, [core::ptr::from_ref(time) as usize, 0, 0, 0, 0, 0]) };
}

/// Closes a descriptor.
pub fn close(descriptor: i32) {
    // SAFETY: callers close only what they opened.
    let _ = unsafe { any(number::CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// Flag of [`open_for_reading`]: opening a pipe does not wait for its other end.
pub const NON_BLOCKING: usize = 0o4000;
const CLOSE_ON_EXEC: usize = 0o2_000_000;

/// Opens the file with this NUL-terminated name for reading, by the call by which the dynamic
/// linker opens libraries.
///
/// # Safety
/// `path` must be a C string.
pub unsafe fn open_for_reading(path: *const u8, flags: usize) -> Result<i32, Errno> {
    const CURRENT_DIRECTORY: i32 = -100;
    let arguments = [CURRENT_DIRECTORY as usize, path as usize, CLOSE_ON_EXEC | flags, 0, 0, 0];
    // SAFETY: the caller's string.
    unsafe { any(number::OPENAT, arguments) }.map(|descriptor| descriptor as i32)
}

/// Reads from where the last call stopped. 0: the end.
pub fn read(descriptor: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
    let arguments = [descriptor as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
    // SAFETY: the kernel writes within the buffer.
    unsafe { any(number::READ, arguments) }
}

/// Reads at an offset.
pub fn read_at(descriptor: i32, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let arguments = [descriptor as usize, buffer.as_mut_ptr() as usize, buffer.len(), offset as usize, 0, 0];
    // SAFETY: the kernel writes within the buffer.
    unsafe { any(number::PREAD64, arguments) }
}

/// Returns the file mode (type, set-id and permission bits) of an open file.
pub fn file_mode(descriptor: i32) -> Result<u32, Errno> {
    const MODE_OFFSET: usize = 24;
    let mut status = [0u8; 144];
    // SAFETY: `status` has the size of the kernel's `struct stat`.
    unsafe { any(number::FSTAT, [descriptor as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    let mode = status[MODE_OFFSET..].first_chunk().copied().unwrap_or_default();
    Ok(u32::from_le_bytes(mode))
}

/// What may be done with mapped memory.
pub mod protection {
    pub const NONE: usize = 0;
    pub const READ: usize = 1;
    pub const WRITE: usize = 2;
    pub const EXECUTE: usize = 4;
}

/// Flags of `mmap`.
pub mod mapping {
    pub const SHARED: usize = 1;
    pub const PRIVATE: usize = 2;
    pub const ANONYMOUS: usize = 0x20;
    pub const NO_RESERVE: usize = 0x4000;
    pub const FIXED_NO_REPLACE: usize = 0x10_0000;
}

/// Advice about mapped memory.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Advice {
    /// Children do not get the mapping.
    DontFork = 10,
    /// The mapping is no part of core dumps.
    DontDump = 16,
    /// Children find zeros there.
    WipeOnFork = 18,
}

/// Maps a file, or memory.
///
/// # Safety
/// As for `mmap`: nothing that is in use may be replaced.
pub unsafe fn mmap(at: u64, bytes: u64, protection: usize, flags: usize, file: i32) -> Result<u64, Errno> {
    let arguments = [at as usize, bytes as usize, protection, flags, file as usize, 0];
    // SAFETY: the caller's promise.
    unsafe { any(number::MMAP, arguments) }.map(|at| at as u64)
}

/// Maps new private memory that can be written.
pub fn map_memory(bytes: u64) -> Result<u64, Errno> {
    // SAFETY: a new range, of which nobody knows.
    unsafe { mmap(0, bytes, protection::READ | protection::WRITE, mapping::PRIVATE | mapping::ANONYMOUS, -1) }
}

/// Maps new private memory that can be written, much of which is never used: the kernel sets
/// nothing aside for it.
pub fn reserve_memory(bytes: u64) -> Result<u64, Errno> {
    use mapping::{ANONYMOUS, NO_RESERVE, PRIVATE};
    // SAFETY: a new range, of which nobody knows.
    unsafe { mmap(0, bytes, protection::READ | protection::WRITE, PRIVATE | ANONYMOUS | NO_RESERVE, -1) }
}

/// Unmaps a range.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn munmap(at: u64, bytes: u64) {
    // SAFETY: the caller's promise.
    let _ = unsafe { any(number::MUNMAP, [at as usize, bytes as usize, 0, 0, 0, 0]) };
}

/// Makes a range inaccessible.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn make_inaccessible(at: u64, bytes: u64) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { any(number::MPROTECT, [at as usize, bytes as usize, protection::NONE, 0, 0, 0]) }.map(|_| ())
}

/// Gives advice about a range.
///
/// # Safety
/// The advice must not discard anything in use.
pub unsafe fn madvise(at: u64, bytes: u64, advice: Advice) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe { any(number::MADVISE, [at as usize, bytes as usize, advice as usize, 0, 0, 0]) }.map(|_| ())
}

/// Returns the action of a signal, and sets a new one if there is one.
///
/// # Safety
/// A new handler must be fit to run in any thread at any time.
pub unsafe fn rt_sigaction(signal: i32, new: Option<&KernelSigAction>) -> Result<KernelSigAction, Errno> {
    let mut old = KernelSigAction::default();
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as usize);
    let arguments = [signal as usize, new, &raw mut old as usize, SET_BYTES, 0, 0];
    // SAFETY: both point to complete structures or are null; the caller answers for the handler.
    unsafe { any(number::RT_SIGACTION, arguments) }?;
    Ok(old)
}

/// Bytes of the kernel's signal sets.
pub const SET_BYTES: usize = 8;

/// What `rt_sigprocmask` does with a set.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum MaskChange {
    Block = 0,
    Unblock = 1,
    Replace = 2,
}

/// Changes the calling thread's signal mask and returns the old one.
pub fn rt_sigprocmask(how: MaskChange, set: u64) -> u64 {
    let mut old = 0u64;
    let arguments = [how as usize, &raw const set as usize, &raw mut old as usize, SET_BYTES, 0, 0];
    // SAFETY: both sets are 8 bytes.
    let _ = unsafe { any(number::RT_SIGPROCMASK, arguments) };
    old
}

/// Has the kernel read a signal set at `at` and refuse to do anything with it. Returns whether it
/// has read it: if the call fails for any other reason, such as a filter of system calls, it has
/// not looked.
pub fn can_read_set(at: u64) -> bool {
    const NO_SUCH_CHANGE: usize = 99;
    // SAFETY: the kernel reads with checks, and then refuses the kind of change.
    let tried = unsafe { any(number::RT_SIGPROCMASK, [NO_SUCH_CHANGE, at as usize, 0, SET_BYTES, 0, 0]) };
    tried == Err(Errno::INVALID)
}

/// Returns the calling thread's alternate signal stack, and sets a new one if there is one.
///
/// # Safety
/// A new stack must stay valid while it is set, and the thread must not be running on the one that
/// it replaces.
pub unsafe fn sigaltstack(new: Option<&SignalStack>) -> Result<SignalStack, Errno> {
    let mut old = SignalStack::default();
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as usize);
    // SAFETY: both are complete structures or null; the caller answers for the stack.
    unsafe { any(number::SIGALTSTACK, [new, &raw mut old as usize, 0, 0, 0, 0]) }?;
    Ok(old)
}

/// Sends a signal to a thread of this process.
pub fn tgkill(pid: u32, tid: u32, signal: i32) {
    // SAFETY: touches no memory.
    let _ = unsafe { any(number::TGKILL, [pid as usize, tid as usize, signal as usize, 0, 0, 0]) };
}

/// Sends a signal to this process, with all that `info` says if the kernel allows that: only the
/// first thread may pretend to be somebody else.
pub fn queue_to_process(pid: u32, signal: i32, info: &SigInfo) {
    let arguments = [pid as usize, signal as usize, core::ptr::from_ref(info) as usize, 0, 0, 0];
    // SAFETY: the kernel reads the structure.
    unsafe {
        if any(number::RT_SIGQUEUEINFO, arguments).is_err() {
            let _ = any(number::KILL, [pid as usize, signal as usize, 0, 0, 0, 0]);
        }
    }
}

/// Sends a signal to the calling thread `tid`, with all that `info` says; the kernel lets no thread
/// impersonate another.
pub fn queue_to_thread(pid: u32, tid: u32, signal: i32, info: &SigInfo) {
    let arguments = [pid as usize, tid as usize, signal as usize, core::ptr::from_ref(info) as usize, 0, 0];
    // SAFETY: the kernel reads the structure.
    let _ = unsafe { any(number::RT_TGSIGQUEUEINFO, arguments) };
}

/// Takes a signal of `set` that is pending for the calling thread.
pub fn take_pending(set: u64) -> Option<(i32, SigInfo)> {
    let at_once = Timespec::default();
    let mut info = SigInfo::sent(0, 0, 0, 0);
    let arguments = [&raw const set as usize, &raw mut info as usize, &raw const at_once as usize, SET_BYTES, 0, 0];
    // SAFETY: the structures are complete.
    let signal = unsafe { any(number::RT_SIGTIMEDWAIT, arguments) }.ok()?;
    Some((signal as i32, info))
}

/// A clock of the kernel.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Clock {
    /// Time that always goes on.
    Monotonic = 1,
    /// CPU time of the calling thread.
    ThreadCpu = 3,
}

/// Returns the time of a clock.
pub fn clock_gettime(clock: Clock) -> Timespec {
    let mut now = Timespec::default();
    // SAFETY: `now` is a complete structure.
    let _ = unsafe { any(number::CLOCK_GETTIME, [clock as usize, &raw mut now as usize, 0, 0, 0, 0]) };
    now
}

/// Makes a timer on a clock and returns its id.
pub fn timer_create(clock: Clock, event: &SignalEvent) -> Result<i32, Errno> {
    let mut id = 0i32;
    let arguments = [clock as usize, core::ptr::from_ref(event) as usize, &raw mut id as usize, 0, 0, 0];
    // SAFETY: both structures are complete.
    unsafe { any(number::TIMER_CREATE, arguments) }?;
    Ok(id)
}

/// Sets a timer and returns what it was set to, with the time left until it expired.
pub fn timer_settime(id: i32, setting: &TimerSetting) -> TimerSetting {
    let mut old = TimerSetting::default();
    let arguments = [id as usize, 0, core::ptr::from_ref(setting) as usize, &raw mut old as usize, 0, 0];
    // SAFETY: both structures are complete.
    let _ = unsafe { any(number::TIMER_SETTIME, arguments) };
    old
}

/// Deletes a timer.
pub fn timer_delete(id: i32) {
    // SAFETY: touches no memory.
    let _ = unsafe { any(number::TIMER_DELETE, [id as usize, 0, 0, 0, 0, 0]) };
}

/// Waits while `*word` is `value`.
pub fn futex_wait(word: &AtomicU32, value: u32) {
    const WAIT_PRIVATE: usize = 128;
    // SAFETY: the word outlives the call.
    let _ = unsafe { any(number::FUTEX, [word.as_ptr() as usize, WAIT_PRIVATE, value as usize, 0, 0, 0]) };
}

/// Wakes everyone who waits for `word`.
pub fn futex_wake(word: &AtomicU32) {
    const WAKE_PRIVATE: usize = 129;
    // SAFETY: the kernel only uses the address.
    let _ = unsafe { any(number::FUTEX, [word.as_ptr() as usize, WAKE_PRIVATE, i32::MAX as usize, 0, 0, 0]) };
}

/// Returns whether the process's address space is limited.
pub fn address_space_is_limited() -> bool {
    const RLIMIT_AS: usize = 9;
    let mut limit = [u64::MAX; 2];
    // SAFETY: `limit` is a complete `struct rlimit`.
    let _ = unsafe { any(number::GETRLIMIT, [RLIMIT_AS, limit.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    limit[0] != u64::MAX
}

/// Returns whether returns are checked against a shadow stack.
pub fn has_shadow_stack() -> bool {
    let mut features = 0u64;
    let arguments = [arch::SHADOW_STACK_STATUS as usize, &raw mut features as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one word.
    unsafe { any(number::ARCH_PRCTL, arguments) }.is_ok() && features & 1 != 0
}

/// Returns the base of `gs`.
pub fn gs_base() -> u64 {
    let mut base = 0u64;
    // SAFETY: the kernel writes one word.
    let _ = unsafe { any(number::ARCH_PRCTL, [arch::GET_GS as usize, &raw mut base as usize, 0, 0, 0, 0]) };
    base
}

/// Sets the base of `gs`.
///
/// # Safety
/// Nothing else in the thread may use `gs`.
pub unsafe fn set_gs_base(base: u64) {
    // SAFETY: the caller's promise.
    let _ = unsafe { any(number::ARCH_PRCTL, [arch::SET_GS as usize, base as usize, 0, 0, 0, 0]) };
}

/// Makes a Unix socket for sequenced packets.
pub fn unix_socket() -> Result<i32, Errno> {
    const UNIX: usize = 1;
    const SEQPACKET: usize = 5;
    // SAFETY: touches no memory.
    unsafe { any(number::SOCKET, [UNIX, SEQPACKET | CLOSE_ON_EXEC, 0, 0, 0, 0]) }.map(|descriptor| descriptor as i32)
}

/// A time limit of a socket.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum SocketTimeout {
    Receive = 20,
    Send = 21,
}

/// Sets a time limit of a socket.
pub fn set_socket_timeout(socket: i32, which: SocketTimeout, limit: &Timeval) -> Result<(), Errno> {
    const SOL_SOCKET: usize = 1;
    let value = core::ptr::from_ref(limit) as usize;
    // SAFETY: the structure is complete.
    unsafe { any(number::SETSOCKOPT, [socket as usize, SOL_SOCKET, which as usize, value, size_of_val(limit), 0]) }
        .map(|_| ())
}

/// Connects a socket to an address.
pub fn connect(socket: i32, address: &[u8]) -> Result<(), Errno> {
    let arguments = [socket as usize, address.as_ptr() as usize, address.len(), 0, 0, 0];
    // SAFETY: the kernel reads the address.
    unsafe { any(number::CONNECT, arguments) }.map(|_| ())
}

/// Sends a message and returns how many bytes were sent.
pub fn send<T: Copy>(socket: i32, message: &T) -> Result<usize, Errno> {
    const NO_SIGNAL: usize = 0x4000;
    let arguments = [socket as usize, core::ptr::from_ref(message) as usize, size_of::<T>(), NO_SIGNAL, 0, 0];
    // SAFETY: the kernel reads the message.
    unsafe { any(number::SENDTO, arguments) }
}

/// Receives a message and returns how many bytes it has; descriptors that come with it are closed
/// at `exec`.
///
/// # Safety
/// The header must describe memory that may be written to.
pub unsafe fn receive(socket: i32, header: &mut MessageHeader) -> Result<usize, Errno> {
    const CMSG_CLOEXEC: usize = 0x4000_0000;
    let arguments = [socket as usize, core::ptr::from_mut(header) as usize, CMSG_CLOEXEC, 0, 0, 0];
    // SAFETY: the caller's promise.
    unsafe { any(number::RECVMSG, arguments) }
}
