//! Runtimes of languages that do not survive a signal which they did not ask for.
//!
//! * Go takes `SIGURG` for itself, and ends the program when a handler runs on a stack that is not
//!   the one that it made for signals. Go's linker marks what it makes: by a note with its build
//!   id, and by a header before what `go version -m` prints.
//! * SBCL checks in its handlers that of the signals that it defers either all are blocked or none,
//!   and ends the program otherwise. A runtime that keeps one of them deliverable cannot give it
//!   that. Its set of deferrable signals is a symbol that Lisp code refers to, so every build
//!   exports it.
//!
//! The evidence is looked for in memory, in what the dynamic linker has loaded: a library may
//! contain Go, too. One that is opened later gives itself away when it takes `SIGURG`, before it
//! starts its first thread ([`crate::signals::actions::sigaction`]).

use wire::hello::LeftAlone;

use crate::exact::return_to_copy::returning;
use crate::sys::link_map::{self, ProgramHeader, Scope};
use crate::sys::real;

/// Returns why the program, as it is loaded now, has to be left alone.
pub fn found() -> Option<LeftAlone> {
    if has_go(Where::Anywhere) {
        Some(LeftAlone::Go)
    } else if link_map::find(b"deferrable_sigset", Scope::Global).is_some() {
        Some(LeftAlone::Lisp)
    } else {
        None
    }
}

/// Returns whether the code at `address` was made by Go's linker.
pub fn is_go(address: u64) -> bool {
    has_go(Where::At(address))
}

/// Which modules to look at.
#[derive(Clone, Copy)]
enum Where {
    Anywhere,
    /// The one that has this address.
    At(u64),
}

struct Search {
    place: Where,
    has_go: bool,
}

fn has_go(place: Where) -> bool {
    let mut search = Search { place, has_go: false };
    // SAFETY: the C library's own function; the callback writes to `search` only during the call.
    real::DL_ITERATE_PHDR.get().map(|iterate| unsafe { iterate(returning_look, (&raw mut search).cast()) });
    search.has_go
}

returning! {
    /// For the C library.
    returning_look calls look
}

/// The first members of the C library's `struct dl_phdr_info`.
#[repr(C)]
struct Module {
    base: u64,
    name: *const u8,
    headers: *const ProgramHeader,
    n_headers: u16,
}

/// Looks at one module. Not zero: that is enough.
unsafe extern "C" fn look(module: *const Module, _: usize, search: *mut Search) -> i32 {
    // SAFETY: the C library passes a complete structure and what it was given.
    let (module, search) = unsafe { (&*module, &mut *search) };
    if module.headers.is_null() {
        return 0;
    }
    // SAFETY: the dynamic linker says that there are so many program headers.
    let headers = unsafe { core::slice::from_raw_parts(module.headers, module.n_headers.into()) };
    if let Where::At(address) = search.place
        && !headers.iter().any(|each| each.kind == kind::LOAD && each.holds(module.base, address))
    {
        return 0;
    }
    // SAFETY: the module is loaded, and stays so during the call.
    search.has_go = unsafe { is_made_by_go(module.base, headers) };
    (search.has_go || matches!(search.place, Where::At(_))).into()
}

mod kind {
    pub const LOAD: u32 = 1;
    pub const NOTE: u32 = 4;
    pub const READ_ONLY_LATER: u32 = 0x6474_e552;
}

impl ProgramHeader {
    fn holds(&self, base: u64, address: u64) -> bool {
        address.wrapping_sub(base.wrapping_add(self.address)) < self.memory_bytes
    }
}

/// # Safety
/// The module must be loaded at `base`.
unsafe fn is_made_by_go(base: u64, headers: &[ProgramHeader]) -> bool {
    const EXECUTABLE: u32 = 1;
    const WRITABLE: u32 = 2;
    // What becomes read-only comes first in its segment; it is large in some libraries, and the
    // header is not in it.
    let end_of_read_only = headers
        .iter()
        .find(|each| each.kind == kind::READ_ONLY_LATER)
        .map_or(0, |each| each.address.wrapping_add(each.memory_bytes));
    headers.iter().any(|each| {
        let start = each.address.max(end_of_read_only.min(each.address.wrapping_add(each.file_bytes)));
        let n_bytes = each.file_bytes.saturating_sub(start.wrapping_sub(each.address));
        let is_data = each.kind == kind::LOAD && each.flags & (WRITABLE | EXECUTABLE) == WRITABLE;
        // SAFETY: notes and data of a loaded module are readable.
        unsafe {
            match each.kind {
                kind::NOTE => {
                    let at = base.wrapping_add(each.address) as *const u8;
                    has_go_note(core::slice::from_raw_parts(at, each.file_bytes as usize))
                }
                _ if is_data => has_go_header(base.wrapping_add(start), n_bytes),
                _ => false,
            }
        }
    })
}

/// Notes are a head of three words (length of the name, length of the contents, kind), the name,
/// and the contents, both padded.
fn has_go_note(mut notes: &[u8]) -> bool {
    const NAME: &[u8] = b"Go\0";
    while let Some((head, rest)) = notes.split_at_checked(12) {
        let word = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
        if rest.starts_with(NAME) && word(0) >= NAME.len() {
            return true;
        }
        let n_bytes = word(0).next_multiple_of(4) + word(4).next_multiple_of(4);
        notes = rest.get(n_bytes..).unwrap_or_default();
    }
    false
}

/// Returns whether what `go version -m` looks for is in these data, at a multiple of 16. It is read
/// a word at a time: this is part of every start.
///
/// # Safety
/// The data must be readable.
unsafe fn has_go_header(start: u64, n_bytes: u64) -> bool {
    const MAGIC: [u8; 14] = *b"\xff Go buildinf:";
    const FIRST: u64 = u64::from_ne_bytes(*MAGIC.first_chunk().unwrap());
    let end = start.wrapping_add(n_bytes) & !15;
    let mut at = start.next_multiple_of(16);
    while at < end {
        // SAFETY: the caller's promise; the program may write there at the same time, and any value
        // will do.
        unsafe {
            if (at as *const u64).read_volatile() == FIRST && (at as *const [u8; 14]).read_volatile() == MAGIC {
                return true;
            }
        }
        at += 16;
    }
    false
}
