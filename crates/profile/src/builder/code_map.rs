//! The code of all modules: numbers for their blocks, loops and functions, and what lies at an
//! address.
//!
//! Blocks and loops of a module get consecutive numbers when its code arrives, so that a number is
//! a module's first one plus the index. Functions get a key when they are first met. Ticks can come
//! before the code of their module: an address there is a function of its own until
//! [`CodeMap::identity`] is asked again, when the profile is made.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ids::{FunctionKey, LoopKey};
use super::{BlockRef, Place};
use crate::code::{CodeBlock, CodeFunction, CodeInsn, ModuleCode, NO_LOOP};
use crate::model::{BlockEnd, Module, ModuleId};

/// See the module's header.
#[derive(Debug, Default)]
pub(super) struct CodeMap {
    modules: Vec<KnownModule>,
    module_ids: FxHashMap<(String, String), ModuleId>,
    /// Modules with code, ascending in their first block,
    with_code: Vec<ModuleId>,
    /// and these blocks.
    first_blocks: Vec<u32>,
    n_blocks: u32,
    n_loops: u32,
    functions: Vec<FunctionPlace>,
    /// By key: whether it is a stub of the linkage table.
    stubs: Vec<bool>,
    /// Keys of addresses in modules without code.
    addresses: FxHashMap<(ModuleId, u64), FunctionKey>,
    places: FxHashMap<(ModuleId, u64), PlaceFacts>,
    anonymous: Option<ModuleId>,
}

/// The module of code that is in no file.
const ANONYMOUS: &str = "[anonymous]";

#[derive(Debug)]
struct KnownModule {
    facts: Module,
    code: Option<KnownCode>,
    /// Ascending in address: what the file states, for a module whose control flow is not known.
    functions: Vec<CodeFunction>,
}

#[derive(Debug)]
struct KnownCode {
    code: Arc<ModuleCode>,
    first_block: u32,
    first_loop: u32,
    /// By index of the function; [`FunctionKey::NONE`] if not met yet.
    keys: Vec<FunctionKey>,
    /// One bit per block: whether a cut starts there.
    cut_sources: Vec<u64>,
    /// By index of the block: its first instruction in [`ModuleCode::insns`].
    first_insns: Vec<u32>,
}

/// Where a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FunctionPlace {
    Code { module: ModuleId, index: u32 },
    Address { module: ModuleId, address: u64 },
}

/// A function as a profile names it. Address and size are 0 for all of a module's code that no
/// function is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FunctionIdentity {
    pub module: ModuleId,
    pub address: u64,
    pub size: u64,
}

/// Code that is alike in speed: what a function has in one loop, and in none inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Region {
    pub function: FunctionKey,
    /// [`LoopKey::NONE`] outside of loops.
    pub innermost_loop: LoopKey,
}

/// What is at an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceFacts {
    pub region: Region,
    /// The block that starts right behind the address, where a call whose last byte this is returns
    /// to.
    pub return_site: BlockRef,
}

/// A block and what it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located<'a> {
    pub module: ModuleId,
    pub index: u32,
    pub block: &'a CodeBlock,
    known: &'a KnownCode,
}

impl CodeMap {
    pub fn module(&mut self, path: &str, build_id: &str) -> ModuleId {
        let modules = &mut self.modules;
        *self.module_ids.entry((path.to_owned(), build_id.to_owned())).or_insert_with(|| {
            let facts = Module { path: path.to_owned(), build_id: build_id.to_owned() };
            modules.push(KnownModule { facts, code: None, functions: Vec::new() });
            ModuleId(modules.len() as u32 - 1)
        })
    }

    pub fn has(&self, module: ModuleId) -> bool {
        module.index() < self.modules.len()
    }

    pub fn modules(&self) -> impl Iterator<Item = &Module> {
        self.modules.iter().map(|module| &module.facts)
    }

