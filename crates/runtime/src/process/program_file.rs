//! Whether a program file, when executed, will load strobe's library and take its variables out of
//! the environment.

use crate::process::environment::{c_len, names};
use crate::sys::abi::Strings;
use crate::sys::syscall;

/// What strobe can expect of a program file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fitness {
    /// There is no such file, or it cannot be looked at.
    Missing,
    /// It takes preloaded libraries.
    Fit,
    /// It does not: static, another architecture, set-id, not a program.
    Unfit,
}

const MAX_PATH: usize = 1024;
/// How many scripts may be each other's interpreters.
const MAX_SCRIPTS: usize = 4;

/// Returns what to expect of the file with this name.
pub fn at(path: *const u8) -> Fitness {
    // SAFETY: a C string of the program.
    unsafe { at_depth(path, 0) }
}

/// Returns what to expect of the file that a search along `PATH` finds.
pub fn found_by_search(file: *const u8, environment: Strings) -> Fitness {
    // SAFETY: strings of the program.
    unsafe {
        let file = core::slice::from_raw_parts(file, c_len(file));
        if file.contains(&b'/') {
            return at(file.as_ptr());
        }
        let mut found = Fitness::Missing;
        for directory in search_path(environment).split(|&byte| byte == b':') {
            let mut path = [0u8; MAX_PATH];
            if join(&mut path, directory, file).is_some() {
                found = at(path.as_ptr());
            }
            if found != Fitness::Missing {
                break;
            }
        }
        found
    }
}

/// # Safety
/// `environment` must be null or an array of C strings.
unsafe fn search_path(environment: Strings) -> &'static [u8] {
    const NAME: &[u8] = b"PATH";
    // SAFETY: the array ends with a null pointer.
    unsafe {
        let mut entry = environment;
        while !entry.is_null() && !(*entry).is_null() {
            if names(*entry, NAME) {
                let path = (*entry).add(NAME.len() + 1);
                return core::slice::from_raw_parts(path, c_len(path));
            }
            entry = entry.add(1);
        }
    }
    b"/bin:/usr/bin"
}

/// Writes `directory/file` as a C string; an empty directory is the current one.
fn join(path: &mut [u8; MAX_PATH], directory: &[u8], file: &[u8]) -> Option<()> {
    let directory = if directory.is_empty() { b"." } else { directory };
    let (head, tail) = path.split_at_mut_checked(directory.len())?;
    head.copy_from_slice(directory);
    *tail.first_mut()? = b'/';
    tail.get_mut(1..=file.len())?.copy_from_slice(file);
    tail.get(file.len() + 1).copied().filter(|&end| end == 0).map(|_| ())
}

/// # Safety
/// `path` must be a C string.
unsafe fn at_depth(path: *const u8, depth: usize) -> Fitness {
    // SAFETY: the caller's string.
    let Ok(file) = (unsafe { syscall::open_for_reading(path, syscall::NON_BLOCKING) }) else { return Fitness::Missing };
    let fitness = of_open(file, depth);
    syscall::close(file);
    fitness
}

/// Returns what to expect of an open file.
pub fn open(file: i32) -> Fitness {
    of_open(file, 0)
}

fn of_open(file: i32, depth: usize) -> Fitness {
    const TYPE: u32 = 0o170_000;
    const REGULAR: u32 = 0o100_000;
    const SET_ID: u32 = 0o6000;
    let mut head = [0u8; 256];
    let (Ok(mode), Ok(read)) = (syscall::file_mode(file), syscall::read_at(file, &mut head, 0)) else {
        return Fitness::Missing;
    };
    let head = &head[..read.min(256)];
    if mode & TYPE != REGULAR {
        Fitness::Missing
    } else if mode & SET_ID != 0 {
        Fitness::Unfit
    } else if let Some(line) = head.strip_prefix(b"#!") {
        of_interpreter(line, depth)
    } else if is_dynamic_program(file, head).unwrap_or(false) {
        Fitness::Fit
    } else {
        Fitness::Unfit
    }
}

fn of_interpreter(line: &[u8], depth: usize) -> Fitness {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let is_end = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | 0);
    let start = line.iter().position(|byte| !is_space(byte)).unwrap_or(line.len());
    let name = &line[start..];
    let name = &name[..name.iter().position(is_end).unwrap_or(name.len())];
    let mut path = [0u8; 257];
    if depth >= MAX_SCRIPTS || name.is_empty() || name.len() >= path.len() {
        return Fitness::Unfit;
    }
    path[..name.len()].copy_from_slice(name);
    // SAFETY: a C string: the array is longer than the name.
    unsafe { at_depth(path.as_ptr(), depth + 1) }
}

/// Returns whether the file is an x86-64 program with a dynamic linker. `None`: the header is cut
/// off.
fn is_dynamic_program(file: i32, head: &[u8]) -> Option<bool> {
    const ELF_64_LITTLE: &[u8] = b"\x7fELF\x02\x01";
    const X86_64: u16 = 62;
    const INTERPRETER: u32 = 3;
    const MAX_HEADERS: u16 = 64;
    let machine = u16::from_le_bytes(*head.get(18..)?.first_chunk()?);
    if !head.starts_with(ELF_64_LITTLE) || machine != X86_64 {
        return Some(false);
    }
    let table = u64::from_le_bytes(*head.get(32..)?.first_chunk()?);
    let bytes = u16::from_le_bytes(*head.get(54..)?.first_chunk()?);
    let count = u16::from_le_bytes(*head.get(56..)?.first_chunk()?);
    let has_interpreter = (0..count.min(MAX_HEADERS)).any(|index| {
        let mut kind = [0; 4];
        let at = table.wrapping_add(u64::from(index) * u64::from(bytes));
        syscall::read_at(file, &mut kind, at).is_ok() && u32::from_le_bytes(kind) == INTERPRETER
    });
    Some(has_interpreter)
}
