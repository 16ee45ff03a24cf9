//! Every form is decoded again by another hand, with all registers that it takes.

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use proptest::prelude::*;

use super::*;

const NAMES: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
const DWORD_NAMES: [&str; 16] = [
    "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d",
    "r15d",
];
const CONDITIONS: [&str; 16] =
    ["jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja", "js", "jns", "jp", "jnp", "jl", "jge", "jle", "jg"];

/// The instructions that `write` appends, as text.
fn texts(write: impl FnOnce(&mut Asm)) -> Vec<String> {
    let mut asm = Asm::default();
    write(&mut asm);
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_signed_immediate_operands(true);
    options.set_use_pseudo_ops(false);
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(false);
    options.set_space_after_operand_separator(true);
    let decoder = Decoder::with_ip(64, &asm.code, 0x1000, DecoderOptions::NONE);
    let text = |insn: iced_x86::Instruction| {
        assert!(!insn.is_invalid(), "{:02x?}", asm.code);
        let mut text = String::new();
        formatter.format(&insn, &mut text);
        text
    };
    decoder.into_iter().map(text).collect()
}

/// The one instruction that `write` appends, as text.
fn text(write: impl FnOnce(&mut Asm)) -> String {
    let [text] = texts(write).try_into().expect("one instruction");
    text
}

fn register() -> impl Strategy<Value = Gpr> {
    (0u8..16).prop_map(Gpr)
}

/// `rsp` cannot be one.
fn index() -> impl Strategy<Value = Gpr> {
    register().prop_filter("an index", |register| *register != Gpr::RSP)
}

fn name(register: Gpr) -> &'static str {
    NAMES[usize::from(register.0)]
}

fn dword(register: Gpr) -> &'static str {
    DWORD_NAMES[usize::from(register.0)]
}

fn signed(value: i64) -> String {
    format!("{}{:#x}", if value < 0 { "-" } else { "" }, value.unsigned_abs())
}

/// The number that ends what is in brackets.
fn displacement(value: i32) -> String {
    format!("{}{:#x}", if value < 0 { "-" } else { "+" }, value.unsigned_abs())
}

