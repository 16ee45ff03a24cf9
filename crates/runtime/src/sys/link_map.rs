//! A small `dlsym(RTLD_NEXT, ...)`.
//!
//! The library imports nothing, so it finds the functions behind the ones that it interposes by
//! itself: from the program headers to the program's `DT_DEBUG`, from there along the dynamic
//! linker's list of modules, and in each module through its hash table. Of several versions of a
//! symbol the default one is taken, which is what a program linked today would get.

use core::arch::asm;
use core::ptr::null;
use core::sync::atomic::Ordering::Relaxed;

use crate::statics::R_DEBUG;
use crate::sys::auxv::{self, Auxv};

/// The dynamic linker's `struct r_debug`.
#[repr(C)]
pub struct RDebug {
    version: i32,
    map: *const LinkMap,
}

#[repr(C)]
struct LinkMap {
    base: u64,
    name: *const u8,
    dynamic: *const Dynamic,
    next: *const LinkMap,
}

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

#[repr(C)]
pub struct ProgramHeader {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    physical: u64,
    pub file_bytes: u64,
    pub memory_bytes: u64,
    align: u64,
}

/// Which modules to search.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those behind this library.
    Next,
    /// All, the program first.
    Global,
}

/// Address of `name`, a symbol that some module in `scope` defines.
pub fn find(name: &[u8], scope: Scope) -> Option<u64> {
    let own = own_dynamic();
    let mut searching = scope == Scope::Global;
    // SAFETY: the dynamic linker keeps its list whole; modules that are searched stay loaded.
    unsafe {
        let mut module = (*r_debug()?).map;
        while !module.is_null() {
            let dynamic = (*module).dynamic;
            if dynamic == own {
                searching = true;
            } else if searching && let Some(address) = Tables::of(&*module).and_then(|tables| tables.find(name)) {
                return Some(address);
            }
            module = (*module).next;
        }
    }
    None
}

/// Returns the dynamic linker's description of what is loaded.
pub fn r_debug() -> Option<*const RDebug> {
    let known = R_DEBUG.load(Relaxed);
    if !known.is_null() {
        return Some(known);
    }
    learn_r_debug(&auxv::of_process()?)
}

/// Finds `r_debug` through the auxiliary vector.
pub fn learn_r_debug(auxv: &Auxv) -> Option<*const RDebug> {
    const PT_DYNAMIC: u32 = 2;
    const PT_PHDR: u32 = 6;
    const DT_DEBUG: i64 = 21;
    let first = auxv.program_headers as *const ProgramHeader;
    if first.is_null() {
        return None;
    }
    // SAFETY: the kernel says that there are so many program headers.
    let headers = unsafe { core::slice::from_raw_parts(first, auxv.n_program_headers as usize) };
    let base = headers
        .iter()
        .find(|header| header.kind == PT_PHDR)
        .map_or(0, |header| auxv.program_headers.wrapping_sub(header.address));
    let dynamic = headers.iter().find(|header| header.kind == PT_DYNAMIC)?.address.wrapping_add(base);
    // SAFETY: the program's dynamic section is mapped and ends with a null tag.
    let found = unsafe { value_of(dynamic as *const Dynamic, DT_DEBUG) }? as *mut RDebug;
    if found.is_null() {
        return None;
    }
    R_DEBUG.store(found, Relaxed);
    Some(found)
}

/// # Safety
/// `dynamic` must point to a dynamic section.
unsafe fn value_of(mut dynamic: *const Dynamic, tag: i64) -> Option<u64> {
    // SAFETY: the section ends with a null tag.
    unsafe {
        while (*dynamic).tag != 0 {
            if (*dynamic).tag == tag {
                return Some((*dynamic).value);
            }
            dynamic = dynamic.add(1);
        }
    }
    None
}

fn own_dynamic() -> *const Dynamic {
    let address: *const Dynamic;
    // SAFETY: takes an address that the linker defines.
    unsafe {
        asm!(".hidden _DYNAMIC", "lea {}, [rip + _DYNAMIC]", out(reg) address, options(nomem, nostack, preserves_flags));
    }
    address
}

/// The tables of one module that symbols are found with.
struct Tables {
    base: u64,
    symbols: *const Symbol,
    strings: *const u8,
    versions: *const u16,
    gnu_hash: *const u32,
    sysv_hash: *const u32,
}

