//! Symbols under the names by which BOLT knows them.
//!
//! A global symbol goes by its name. A local one is followed by a number, even if no other has the
//! name: BOLT goes through the symbol table in order of address, functions before other symbols of
//! the same address, and counts per name. Data counts like code.

use export::SymbolOffset;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSymbol as _, SymbolKind, SymbolSection};
use rustc_hash::FxHashMap;

/// The functions of a file, ascending in address.
#[derive(Debug, Default)]
pub struct BoltNames(Vec<NamedRange>);

#[derive(Debug)]
struct NamedRange {
    start: u64,
    size: u64,
    name: String,
}

impl BoltNames {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From the symbol table of an ELF file; empty if it has none.
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
        let mut n_of_name: FxHashMap<&str, u32> = FxHashMap::default();
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

    /// The function that covers an address; of several at the same start, the first.
    pub fn at(&self, address: u64) -> Option<SymbolOffset> {
        let last = self.0.partition_point(|range| range.start <= address).checked_sub(1)?;
        let start = self.0.get(last)?.start;
        let same_start = self.0[..=last].iter().rev().take_while(|range| range.start == start);
        let offset = address - start;
        let range = same_start.filter(|range| offset < range.size.max(1)).last()?;
        Some(SymbolOffset { name: range.name.clone(), offset })
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
        assert_eq!(names.at(main + 1), Some(SymbolOffset { name: "main".to_owned(), offset: 1 }));
        assert_eq!(names.at(0), None);
    }

    #[test]
    fn other_files_have_no_names() {
        assert!(BoltNames::of_file(b"no program").0.is_empty());
    }
}
