//! Functions of the C library that the runtime stands before without leaving a frame on the stack.
//!
//! Most calls of such a function are none of the runtime's business, and go on to the C library's
//! own at once. The others ask where to go, with the arguments as they are, and then jump there.

/// Defines the function that the program calls.
///
/// A call whose first argument (`register`) is one of the values, and every call in exact mode,
/// goes where `target` says. So does one for which the C library's function is not known yet
/// ([`crate::sys::real::Function`]).
macro_rules! tail_call {
    (
        $(#[$attribute:meta])*
        fn $name:ident, first argument $register:literal in [$($value:ident),+], real $real:path, target $target:path
    ) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> i64 {
            core::arch::naked_asm!(
                "cmp byte ptr [rip + {mode}], 0",
                "jne 2f",
                $(concat!("cmp ", $register, ", {", stringify!($value), "}"), "je 2f",)+
                "mov r11, [rip + {real}]",
                "cmp r11, 1",
                "jbe 2f",
                "jmp r11",
                "2:",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "sub rsp, 8",
                "call {target}",
                "add rsp, 8",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                $($value = const $value,)+
                mode = sym $crate::statics::MODE,
                real = sym $real,
                target = sym $target,
            )
        }
    };
}
pub(crate) use tail_call;
