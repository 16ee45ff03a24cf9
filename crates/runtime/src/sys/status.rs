//! The kernel's account of the process: `/proc/self/status`.
//!
//! Nothing may be assumed of a process that has a seccomp filter of its own: a system call that the
//! filter does not know can end it. So this comes before everything else, and makes only calls that
//! the dynamic linker has just made to load this library: `openat`, `read`, `close`.

use crate::sys::syscall;

/// The whole process.
pub const OF_PROCESS: &[u8] = b"/proc/self/status\0";
/// Longest line that is looked at.
const MAX_LINE: usize = 48;

/// A number in the file: its name with the colon, and its base.
pub type Field = (&'static [u8], u32);

/// Reads numbers from the file with this NUL-terminated name. `None`: it cannot be read.
pub fn numbers<const N: usize>(path: &[u8], fields: [Field; N]) -> Option<[Option<u64>; N]> {
    debug_assert!(path.ends_with(b"\0"));
    // SAFETY: a C string.
    let file = unsafe { syscall::open_for_reading(path.as_ptr(), 0) }.ok()?;
    let mut found = [None; N];
    let (mut line, mut len) = ([0u8; MAX_LINE], 0);
    let mut buffer = [0u8; 512];
    while let Ok(read @ 1..) = syscall::read(file, &mut buffer) {
        for &byte in &buffer[..read] {
            if byte == b'\n' {
                take_line(&line[..len.min(MAX_LINE)], &fields, &mut found);
                len = 0;
            } else {
                if len < MAX_LINE {
                    line[len] = byte;
                }
                len += 1;
            }
        }
    }
    syscall::close(file);
    Some(found)
}

fn take_line<const N: usize>(line: &[u8], fields: &[Field; N], found: &mut [Option<u64>; N]) {
    for ((name, radix), found) in fields.iter().zip(found) {
        if let Some(value) = line.strip_prefix(*name) {
            *found =
                core::str::from_utf8(value.trim_ascii()).ok().and_then(|text| u64::from_str_radix(text, *radix).ok());
        }
    }
}

/// What speaks against joining, as far as it can be known before anything is done.
pub struct Restraints {
    /// A debugger is attached.
    pub is_traced: bool,
    /// Seccomp filters; if the kernel does not count them, whether there are any.
    pub n_filters: u64,
}

/// Returns what speaks against joining; `None`: that cannot be found out.
pub fn restraints() -> Option<Restraints> {
    let [tracer, filters, mode] =
        numbers(OF_PROCESS, [(b"TracerPid:", 10), (b"Seccomp_filters:", 10), (b"Seccomp:", 10)])?;
    Some(Restraints { is_traced: tracer? != 0, n_filters: filters.or(mode).unwrap_or(0) })
}

/// Returns whether all signals are blocked in a thread of this process, as they are in the entries
/// of handlers.
pub fn blocks_all_signals(tid: u32) -> bool {
    const NEVER_BLOCKED: u64 = 1 << 8 | 1 << 18;
    let mut path = [0u8; 40];
    let mut digits = [0u8; 10];
    let (mut left, mut n_digits) = (tid, 0);
    while left != 0 || n_digits == 0 {
        digits[n_digits] = b'0' + (left % 10) as u8;
        left /= 10;
        n_digits += 1;
    }
    let parts = [b"/proc/self/task/".as_slice(), b"/status\0"];
    let number = digits[..n_digits].iter().rev();
    let text = parts[0].iter().chain(number).chain(parts[1]);
    for (to, &from) in path.iter_mut().zip(text) {
        *to = from;
    }
    let Some([Some(blocked)]) = numbers(&path, [(b"SigBlk:", 16)]) else { return false };
    blocked | NEVER_BLOCKED == u64::MAX
}