    /// Gives a module its code, the first time. Returns the number of its first block; nothing if
    /// there is no such module, or no numbers are left.
    pub fn set_code(&mut self, module: ModuleId, code: Arc<ModuleCode>) -> Option<BlockRef> {
        let row = self.modules.get_mut(module.index())?;
        if let Some(known) = &row.code {
            return Some(BlockRef(known.first_block));
        }
        let n_blocks = self.n_blocks.checked_add(u32::try_from(code.blocks.len()).ok()?)?;
        let n_loops = self.n_loops.checked_add(u32::try_from(code.loops.len()).ok()?)?;
        let first = BlockRef(self.n_blocks);
        let mut cut_sources = vec![0; code.blocks.len().div_ceil(64)];
        for &(from, _) in &code.cuts {
            if let Some(word) = cut_sources.get_mut(from as usize / 64) {
                *word |= 1 << (from % 64);
            }
        }
        let keys = vec![FunctionKey::NONE; code.functions.len()];
        let mut n_insns = 0_u32;
        let first_insns = code.blocks.iter().map(|block| {
            let first = n_insns;
            n_insns = n_insns.saturating_add(block.n_insns);
            first
        });
        let first_insns = first_insns.collect();
        row.code =
            Some(KnownCode { code, first_block: first.0, first_loop: self.n_loops, keys, cut_sources, first_insns });
        (self.n_blocks, self.n_loops) = (n_blocks, n_loops);
        self.with_code.push(module);
        self.first_blocks.push(first.0);
        self.places.retain(|&(of, _), _| of != module);
        Some(first)
    }

    /// Modules that ticks have met and whose functions are not known.
    pub fn modules_without_functions(&self) -> Vec<ModuleId> {
        let lacks = |module: &KnownModule| module.code.is_none() && module.functions.is_empty();
        let met = self.addresses.keys().map(|&(module, _)| module);
        let mut wanted: Vec<ModuleId> = met.filter(|module| lacks(&self.modules[module.index()])).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// Says where the functions of a module are, in case its code never comes.
    pub fn set_functions(&mut self, module: ModuleId, mut functions: Vec<CodeFunction>) {
        functions.sort_unstable_by_key(|function| function.address);
        if let Some(row) = self.modules.get_mut(module.index()) {
            row.functions = functions;
        }
    }

    pub fn block(&self, block: BlockRef) -> Option<Located<'_>> {
        let n_before = self.first_blocks.partition_point(|&first| first <= block.0);
        let module = *self.with_code.get(n_before.checked_sub(1)?)?;
        let known = self.modules[module.index()].code.as_ref()?;
        let index = block.0 - known.first_block;
        Some(Located { module, index, block: known.code.blocks.get(index as usize)?, known })
    }

