//! Where the modules of a process are, for turning its addresses and block records into places and
//! blocks of files.

use std::sync::Arc;

use profile::ModuleCode;
use profile::builder::{BlockRef, Place};
use profile::model::ModuleId;
use rustc_hash::FxHashMap;
use wire::sample::RECORD_ADDRESS_BITS;

/// The modules of a process by address.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    cluster_lows: Vec<u64>,
    modules: Vec<LoadedModule>,
    /// Blocks of recent records, by a hash of the record: most of a burst is the same few blocks.
    recent: Vec<(u32, BlockRef)>,
    /// Blocks of all records that were met.
    met: FxHashMap<u32, BlockRef>,
}

#[derive(Debug, Clone)]
struct LoadedModule {
    start: u64,
    end: u64,
    /// Address in the process less address in the file.
    bias: u64,
    id: ModuleId,
    code: Option<(BlockRef, Arc<ModuleCode>)>,
}

/// What a block record stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    Block(BlockRef),
    /// The module's control flow is not there yet.
    Later,
    /// No block starts there.
    Unknown,
}

const N_RECENT: usize = 1 << 14;
/// No record: clusters are numbered from 0, and there are fewer than 4.
const NO_RECORD: u32 = u32::MAX;

impl Layout {
    pub fn new(cluster_lows: Vec<u64>) -> Layout {
        Layout { cluster_lows, modules: Vec::new(), recent: Vec::new(), met: FxHashMap::default() }
    }

    pub fn add(&mut self, start: u64, end: u64, bias: u64, id: ModuleId) {
        self.remove(start);
        self.modules.push(LoadedModule { start, end, bias, id, code: None });
    }

    pub fn remove(&mut self, start: u64) {
        self.modules.retain(|module| module.start != start);
        self.recent.clear();
        self.met.clear();
    }

    /// Takes the control flow of a module, which has become known; its blocks are numbered from
    /// `first`.
    pub fn set_code(&mut self, start: u64, first: BlockRef, code: Arc<ModuleCode>) {
        if let Some(module) = self.modules.iter_mut().find(|module| module.start == start) {
            module.code = Some((first, code));
        }
    }

    /// Takes over what a parent's layout knows about a module at the same place.
    pub fn inherit(&mut self, parent: &Layout) {
        self.modules.clone_from(&parent.modules);
    }

    /// Returns the place in a file that an address of the process stands for.
    pub fn place(&self, pc: u64) -> Place {
        match self.module_at(pc) {
            Some(module) => Place { module: Some(module.id), address: pc.wrapping_sub(module.bias) },
            None => Place { module: None, address: pc },
        }
    }

    /// The address at which a recorded block starts.
    pub fn record_address(&self, record: u32) -> u64 {
        let cluster = (record >> RECORD_ADDRESS_BITS) as usize;
        let low = self.cluster_lows.get(cluster).copied().unwrap_or(0);
        low + u64::from(record & ((1 << RECORD_ADDRESS_BITS) - 1))
    }

    /// Where a block is in this process; nothing if its module is not loaded.
    pub fn address_of(&self, block: BlockRef) -> Option<u64> {
        let of_module = |module: &LoadedModule| {
            let (first, code) = module.code.as_ref()?;
            let block = code.blocks.get(block.0.checked_sub(first.0)? as usize)?;
            Some(block.address.wrapping_add(module.bias))
        };
        self.modules.iter().find_map(of_module)
    }

    /// The block of a record.
    pub fn block(&mut self, record: u32) -> Lookup {
        if self.recent.is_empty() {
            self.recent = vec![(NO_RECORD, BlockRef(0)); N_RECENT];
        }
        let slot = (record.wrapping_mul(0x9e37_79b1) >> 18) as usize;
        if let (known, block) = self.recent[slot]
            && known == record
        {
            return Lookup::Block(block);
        }
        if let Some(&block) = self.met.get(&record) {
            self.recent[slot] = (record, block);
            return Lookup::Block(block);
        }
        let found = self.find(self.record_address(record), ModuleCode::block_at);
        if let Lookup::Block(block) = found {
            self.recent[slot] = (record, block);
            self.met.insert(record, block);
        }
        found
    }

    /// The block that an address is in.
    pub fn block_containing(&self, pc: u64) -> Lookup {
        self.find(pc, ModuleCode::block_containing)
    }

    fn find(&self, pc: u64, find: impl Fn(&ModuleCode, u64) -> Option<u32>) -> Lookup {
        let Some(module) = self.module_at(pc) else { return Lookup::Unknown };
        let Some((first, code)) = &module.code else { return Lookup::Later };
        find(code, pc.wrapping_sub(module.bias))
            .map_or(Lookup::Unknown, |index| Lookup::Block(BlockRef(first.0 + index)))
    }

    fn module_at(&self, pc: u64) -> Option<&LoadedModule> {
        self.modules.iter().find(|module| module.start <= pc && pc < module.end)
    }
}
