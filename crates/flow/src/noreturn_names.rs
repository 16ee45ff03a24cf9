//! Functions that never return, by their documented contract.
//!
//! Code alone does not always show it: `longjmp` ends in an indirect jump, and an import is not in
//! this file. Their names are known.

use iced_x86::{Instruction, OpKind};
use image::{Image, Svma};

/// Whether a call or jump goes through a slot that the dynamic linker binds to a function known not
/// to return.
pub(crate) fn calls_noreturn_import(image: &Image<'_>, insn: &Instruction) -> bool {
    constant_slot(insn).and_then(|slot| image.import_at(slot)).is_some_and(is_noreturn_name)
}

/// The memory operand of an indirect call or jump, if its address is constant.
pub(crate) fn constant_slot(insn: &Instruction) -> Option<Svma> {
    let constant = insn.op0_kind() == OpKind::Memory
        && !matches!(insn.memory_segment(), iced_x86::Register::FS | iced_x86::Register::GS)
        && (insn.is_ip_rel_memory_operand()
            || insn.memory_base() == iced_x86::Register::None && insn.memory_index() == iced_x86::Register::None);
    constant.then(|| Svma(insn.memory_displacement64()))
}

/// Whether the function that starts here has the name of one that never returns.
pub(crate) fn is_noreturn_by_name(image: &Image<'_>, start: Svma) -> bool {
    let name = image.name_of(start);
    is_noreturn_name(name.raw.trim_end_matches("@plt"))
}

/// Functions of the C, C++, Rust and common libraries that never return.
fn is_noreturn_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "_Exit",
        "_Unwind_Resume",
        "_ZSt9terminatev",
        "__GI___assert_fail",
        "__assert",
        "__assert_fail",
        "__assert_perror_fail",
        "__chk_fail",
        "__cxa_bad_cast",
        "__cxa_bad_typeid",
        "__cxa_call_terminate",
        "__cxa_call_unexpected",
        "__cxa_deleted_virtual",
        "__cxa_pure_virtual",
        "__cxa_rethrow",
        "__cxa_throw",
        "__cxa_throw_bad_array_new_length",
        "__fortify_fail",
        "__libc_fatal",
        "__libc_start_call_main",
        "__libc_start_main",
        "__longjmp_chk",
        "__stack_chk_fail",
        "_exit",
        "_longjmp",
        "abort",
        "err",
        "errx",
        "exit",
        "longjmp",
        "pthread_exit",
        "quick_exit",
        "rust_begin_unwind",
        "rust_panic",
        "siglongjmp",
        "thrd_exit",
        "verr",
        "verrx",
        "xalloc_die",
    ];
    NAMES.binary_search(&name).is_ok() || is_standard_throw(name)
}

/// `std::__throw_*` of libstdc++ and libc++, all of which throw.
fn is_standard_throw(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("_ZSt") else { return false };
    rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("__throw_")
}

#[cfg(test)]
mod tests {
    use super::is_noreturn_name;

    #[test]
    fn names() {
        for name in ["abort", "_Exit", "xalloc_die", "_ZSt20__throw_length_errorPKc", "__stack_chk_fail"] {
            assert!(is_noreturn_name(name), "{name}");
        }
        for name in ["error", "aborted", "_ZSt4sortv", "__throw_x"] {
            assert!(!is_noreturn_name(name), "{name}");
        }
    }
}
