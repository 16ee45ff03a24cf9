//! Files that are no image: each with its own error, in one line that says what to do.

use crate::fixtures::{compile, execute};
use image::{Error, Image};
use std::process::Command;

fn error_of(data: &[u8]) -> Error {
    let error = Image::parse(data).expect_err("no image");
    let message = error.to_string();
    assert!(!message.contains('\n') && !message.ends_with('.'), "{message}");
    error
}

#[test]
fn files_of_other_formats_are_named() {
    assert_eq!(error_of(b""), Error::Empty);
    assert_eq!(error_of(b"hello"), Error::NotElf);
    assert_eq!(error_of(b"\x7fEL"), Error::NotElf);
    assert_eq!(error_of(b"!<arch>\n"), Error::Archive);
    let script = error_of(b"#! /usr/bin/env python3\nprint()\n");
    assert_eq!(script, Error::Script { interpreter: "/usr/bin/env python3".into() });
    assert_eq!(script.to_string(), "a script, not an ELF file; give its interpreter (/usr/bin/env python3) instead");
    assert_eq!(error_of(b"#!\x1b[2J\xff"), Error::Script { interpreter: "\\u{1b}[2J\u{fffd}".into() });
}

#[test]
fn foreign_elf_files_are_named() {
    let program = compile("program.c", &[]).data;
    let patched = |at: usize, bytes: &[u8]| {
        let mut data = program.clone();
        data[at..at + bytes.len()].copy_from_slice(bytes);
        error_of(&data)
    };
    assert_eq!(patched(4, &[1]), Error::Class32);
    assert_eq!(patched(4, &[7]), Error::UnknownClass(7));
    assert_eq!(patched(5, &[2]), Error::BigEndian);
    assert_eq!(patched(16, &[4, 0]), Error::Core);
    assert_eq!(patched(16, &[9, 0]), Error::UnknownType(9));
    let arm = patched(18, &[183, 0]);
    assert_eq!(arm, Error::OtherMachine(183));
    assert_eq!(arm.to_string(), "an ELF file for AArch64; strobe reads x86-64 files");
    assert_eq!(
        patched(18, &[0x39, 0x30]).to_string(),
        "an ELF file for machine number 12345; strobe reads x86-64 files"
    );
    assert_eq!(error_of(&program[..10]), Error::Truncated { len: 10 });
    assert_eq!(error_of(&program[..63]), Error::Truncated { len: 63 });
}

#[test]
fn an_object_file_is_named() {
    let program = compile("program.c", &["-c"]);
    assert_eq!(error_of(&program.data), Error::Relocatable);
    let archive = program.beside("archive.a");
    execute(Command::new("ar").arg("rc").arg(&archive).arg(&program.path));
    assert_eq!(error_of(&std::fs::read(archive).expect("ar wrote its output")), Error::Archive);
}
