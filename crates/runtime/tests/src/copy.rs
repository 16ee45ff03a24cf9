//! Copies made by hand: a few kinds of instructions, with the rules of recovery that belong to
//! them.
//!
//! This is not how the emitter does it, but it is all that the runtime sees of it.

use std::path::Path;
use std::process::Command;

use wire::exact::{CELLS, FRAME_MASK, FRAMES};
use wire::recovery::{Run, kind, saves};
use wire::sample::EndReason;
use wire::thread::offset;

/// The symbols of a program.
pub struct Symbols(String);

impl Symbols {
    pub fn of(program: &Path) -> Symbols {
        let output = Command::new("nm").arg(program).output().expect("nm is needed: install the package binutils");
        Symbols(String::from_utf8(output.stdout).expect("text"))
    }

    /// Address of `symbol` in the program's file.
    pub fn address(&self, symbol: &str) -> u64 {
        let line = self.0.lines().find(|line| line.split_whitespace().nth(2) == Some(symbol));
        let line = line.unwrap_or_else(|| panic!("the program has {symbol}"));
        u64::from_str_radix(line.split_whitespace().next().expect("an address"), 16).expect("a number")
    }
}

/// Assembles what is needed here; every operand is 32 bits wide.
#[derive(Default)]
pub struct Code(pub Vec<u8>);

impl Code {
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Code {
        self.0.extend_from_slice(bytes);
        self
    }

    /// An instruction with an operand in the thread's area, then an immediate.
    pub fn at_area(&mut self, opcode: &[u8], modrm: u8, at: u32, immediate: &[u8]) -> &mut Code {
        self.bytes(&[0x65]).bytes(opcode).bytes(&[modrm, 0x25]).bytes(&at.to_le_bytes()).bytes(immediate)
    }

    pub fn store_rax(&mut self, at: u32) -> &mut Code {
        self.at_area(&[0x48, 0x89], 0x04, at, &[])
    }

    pub fn load_rax(&mut self, at: u32) -> &mut Code {
        self.at_area(&[0x48, 0x8b], 0x04, at, &[])
    }

    pub fn set_rax(&mut self, value: u64) -> &mut Code {
        self.bytes(&[0x48, 0xb8]).bytes(&value.to_le_bytes())
    }

    /// An instruction with `reg` and the frame in the entry that the stack pointer chooses; `rax`
    /// chooses it.
    fn at_frame(&mut self, opcode: u8, reg: u8) -> &mut Code {
        // mov eax, esp; and eax, FRAME_MASK
        self.bytes(&[0x89, 0xe0, 0x25]).bytes(&FRAME_MASK.to_le_bytes());
        self.bytes(&[0x65, 0x48, opcode, 0x04 | reg << 3, 0x45]).bytes(&(FRAMES + 8).to_le_bytes())
    }

    pub fn jump(&mut self, opcode: &[u8], to: usize) -> &mut Code {
        let end = self.0.len() + opcode.len() + 4;
        let distance = to as i32 - end as i32;
        self.bytes(opcode).bytes(&distance.to_le_bytes())
    }
}

/// A copy of exact mode. Originals are offsets from the load address `base`.
#[derive(Default)]
pub struct ExactCopy {
    pub base: u64,
    pub code: Code,
    pub runs: Vec<Run>,
    /// Original, offset of the twin, whether it starts a block.
    pub twins: Vec<(u32, u32, bool)>,
    /// Last byte of a call, offset of what its return leads to.
    pub landings: Vec<(u32, u32)>,
}

impl ExactCopy {
    fn run(&mut self, original: u32, kind: u8, saved: u8, save_end: [u8; 4]) {
        let copy = self.code.0.len() as u32;
        self.runs.push(Run { copy, original, kind, saves: saved, save_end, ..Run::default() });
    }

    /// The next instruction of the copy is the twin of `original`.
    pub fn twin(&mut self, original: u32, is_leader: bool) -> usize {
        self.twins.push((original, self.code.0.len() as u32, is_leader));
        self.code.0.len()
    }

    /// Instructions as they are.
    pub fn straight(&mut self, original: u32, bytes: &[u8]) {
        self.run(original, kind::STRAIGHT, 0, [0; 4]);
        self.code.bytes(bytes);
    }