impl Tables {
    /// # Safety
    /// `module` must be an entry of the dynamic linker's list.
    unsafe fn of(module: &LinkMap) -> Option<Tables> {
        const DT_HASH: i64 = 4;
        const DT_STRTAB: i64 = 5;
        const DT_SYMTAB: i64 = 6;
        const DT_GNU_HASH: i64 = 0x6fff_fef5;
        const DT_VERSYM: i64 = 0x6fff_fff0;
        if module.dynamic.is_null() {
            return None;
        }
        let address = |tag| {
            // SAFETY: the module's own dynamic section.
            let value = unsafe { value_of(module.dynamic, tag) }?;
            // Some dynamic linkers relocate these in place, some do not.
            Some(if value < module.base { value.wrapping_add(module.base) } else { value })
        };
        Some(Tables {
            base: module.base,
            symbols: address(DT_SYMTAB)? as *const Symbol,
            strings: address(DT_STRTAB)? as *const u8,
            versions: address(DT_VERSYM).map_or(null(), |at| at as *const u16),
            gnu_hash: address(DT_GNU_HASH).map_or(null(), |at| at as *const u32),
            sysv_hash: address(DT_HASH).map_or(null(), |at| at as *const u32),
        })
    }

    fn find(&self, name: &[u8]) -> Option<u64> {
        // SAFETY: the tables are those of a loaded module, which the dynamic linker itself searches
        // in the same way.
        unsafe {
            if !self.gnu_hash.is_null() {
                self.find_by_gnu_hash(name)
            } else if !self.sysv_hash.is_null() {
                self.find_by_sysv_hash(name)
            } else {
                None
            }
        }
    }

    /// # Safety
    /// `gnu_hash` must be the module's table.
    unsafe fn find_by_gnu_hash(&self, name: &[u8]) -> Option<u64> {
        let hash = name.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        // SAFETY: layout of the table: four words, `bloom_words` double words, `n_buckets` words,
        // one word per symbol from `first` on.
        unsafe {
            let table = self.gnu_hash;
            let (n_buckets, first, bloom_words) = (*table, *table.add(1), *table.add(2));
            if n_buckets == 0 {
                return None;
            }
            let buckets = table.add(4 + 2 * bloom_words as usize);
            let chains = buckets.add(n_buckets as usize);
            let mut index = *buckets.add((hash % n_buckets) as usize);
            if index < first {
                return None;
            }
            loop {
                let entry = *chains.add((index - first) as usize);
                if entry | 1 == hash | 1
                    && let Some(address) = self.definition(index as usize, name)
                {
                    return Some(address);
                }
                if entry & 1 != 0 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// # Safety
    /// `sysv_hash` must be the module's table.
    unsafe fn find_by_sysv_hash(&self, name: &[u8]) -> Option<u64> {
        // SAFETY: the second word of the table is the number of symbols.
        unsafe {
            let n_symbols = *self.sysv_hash.add(1);
            (0..n_symbols as usize).find_map(|index| self.definition(index, name))
        }
    }

    /// Returns the address of symbol `index` if it is the default definition of `name`.
    ///
    /// # Safety
    /// `index` must be that of a symbol.
    unsafe fn definition(&self, index: usize, name: &[u8]) -> Option<u64> {
        const HIDDEN_VERSION: u16 = 0x8000;
        const TYPE_IFUNC: u8 = 10;
        // SAFETY: the tables run in parallel; names are C strings in the string table.
        unsafe {
            let symbol = &*self.symbols.add(index);
            let is_hidden = !self.versions.is_null() && *self.versions.add(index) & HIDDEN_VERSION != 0;
            if symbol.section == 0 || is_hidden || !equals(self.strings.add(symbol.name as usize), name) {
                return None;
            }
            let address = self.base.wrapping_add(symbol.value);
            if symbol.info & 0xf == TYPE_IFUNC {
                let resolve: extern "C" fn() -> u64 = core::mem::transmute(address);
                return Some(resolve());
            }
            Some(address)
        }
    }
}

/// # Safety
/// `string` must be a C string.
unsafe fn equals(string: *const u8, name: &[u8]) -> bool {
    // SAFETY: the comparison ends at the first difference, at the latest at the terminator.
    unsafe { name.iter().enumerate().all(|(at, &byte)| *string.add(at) == byte) && *string.add(name.len()) == 0 }
}
