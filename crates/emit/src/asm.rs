//! The few instruction forms that probes and stubs are made of.
//!
//! Every method appends one instruction. Those that reach the thread's header use `gs:[disp32]`
//! without a base, which needs a SIB byte in 64-bit mode. Jumps between parts of one function go to
//! [`Label`]s and always have 32-bit displacements, so that no instruction changes its length once
//! it is written. [`Asm::resolve_labels`] fills them in, function by function.

/// The bytes written so far, and the jumps of the present function that still lack their
/// displacement.
#[derive(Debug, Default)]
pub(crate) struct Asm {
    pub code: Vec<u8>,
    labels: Vec<u32>,
    label_uses: Vec<(u32, Label)>,
}

/// A place in the present function that jumps can go to, bound or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(u32);

/// A general register by its hardware number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpr(pub u8);

impl Gpr {
    pub const RAX: Gpr = Gpr(0);
    pub const RCX: Gpr = Gpr(1);
    pub const RDX: Gpr = Gpr(2);
    pub const RSP: Gpr = Gpr(4);
    pub const R11: Gpr = Gpr(11);

    fn low(self) -> u8 {
        self.0 & 7
    }

    fn high(self) -> u8 {
        self.0 >> 3 & 1
    }
}

/// Conditions by their number in the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition(pub u8);

impl Condition {
    /// Unsigned above.
    pub const A: Condition = Condition(7);
    /// Unsigned above or equal.
    pub const AE: Condition = Condition(3);
    /// Zero.
    pub const Z: Condition = Condition(4);
    /// Not zero.
    pub const NZ: Condition = Condition(5);
    /// Sign clear.
    pub const NS: Condition = Condition(9);

    /// What holds if this one does not.
    pub fn negated(self) -> Condition {
        Condition(self.0 ^ 1)
    }
}

const UNBOUND: u32 = u32::MAX;
const GS: u8 = 0x65;
const REX: u8 = 0x40;
const REX_W: u8 = 0x48;
/// ModRM and SIB of `[disp32]`, the register field being 0.
const ABSOLUTE: [u8; 2] = [0x04, 0x25];

