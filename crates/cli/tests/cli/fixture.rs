//! Programs to inspect, made when the tests run, and ways to run `strobe` on them.

use std::ops::Deref;
use std::process::{Command, Output};

use fixtures::Folder;
pub use fixtures::run;

/// A temporary folder, with what these tests make there.
pub struct Workshop(Folder);

impl Deref for Workshop {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.0
    }
}

pub fn strobe(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strobe"));
    command.args(arguments).env_remove("NO_COLOR");
    command.output().expect("strobe starts")
}

/// Standard output of a run that must succeed.
#[track_caller]
pub fn stdout(arguments: &[&str]) -> String {
    let output = strobe(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "strobe {arguments:?}: {stderr}");
    assert_eq!(stderr, "", "strobe {arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

impl Workshop {
    pub fn new() -> Workshop {
        Workshop(Folder::new())
    }

    /// A program in assembly whose code and constants lie at fixed addresses, whatever the linker.
    pub fn walk(&self) -> String {
        let source = self.write("walk.s", WALK);
        let program = self.name("walk");
        let layout = ["-Wl,-Ttext=0x401000", "-Wl,--section-start=.rodata=0x402000", "-Wl,--build-id=none"];
        let how = ["-nostdlib", "-static", "-no-pie", "-o", &program, &source];
        run("gcc", &[&how[..], &layout].concat());
        program
    }

    /// A program with the C library in it: a thousand functions.
    pub fn large(&self) -> String {
        let source = self.write("large.c", LINES);
        let program = self.name("large");
        run("gcc", &["-static", "-o", &program, &source]);
        program
    }

    /// A program in C with line tables, optimized little so that lines stay in order.
    pub fn lines(&self) -> String {
        let source = self.write("lines.c", LINES);
        let program = self.name("lines");
        run("gcc", &["-g", "-O1", "-fno-inline", "-Wl,--build-id=sha1", "-o", &program, &source]);
        program
    }
}

/// A loop with a branch, a jump table, a call and tail calls.
const WALK: &str = "
        .intel_syntax noprefix
        .text
        .globl _start, collatz, choose
        .type _start, @function
_start: mov edi, 7
        call collatz
        mov edi, eax
        call choose
        mov edi, eax
        mov eax, 60
        syscall
        hlt
        .size _start, .-_start

        .type collatz, @function
collatz:
        xor eax, eax
.Lnext: cmp rdi, 1
        jbe .Ldone
        inc eax
        test dil, 1
        je .Leven
        lea rdi, [rdi+rdi*2+1]
        jmp .Lnext
.Leven: shr rdi, 1
        jmp .Lnext
.Ldone: ret
        .size collatz, .-collatz

        .type choose, @function
choose: cmp edi, 3
        ja .Lelse
        mov edi, edi
        jmp [.Ltable+rdi*8]
.Lzero: mov eax, 10
        ret
.Lone:  mov edi, 1
        jmp collatz
.Ltwo:  ud2
.Lelse: mov eax, -1
        ret
        .size choose, .-choose

        .section .rodata
.Ltable: .quad .Lzero, .Lone, .Ltwo, .Lzero
        .section .note.GNU-stack, \"\", @progbits
";

pub const LINES: &str = "\
#include <stdio.h>
int collatz(unsigned long n) {
    int steps = 0;
    while (n > 1) {
        if (n % 2)
            n = 3 * n + 1;
        else
            n = n / 2;
        steps++;
    }
    return steps;
}
int main(int argc, char **argv) {
    printf(\"%d\\n\", collatz(argc + 6));
    return 0;
}
";
