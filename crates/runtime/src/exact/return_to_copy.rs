//! Back from functions of the runtime.
//!
//! Copies call the functions that the runtime exports as they are, natively, with the original
//! return address on the stack. In exact mode such a function returns into the copy of its caller.
//! [`returning!`] makes that of any function without arguments on the stack.

use core::arch::naked_asm;

use crate::bursts::twins;
use crate::exact::{self, gate, native_code};
use crate::statics::UNCOPIED;

/// Defines a function that calls another one and comes back in the way described in the module.
macro_rules! returning {
    ($(#[$attribute:meta])* $name:ident calls $target:path) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "call {target}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "cmp byte ptr [rip + {is_on}], 0",
                "jne {return_to_copy}",
                "ret",
                ".cfi_endproc",
                target = sym $target,
                is_on = sym $crate::statics::MODE,
                return_to_copy = sym $crate::exact::return_to_copy::return_to_copy,
            )
        }
    };
}
pub(crate) use returning;

/// Instead of `ret`, in exact mode. Results stay in their registers.
#[unsafe(naked)]
pub unsafe extern "C" fn return_to_copy() {
    naked_asm!(
        ".cfi_startproc",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "lea rdi, [rsp + 16]",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {destination}",
        "mov rcx, rax",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "jmp rcx",
        ".cfi_endproc",
        destination = sym destination,
    )
}

/// Returns where to go for a return to the address at `slot`.
unsafe extern "C" fn destination(slot: *const u64) -> u64 {
    // SAFETY: the caller's return address.
    let address = unsafe { *slot };
    let Some(area) = exact::own_area() else { return address };
    if let Some(twin) = twins::of_return(address) {
        exact::note_entry(&area);
        return twin;
    }
    if twins::cluster_of(address).is_some() && !UNCOPIED.contains(address) {
        return gate::prepare_for(&area, address);
    }
    exact::note_native(&area, native_code::reason_at(address));
    address
}
