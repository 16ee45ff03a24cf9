//! Symbols under the names by which BOLT knows them.
//!
//! A global symbol goes by its name. A local one is followed by a number, even if no other has the
//! name: BOLT goes through the symbol table in order of address, functions before other symbols of
//! the same address, and counts per name. Data counts like code.

use crate::Svma;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSymbol as _, SymbolKind, SymbolSection};
use std::collections::HashMap;

/// The functions of a file under the names by which BOLT knows them.
#[derive(Debug, Default)]
pub struct BoltNames(
    /// Ascending in address.
    Vec<NamedRange>,
);

#[derive(Debug)]
struct NamedRange {
    start: u64,
    size: u64,
    name: String,
}

impl BoltNames {
    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the symbol table of an ELF file; there are no names if it has none.
    #[must_use]
    pub fn of_file(bytes: &[u8]) -> BoltNames {
        let Ok(elf) = ElfFile64::<LittleEndian, _>::parse(bytes) else { return BoltNames::default() };
        let is_defined = |section| matches!(section, SymbolSection::Section(_) | SymbolSection::Absolute);
        let mut symbols: Vec<_> = elf
            .symbols()
            .filter(|symbol| is_defined(symbol.section()) && symbol.kind() != SymbolKind::File)
            .filter_map(|symbol| {
                Some((symbol.address(), symbol.kind() != SymbolKind::Text, symbol.name().ok()?, symbol))
            })
            .filter(|(_, _, name, _)| !name.is_empty())
            .collect();
        symbols.sort_by_key(|&(address, is_no_function, ..)| (address, is_no_function));
        let mut n_of_name: HashMap<&str, u32> = HashMap::new();
        let mut ranges = Vec::new();
        for (start, is_no_function, name, symbol) in symbols {
            let name = match symbol.is_local() {
                false => name.to_owned(),
                true => {
                    let n = n_of_name.entry(name).or_default();
                    *n += 1;
                    format!("{name}/{n}")
                }
            };
            if !is_no_function {
                ranges.push(NamedRange { start, size: symbol.size(), name });
            }
        }
        BoltNames(ranges)
    }

    /// Returns the name of the function that covers an address, and how far into it the address is;
    /// of several functions with the same start, that of the first.
    #[must_use]
    pub fn at(&self, Svma(address): Svma) -> Option<(&str, u64)> {
        let last = self.0.partition_point(|range| range.start <= address).checked_sub(1)?;
        let start = self.0.get(last)?.start;
        let same_start = self.0[..=last].iter().rev().take_while(|range| range.start == start);
        let offset = address - start;
        let range = same_start.filter(|range| offset < range.size.max(1)).last()?;
        Some((&range.name, offset))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn compiled(folder: &Path) -> Vec<u8> {
        let source = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let one = source(
            "one.c",
            "static __attribute__((noinline)) int f(int x) { return x + 1; }\nint g(int x) { return f(x) * 2; }\n",
        );
        let two = source(
            "two.c",
            "static __attribute__((noinline)) int f(int x) { return x - 1; }\nint g(int); int main(int n, char **v) { return f(n) + g(n); }\n",
        );
        let program = folder.join("program");
        let status = Command::new("gcc").args(["-O1", "-o"]).arg(&program).args([one, two]).status();
        assert!(status.expect("gcc is needed").success());
        std::fs::read(program).unwrap()
    }

    #[test]
    fn local_functions_are_numbered_by_address() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = compiled(folder.path());
        let names = BoltNames::of_file(&bytes);
        let named = |name: &str| names.0.iter().find(|range| range.name == name).map(|range| range.start);
        let (first, second) = (named("f/1").expect("f/1"), named("f/2").expect("f/2"));
        assert!(first < second);
        assert_eq!(named("f"), None);
        let main = named("main").expect("main");
        assert_eq!(names.at(Svma(main + 1)), Some(("main", 1)));
        assert_eq!(names.at(Svma(0)), None);
    }

    #[test]
    fn other_files_have_no_names() {
        assert!(BoltNames::of_file(b"no program").0.is_empty());
    }
}