    /// The block at an address of a module.
    pub fn block_containing(&self, module: ModuleId, address: u64) -> Option<Located<'_>> {
        let known = self.modules.get(module.index())?.code.as_ref()?;
        let index = known.code.block_containing(address)?;
        Some(Located { module, index, block: known.code.blocks.get(index as usize)?, known })
    }

    /// The region of a function's first block, if bursts met it.
    pub fn entry_region(&self, key: FunctionKey) -> Option<Region> {
        let FunctionPlace::Code { module, index } = self.functions[key.index()] else { return None };
        let known = self.modules[module.index()].code.as_ref()?;
        let first = known.code.functions.get(index as usize)?.address;
        self.block(BlockRef(known.first_block + known.code.block_at(first)?))?.region()
    }

    /// Whether a function is only a way to another one.
    pub fn is_stub(&self, key: FunctionKey) -> bool {
        self.stubs.get(key.index()).copied().unwrap_or(false)
    }

    /// The module that a function is in.
    pub fn module_of(&self, key: FunctionKey) -> ModuleId {
        match self.functions[key.index()] {
            FunctionPlace::Code { module, .. } | FunctionPlace::Address { module, .. } => module,
        }
    }

    /// The function that a block belongs to.
    pub fn function_of(&mut self, block: BlockRef) -> Option<FunctionKey> {
        let located = self.block(block)?;
        let (module, index) = (located.module, located.block.function);
        Some(self.function_key(module, index))
    }

    /// What is at an address. All addresses outside of modules are one function.
    pub fn place(&mut self, place: Place) -> PlaceFacts {
        let (module, address) = match place.module {
            Some(module) if self.has(module) => (module, place.address),
            _ => (self.anonymous(), 0),
        };
        if let Some(&facts) = self.places.get(&(module, address)) {
            return facts;
        }
        let facts = self.look_up(module, address);
        self.places.insert((module, address), facts);
        facts
    }

    /// Which function a key stands for, by what is known of its module now.
    pub fn identity(&self, key: FunctionKey) -> FunctionIdentity {
        let (module, function) = match self.functions[key.index()] {
            FunctionPlace::Code { module, index } => (module, self.modules[module.index()].function(index)),
            FunctionPlace::Address { module, address } => {
                (module, self.modules[module.index()].function_containing(address))
            }
        };
        function.map_or(FunctionIdentity { module, address: 0, size: 0 }, |function| FunctionIdentity {
            module,
            address: function.address,
            size: function.size,
        })
    }

    /// What all keys stand for.
    pub fn identities(&self) -> Vec<FunctionIdentity> {
        (0..self.functions.len()).map(|index| self.identity(FunctionKey::next(index))).collect()
    }

    /// The header of a loop, and the loop around it.
    pub fn loop_facts(&self, key: LoopKey) -> Option<(BlockRef, LoopKey)> {
        let known = self.with_code.iter().filter_map(|module| self.modules[module.index()].code.as_ref());
        let known = known.take_while(|known| known.first_loop <= key.0).filter(|known| !known.code.loops.is_empty());
        let known = known.last()?;
        let each = known.code.loops.get((key.0 - known.first_loop) as usize)?;
        Some((BlockRef(known.first_block.checked_add(each.header)?), known.loop_key(each.parent)))
    }

    fn anonymous(&mut self) -> ModuleId {
        if let Some(known) = self.anonymous {
            return known;
        }
        let module = self.module(ANONYMOUS, "");
        self.anonymous = Some(module);
        module
    }

    fn look_up(&mut self, module: ModuleId, address: u64) -> PlaceFacts {
        let Some(known) = &self.modules[module.index()].code else {
            let function = self.address_key(module, address);
            let region = Region { function, innermost_loop: LoopKey::NONE };
            return PlaceFacts { region, return_site: BlockRef::NONE };
        };
        let behind = address.checked_add(1).and_then(|behind| known.code.block_at(behind));
        let return_site = behind.map_or(BlockRef::NONE, |index| BlockRef(known.first_block + index));
        let (function, innermost_loop) = match known.block_containing(address) {
            Some(block) => {
                let innermost_loop = known.loop_key(block.innermost_loop);
                let function = block.function;
                (self.function_key(module, function), innermost_loop)
            }
            None => (self.address_key(module, 0), LoopKey::NONE),
        };
        PlaceFacts { region: Region { function, innermost_loop }, return_site }
    }

    /// The region of an address whose function was not known when its region was named; any other
    /// as it is.
    pub fn region_now(&self, region: Region) -> Region {
        let FunctionPlace::Address { module, address } = self.functions[region.function.index()] else {
            return region;
        };
        let found = self.modules[module.index()].code.as_ref().and_then(|known| {
            let block = known.block_containing(address)?;
            let function = known.keys.get(block.function as usize).copied().filter(|key| !key.is_none())?;
            Some(Region { function, innermost_loop: known.loop_key(block.innermost_loop) })
        });
        found.unwrap_or(region)
    }

    fn function_key(&mut self, module: ModuleId, index: u32) -> FunctionKey {
        let known = self.modules[module.index()].code.as_mut();
        let function = known.and_then(|known| {
            Some((known.keys.get_mut(index as usize)?, known.code.functions.get(index as usize)?.is_stub))
        });
        let Some((key, is_stub)) = function else { return self.address_key(module, 0) };
        if key.is_none() {
            *key = FunctionKey::next(self.functions.len());
            self.functions.push(FunctionPlace::Code { module, index });
            self.stubs.push(is_stub);
        }
        *key
    }

    fn address_key(&mut self, module: ModuleId, address: u64) -> FunctionKey {
        let CodeMap { functions, stubs, addresses, .. } = self;
        *addresses.entry((module, address)).or_insert_with(|| {
            functions.push(FunctionPlace::Address { module, address });
            stubs.push(false);
            FunctionKey::next(functions.len() - 1)
        })
    }
}

