//! System calls, without libc: nothing here touches `errno`, takes a lock or can be interposed.

use core::arch::asm;

use crate::abi::{KernelSigAction, SigInfo, SignalStack, Timespec};

/// An error number of the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub u32);

impl Errno {
    pub const INVALID: Errno = Errno(22);
    pub const NO_MEMORY: Errno = Errno(12);
    pub const EXISTS: Errno = Errno(17);
}

/// Makes a system call.
///
/// # Safety
/// Whatever the call does must be sound.
#[inline(always)]
pub unsafe fn raw(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the registers are those of the system call interface; the caller answers for the effect.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if (-4095..0).contains(&result) { Err(Errno(-result as u32)) } else { Ok(result as usize) }
}

pub fn getpid() -> u32 {
    // SAFETY: has no effect.
    unsafe { raw(39, [0; 6]) }.unwrap_or(0) as u32
}

pub fn getuid() -> u32 {
    // SAFETY: has no effect.
    unsafe { raw(102, [0; 6]) }.unwrap_or(0) as u32
}

pub fn gettid() -> u32 {
    // SAFETY: has no effect.
    unsafe { raw(186, [0; 6]) }.unwrap_or(0) as u32
}

pub fn sched_yield() {
    // SAFETY: has no effect on memory.
    let _ = unsafe { raw(24, [0; 6]) };
}

