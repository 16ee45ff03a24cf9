//! Code that never has copies: the runtime's own, and the kernel's in user space (the vDSO).

use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;

use wire::control::NativeReason;

use crate::bursts::twins;
use crate::statics::{VDSO_BYTES, VDSO_START};
use crate::sys::auxv::Auxv;
use crate::sys::link_map::ProgramHeader;

/// Returns whether `pc` is in the runtime.
pub fn is_runtime(pc: u64) -> bool {
    let (start, end): (u64, u64);
    // SAFETY: takes two addresses that the linker defines.
    unsafe {
        asm!(".hidden __ehdr_start", ".hidden _end", "lea {}, [rip + __ehdr_start]", "lea {}, [rip + _end]",
             out(reg) start, out(reg) end, options(nomem, nostack, preserves_flags));
    }
    (start..end).contains(&pc)
}

/// Returns whether `pc` is in the kernel's code.
pub fn is_kernel(pc: u64) -> bool {
    pc.wrapping_sub(VDSO_START.load(Relaxed)) < VDSO_BYTES.load(Relaxed)
}

/// Returns why a thread runs natively at `pc`, where there is no copy.
pub fn reason_at(pc: u64) -> NativeReason {
    if is_runtime(pc) {
        NativeReason::Runtime
    } else if is_kernel(pc) {
        NativeReason::Kernel
    } else if twins::cluster_of(pc).is_some() {
        NativeReason::NoCopy
    } else {
        NativeReason::Outside
    }
}

/// Learns where the kernel's code is.
pub fn learn(auxv: &Auxv) {
    const PT_LOAD: u32 = 1;
    const HEADERS_OFFSET: u64 = 32;
    const HEADERS_COUNT: u64 = 56;
    let file = auxv.kernel_code;
    if file == 0 {
        return;
    }
    // SAFETY: the kernel says that there is an ELF file at this address, which is mapped as a
    // whole.
    let headers = unsafe {
        let first = file + *((file + HEADERS_OFFSET) as *const u64);
        let count = *((file + HEADERS_COUNT) as *const u16);
        core::slice::from_raw_parts(first as *const ProgramHeader, usize::from(count))
    };
    let loaded = headers.iter().filter(|header| header.kind == PT_LOAD);
    let end = loaded.map(|header| header.offset.saturating_add(header.memory_bytes)).max().unwrap_or(0);
    VDSO_START.store(file, Relaxed);
    VDSO_BYTES.store(end.next_multiple_of(wire::PAGE), Relaxed);
}
