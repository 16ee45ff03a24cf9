//! Puts copies into a process, and takes them out again.

use emit::{Entry, ModuleCopy, Position};
use wire::clusters::{LANDING, LEADER};
use wire::recovery::Run;

use crate::copies::{Needs, Room};
use crate::error::{Error, Result};
use crate::modules::MappedModule;
use crate::process::Process;

/// Room for the copy of a module. The public fields have what is needed to make the copy final.
#[derive(Debug, Clone)]
pub struct Reserved {
    /// The module.
    pub module: MappedModule,
    /// Address that the copy will have in the process.
    pub copy: u64,
    /// First address of the module's cluster.
    pub cluster_lo: u64,
    /// Index of the cluster.
    pub cluster: usize,
    room: Room,
}

/// A copy that threads can be sent into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placed {
    slot: usize,
}

/// Which counters of exact mode a copy uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstCounters {
    /// Number of its first cell.
    pub cell: u32,
    /// Its first key of the path table.
    pub key: u32,
}

impl Process {
    /// Puts the copy of a module into the process, and into all that were forked from it.
    ///
    /// # Errors
    /// When the module cannot have a copy, there is no room left, the module is gone, or a process
    /// that shares the copies has not got it.
    pub fn place(&self, module: &MappedModule, copy: &ModuleCopy) -> Result<Placed> {
        if module.cluster.is_some_and(|cluster| cluster != copy.cluster()) {
            return Err(Error::Inconsistent);
        }
        let needs = Needs {
            code_bytes: copy.code_len() as u64,
            n_runs: copy.runs().len() as u64,
            n_cells: copy.n_cells(),
            n_keys: copy.n_keys(),
            version: copy.probe().version(),
        };
        let reserved = self.reserve_for(module, needs)?;
        let Reserved { copy: address, cluster_lo, room: Room { first_cell, first_key, .. }, .. } = reserved;
        let at = Position { module_base: module.base, copy: address, cluster_lo, first_cell, first_key };
        let code = copy.place(&at).map_err(|error| match error {
            emit::Error::OutOfReach | emit::Error::OutsideCluster => Error::OutOfReach,
            _ => Error::Inconsistent,
        })?;
        let entry = |each: Entry| (each.original, each.copy | if each.is_leader { LEADER } else { 0 });
        // Where an instruction starts with the last byte of a call, of all things, its own entry is
        // the one to keep.
        let landings = copy.landings().map(|(last_byte, place)| (last_byte, place | LANDING));
        let entries = landings.chain(copy.entries().map(entry));
        self.fill(&reserved, code, copy.runs(), entries)
    }

    /// Reserves room for a copy with `code_bytes` of code and literals and `n_runs` runs.
    ///
    /// # Errors
    /// When the module cannot have a copy, or there is no room left.
    pub fn reserve(&self, module: &MappedModule, code_bytes: usize, n_runs: usize) -> Result<Reserved> {
        self.reserve_for(module, Needs { code_bytes: code_bytes as u64, n_runs: n_runs as u64, ..Needs::default() })
    }

    fn reserve_for(&self, module: &MappedModule, needs: Needs) -> Result<Reserved> {
        let cluster = module.cluster.ok_or(Error::OutOfReach)?;
        let copies = self.copies();
        let room = copies.reserve(cluster, needs)?;
        let at = copies.clusters[cluster];
        Ok(Reserved { module: module.clone(), copy: at.copy_base + room.start, cluster_lo: at.lo, cluster, room })
    }

    /// Writes a copy into its room and makes it known to the process, and to all that were forked
    /// from it.
    ///
    /// `entries` are pairs of an offset from the module's base and the offset of its twin in the
    /// copy, the latter with [`LEADER`] set for the start of a block or [`LANDING`] for the last
    /// byte of a call. Of two for one offset, the last is kept.
    ///
    /// # Errors
    /// When the copy is not what was announced, the module is gone, or a process that shares the
    /// copies has not got it.
    pub fn fill(
        &self,
        reserved: &Reserved,
        code: Vec<u8>,
        runs: &[Run],
        entries: impl IntoIterator<Item = (u32, u32)>,
    ) -> Result<Placed> {
        self.copies().write(&reserved.room, &code, runs)?;
        drop(code);
        let slot = self.copies().publish(self.pid(), &reserved.module, &reserved.room, entries.into_iter())?;
        Ok(Placed { slot })
    }

    /// Returns which counters a copy uses.
    #[must_use]
    pub fn first_counters(&self, placed: Placed) -> FirstCounters {
        let (cell, key) = self.copies().first_counters(placed.slot);
        FirstCounters { cell, key }
    }

    /// Takes a copy out of use. Threads that are inside leave it in their own time; its room is not
    /// reused.
    pub fn unplace(&self, placed: Placed) {
        self.copies().unpublish(placed.slot, self.control());
    }

    /// Takes copies of code out of use that the program has changed without the runtime noticing.
    /// Returns them.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn unplace_changed(&self) -> Result<Vec<Placed>> {
        let changed = self.copies().remove_changed(self.pid())?;
        Ok(changed.into_iter().map(|slot| Placed { slot }).collect())
    }

    /// Returns whether the program has closed libraries since the last
    /// [`Process::acknowledge_unloads`]. Until then no burst starts.
    #[must_use]
    pub fn unloads_pending(&self) -> bool {
        use std::sync::atomic::Ordering::Acquire;
        self.control().unloads().load(Acquire) != self.control().unloads_cleared().load(Acquire)
    }

    /// Takes the copies of all modules that are gone out of use, then lets bursts start again.
    /// Returns those copies.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn acknowledge_unloads(&self) -> Result<Vec<Placed>> {
        let gone =
            self.copies().remove_unloaded(self.pid(), self.control(), &mut |slots| self.forget_returns(slots))?;
        Ok(gone.into_iter().map(|slot| Placed { slot }).collect())
    }
}
