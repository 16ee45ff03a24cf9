//! What single instructions read, and what they certainly overwrite.
//!
//! iced says what an instruction accesses; whether a write *ends* the life of what was there is
//! decided here, instruction by instruction:
//!
//! * Destinations that stay as they were if a condition does not hold: `cmov`; `bsf` and `bsr` of
//!   zero, and `tzcnt` and `lzcnt` on processors that take them for these; `rdssp` without shadow
//!   stacks; `lar` and `lsl` of a bad selector; `xbegin`; whatever `rep` repeats no times. What
//!   stays goes on to whoever reads the result, hence it is read, also where nothing else reads it.
//! * Flags that stay if a count is zero: shifts and rotations but those by a constant, and repeated
//!   comparisons.
//! * Flags that are undefined may be what they were. Logical operations are the exception: the
//!   adjust flag is cleared by every processor.

use iced_x86::{
    Code, ConditionCode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits,
};

use super::set::Set;

/// What instructions read before they write it, and what they certainly overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Effect {
    pub reads: Set,
    pub kills: Set,
}

impl Effect {
    /// A system call as the program sees it, which overwrites `rcx` and `r11`.
    pub const SYSTEM_CALL: Effect =
        Effect { reads: Set::of(&[0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15]), kills: Set::of(&[1, 11]) };

    /// Returns what is live before if this is live behind.
    pub fn before(self, behind: Set) -> Set {
        (behind - self.kills) | self.reads
    }

    /// Returns the same of an instruction that also reads these registers.
    pub fn reading(self, more: Set) -> Effect {
        Effect { reads: self.reads | more, ..self }
    }

    /// Returns the effect of this and then another.
    pub fn then(self, next: Effect) -> Effect {
        Effect { reads: self.before(next.reads), kills: self.kills | next.kills }
    }
}

/// Looks at the instructions of a block, one after the other.
#[derive(Debug)]
pub(crate) struct Effects {
    info: InstructionInfoFactory,
    /// `ecx` holds a constant other than zero.
    counts: bool,
}

impl Effects {
    /// At the start of a block.
    pub fn new() -> Effects {
        Effects { info: InstructionInfoFactory::new(), counts: false }
    }

    /// Turns to the start of another block.
    pub fn begin(&mut self) {
        self.counts = false;
    }

    /// Returns the effect of an instruction, with code that calls and interrupts lead to, which may
    /// read every register.
    pub fn of(&mut self, insn: &Instruction) -> Effect {
        if leads_elsewhere(insn) {
            self.counts = false;
            return Effect { reads: Set::REGISTERS, kills: Set::NONE };
        }
        let mut effect = self.of_operands(insn);
        if self.counts && is_repeated(insn) {
            effect.kills = effect.kills | Set::of_rflags(insn.rflags_written());
        }
        self.counts = match insn.code() {
            Code::Mov_r32_imm32 | Code::Mov_r64_imm64 | Code::Mov_rm64_imm32
                if insn.op0_register().full_register() == Register::RCX =>
            {
                insn.immediate(1) as u32 != 0
            }
            _ => self.counts && (self.written(insn) & Set::of(&[1])).is_empty(),
        };
        effect
    }

    /// Returns the effect of the instruction alone.
    pub fn of_operands(&mut self, insn: &Instruction) -> Effect {
        self.of_operands_from(insn, 1)
    }

    /// Returns the same without reads of fewer bytes.
    pub fn of_operands_from(&mut self, insn: &Instruction, least_bytes: usize) -> Effect {
        let is_sure = !may_keep_destination(insn);
        let mut effect = Effect { reads: Set::of_rflags(insn.rflags_read()), kills: killed_flags(insn) };
        for used in self.info.info(insn).used_registers() {
            let register = used.register();
            match used.access() {
                OpAccess::Write if is_sure => effect.kills = effect.kills | Set::lost_with(register),
                OpAccess::None | OpAccess::NoMemAccess => {}
                // One that may stay as it was is read, too.
                _ if register.size() >= least_bytes => effect.reads = effect.reads | Set::read_with(register),
                _ => {}
            }
        }
        effect
    }

    /// Returns the registers that an instruction may change.
    pub fn written(&mut self, insn: &Instruction) -> Set {
        let used = self.info.info(insn).used_registers().iter();
        let changed = used.filter(|used| {
            !matches!(used.access(), OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess)
        });
        changed.fold(Set::NONE, |all, used| all | Set::around(used.register()))
    }
}

/// Whether an instruction is a call as the processor does it. A call of the next instruction goes
/// nowhere.
pub(crate) fn is_call(insn: &Instruction) -> bool {
    let is_direct = insn.is_call_near() && insn.near_branch_target() != insn.next_ip();
    is_direct || insn.is_call_near_indirect() || insn.is_call_far_indirect()
}

fn leads_elsewhere(insn: &Instruction) -> bool {
    let interrupts = matches!(
        insn.mnemonic(),
        Mnemonic::Int | Mnemonic::Int1 | Mnemonic::Int3 | Mnemonic::Syscall | Mnemonic::Sysenter
    );
    interrupts || is_call(insn)
}

fn is_repeated(insn: &Instruction) -> bool {
    insn.has_rep_prefix() || insn.has_repne_prefix()
}

fn may_keep_destination(insn: &Instruction) -> bool {
    let is_conditional_move = insn.condition_code() != ConditionCode::None && insn.op_count() > 1;
    let depends_on_source = matches!(
        insn.mnemonic(),
        Mnemonic::Bsf | Mnemonic::Bsr | Mnemonic::Tzcnt | Mnemonic::Lzcnt | Mnemonic::Lar | Mnemonic::Lsl
    );
    let depends_on_processor = matches!(insn.mnemonic(), Mnemonic::Rdsspd | Mnemonic::Rdsspq | Mnemonic::Xbegin);
    is_conditional_move || depends_on_source || depends_on_processor || is_repeated(insn)
}

