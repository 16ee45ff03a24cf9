//! The auxiliary vector: where the program headers are and what the processor can do.

use crate::sys::syscall;

const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const AT_HWCAP2: u64 = 26;
const AT_SYSINFO_EHDR: u64 = 33;
/// `rdgsbase` and its kin may be used.
const HWCAP2_FSGSBASE: u64 = 2;

/// The entries that the runtime needs.
#[derive(Clone, Copy, Default)]
pub struct Auxv {
    pub program_headers: u64,
    pub n_program_headers: u64,
    pub has_fsgsbase: bool,
    /// Where the kernel's code for user space is; 0: there is none.
    pub kernel_code: u64,
}

impl Auxv {
    fn take(&mut self, kind: u64, value: u64) {
        match kind {
            AT_PHDR => self.program_headers = value,
            AT_PHNUM => self.n_program_headers = value,
            AT_HWCAP2 => self.has_fsgsbase = value & HWCAP2_FSGSBASE != 0,
            AT_SYSINFO_EHDR => self.kernel_code = value,
            _ => {}
        }
    }
}

/// Returns the vector on the initial stack, behind the environment.
///
/// # Safety
/// `environment` must be the array that the kernel made.
pub unsafe fn behind(mut environment: *const *const u8) -> Auxv {
    let mut auxv = Auxv::default();
    // SAFETY: the kernel ends the environment with a null pointer and the vector behind it with a
    // null type.
    unsafe {
        while !(*environment).is_null() {
            environment = environment.add(1);
        }
        let mut entry = environment.add(1).cast::<[u64; 2]>();
        while (*entry)[0] != 0 {
            auxv.take((*entry)[0], (*entry)[1]);
            entry = entry.add(1);
        }
    }
    auxv
}

/// Returns the vector as the kernel shows it, for calls that come before the constructor.
pub fn of_process() -> Option<Auxv> {
    let mut entries = [[0u64; 2]; 48];
    // SAFETY: a C string.
    let file = unsafe { syscall::open_for_reading(c"/proc/self/auxv".as_ptr().cast(), 0) }.ok()?;
    // SAFETY: any bytes are valid entries.
    let bytes = unsafe { core::slice::from_raw_parts_mut(entries.as_mut_ptr().cast::<u8>(), size_of_val(&entries)) };
    let read = syscall::read_at(file, bytes, 0);
    syscall::close(file);
    read.ok()?;
    let mut auxv = Auxv::default();
    for [kind, value] in entries {
        auxv.take(kind, value);
    }
    Some(auxv)
}
