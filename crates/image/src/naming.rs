//! From addresses to names and back, over the symbols and stubs of an image.

use crate::function::is_linker_marker;
use crate::image::Image;
use crate::name::{FunctionName, plt_symbol, reads_as, synthetic_address};
use crate::relocation::Binder;
use crate::symbol::{Symbol, SymbolKind};
use crate::{PltStub, PltStubKind, Svma};

impl Image<'_> {
    /// The name of the function that starts at `start`: the best symbol there (visible before
    /// local, fewer leading underscores, global before weak, shorter), the import of a stub, or a
    /// name made of the address.
    pub fn name_of(&self, start: Svma) -> FunctionName {
        if let Ok(index) = self.stubs.binary_search_by_key(&start, |stub| stub.range.start)
            && let Some(symbol) = self.stubs.get(index).and_then(|stub| stub.symbol.as_deref())
        {
            return FunctionName::plt(symbol);
        }
        let best = self.symbols_at(start).iter().find(|symbol| can_name_function(symbol));
        best.map_or_else(|| FunctionName::synthetic(start), |symbol| FunctionName::symbol(&symbol.name))
    }

    /// Addresses of the functions that `name` may mean: a symbol as stored, `memcpy@plt`,
    /// `fn_1a2b0`; or else a demangled name, with or without its parameters. Sorted; empty if
    /// nothing has that name.
    pub fn lookup(&self, name: &str) -> Vec<Svma> {
        let mut found = self.named(name, |raw, wanted| raw == wanted);
        found.extend(synthetic_address(name).filter(|&start| self.is_code(start)));
        if found.is_empty() {
            found = self.named(name, reads_as);
        }
        found.sort();
        found.dedup();
        found
    }

    /// Functions and stubs whose stored name matches `wanted`.
    fn named(&self, wanted: &str, matches: impl Fn(&str, &str) -> bool) -> Vec<Svma> {
        if let Some(import) = plt_symbol(wanted) {
            let is_wanted = |stub: &&PltStub| stub.symbol.as_deref().is_some_and(|symbol| matches(symbol, import));
            return self.stubs.iter().filter(is_wanted).map(|stub| stub.range.start).collect();
        }
        let functions = self.symbols.iter().filter(|symbol| can_name_function(symbol) && self.is_code(symbol.address));
        functions.filter(|symbol| matches(&symbol.name, wanted)).map(|symbol| symbol.address).collect()
    }

    fn symbols_at(&self, address: Svma) -> &[Symbol<'_>] {
        let start = self.symbols.partition_point(|symbol| symbol.address < address);
        let rest = self.symbols.get(start..).unwrap_or_default();
        let len = rest.partition_point(|symbol| symbol.address == address);
        rest.get(..len).unwrap_or_default()
    }

    /// Names the stubs after what their slots are bound to. Many stubs may share one long name, so
    /// that all names together are limited to the size of the file.
    pub(crate) fn name_stubs(&mut self) {
        let mut stubs = std::mem::take(&mut self.stubs);
        let mut bytes_left = self.elf.data.len();
        for stub in stubs.iter_mut().filter(|stub| stub.kind == PltStubKind::Jump) {
            let name = self.relocations.bound_at(stub.slot).and_then(|by| self.binder_name(by));
            stub.symbol = name.filter(|name| name.len() <= bytes_left).map(str::to_owned);
            bytes_left = bytes_left.saturating_sub(name.map_or(0, str::len));
            if bytes_left == 0 {
                break;
            }
        }
        self.stubs = stubs;
    }

    fn binder_name(&self, by: Binder) -> Option<&str> {
        match by {
            Binder::Symbol { .. } => self.relocations.name(by),
            Binder::Resolver(resolver) => {
                let symbols = self.symbols_at(resolver);
                symbols.iter().find(|symbol| symbol.kind == SymbolKind::IndirectFunction).map(|symbol| &*symbol.name)
            }
            Binder::Other => None,
        }
    }
}

fn can_name_function(symbol: &Symbol<'_>) -> bool {
    symbol.kind.is_function() || (symbol.kind == SymbolKind::Untyped && !is_linker_marker(&symbol.name))
}
