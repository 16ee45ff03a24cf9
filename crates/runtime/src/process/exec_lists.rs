//! `execl` and its kin, which take the arguments of the new program as arguments of their own.
//!
//! On entry the first five of those are in registers and the rest on the stack above the return
//! address. With the return address taken away and the registers pushed in its place they form an
//! array, which is what the functions of [`crate::process::exec`] take.

use core::arch::naked_asm;

use crate::process::exec;
use crate::sys::abi::Strings;

macro_rules! list_function {
    ($(#[$documentation:meta])* $name:ident calls $target:path) => {
        $(#[$documentation])*
        ///
        /// # Safety
        /// As for the function of the C library.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> i32 {
            naked_asm!(
                "pop rax",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push rbp",
                "mov rbp, rsp",
                "push rax",
                "and rsp, -16",
                "call {target}",
                "mov rcx, [rbp - 8]",
                "mov rsp, rbp",
                "pop rbp",
                "add rsp, 40",
                "jmp rcx",
                target = sym $target,
            )
        }
    };
}

list_function! {
    /// `execl` for the program.
    execl calls exec::execv
}

list_function! {
    /// `execlp` for the program.
    execlp calls exec::execvp
}

list_function! {
    /// `execle` for the program.
    execle calls with_environment_behind
}

/// `execve` with the environment that comes after the arguments and their null pointer.
unsafe extern "C" fn with_environment_behind(path: *const u8, arguments: Strings) -> i32 {
    // SAFETY: the program's arguments, of which it says where they end.
    unsafe {
        let mut last = arguments;
        while !(*last).is_null() {
            last = last.add(1);
        }
        exec::execve(path, arguments, *last.add(1).cast::<Strings>())
    }
}