impl Asm {
    /// Where the next instruction goes.
    pub fn position(&self) -> u32 {
        self.code.len() as u32
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    fn gs(&mut self, rex: Option<u8>, opcode: u8, register_field: u8, offset: u32) {
        self.code.push(GS);
        self.code.extend(rex);
        self.bytes(&[opcode, ABSOLUTE[0] | register_field << 3, ABSOLUTE[1]]);
        self.bytes(&offset.to_le_bytes());
    }

    fn gs_qword(&mut self, opcode: u8, register: Gpr, offset: u32) {
        self.gs(Some(REX_W | register.high() << 2), opcode, register.low(), offset);
    }

    /// `mov gs:[offset], register`
    pub fn store(&mut self, offset: u32, register: Gpr) {
        self.gs_qword(0x89, register, offset);
    }

    /// `mov register, gs:[offset]`
    pub fn load(&mut self, register: Gpr, offset: u32) {
        self.gs_qword(0x8b, register, offset);
    }

    /// An instruction with `register` and `gs:[base + offset]`, of 32 bits.
    pub fn gs_based_dword(&mut self, opcode: u8, register: Gpr, base: Gpr, offset: u32) {
        self.code.push(GS);
        if register.high() | base.high() != 0 {
            self.code.push(REX | register.high() << 2 | base.high());
        }
        self.bytes(&[opcode, 0x80 | register.low() << 3 | base.low()]);
        if base.low() == 4 {
            self.code.push(0x24);
        }
        self.bytes(&offset.to_le_bytes());
    }

    /// `mov dword gs:[base + offset], value`; returns where the value is.
    pub fn gs_based_constant(&mut self, base: Gpr, offset: u32, value: u32) -> u32 {
        self.gs_based_dword(0xc7, Gpr(0), base, offset);
        self.bytes(&value.to_le_bytes());
        self.position() - 4
    }

    /// `cmp dword gs:[base + offset], value`; returns where the value is.
    pub fn gs_based_compare(&mut self, base: Gpr, offset: u32, value: u32) -> u32 {
        self.gs_based_dword(0x81, Gpr(7), base, offset);
        self.bytes(&value.to_le_bytes());
        self.position() - 4
    }

    /// Writes an instruction on the 64-bit word at `gs:[base + offset]`.
    pub fn gs_based(&mut self, opcode: u8, register: Gpr, base: Gpr, offset: u32) {
        self.bytes(&[GS, REX_W | register.high() << 2 | base.high(), opcode, 0x80 | register.low() << 3 | base.low()]);
        if base.low() == 4 {
            self.code.push(0x24);
        }
        self.bytes(&offset.to_le_bytes());
    }

    /// `neg register`
    pub fn negate(&mut self, register: Gpr) {
        self.bytes(&[REX_W | register.high(), 0xf7, 0xd8 | register.low()]);
    }

    /// `cmp register, gs:[offset]`
    pub fn compare(&mut self, register: Gpr, offset: u32) {
        self.gs_qword(0x3b, register, offset);
    }

    /// `sub register, gs:[offset]`
    pub fn subtract(&mut self, register: Gpr, offset: u32) {
        self.gs_qword(0x2b, register, offset);
    }

    /// `add register, gs:[offset]`
    pub fn add(&mut self, register: Gpr, offset: u32) {
        self.gs_qword(0x03, register, offset);
    }

    /// `mov gs:[offset], register` of 32 bits; `register` is one of the first eight.
    pub fn store_low(&mut self, offset: u32, register: Gpr) {
        self.gs(None, 0x89, register.low(), offset);
    }

    /// `mov register, gs:[offset]` of 32 bits; `register` is one of the first eight.
    pub fn load_low(&mut self, register: Gpr, offset: u32) {
        self.gs(None, 0x8b, register.low(), offset);
    }

    /// `mov dword gs:[offset], value`
    pub fn store_constant(&mut self, offset: u32, value: u32) {
        self.gs(None, 0xc7, 0, offset);
        self.bytes(&value.to_le_bytes());
    }

    /// `mov register, gs:[offset]` of 32 bits.
    pub fn load_dword(&mut self, register: Gpr, offset: u32) {
        let rex = (register.high() != 0).then_some(0x44);
        self.gs(rex, 0x8b, register.low(), offset);
    }

    /// `mov gs:[offset], register` of 32 bits.
    pub fn store_dword(&mut self, offset: u32, register: Gpr) {
        let rex = (register.high() != 0).then_some(0x44);
        self.gs(rex, 0x89, register.low(), offset);
    }

    /// `movsxd register, dword gs:[offset]`
    pub fn load_signed(&mut self, register: Gpr, offset: u32) {
        self.gs_qword(0x63, register, offset);
    }

    /// `add dword gs:[offset], value`
    pub fn add_constant(&mut self, offset: u32, value: u32) {
        self.gs(None, 0x81, 0, offset);
        self.bytes(&value.to_le_bytes());
    }

    /// `cmp dword gs:[offset], value`
    pub fn compare_constant(&mut self, offset: u32, value: u32) {
        self.gs(None, 0x81, 7, offset);
        self.bytes(&value.to_le_bytes());
    }

    /// `cmp dword gs:[offset], 0`
    pub fn compare_with_zero(&mut self, offset: u32) {
        self.gs(None, 0x83, 7, offset);
        self.bytes(&[0]);
    }

    /// `sub dword gs:[offset], 1`
    pub fn subtract_one(&mut self, offset: u32) {
        self.gs(None, 0x83, 5, offset);
        self.bytes(&[1]);
    }

    /// `inc qword gs:[offset]`; returns where the offset is, which ends the instruction.
    pub fn increment(&mut self, offset: u32) -> u32 {
        self.gs(Some(REX_W), 0xff, 0, offset);
        self.position() - 4
    }

    /// `inc qword gs:[register * 8 + offset]`; returns where the offset is, which ends the
    /// instruction.
    pub fn increment_scaled(&mut self, register: Gpr, offset: u32) -> u32 {
        let sib = 0xc5 | register.low() << 3;
        self.bytes(&[GS, REX_W | register.high() << 1, 0xff, 0x04, sib]);
        self.bytes(&offset.to_le_bytes());
        self.position() - 4
    }

    /// An instruction with a register and `gs:[index * 8 + offset]`; `opcode` is 8b to load, 89 to
    /// store, 33 to exclusive-or.
    pub fn cache_entry(&mut self, opcode: u8, register: Gpr, index: Gpr, offset: u32) {
        let rex = REX_W | register.high() << 2 | index.high() << 1;
        self.bytes(&[GS, rex, opcode, 0x04 | register.low() << 3, 0xc5 | index.low() << 3]);
        self.bytes(&offset.to_le_bytes());
    }

    /// `mov gs:[index * 8 + offset], register` of 32 bits.
    pub fn store_scaled_dword(&mut self, index: Gpr, offset: u32, register: Gpr) {
        self.code.push(GS);
        let high = register.high() << 2 | index.high() << 1;
        self.code.extend((high != 0).then_some(REX | high));
        self.bytes(&[0x89, 0x04 | register.low() << 3, 0xc5 | index.low() << 3]);
        self.bytes(&offset.to_le_bytes());
    }

    /// `mov dword gs:[index * 8 + offset], value`; returns where the value is, which ends the
    /// instruction.
    pub fn store_scaled_constant(&mut self, index: Gpr, offset: u32, value: u32) -> u32 {
        self.code.push(GS);
        self.code.extend((index.high() != 0).then_some(REX | index.high() << 1));
        self.bytes(&[0xc7, 0x04, 0xc5 | index.low() << 3]);
        self.bytes(&offset.to_le_bytes());
        self.bytes(&value.to_le_bytes());
        self.position() - 4
    }

    /// `add register, value`
    pub fn add_immediate(&mut self, register: Gpr, value: i8) {
        self.bytes(&[REX_W | register.high(), 0x83, 0xc0 | register.low()]);
        self.bytes(&value.to_le_bytes());
    }

    /// `mov to, from` of 32 bits.
    pub fn move_dword(&mut self, to: Gpr, from: Gpr) {
        if to.high() | from.high() != 0 {
            self.code.push(REX | from.high() << 2 | to.high());
        }
        self.bytes(&[0x89, 0xc0 | from.low() << 3 | to.low()]);
    }

    /// `shr register, distance` of 32 bits.
    pub fn shift_right_dword(&mut self, register: Gpr, distance: u8) {
        if register.high() != 0 {
            self.code.push(REX | 1);
        }
        self.bytes(&[0xc1, 0xe8 | register.low(), distance]);
    }

    /// `and register, mask` of 32 bits.
    pub fn and_dword(&mut self, register: Gpr, mask: u32) {
        if register.high() != 0 {
            self.code.push(REX | 1);
        }
        self.bytes(&[0x81, 0xe0 | register.low()]);
        self.bytes(&mask.to_le_bytes());
    }

    /// `cmp register, value`
    pub fn compare_immediate(&mut self, register: Gpr, value: i32) {
        self.bytes(&[REX_W | register.high(), if i8::try_from(value).is_ok() { 0x83 } else { 0x81 }]);
        self.code.push(0xf8 | register.low());
        match i8::try_from(value) {
            Ok(short) => self.bytes(&short.to_le_bytes()),
            Err(_) => self.bytes(&value.to_le_bytes()),
        }
    }

    /// An instruction with a register and `gs:[index * 2 + offset]`; `opcode` is 8b to load, 89 to
    /// store, 3b to compare.
    pub fn entry(&mut self, opcode: u8, register: Gpr, index: Gpr, offset: u32) {
        self.scaled_by_2(Some(REX_W), opcode, register, index, offset);
    }

    /// The same for 32 bits.
    pub fn entry_dword(&mut self, opcode: u8, register: Gpr, index: Gpr, offset: u32) {
        let is_high = register.high() | index.high() != 0;
        self.scaled_by_2(is_high.then_some(REX), opcode, register, index, offset);
    }

    fn scaled_by_2(&mut self, rex: Option<u8>, opcode: u8, register: Gpr, index: Gpr, offset: u32) {
        self.code.push(GS);
        self.code.extend(rex.map(|rex| rex | register.high() << 2 | index.high() << 1));
        self.bytes(&[opcode, 0x04 | register.low() << 3, 0x45 | index.low() << 3]);
        self.bytes(&offset.to_le_bytes());
    }

    /// `mov register, esp; and register, mask` of 32 bits.
    pub fn frame_index(&mut self, register: Gpr, mask: u32) {
        for bytes in [[0x89, 0xe0], [0x81, 0xe0]] {
            if register.high() != 0 {
                self.code.push(0x41);
            }
            self.bytes(&[bytes[0], bytes[1] | register.low()]);
        }
        self.bytes(&mask.to_le_bytes());
    }

    /// `mov register, value`; returns where the value is.
    pub fn load_wide_constant(&mut self, register: Gpr, value: u64) -> u32 {
        self.bytes(&[REX_W | register.high(), 0xb8 | register.low()]);
        self.bytes(&value.to_le_bytes());
        self.position() - 8
    }

    /// `or to, from`
    pub fn or(&mut self, to: Gpr, from: Gpr) {
        self.bytes(&[REX_W | from.high() << 2 | to.high(), 0x09, 0xc0 | from.low() << 3 | to.low()]);
    }

    /// `imul to, by`
    pub fn multiply(&mut self, to: Gpr, by: Gpr) {
        self.bytes(&[REX_W | to.high() << 2 | by.high(), 0x0f, 0xaf, 0xc0 | to.low() << 3 | by.low()]);
    }

    /// `imul to, from, by`
    pub fn multiply_by(&mut self, to: Gpr, from: Gpr, by: i32) {
        self.bytes(&[REX_W | to.high() << 2 | from.high(), 0x69, 0xc0 | to.low() << 3 | from.low()]);
        self.bytes(&by.to_le_bytes());
    }

    /// `cmp qword gs:[base + offset], 0`
    pub fn compare_based_with_zero(&mut self, base: Gpr, offset: u32) {
        self.gs_based(0x83, Gpr(7), base, offset);
        self.code.push(0);
    }

    /// `shl register, distance`
    pub fn shift_left(&mut self, register: Gpr, distance: u8) {
        self.bytes(&[REX_W | register.high(), 0xc1, 0xe0 | register.low(), distance]);
    }

    /// `shr register, distance`
    pub fn shift_right(&mut self, register: Gpr, distance: u8) {
        self.bytes(&[REX_W | register.high(), 0xc1, 0xe8 | register.low(), distance]);
    }

    /// `lea register, [register + distance]` of 32 bits.
    pub fn advance_dword(&mut self, register: Gpr, distance: i32) {
        if register.high() != 0 {
            self.code.push(0x45);
        }
        let low = register.low();
        self.bytes(&[0x8d, 0x80 | low << 3 | low]);
        if low == Gpr::RSP.low() {
            self.code.push(0x24);
        }
        self.bytes(&distance.to_le_bytes());
    }

    /// `mov eax, [base + rax * 4]`
    pub fn load_map_entry(&mut self, base: Gpr) {
        if base.high() != 0 {
            self.code.push(0x41);
        }
        // A base of `rbp` or `r13` needs a displacement.
        if base.low() == 5 {
            self.bytes(&[0x8b, 0x44, 0x80 | base.low(), 0]);
        } else {
            self.bytes(&[0x8b, 0x04, 0x80 | base.low()]);
        }
    }

    /// `dec dword gs:[offset]`
    pub fn decrement(&mut self, offset: u32) {
        self.gs(None, 0xff, 1, offset);
    }

    /// `jmp gs:[offset]`
    pub fn jump_through(&mut self, offset: u32) {
        self.gs(None, 0xff, 4, offset);
    }

    /// `mov dword [base], value`; returns where the value is.
    pub fn store_constant_at(&mut self, base: Gpr, value: u32) -> u32 {
        if base.high() != 0 {
            self.code.push(0x41);
        }
        self.code.push(0xc7);
        match base.low() {
            4 => self.bytes(&[0x04, 0x24]),
            5 => self.bytes(&[0x45, 0x00]),
            low => self.code.push(low),
        }
        self.bytes(&value.to_le_bytes());
        self.position() - 4
    }

    /// `lea register, [register + distance]`
    pub fn advance(&mut self, register: Gpr, distance: i32) {
        self.bytes(&[REX_W | register.high() << 2 | register.high(), 0x8d]);
        let low = register.low();
        let (mode, short) = match i8::try_from(distance) {
            Ok(short) => (0x40, Some(short)),
            Err(_) => (0x80, None),
        };
        self.code.push(mode | low << 3 | low);
        if low == Gpr::RSP.low() {
            self.code.push(0x24);
        }
        match short {
            Some(short) => self.bytes(&short.to_le_bytes()),
            None => self.bytes(&distance.to_le_bytes()),
        }
    }

    /// `lea register, [rip + ...]`; returns where the displacement goes, which ends the
    /// instruction.
    pub fn address_of(&mut self, register: Gpr) -> u32 {
        self.bytes(&[REX_W | register.high() << 2, 0x8d, 0x05 | register.low() << 3]);
        self.hole()
    }

    /// `push [rip + ...]`; returns where the displacement goes, which ends the instruction.
    pub fn push_literal(&mut self) -> u32 {
        self.bytes(&[0xff, 0x35]);
        self.hole()
    }

    /// `call label`
    pub fn call(&mut self, label: Label) {
        self.code.push(0xe8);
        let hole = self.hole();
        self.use_label(hole, label);
    }

    /// `add qword [rsp], ...`; returns where the immediate goes, which ends the instruction.
    pub fn add_to_top_of_stack(&mut self) -> u32 {
        self.bytes(&[0x48, 0x81, 0x04, 0x24]);
        self.hole()
    }

    /// `jmp rel32`; returns where the displacement goes, which ends the instruction.
    pub fn jump(&mut self) -> u32 {
        self.code.push(0xe9);
        self.hole()
    }

    /// `jcc rel32`; returns where the displacement goes, which ends the instruction.
    pub fn jump_if(&mut self, condition: Condition) -> u32 {
        self.bytes(&[0x0f, 0x80 | condition.0]);
        self.hole()
    }

    /// `jmp rel8` over `distance` bytes.
    pub fn jump_over(&mut self, distance: u8) {
        self.bytes(&[0xeb, distance]);
    }

    /// `jrcxz rel8` over `distance` bytes.
    pub fn jump_over_if_rcx_is_zero(&mut self, distance: u8) {
        self.bytes(&[0xe3, distance]);
    }

    fn hole(&mut self) -> u32 {
        self.bytes(&[0; 4]);
        self.position() - 4
    }

    /// Writes a displacement that ends its instruction, to a place in the same code.
    pub fn set_displacement(&mut self, hole: u32, target: u32) {
        let displacement = target.wrapping_sub(hole + 4);
        self.code[hole as usize..hole as usize + 4].copy_from_slice(&displacement.to_le_bytes());
    }

    pub fn new_label(&mut self) -> Label {
        self.labels.push(UNBOUND);
        Label(self.labels.len() as u32 - 1)
    }

    /// The label is here.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0 as usize] = self.position();
    }

    /// Makes the displacement at `hole` lead to the label.
    pub fn use_label(&mut self, hole: u32, label: Label) {
        self.label_uses.push((hole, label));
    }

    /// `jmp label`
    pub fn jump_to(&mut self, label: Label) {
        let hole = self.jump();
        self.use_label(hole, label);
    }

    /// `jcc label`
    pub fn jump_to_if(&mut self, condition: Condition, label: Label) {
        let hole = self.jump_if(condition);
        self.use_label(hole, label);
    }

    /// Fills in all jumps to labels and forgets the labels: the function is complete.
    pub fn resolve_labels(&mut self) {
        let mut uses = std::mem::take(&mut self.label_uses);
        for (hole, label) in uses.drain(..) {
            let target = self.labels[label.0 as usize];
            debug_assert_ne!(target, UNBOUND, "a jump to a label that was never bound");
            self.set_displacement(hole, target);
        }
        self.label_uses = uses;
        self.labels.clear();
    }
}

#[cfg(test)]
#[path = "asm_tests.rs"]
mod tests;