pub fn sleep_ns(time_ns: u64) {
    let time = Timespec::from_ns(time_ns);
    // SAFETY: reads a complete structure. Being interrupted only makes it shorter.
    let _ = unsafe { raw(35, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

pub fn close(descriptor: i32) {
    // SAFETY: callers close only what they opened.
    let _ = unsafe { raw(3, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

/// With this flag, opening a pipe does not wait for its other end.
pub const NON_BLOCKING: usize = 0o4000;

/// Opens the file with this NUL-terminated name for reading, by the same call as the dynamic linker opens libraries.
///
/// # Safety
/// `path` must be a C string.
pub unsafe fn open_for_reading(path: *const u8, flags: usize) -> Result<i32, Errno> {
    const CURRENT_DIRECTORY: i32 = -100;
    const CLOSE_ON_EXEC: usize = 0o2_000_000;
    let arguments = [CURRENT_DIRECTORY as usize, path as usize, CLOSE_ON_EXEC | flags, 0, 0, 0];
    // SAFETY: the caller's string.
    unsafe { raw(257, arguments) }.map(|descriptor| descriptor as i32)
}

/// Reads on. 0: the end.
pub fn read(descriptor: i32, buffer: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes within the buffer.
    unsafe { raw(0, [descriptor as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

pub fn read_at(descriptor: i32, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let arguments = [descriptor as usize, buffer.as_mut_ptr() as usize, buffer.len(), offset as usize, 0, 0];
    // SAFETY: the kernel writes within the buffer.
    unsafe { raw(17, arguments) }
}

/// File mode (type, set-id and permission bits) of an open file.
pub fn file_mode(descriptor: i32) -> Result<u32, Errno> {
    const MODE_OFFSET: usize = 24;
    let mut status = [0u8; 144];
    // SAFETY: `status` has the size of the kernel's `struct stat`.
    unsafe { raw(5, [descriptor as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    let mode = status[MODE_OFFSET..].first_chunk().copied().unwrap_or_default();
    Ok(u32::from_le_bytes(mode))
}

/// # Safety
/// As for `mmap`: nothing that is in use may be replaced.
pub unsafe fn mmap(at: u64, bytes: u64, protection: usize, flags: usize, file: i32) -> Result<u64, Errno> {
    // SAFETY: the caller's promise.
    unsafe { raw(9, [at as usize, bytes as usize, protection, flags, file as usize, 0]) }.map(|at| at as u64)
}

/// # Safety
/// Nothing may use the range any more.
pub unsafe fn munmap(at: u64, bytes: u64) {
    // SAFETY: the caller's promise.
    let _ = unsafe { raw(11, [at as usize, bytes as usize, 0, 0, 0, 0]) };
}

/// # Safety
/// Nothing may use the range any more.
pub unsafe fn make_inaccessible(at: u64, bytes: u64) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    unsafe { raw(10, [at as usize, bytes as usize, 0, 0, 0, 0]) }
}

/// # Safety
/// The advice must not discard anything in use.
pub unsafe fn madvise(at: u64, bytes: u64, advice: usize) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    unsafe { raw(28, [at as usize, bytes as usize, advice, 0, 0, 0]) }
}

/// # Safety
/// A new handler must be fit to run in any thread at any time.
pub unsafe fn rt_sigaction(signal: i32, new: Option<&KernelSigAction>) -> Result<KernelSigAction, Errno> {
    let mut old = KernelSigAction::default();
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as usize);
    // SAFETY: both point to complete structures or are null; the caller answers for the handler.
    unsafe { raw(13, [signal as usize, new, &raw mut old as usize, 8, 0, 0]) }?;
    Ok(old)
}

/// What `rt_sigprocmask` does with a set.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum MaskChange {
    Block = 0,
    Unblock = 1,
}

/// Changes the calling thread's signal mask; the old one is returned.
pub fn rt_sigprocmask(how: MaskChange, set: u64) -> u64 {
    let mut old = 0u64;
    let arguments = [how as usize, &raw const set as usize, &raw mut old as usize, 8, 0, 0];
    // SAFETY: both sets are 8 bytes.
    let _ = unsafe { raw(14, arguments) };
    old
}

/// # Safety
/// A new stack must stay valid while it is set, and the thread must not be running on the one that it replaces.
pub unsafe fn sigaltstack(new: Option<&SignalStack>) -> Result<SignalStack, Errno> {
    let mut old = SignalStack::default();
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as usize);
    // SAFETY: both are complete structures or null; the caller answers for the stack.
    unsafe { raw(131, [new, &raw mut old as usize, 0, 0, 0, 0]) }?;
    Ok(old)
}

/// Sends a signal to a thread of this process.
pub fn tgkill(pid: u32, tid: u32, signal: i32) {
    // SAFETY: touches no memory.
    let _ = unsafe { raw(234, [pid as usize, tid as usize, signal as usize, 0, 0, 0]) };
}

/// Sends a signal to this process, with all that `info` says if the kernel allows that: only the first thread may pretend to be somebody
/// else.
pub fn queue_to_process(pid: u32, signal: i32, info: &SigInfo) {
    // SAFETY: the kernel reads the structure.
    unsafe {
        let queued = raw(129, [pid as usize, signal as usize, core::ptr::from_ref(info) as usize, 0, 0, 0]);
        if queued.is_err() {
            let _ = raw(62, [pid as usize, signal as usize, 0, 0, 0, 0]);
        }
    }
}

/// The same, to the calling thread `tid`; the kernel lets no thread impersonate another.
pub fn queue_to_thread(pid: u32, tid: u32, signal: i32, info: &SigInfo) {
    // SAFETY: as above.
    let _ =
        unsafe { raw(297, [pid as usize, tid as usize, signal as usize, core::ptr::from_ref(info) as usize, 0, 0]) };
}

/// Takes a signal of `set` that is pending for the calling thread.
pub fn take_pending(set: u64) -> Option<(i32, SigInfo)> {
    let at_once = Timespec::default();
    let mut info = SigInfo::sent(0, 0, 0, 0);
    let arguments = [&raw const set as usize, &raw mut info as usize, &raw const at_once as usize, 8, 0, 0];
    // SAFETY: the structures are complete.
    let signal = unsafe { raw(128, arguments) }.ok()?;
    Some((signal as i32, info))
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    const CLOCK_THREAD_CPUTIME_ID: usize = 3;
    let mut now = Timespec::default();
    // SAFETY: `now` is a complete structure.
    let _ = unsafe { raw(228, [CLOCK_THREAD_CPUTIME_ID, &raw mut now as usize, 0, 0, 0, 0]) };
    now.as_ns()
}

/// Time that always goes on.
pub fn monotonic_ns() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut now = Timespec::default();
    // SAFETY: `now` is a complete structure.
    let _ = unsafe { raw(228, [CLOCK_MONOTONIC, &raw mut now as usize, 0, 0, 0, 0]) };
    now.as_ns()
}

/// Copies from this process's own memory, as far as it is readable, without ever faulting.
///
/// Each page is tried first. `process_vm_readv` does the same and more, at twenty times the price.
pub fn copy_own_memory(from: u64, to: &mut [u8]) -> usize {
    let mut copied = 0;
    while copied < to.len() {
        let at = from.wrapping_add(copied as u64);
        let n = (wire::PAGE - at % wire::PAGE).min((to.len() - copied) as u64) as usize;
        if !is_readable(at, n) {
            break;
        }
        // SAFETY: the bytes are on one page, which has just been read from. Only the thread itself unmaps its stack, and it is here.
        unsafe { core::ptr::copy_nonoverlapping(at as *const u8, to.as_mut_ptr().add(copied), n) };
        copied += n;
    }
    copied
}

/// Whether `n` bytes at `at`, all on one page, can be read: asks a system call to take them for a signal set, which fails before it uses them. If it fails for
/// any other reason, such as a filter of system calls, it has not looked, and nobody else shall.
fn is_readable(at: u64, n: usize) -> bool {
    const NO_SUCH_CHANGE: usize = 99;
    const SET_BYTES: u64 = 8;
    const EINVAL: u32 = 22;
    let page = at & !(wire::PAGE - 1);
    let inside = at.min(page + wire::PAGE - SET_BYTES);
    // SAFETY: the kernel reads with checks, and then refuses the kind of change.
    let tried = unsafe { raw(14, [NO_SUCH_CHANGE, inside as usize, 0, SET_BYTES as usize, 0, 0]) };
    n > 0 && tried == Err(Errno(EINVAL))
}

/// Waits while `*word` is `value`.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32) {
    const WAIT_PRIVATE: usize = 128;
    // SAFETY: the word outlives the call.
    let _ = unsafe { raw(202, [word.as_ptr() as usize, WAIT_PRIVATE, value as usize, 0, 0, 0]) };
}

/// Wakes everyone who waits for `word`.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    const WAKE_PRIVATE: usize = 129;
    // SAFETY: the kernel only uses the address.
    let _ = unsafe { raw(202, [word.as_ptr() as usize, WAKE_PRIVATE, i32::MAX as usize, 0, 0, 0]) };
}

/// Whether the process's address space is limited.
pub fn address_space_is_limited() -> bool {
    const RLIMIT_AS: usize = 9;
    let mut limit = [u64::MAX; 2];
    // SAFETY: `limit` is a complete `struct rlimit`.
    let _ = unsafe { raw(97, [RLIMIT_AS, limit.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    limit[0] != u64::MAX
}

/// Whether returns are checked against a shadow stack.
pub fn has_shadow_stack() -> bool {
    const ARCH_SHSTK_STATUS: usize = 0x5005;
    let mut features = 0u64;
    // SAFETY: the kernel writes one word.
    unsafe { raw(158, [ARCH_SHSTK_STATUS, &raw mut features as usize, 0, 0, 0, 0]) }.is_ok() && features & 1 != 0
}

pub fn rdtsc() -> u64 {
    // SAFETY: every x86-64 processor has it; a process that forbade it to itself (PR_SET_TSC) is not profiled by time.
    unsafe { core::arch::x86_64::_rdtsc() }
}