fn killed_flags(insn: &Instruction) -> Set {
    if is_repeated(insn) || may_shift_by_nothing(insn) {
        return Set::NONE;
    }
    let known = insn.rflags_written() | insn.rflags_cleared() | insn.rflags_set();
    match insn.mnemonic() {
        // The others are undefined, or not touched on older processors.
        Mnemonic::Bsf | Mnemonic::Bsr | Mnemonic::Lzcnt | Mnemonic::Tzcnt => Set::of_rflags(RflagsBits::ZF),
        Mnemonic::And | Mnemonic::Or | Mnemonic::Test | Mnemonic::Xor => Set::of_rflags(known | RflagsBits::AF),
        _ => Set::of_rflags(known),
    }
}

/// Whether an instruction is a shift or rotation that may leave everything as it was.
fn may_shift_by_nothing(insn: &Instruction) -> bool {
    let through_carry = matches!(insn.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr);
    let plain = matches!(
        insn.mnemonic(),
        Mnemonic::Sal
            | Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Shld
            | Mnemonic::Shrd
    );
    if !plain && !through_carry {
        return false;
    }
    let count = insn.op_count().saturating_sub(1);
    if insn.op_kind(count) != OpKind::Immediate8 {
        return true;
    }
    let is_wide = insn.op0_register().is_gpr64() || insn.memory_size().size() == 8;
    let count = insn.immediate(count) & if is_wide { 63 } else { 31 };
    // A byte and its carry are nine bits, which come round.
    count == 0 || through_carry && count >= 9
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn effect(bytes: &[u8]) -> Effect {
        Effects::new().of(&Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode())
    }

    #[track_caller]
    fn keeps(bytes: &[u8], what: Set) {
        assert!((effect(bytes).kills & what).is_empty(), "{bytes:02x?}: {:?}", effect(bytes));
    }

    #[track_caller]
    fn kills(bytes: &[u8], what: Set) {
        assert_eq!(effect(bytes).kills & what, what, "{bytes:02x?}");
    }

    const RAX: Set = Set::of(&[0]);

    #[test]
    fn destinations_that_may_stay_as_they_are() {
        keeps(&[0xf3, 0x48, 0x0f, 0x1e, 0xc8], RAX); // rdsspq rax
        keeps(&[0x48, 0x0f, 0xbc, 0xc1], RAX); // bsf rax, rcx
        keeps(&[0xf3, 0x48, 0x0f, 0xbc, 0xc1], RAX); // tzcnt rax, rcx
        keeps(&[0x48, 0x0f, 0x44, 0xc1], RAX); // cmove rax, rcx
        keeps(&[0xf3, 0x48, 0xac], RAX); // rep lodsb
        keeps(&[0xb4, 0x01], RAX); // mov ah, 1
        for kept in [&[0x48, 0x0f, 0xbc, 0xc1][..], &[0x48, 0x0f, 0x44, 0xc1]] {
            assert_eq!(effect(kept).reads & RAX, RAX, "{kept:02x?}");
        }
        assert!((effect(&[0x48, 0x89, 0xc8]).reads & RAX).is_empty()); // mov rax, rcx
        kills(&[0xb8, 1, 0, 0, 0], RAX); // mov eax, 1
        assert_eq!(effect(&[0xb0, 0x01]).kills, Set::lost_with(Register::AL)); // mov al, 1
        assert_ne!(Set::lost_with(Register::AL), RAX);
    }

    #[test]
    fn flags_that_may_stay_as_they_are() {
        keeps(&[0x48, 0xd3, 0xe0], Set::FLAGS); // shl rax, cl
        keeps(&[0x48, 0xc1, 0xe0, 0x00], Set::FLAGS); // shl rax, 0
        keeps(&[0xc1, 0xe0, 0x20], Set::FLAGS); // shl eax, 32
        keeps(&[0xc1, 0xf0, 0x20], Set::FLAGS); // sal eax, 32, in the encoding that nobody uses
        keeps(&[0xc0, 0xd0, 0x09], Set::FLAGS); // rcl al, 9
        keeps(&[0xf3, 0xa6], Set::FLAGS); // repe cmpsb
        keeps(&[0x48, 0xff, 0xc0], Set::of_rflags(RflagsBits::CF)); // inc rax
        kills(&[0x48, 0x85, 0xc0], Set::FLAGS); // test rax, rax
        kills(&[0x48, 0xc1, 0xe0, 0x03], Set::of_rflags(RflagsBits::CF | RflagsBits::ZF)); // shl rax, 3
    }

    #[test]
    fn a_comparison_that_is_repeated_for_sure_sets_flags() {
        let (set_count, compare) = ([0xb9, 4, 0, 0, 0], [0xf3, 0xa6]);
        let decode = |bytes: &[u8]| Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        let mut effects = Effects::new();
        effects.of(&decode(&set_count));
        assert_eq!(effects.of(&decode(&compare)).kills & Set::FLAGS, Set::FLAGS);
        // The count is used up.
        assert_eq!(effects.of(&decode(&compare)).kills & Set::FLAGS, Set::NONE);
    }

    #[test]
    fn calls_may_read_everything() {
        assert_eq!(effect(&[0xe8, 0x10, 0, 0, 0]).reads, Set::REGISTERS);
        assert_eq!(effect(&[0x0f, 0x05]).reads, Set::REGISTERS);
        assert_ne!(effect(&[0xe8, 0, 0, 0, 0]).reads, Set::REGISTERS); // of the next instruction
    }
}
