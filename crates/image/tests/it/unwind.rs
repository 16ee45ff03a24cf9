//! Unwind rows, against `objdump --dwarf=frames-interp`.

use crate::fixtures::{SYSTEM_FILES, compile, hex, intact, output};
use image::{Cfa, RegisterRule, Svma, UnwindRow};
use std::collections::BTreeMap;
use std::path::Path;

const REGISTERS: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "ra",
];

/// One row as objdump prints it: the frame address, and the rules of the listed registers.
type Listed = (Svma, String, BTreeMap<String, String>);

/// Rows by start of the frame; frames with the rows of their common entry only are not listed.
fn listed_rows(path: &Path) -> BTreeMap<Svma, Vec<Listed>> {
    let mut frames: BTreeMap<Svma, Vec<Listed>> = BTreeMap::new();
    let mut frame = None;
    let mut columns: Vec<String> = Vec::new();
    for line in output("objdump", &["--dwarf=frames-interp"], path).lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if line.contains(" CIE ") {
            frame = None;
        } else if let Some((_, pcs)) = line.split_once("pc=") {
            frame = Some(Svma(hex(pcs.split_once("..").expect("a range").0)));
        } else if let ["LOC", "CFA", registers @ ..] = &fields[..] {
            columns = registers.iter().map(ToString::to_string).collect();
        } else if let (Some(frame), [at, cfa, rules @ ..]) = (frame, &fields[..])
            && at.len() == 16
        {
            let rules = columns.iter().cloned().zip(rules.iter().map(ToString::to_string)).collect();
            frames.entry(frame).or_default().push((Svma(hex(at)), cfa.to_string(), rules));
        }
    }
    frames
}

fn shown_cfa(cfa: Cfa) -> String {
    match cfa {
        Cfa::Register { register, offset } => format!("{}{offset:+}", REGISTERS[usize::from(register)]),
        Cfa::Expression => "exp".into(),
    }
}

fn shown_rule(row: &UnwindRow, register: &str) -> String {
    let rule = row.registers.iter().find(|(number, _)| REGISTERS[usize::from(*number)] == register);
    match rule.map_or(RegisterRule::Undefined, |&(_, rule)| rule) {
        RegisterRule::Undefined => "u".into(),
        RegisterRule::SameValue => "s".into(),
        RegisterRule::Offset(offset) => format!("c{offset:+}"),
        RegisterRule::ValueOffset(offset) => format!("v{offset:+}"),
        RegisterRule::Register(other) => REGISTERS[usize::from(other)].into(),
        RegisterRule::Expression => "exp".into(),
        RegisterRule::ValueExpression => "vexp".into(),
        RegisterRule::Other => "?".into(),
    }
}

fn rows_agree(path: &Path, min_frames: usize) {
    let data = std::fs::read(path).expect("a readable file");
    let image = intact(&data);
    let listed = listed_rows(path);
    assert!(listed.len() >= min_frames, "{}: only {} frames listed", path.display(), listed.len());
    for (start, expected) in listed {
        let frame = image.frame_at(start).expect("a frame");
        let rows = image.unwind_rows(frame).expect("rows");
        let found: Vec<Listed> = rows
            .iter()
            .zip(&expected)
            .map(|(row, (_, _, rules))| {
                let rules = rules.keys().map(|register| (register.clone(), shown_rule(row, register))).collect();
                (row.range.start, shown_cfa(row.cfa), rules)
            })
            .collect();
        assert_eq!(rows.len(), expected.len(), "{}: frame at {start}", path.display());
        assert_eq!(found, expected, "{}: frame at {start}", path.display());
    }
}

#[test]
fn rows_are_those_that_objdump_interprets() {
    rows_agree(&compile("program.c", &["-O2", "-fcf-protection=full", "-Wl,-z,ibtplt"]).path, 3);
    rows_agree(&compile("exceptions.cpp", &["-O0", "-fno-omit-frame-pointer"]).path, 10);
    rows_agree(Path::new(SYSTEM_FILES[0]), 20);
    rows_agree(Path::new(SYSTEM_FILES[2]), 1000);
}

#[test]
fn rows_cover_each_frame_without_gap() {
    for path in SYSTEM_FILES {
        let data = std::fs::read(path).expect("a readable file");
        let image = intact(&data);
        for frame in image.frames() {
            let rows = image.unwind_rows(frame).expect("rows");
            assert_eq!(rows.first().map(|row| row.range.start), Some(frame.range.start));
            assert_eq!(rows.last().map(|row| row.range.end), Some(frame.range.end));
            assert!(rows.is_sorted_by(|a, b| a.range.end == b.range.start), "{path}: {frame:?}");
        }
    }
}

#[test]
fn the_signal_trampoline_of_the_c_library_is_marked() {
    let data = std::fs::read(SYSTEM_FILES[1]).expect("the C library");
    let image = intact(&data);
    let trampolines = image.frames().iter().filter(|frame| frame.is_signal_trampoline);
    // mov $15, %rax; syscall: rt_sigreturn. The frame starts one byte early, for unwinders that
    // look before the address.
    assert!(trampolines.into_iter().any(|frame| {
        let code = image.read(frame.range.start.offset(1), 9);
        code == Some(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05])
    }));
}