proptest! {
    #[test]
    fn fields(register in register(), field in 0u32..0x7fff_ffff, value: u32) {
        let (wide, narrow, at, number) = (name(register), dword(register), format!("gs:[{field:#x}]"), signed(i64::from(value as i32)));
        prop_assert_eq!(text(|asm| asm.store(field, register)), format!("mov {at}, {wide}"));
        prop_assert_eq!(text(|asm| asm.load(register, field)), format!("mov {wide}, {at}"));
        prop_assert_eq!(text(|asm| asm.compare(register, field)), format!("cmp {wide}, {at}"));
        prop_assert_eq!(text(|asm| asm.subtract(register, field)), format!("sub {wide}, {at}"));
        prop_assert_eq!(text(|asm| asm.add(register, field)), format!("add {wide}, {at}"));
        prop_assert_eq!(text(|asm| asm.load_dword(register, field)), format!("mov {narrow}, {at}"));
        prop_assert_eq!(text(|asm| asm.store_dword(field, register)), format!("mov {at}, {narrow}"));
        prop_assert_eq!(text(|asm| asm.load_signed(register, field)), format!("movsxd {wide}, {at}"));
        let low = Gpr(register.0 & 7);
        prop_assert_eq!(text(|asm| asm.store_low(field, low)), format!("mov {at}, {}", dword(low)));
        prop_assert_eq!(text(|asm| asm.load_low(low, field)), format!("mov {}, {at}", dword(low)));
        prop_assert_eq!(text(|asm| asm.store_constant(field, value)), format!("mov dword ptr {at}, {number}"));
        prop_assert_eq!(text(|asm| asm.add_constant(field, value)), format!("add dword ptr {at}, {number}"));
        prop_assert_eq!(text(|asm| asm.compare_constant(field, value)), format!("cmp dword ptr {at}, {number}"));
        prop_assert_eq!(text(|asm| asm.compare_with_zero(field)), format!("cmp dword ptr {at}, 0x0"));
        prop_assert_eq!(text(|asm| asm.subtract_one(field)), format!("sub dword ptr {at}, 0x1"));
        prop_assert_eq!(text(|asm| asm.decrement(field)), format!("dec dword ptr {at}"));
        prop_assert_eq!(text(|asm| asm.jump_through(field)), format!("jmp qword ptr {at}"));
        prop_assert_eq!(text(|asm| assert_eq!(asm.increment(field), 5)), format!("inc qword ptr {at}"));
    }

    #[test]
    fn fields_by_index(register in register(), index in index(), field in 1u32..0x7fff_ffff, value: u32) {
        let (wide, narrow) = (name(register), dword(register));
        let by_8 = format!("gs:[{}*8+{field:#x}]", name(index));
        let forms = [(0x8b, format!("mov {wide}, {by_8}")), (0x89, format!("mov {by_8}, {wide}")), (0x33, format!("xor {wide}, {by_8}"))];
        for (opcode, expected) in forms {
            prop_assert_eq!(text(|asm| asm.cache_entry(opcode, register, index, field)), expected);
        }
        prop_assert_eq!(text(|asm| asm.store_scaled_dword(index, field, register)), format!("mov {by_8}, {narrow}"));
        prop_assert_eq!(text(|asm| _ = asm.increment_scaled(index, field)), format!("inc qword ptr {by_8}"));
        let number = signed(i64::from(value as i32));
        prop_assert_eq!(text(|asm| _ = asm.store_scaled_constant(index, field, value)), format!("mov dword ptr {by_8}, {number}"));
        let by_2 = format!("gs:[{}*2+{field:#x}]", name(index));
        let forms = |register| [(0x8b, format!("mov {register}, {by_2}")), (0x89, format!("mov {by_2}, {register}")), (0x3b, format!("cmp {register}, {by_2}"))];
        for (opcode, expected) in forms(wide) {
            prop_assert_eq!(text(|asm| asm.entry(opcode, register, index, field)), expected);
        }
        for (opcode, expected) in forms(narrow) {
            prop_assert_eq!(text(|asm| asm.entry_dword(opcode, register, index, field)), expected);
        }
    }

    /// Where a number is that is filled in later.
    #[test]
    fn places_of_numbers(register in register(), index in index(), number: u32, wide: u64) {
        let mut asm = Asm::default();
        let places = [asm.increment(number), asm.increment_scaled(index, number), asm.store_scaled_constant(index, 0, number), asm.store_constant_at(register, number), asm.gs_based_constant(register, 0, number), asm.gs_based_compare(register, 0, number)];
        for place in places {
            prop_assert_eq!(&asm.code[place as usize..][..4], &number.to_le_bytes()[..]);
        }
        let place = asm.load_wide_constant(register, wide);
        prop_assert_eq!(&asm.code[place as usize..], &wide.to_le_bytes()[..]);
    }

    #[test]
    fn fields_by_base(register in register(), base in register(), field in 1u32..0x7fff_ffff, value: u32) {
        let (wide, narrow, at) = (name(register), dword(register), format!("gs:[{}+{field:#x}]", name(base)));
        for (opcode, mnemonic) in [(0x8b, "mov"), (0x3b, "cmp"), (0x03, "add"), (0x2b, "sub")] {
            prop_assert_eq!(text(|asm| asm.gs_based(opcode, register, base, field)), format!("{mnemonic} {wide}, {at}"));
            prop_assert_eq!(text(|asm| asm.gs_based_dword(opcode, register, base, field)), format!("{mnemonic} {narrow}, {at}"));
        }
        prop_assert_eq!(text(|asm| asm.gs_based(0x89, register, base, field)), format!("mov {at}, {wide}"));
        prop_assert_eq!(text(|asm| asm.gs_based_dword(0x89, register, base, field)), format!("mov {at}, {narrow}"));
        prop_assert_eq!(text(|asm| asm.compare_based_with_zero(base, field)), format!("cmp qword ptr {at}, 0x0"));
        let number = signed(i64::from(value as i32));
        prop_assert_eq!(text(|asm| _ = asm.gs_based_constant(base, field, value)), format!("mov dword ptr {at}, {number}"));
        prop_assert_eq!(text(|asm| _ = asm.gs_based_compare(base, field, value)), format!("cmp dword ptr {at}, {number}"));
    }

    #[test]
    fn registers(to in register(), from in register(), value: i32, small: i8, distance in 0u8..32, wide: i64) {
        let (a, b, number) = (name(to), name(from), signed(i64::from(value)));
        prop_assert_eq!(text(|asm| asm.negate(to)), format!("neg {a}"));
        prop_assert_eq!(text(|asm| asm.or(to, from)), format!("or {a}, {b}"));
        prop_assert_eq!(text(|asm| asm.multiply(to, from)), format!("imul {a}, {b}"));
        prop_assert_eq!(text(|asm| asm.multiply_by(to, from, value)), format!("imul {a}, {b}, {number}"));
        prop_assert_eq!(text(|asm| asm.shift_left(to, distance)), format!("shl {a}, {distance:#x}"));
        prop_assert_eq!(text(|asm| asm.shift_right(to, distance)), format!("shr {a}, {distance:#x}"));
        prop_assert_eq!(text(|asm| asm.add_immediate(to, small)), format!("add {a}, {}", signed(i64::from(small))));
        prop_assert_eq!(text(|asm| asm.compare_immediate(to, value)), format!("cmp {a}, {number}"));
        prop_assert_eq!(text(|asm| asm.compare_immediate(to, i32::from(small))), format!("cmp {a}, {}", signed(i64::from(small))));
        prop_assert_eq!(text(|asm| _ = asm.load_wide_constant(to, wide as u64)), format!("mov {a}, {}", signed(wide)));
        let (a, b) = (dword(to), dword(from));
        prop_assert_eq!(text(|asm| asm.move_dword(to, from)), format!("mov {a}, {b}"));
        prop_assert_eq!(text(|asm| asm.shift_right_dword(to, distance)), format!("shr {a}, {distance:#x}"));
        prop_assert_eq!(text(|asm| asm.and_dword(to, value as u32)), format!("and {a}, {number}"));
        let both = [format!("mov {a}, esp"), format!("and {a}, {number}")];
        prop_assert_eq!(texts(|asm| asm.frame_index(to, value as u32)), both);
    }

    #[test]
    fn memory(register in register(), value: i32, small in 1i8..) {
        let (wide, number) = (name(register), signed(i64::from(value)));
        prop_assert_eq!(text(|asm| _ = asm.store_constant_at(register, value as u32)), format!("mov dword ptr [{wide}], {number}"));
        prop_assert_eq!(text(|asm| asm.load_map_entry(register)), format!("mov eax, [{wide}+rax*4]"));
        prop_assert_eq!(text(|asm| _ = asm.address_of(register)), format!("lea {wide}, [0x1007]"));
        for distance in [value | 1, i32::from(small), -i32::from(small)] {
            let at = format!("[{wide}{}]", displacement(distance));
            prop_assert_eq!(text(|asm| asm.advance(register, distance)), format!("lea {wide}, {at}"));
            prop_assert_eq!(text(|asm| asm.advance_dword(register, distance)), format!("lea {}, {at}", dword(register)));
        }
    }

    #[test]
    fn jumps_lead_to_labels(before in 0usize..300, between in 0usize..300, backwards: bool, condition in 0u8..16, form in 0..3) {
        let mut asm = Asm::default();
        let label = asm.new_label();
        asm.bytes(&vec![0x90; before]);
        if backwards {
            asm.bind(label);
        }
        asm.bytes(&vec![0x90; between]);
        let jump = asm.position();
        let mnemonic = match form {
            0 => {
                asm.jump_to_if(Condition(condition), label);
                CONDITIONS[usize::from(condition)]
            }
            1 => {
                asm.jump_to(label);
                "jmp"
            }
            _ => {
                asm.call(label);
                "call"
            }
        };
        if !backwards {
            asm.bytes(&vec![0x90; between]);
            asm.bind(label);
        }
        let target = if backwards { before } else { asm.code.len() };
        asm.resolve_labels();
        let code = asm.code.split_off(jump as usize);
        let insn = Decoder::with_ip(64, &code, u64::from(jump), DecoderOptions::NONE).decode();
        prop_assert_eq!(insn.near_branch_target(), target as u64);
        let text = text(|asm| asm.bytes(&code[..insn.len()]));
        prop_assert_eq!(text.split(' ').next(), Some(mnemonic));
    }
}

