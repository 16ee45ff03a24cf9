//! From `jmp operand` and `call operand` to `mov rax, operand`.
//!
//! All three have the operand in the same ModRM, SIB and displacement bytes, so that only what is
//! around them changes: the opcode becomes `8b`, the register field 0 (`rax`), and REX gets the bit
//! of a 64-bit operand. Of the prefixes, `fs` stays, those that only matter to jumps (`bnd`,
//! `notrack`) go. Anything else is unusual enough to leave it to the original.

/// `mov rax, operand`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    bytes: [u8; 16],
    len: u8,
    /// Where the displacement is if the operand is relative to the instruction pointer. It ends the
    /// instruction.
    pub displacement_at: Option<u32>,
}

impl Load {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn push(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(usize::from(self.len))? = byte;
        self.len += 1;
        Some(())
    }
}

const FS: u8 = 0x64;
const BND: u8 = 0xf2;
const NOTRACK: u8 = 0x3e;
const INDIRECT: u8 = 0xff;
const MOV: u8 = 0x8b;

/// The load of the operand of a near indirect jump or call, given as its bytes.
pub(crate) fn load(insn: &[u8]) -> Option<Load> {
    let mut load = Load { bytes: [0; 16], len: 0, displacement_at: None };
    let mut rest = insn;
    let mut extension = 0;
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            FS => load.push(FS)?,
            BND | NOTRACK => {}
            0x40..=0x4f => {
                extension = byte & 0b011;
                if rest.first() != Some(&INDIRECT) {
                    return None;
                }
            }
            INDIRECT => break,
            _ => return None,
        }
    }
    let (&mod_rm, operand) = rest.split_first()?;
    load.push(0x48 | extension)?;
    load.push(MOV)?;
    load.push(mod_rm & 0b1100_0111)?;
    if mod_rm & 0b1100_0111 == 0b101 {
        load.displacement_at = Some(u32::from(load.len));
    }
    operand.iter().try_for_each(|&byte| load.push(byte))?;
    Some(load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind, Register};
    use proptest::prelude::*;

    fn decode(bytes: &[u8]) -> Instruction {
        Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode()
    }

    /// Any indirect jump or call with the prefixes that are understood.
    fn indirect() -> impl Strategy<Value = Vec<u8>> {
        let prefixes = prop::collection::vec(prop::sample::select(vec![FS, BND, NOTRACK]), 0..3);
        let rex = prop::option::of(0x40u8..0x50);
        let mod_rm = (0u8..4, prop::sample::select(vec![2u8, 4]), 0u8..8);
        let rest: [u8; 5] = [0; 5];
        (prefixes, rex, mod_rm, Just(rest).prop_perturb(|_, mut random| std::array::from_fn(|_| random.random::<u8>())))
            .prop_map(|(prefixes, rex, (mode, operation, rm), rest): (_, _, _, [u8; 5])| {
                let mut bytes: Vec<u8> = prefixes;
                bytes.extend(rex);
                bytes.extend([INDIRECT, mode << 6 | operation << 3 | rm]);
                bytes.extend(rest);
                bytes
            })
    }

    proptest! {
        #[test]
        fn the_load_has_the_operand_of_the_transfer(bytes in indirect()) {
            let transfer = decode(&bytes);
            prop_assert!(matches!(transfer.code(), Code::Jmp_rm64 | Code::Call_rm64));
            let load = load(&bytes[..transfer.len()]).expect("these prefixes are understood");
            let mov = decode(load.bytes());
            prop_assert_eq!((mov.code(), mov.len()), (Code::Mov_r64_rm64, load.bytes().len()));
            prop_assert_eq!(mov.op0_register(), Register::RAX);
            prop_assert_eq!(mov.op1_kind(), transfer.op0_kind());
            if transfer.op0_kind() == OpKind::Register {
                prop_assert_eq!(mov.op1_register(), transfer.op0_register());
                return Ok(());
            }
            prop_assert_eq!(mov.memory_base(), transfer.memory_base());
            prop_assert_eq!(mov.memory_index(), transfer.memory_index());
            prop_assert_eq!(mov.memory_index_scale(), transfer.memory_index_scale());
            prop_assert_eq!(mov.memory_segment() == Register::FS, transfer.memory_segment() == Register::FS);
            prop_assert_eq!(load.displacement_at.is_some(), transfer.memory_base() == Register::RIP);
            match load.displacement_at {
                Some(at) => prop_assert_eq!(at as usize + 4, load.bytes().len()),
                None => prop_assert_eq!(mov.memory_displacement64(), transfer.memory_displacement64()),
            }
        }

        #[test]
        fn garbage_is_refused_or_fits(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(load) = load(&bytes) {
                prop_assert!(load.bytes().len() <= 16);
            }
        }
    }

    #[test]
    fn unusual_prefixes_are_refused() {
        assert_eq!(load(&[0x67, 0xff, 0x20]), None);
        assert_eq!(load(&[0x66, 0xff, 0x20]), None);
        assert_eq!(load(&[0x65, 0xff, 0x20]), None);
        assert_eq!(load(&[0x48, 0x3e, 0xff, 0x20]), None, "a REX that another prefix follows has no effect");
        assert_eq!(load(&[0xff]), None);
    }
}