    /// Counts in steps that a signal can come between.
    pub fn count(&mut self, original: u32, cell: u32) {
        let at = CELLS + 8 * cell;
        self.run(original, kind::PROBE, saves::RAX, [9, 0, 0, 0]);
        self.code.store_rax(offset::SAVED_RAX).load_rax(at).bytes(&[0x48, 0x8d, 0x40, 0x01]).store_rax(at);
        self.code.load_rax(offset::SAVED_RAX);
    }

    /// Sets the path register.
    pub fn start_path(&mut self, original: u32, register: u32) {
        self.run(original, kind::PROBE, 0, [0; 4]);
        self.code.at_area(&[0xc7], 0x04, offset::FRAME, &register.to_le_bytes());
    }

    /// Adds the path register to a counter.
    pub fn add_path(&mut self, original: u32, cell: u32) {
        self.run(original, kind::PROBE, saves::RAX, [9, 0, 0, 0]);
        self.code.store_rax(offset::SAVED_RAX).load_rax(offset::FRAME);
        self.code.at_area(&[0x48, 0x01], 0x04, CELLS + 8 * cell, &[]).load_rax(offset::SAVED_RAX);
    }

    /// A jump inside the copy.
    pub fn jump(&mut self, original: u32, to: usize) {
        self.run(original, kind::PROBE, 0, [0; 4]);
        self.code.jump(&[0xe9], to);
    }

    /// A jump if not zero.
    pub fn jump_if_not_zero(&mut self, original: u32, to: usize) {
        self.run(original, kind::PROBE, 0, [0; 4]);
        self.code.jump(&[0x0f, 0x85], to);
    }

    /// `ret`
    pub fn give_back(&mut self, original: u32) {
        self.run(original, kind::PROBE, 0, [0; 4]);
        self.code.store_rax(offset::SAVED_RAX).bytes(&[0x58]);
        self.run(0, kind::EXIT, 0, [9, 0, 0, 0]);
        self.code.store_rax(offset::TARGET);
        self.go_to_gate(EndReason::NoCopy);
    }

    /// `call *(%rbx)`, which leaves its frame for when it has returned.
    pub fn call_at_rbx(&mut self, original: u32) {
        let return_address = self.base + u64::from(original) + 2;
        self.run(original, kind::PROBE, saves::RAX | saves::RCX, [9, 18, 0, 0]);
        self.code.store_rax(offset::SAVED_RAX).at_area(&[0x48, 0x89], 0x0c, offset::SAVED_RCX, &[]);
        self.code.at_area(&[0x48, 0x8b], 0x0c, offset::FRAME, &[]).at_frame(0x89, 1);
        self.code.at_area(&[0x48, 0x8b], 0x0c, offset::SAVED_RCX, &[]);
        self.code.bytes(&[0x48, 0x8b, 0x03]).store_rax(offset::TARGET);
        self.code.set_rax(return_address).bytes(&[0x50]);
        self.run(0, kind::EXIT, 0, [0; 4]);
        self.go_to_gate(EndReason::NoCopy);
    }

    /// Where the return of a call leads that returns to `original`: takes its frame.
    pub fn land(&mut self, original: u32) {
        self.landings.push((original - 1, self.code.0.len() as u32));
        self.run(original, kind::PROBE, saves::RAX, [9, 0, 0, 0]);
        self.code.store_rax(offset::SAVED_RAX).at_frame(0x8b, 0).store_rax(offset::FRAME);
        self.code.load_rax(offset::SAVED_RAX);
    }

    /// `syscall`, of a call that copies do not make.
    pub fn system_call(&mut self, original: u32) {
        self.run(original, kind::PROBE, saves::RAX, [9, 0, 0, 0]);
        self.code.store_rax(offset::SAVED_RAX).set_rax(self.base + u64::from(original)).store_rax(offset::TARGET);
        self.go_to_gate(EndReason::SystemCall);
    }

    fn go_to_gate(&mut self, reason: EndReason) {
        self.code.load_rax(offset::SAVED_RAX);
        self.code.at_area(&[0xc7], 0x04, offset::END_REASON, &(reason as u32).to_le_bytes());
        self.code.at_area(&[0xff], 0x24, offset::GATE, &[]);
    }
}
