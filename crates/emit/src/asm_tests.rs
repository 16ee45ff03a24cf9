//! Every form is decoded again by another hand.

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use proptest::prelude::*;

use super::*;

const NAMES: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
const LOW_NAMES: [&str; 8] = ["eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi"];

/// The one instruction that `write` appends, as text.
fn text(write: impl FnOnce(&mut Asm)) -> String {
    let mut asm = Asm::default();
    write(&mut asm);
    let mut decoder = Decoder::with_ip(64, &asm.code, 0x1000, DecoderOptions::NONE);
    let insn = decoder.decode();
    assert!(!insn.is_invalid() && decoder.position() == asm.code.len(), "{:02x?}", asm.code);
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_hex_prefix("0x");
    formatter.options_mut().set_hex_suffix("");
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_rip_relative_addresses(false);
    formatter.options_mut().set_space_after_operand_separator(true);
    let mut text = String::new();
    formatter.format(&insn, &mut text);
    text
}

fn register() -> impl Strategy<Value = Gpr> {
    (0u8..16).prop_map(Gpr)
}

proptest! {
    #[test]
    fn fields(register in register(), field in 0u32..0x7fff_ffff) {
        let name = NAMES[usize::from(register.0)];
        let at = if field < 10 { format!("gs:[{field}]") } else { format!("gs:[{field:#X}]").replace("0X", "0x") };
        prop_assert_eq!(text(|asm| asm.store(field, register)), format!("mov {at}, {name}"));
        prop_assert_eq!(text(|asm| asm.load(register, field)), format!("mov {name}, {at}"));
        prop_assert_eq!(text(|asm| asm.compare(register, field)), format!("cmp {name}, {at}"));
        prop_assert_eq!(text(|asm| asm.subtract(register, field)), format!("sub {name}, {at}"));
        prop_assert_eq!(text(|asm| asm.add(register, field)), format!("add {name}, {at}"));
        prop_assert_eq!(text(|asm| asm.decrement(field)), format!("dec dword ptr {at}"));
        prop_assert_eq!(text(|asm| asm.jump_through(field)), format!("jmp qword ptr {at}"));
        let low = Gpr(register.0 & 7);
        let low_name = LOW_NAMES[usize::from(low.0)];
        prop_assert_eq!(text(|asm| asm.store_low(field, low)), format!("mov {at}, {low_name}"));
        prop_assert_eq!(text(|asm| asm.load_low(low, field)), format!("mov {low_name}, {at}"));
    }

    #[test]
    fn records(register in register(), value: u32) {
        let mut asm = Asm::default();
        let at = asm.store_constant_at(register, value) as usize;
        prop_assert_eq!(&asm.code[at..], &value.to_le_bytes()[..]);
        let insn = Decoder::with_ip(64, &asm.code, 0, DecoderOptions::NONE).decode();
        prop_assert_eq!(insn.code(), iced_x86::Code::Mov_rm32_imm32);
        prop_assert_eq!(insn.memory_base().number(), usize::from(register.0));
        prop_assert_eq!(insn.memory_index(), iced_x86::Register::None);
        prop_assert_eq!((insn.memory_displacement64(), insn.immediate32()), (0, value));
    }

    #[test]
    fn advances(register in register(), distance: i32) {
        let mut asm = Asm::default();
        asm.advance(register, distance);
        let insn = Decoder::with_ip(64, &asm.code, 0, DecoderOptions::NONE).decode();
        prop_assert_eq!((insn.code(), insn.len()), (iced_x86::Code::Lea_r64_m, asm.code.len()));
        prop_assert_eq!(insn.op0_register().number(), usize::from(register.0));
        prop_assert_eq!(insn.memory_base(), insn.op0_register());
        prop_assert_eq!(insn.memory_displacement64() as i64, i64::from(distance));
    }

    #[test]
    fn jumps_lead_to_labels(before in 0usize..300, between in 0usize..300, backwards: bool, condition in 0u8..16) {
        let mut asm = Asm::default();
        let label = asm.new_label();
        asm.bytes(&vec![0x90; before]);
        if backwards {
            asm.bind(label);
        }
        asm.bytes(&vec![0x90; between]);
        let jump = asm.position();
        asm.jump_to_if(Condition(condition), label);
        if !backwards {
            asm.bytes(&vec![0x90; between]);
            asm.bind(label);
        }
        let target = if backwards { before } else { asm.code.len() };
        asm.resolve_labels();
        let code = &asm.code[jump as usize..];
        let insn = Decoder::with_ip(64, code, u64::from(jump), DecoderOptions::NONE).decode();
        prop_assert_eq!(insn.near_branch_target(), target as u64);
        prop_assert_eq!(insn.condition_code() as u8, condition + 1);
    }
}

#[test]
fn other_forms() {
    assert_eq!(text(|asm| asm.store_constant(0x54, 7)), "mov dword ptr gs:[0x54], 7");
    assert_eq!(text(|asm| _ = asm.jump()), "jmp 0x1005");
    assert_eq!(text(|asm| _ = asm.push_literal()), "push qword ptr [0x1006]");
    assert_eq!(text(|asm| _ = asm.address_of(Gpr::RCX)), "lea rcx, [0x1007]");
    assert_eq!(text(|asm| _ = asm.address_of(Gpr::R11)), "lea r11, [0x1007]");
    assert_eq!(text(|asm| asm.jump_over(5)), "jmp short 0x1007");
    assert_eq!(text(|asm| asm.jump_over_if_rcx_is_zero(5)), "jrcxz 0x1007");
    assert_eq!(text(|asm| asm.advance(Gpr::RSP, 8)), "lea rsp, [rsp+8]");
    assert_eq!(text(|asm| asm.advance(Gpr::RSP, 0x208)), "lea rsp, [rsp+0x208]");
}
