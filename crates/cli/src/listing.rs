//! Instructions as text, with the names of what they refer to.

use iced_x86::{Formatter, GasFormatter, Instruction, IntelFormatter, OpKind};
use image::Svma;

use crate::props::Syntax;

/// Formats instructions in one syntax. Names come from the caller, who knows the module.
pub struct Listing<'a> {
    formatter: Box<dyn Formatter>,
    name_at: Box<dyn Fn(Svma) -> Option<String> + 'a>,
}

impl<'a> Listing<'a> {
    pub fn new(syntax: Syntax, name_at: impl Fn(Svma) -> Option<String> + 'a) -> Listing<'a> {
        let mut formatter: Box<dyn Formatter> = match syntax {
            Syntax::Intel => Box::new(IntelFormatter::new()),
            Syntax::Att => Box::new(GasFormatter::new()),
        };
        let options = formatter.options_mut();
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_uppercase_hex(false);
        options.set_space_after_operand_separator(true);
        options.set_small_hex_numbers_in_decimal(false);
        options.set_branch_leading_zeros(false);
        options.set_rip_relative_addresses(true);
        Listing { formatter, name_at: Box::new(name_at) }
    }

    /// Returns one line: the instruction, followed by `<name>` for the code or `# address <name>`
    /// for the data it refers to.
    pub fn line(&mut self, insn: &Instruction) -> String {
        let mut text = String::new();
        self.formatter.format(insn, &mut text);
        if let Some(target) = code_reference(insn) {
            if let Some(name) = (self.name_at)(target) {
                text.push_str(&format!(" <{name}>"));
            }
        } else if insn.is_ip_rel_memory_operand() {
            let address = Svma(insn.ip_rel_memory_address());
            text.push_str(&format!("  # {address}"));
            if let Some(name) = (self.name_at)(address) {
                text.push_str(&format!(" <{name}>"));
            }
        }
        text
    }
}

fn code_reference(insn: &Instruction) -> Option<Svma> {
    let is_near = insn.op_count() > 0 && insn.op0_kind() == OpKind::NearBranch64;
    is_near.then(|| Svma(insn.near_branch_target()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    #[track_caller]
    fn check(bytes: &[u8], intel: &str, att: &str) {
        let insn = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        let name_at = |at: Svma| (at == Svma(0x1010)).then(|| "puts@plt".to_owned());
        assert_eq!(Listing::new(Syntax::Intel, name_at).line(&insn), intel);
        assert_eq!(Listing::new(Syntax::Att, name_at).line(&insn), att);
    }

    #[test]
    fn references_are_named() {
        check(&[0xe8, 0x0b, 0, 0, 0], "call 0x1010 <puts@plt>", "call 0x1010 <puts@plt>");
        check(&[0x74, 0x02], "je short 0x1004", "je 0x1004");
        check(
            &[0x48, 0x8b, 0x05, 0x09, 0, 0, 0],
            "mov rax, [rip+0x9]  # 0x1010 <puts@plt>",
            "mov 0x9(%rip), %rax  # 0x1010 <puts@plt>",
        );
        check(&[0x83, 0xc0, 0x05], "add eax, 0x5", "add $0x5, %eax");
    }
}
