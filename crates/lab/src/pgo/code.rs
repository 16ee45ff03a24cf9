//! The code of a program by address, and its functions by the names that BOLT gives them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

/// The code of one file.
#[derive(Debug, Default)]
pub struct Code {
    sections: Vec<(u64, Vec<u8>)>,
    /// Start and size.
    functions: HashMap<String, (u64, u64)>,
}

/// A conditional branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Where it leads when it is taken.
    pub taken: u64,
    /// Where it leads when it is not.
    pub next: u64,
}

impl Code {
    pub fn read(path: &Path) -> anyhow::Result<Code> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let elf = ElfFile64::<LittleEndian, _>::parse(bytes.as_slice())?;
        let mut code = Code::default();
        for section in elf.sections().filter(|section| section.kind() == SectionKind::Text) {
            code.sections.push((section.address(), section.data()?.to_vec()));
        }
        let mut symbols: Vec<_> = elf.symbols().filter(|symbol| symbol.kind() != SymbolKind::File).collect();
        symbols.retain(|symbol| !symbol.is_undefined());
        symbols.sort_by_key(|symbol| (symbol.address(), symbol.kind() != SymbolKind::Text));
        let mut n_of_name: HashMap<&str, u32> = HashMap::new();
        for symbol in symbols {
            let name = symbol.name()?;
            let n = n_of_name.entry(name).or_default();
            *n += u32::from(symbol.is_local());
            let name = if symbol.is_local() { format!("{name}/{n}") } else { name.to_owned() };
            if symbol.kind() == SymbolKind::Text {
                code.functions.insert(name, (symbol.address(), symbol.size()));
            }
        }
        Ok(code)
    }

    /// Start of a function, and its size.
    pub fn function(&self, name: &str) -> Option<(u64, u64)> {
        self.functions.get(name).copied()
    }

    /// The instruction at an address, if there is code and it can be decoded.
    pub fn instruction(&self, address: u64) -> Option<Instruction> {
        let has_address = |(start, bytes): &&(u64, Vec<u8>)| {
            address.checked_sub(*start).is_some_and(|offset| offset < bytes.len() as u64)
        };
        let (start, bytes) = self.sections.iter().find(has_address)?;
        let rest = bytes.get(usize::try_from(address - start).ok()?..)?;
        let instruction = Decoder::with_ip(64, rest, address, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// The conditional branch at an address.
    pub fn branch(&self, address: u64) -> Option<Branch> {
        let instruction = self.instruction(address)?;
        let branch = Branch { taken: instruction.near_branch_target(), next: instruction.next_ip() };
        (instruction.flow_control() == FlowControl::ConditionalBranch).then_some(branch)
    }
}
