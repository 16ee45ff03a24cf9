//! What exporters want to know beyond the profile.

use std::collections::BTreeMap;
use std::fmt;

use profile::Profile;
use profile::model::{BlockId, FunctionId, ModuleId};

use crate::csv::Table;
use crate::error::Error;

/// Settings of an export.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The module that formats about one module describe; if nothing is given, the one in which
    /// most instructions were executed.
    pub module: Option<ModuleId>,
    /// The table that CSV shows.
    pub table: Table,
    /// Answers questions about the module's file.
    pub facts: &'a dyn BinaryFacts,
}

/// What only a module's file knows. Who answers opens files; nothing here does.
pub trait BinaryFacts {
    /// The symbol that covers an address, under the name by which BOLT knows it: that of the symbol
    /// table if it is global, followed by `/1`, `/2` and so on if it is local, counting equal names
    /// in order of address, functions before data.
    fn bolt_symbol(&self, module: ModuleId, address: u64) -> Option<SymbolOffset>;

    /// Whether some jump in the file leads to an address. The jumps of a profile, which are those
    /// in code that ran, need not be among them.
    fn is_jump_target(&self, module: ModuleId, address: u64) -> bool;

    /// The compiler's id of the machine basic block that holds a block, from the section
    /// `.llvm_bb_addr_map`.
    fn basic_block_id(&self, block: BlockId) -> Option<u32>;
}

/// A place relative to a symbol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolOffset {
    /// The symbol.
    pub name: String,
    /// Bytes from its start.
    pub offset: u64,
}

/// Knows nothing of the file: takes the profile's own functions for global symbols, and no block
/// has an id.
#[derive(Clone, Debug)]
pub struct NoBinaryFacts<'a> {
    profile: &'a Profile,
    /// Functions with a name, by module and address.
    named: BTreeMap<(ModuleId, u64), FunctionId>,
}

impl<'a> NoBinaryFacts<'a> {
    /// Of a profile.
    #[must_use]
    pub fn new(profile: &'a Profile) -> NoBinaryFacts<'a> {
        let named = (0..).map(FunctionId).zip(&profile.functions).filter(|(_, function)| !function.name.is_empty());
        NoBinaryFacts {
            profile,
            named: named.map(|(id, function)| ((function.module, function.address), id)).collect(),
        }
    }
}

impl BinaryFacts for NoBinaryFacts<'_> {
    fn bolt_symbol(&self, module: ModuleId, address: u64) -> Option<SymbolOffset> {
        let (&(_, start), id) = self.named.range((module, 0)..=(module, address)).next_back()?;
        let function = &self.profile.functions[id.index()];
        let offset = address - start;
        (offset < function.size.max(1)).then(|| SymbolOffset { name: function.name.clone(), offset })
    }

    fn is_jump_target(&self, _module: ModuleId, _address: u64) -> bool {
        false
    }

    fn basic_block_id(&self, _block: BlockId) -> Option<u32> {
        None
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("module", &self.module).field("table", &self.table).finish_non_exhaustive()
    }
}

impl Options<'_> {
    /// The module that a format about one module describes.
    pub(crate) fn module_of(&self, profile: &Profile) -> Result<ModuleId, Error> {
        if let Some(module) = self.module.filter(|module| module.index() < profile.modules.len()) {
            return Ok(module);
        }
        let mut executed = vec![0.0; profile.modules.len()];
        for block in &profile.blocks {
            let module = profile.functions[block.function.index()].module;
            executed[module.index()] += block.count.value * f64::from(block.n_insns);
        }
        let hottest = (0..executed.len()).rev().max_by(|&a, &b| f64::total_cmp(&executed[a], &executed[b]));
        hottest.and_then(|index| u32::try_from(index).ok()).map(ModuleId).ok_or(Error::NoModule)
    }
}