#[test]
fn forms_without_registers() {
    assert_eq!(text(|asm| assert_eq!(asm.jump(), 1)), "jmp 0x1005");
    assert_eq!(text(|asm| assert_eq!(asm.push_literal(), 2)), "push qword ptr [0x1006]");
    assert_eq!(text(|asm| assert_eq!(asm.add_to_top_of_stack(), 4)), "add qword ptr [rsp], 0x0");
    assert_eq!(text(|asm| asm.jump_over(5)), "jmp short 0x1007");
    assert_eq!(text(|asm| asm.jump_over_if_rcx_is_zero(5)), "jrcxz 0x1007");
    for (number, mnemonic) in CONDITIONS.iter().enumerate() {
        let condition = Condition(number as u8);
        assert_eq!(text(|asm| assert_eq!(asm.jump_if(condition), 2)), format!("{mnemonic} 0x1006"));
    }
}

/// A form that is added is tested, too.
#[test]
fn every_form_occurs_here() {
    /// What appends no instruction of its own.
    const OTHERS: [&str; 7] =
        ["position", "bytes", "set_displacement", "new_label", "bind", "use_label", "resolve_labels"];
    let (_, methods) = include_str!("asm.rs").split_once("impl Asm {").expect("the forms");
    let names = methods.split("pub fn ").skip(1).filter_map(|rest| rest.split('(').next());
    let forms: Vec<&str> = names.filter(|name| !OTHERS.contains(name)).collect();
    assert!(forms.len() > 40, "{forms:?}");
    let tested = |name: &str| include_str!("asm_tests.rs").contains(&format!("asm.{name}("));
    let missing: Vec<&&str> = forms.iter().filter(|name| !tested(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