impl KnownModule {
    fn function(&self, index: u32) -> Option<&CodeFunction> {
        self.code.as_ref()?.code.functions.get(index as usize)
    }

    fn function_containing(&self, address: u64) -> Option<&CodeFunction> {
        if let Some(known) = &self.code {
            return self.function(known.block_containing(address)?.function);
        }
        let n_before = self.functions.partition_point(|function| function.address <= address);
        let last = self.functions.get(n_before.checked_sub(1)?)?;
        (address - last.address < last.size).then_some(last)
    }
}

impl KnownCode {
    fn block_containing(&self, address: u64) -> Option<&CodeBlock> {
        self.code.blocks.get(self.code.block_containing(address)? as usize)
    }

    fn loop_key(&self, index: u32) -> LoopKey {
        if (index as usize) < self.code.loops.len() { LoopKey(self.first_loop + index) } else { LoopKey::NONE }
    }
}

impl<'a> Located<'a> {
    /// The key of its function, if that was met.
    pub fn function(&self) -> Option<FunctionKey> {
        self.known.keys.get(self.block.function as usize).copied().filter(|key| !key.is_none())
    }

    /// The region that it is in, if its function was met.
    pub fn region(&self) -> Option<Region> {
        Some(Region { function: self.function()?, innermost_loop: self.known.loop_key(self.block.innermost_loop) })
    }

    /// Its instructions; none if they are not known.
    pub fn insns(&self) -> &'a [CodeInsn] {
        let first = self.known.first_insns.get(self.index as usize).map_or(0, |&first| first as usize);
        self.known.code.insns.get(first..first + self.block.n_insns as usize).unwrap_or_default()
    }

    /// Whether this is where the function begins.
    pub fn is_primary_entry(&self) -> bool {
        let function = self.known.code.functions.get(self.block.function as usize);
        function.is_some_and(|function| function.address == self.block.address)
    }

    /// Whether this block and another belong to one function.
    pub fn is_beside(&self, other: &Located<'_>) -> bool {
        self.module == other.module && self.block.function == other.block.function
    }

    /// Whether another block is the next in memory.
    pub fn is_followed_by(&self, other: &Located<'_>) -> bool {
        self.module == other.module && self.block.end_address() == other.block.address
    }

    /// Whether paths end on the way from here to a block of the same module.
    pub fn is_cut_to(&self, other: &Located<'_>) -> bool {
        let word = self.known.cut_sources.get(self.index as usize / 64);
        word.is_some_and(|word| word & 1 << (self.index % 64) != 0) && self.known.code.is_cut(self.index, other.index)
    }

    /// The block of the same module at an address.
    pub fn sibling_at(&self, address: u64) -> Option<Located<'a>> {
        let index = self.known.code.block_at(address)?;
        Some(Located { index, block: self.known.code.blocks.get(index as usize)?, ..*self })
    }

    /// The block that ends in a call which returns here.
    pub fn call_before(&self) -> Option<Located<'a>> {
        let index = self.index.checked_sub(1)?;
        let before = Located { index, block: self.known.code.blocks.get(index as usize)?, ..*self };
        let is_call = matches!(before.block.end, BlockEnd::Call | BlockEnd::IndirectCall);
        (is_call && before.is_followed_by(self) && before.is_beside(self)).then_some(before)
    }

    /// The block's number.
    pub fn number(&self) -> BlockRef {
        BlockRef(self.known.first_block + self.index)
    }

    /// The loops around the block, innermost first, and whether the block is their header.
    pub fn loops(&self) -> impl Iterator<Item = (LoopKey, bool)> + use<'a> {
        let (known, index) = (self.known, self.index);
        let mut next = self.block.innermost_loop;
        std::iter::from_fn(move || {
            let current = next;
            let each = known.code.loops.get(current as usize)?;
            // Enclosing loops come first; what claims otherwise would go round for ever.
            next = if each.parent < current { each.parent } else { NO_LOOP };
            Some((known.loop_key(current), each.header == index))
        })
    }
}
