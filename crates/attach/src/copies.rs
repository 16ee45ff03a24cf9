//! Copies and maps of the clusters of a process, and who runs them.
//!
//! A forked child has its parent's mappings, so both run the same copies by the same maps. An entry
//! in a map is right only for a process that has the module there. Four rules keep that true, and
//! all of them hold under one lock:
//!
//! * A child joins only if it still has every module that has entries.
//! * A module gets entries only if every process that runs the copies has it.
//! * When one process unloads a module, its entries go, for all.
//!
//! * Code that has been changed in memory has no entries. That is looked at after the slots and
//!   before the entries are written: what changes once there is a slot is for the runtime to
//!   notice.
//!
//! A child that has not joined yet runs no copies. A process that has replaced its program or died
//! does not have the copies mapped any more and does not count.
//!
//! Order of publication: code and runs, then the slot in every process's table of modules, then the
//! entries. A thread can be in a copy as soon as there are entries, and a signal then needs the
//! slot. Room for copies is never reused, because a thread that was interrupted inside may still
//! come back.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use wire::clusters::{Cluster, LANDING, LEADER, N_CLUSTERS, Version};
use wire::control::MAX_MODULES;
use wire::exact::CELLS_BYTES;
use wire::recovery::Run;

use crate::control::{ControlFile, Slot};
use crate::error::{Error, Result, Step};
use crate::maps::{self, FileId, Mapping};
use crate::memory::{SharedMemory, Use};
use crate::modules::MappedModule;

/// Copies start at multiples of this.
const COPY_ALIGNMENT: u64 = 64;
/// Name of the memory files with copies, and their path in lists of mappings.
const NAME_OF_COPIES: &str = "strobe-copies";
const FILE_OF_COPIES: &str = "/memfd:strobe-copies";

/// The copies that one process, or a family of forked ones, runs.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) clusters: [Cluster; N_CLUSTERS],
    memory: [Option<ClusterMemory>; N_CLUSTERS],
    state: Mutex<State>,
}

#[derive(Debug)]
struct ClusterMemory {
    code: SharedMemory,
    map: SharedMemory,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes used of each cluster's area. Nothing is at offset 0, because a map entry of 0 means
    /// that there is no copy.
    used: [u64; N_CLUSTERS],
    /// Counters and keys of the path table that modules have been given. No key is 0.
    n_cells: u32,
    n_keys: u32,
    /// Modules with copies; the index is that of the slot in every process.
    modules: Vec<Published>,
    sharers: Vec<Sharer>,
}

#[derive(Debug)]
struct Published {
    module: MappedModule,
    slot: Slot,
    cluster: usize,
    version: Version,
    has_entries: bool,
    first_cell: u32,
    first_key: u32,
}

#[derive(Debug)]
struct Sharer {
    pid: u32,
    control: Weak<ControlFile>,
}

/// Room in an area for copies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) cluster: usize,
    /// Whose map its entries are in.
    pub(crate) version: Version,
    /// Offset in the area.
    pub(crate) start: u64,
    pub(crate) code_bytes: u64,
    pub(crate) n_runs: u64,
    /// Its first counter and key ([`wire::exact`]).
    pub(crate) first_cell: u32,
    pub(crate) first_key: u32,
}

/// What a copy needs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    pub(crate) code_bytes: u64,
    pub(crate) n_runs: u64,
    pub(crate) n_cells: u32,
    pub(crate) n_keys: u32,
    pub(crate) version: Version,
}

impl Copies {
    /// Memory for these clusters, and descriptors for the target: copies and map of each cluster in
    /// use.
    pub(crate) fn create(clusters: [Cluster; N_CLUSTERS]) -> Result<(Copies, Vec<OwnedFd>)> {
        let mut files = Vec::new();
        let mut memory = [const { None }; N_CLUSTERS];
        for (cluster, memory) in clusters.iter().zip(&mut memory).filter(|(cluster, _)| cluster.span != 0) {
            let (code, code_file) =
                SharedMemory::create(NAME_OF_COPIES, cluster.copy_len, Use::Execute).step("memory for copies")?;
            let (map, map_file) =
                SharedMemory::create("strobe-map", cluster.maps_bytes(), Use::Read).step("memory for maps")?;
            files.extend([code_file, map_file]);
            *memory = Some(ClusterMemory { code, map });
        }
        let state = State { used: [COPY_ALIGNMENT; N_CLUSTERS], n_keys: 1, ..State::default() };
        Ok((Copies { clusters, memory, state: Mutex::new(state) }, files))
    }

    /// Lets a process run these copies: writes all slots to its control file.
    pub(crate) fn share_with(&self, pid: u32, control: &Arc<ControlFile>, maps: &[Mapping]) -> Result<()> {
        let mut state = self.lock();
        let changed = if state.modules.is_empty() { Vec::new() } else { maps::changed_code(pid).unwrap_or_default() };
        let is_same = |module: &MappedModule| is_mapped(module, maps) && !overlap(&module.exec, &changed);
        if !state.modules.iter().all(|each| !each.has_entries || is_same(&each.module)) {
            return Err(Error::DifferentModules);
        }
        for (index, each) in state.modules.iter().enumerate() {
            control.add_module(index, &each.slot);
        }
        state.sharers.retain(|sharer| sharer.pid != pid && sharer.control.strong_count() != 0);
        state.sharers.push(Sharer { pid, control: Arc::downgrade(control) });
        Ok(())
    }

    /// Takes room for a copy; it is not given back.
    pub(crate) fn reserve(&self, cluster: usize, needs: Needs) -> Result<Room> {
        let Needs { code_bytes, n_runs, n_cells, n_keys, version } = needs;
        let mut state = self.lock();
        let memory = self.memory.get(cluster).and_then(Option::as_ref).ok_or(Error::OutOfReach)?;
        let code_bytes = code_bytes.next_multiple_of(size_of::<Run>() as u64);
        let needed = n_runs.checked_mul(size_of::<Run>() as u64).and_then(|runs| runs.checked_add(code_bytes));
        let needed = needed.ok_or(Error::Inconsistent)?;
        let start = state.used[cluster].next_multiple_of(COPY_ALIGNMENT);
        let free = memory.code.len().min(u64::from(LANDING)).saturating_sub(start);
        if needed > free {
            return Err(Error::NoRoomForCopy { needed, free });
        }
        let (first_cell, first_key) = (state.n_cells, state.n_keys);
        let free = u64::from(CELLS_BYTES / 8 - first_cell);
        if u64::from(n_cells) > free {
            return Err(Error::NoRoomForCopy { needed: n_cells.into(), free });
        }
        state.used[cluster] = start + needed;
        state.n_cells += n_cells;
        state.n_keys = state.n_keys.saturating_add(n_keys);
        Ok(Room { cluster, version, start, code_bytes, n_runs, first_cell, first_key })
    }

    /// Writes code and runs into room that nobody has entries for yet.
    pub(crate) fn write(&self, room: &Room, code: &[u8], runs: &[Run]) -> Result<()> {
        let memory = self.memory[room.cluster].as_ref().ok_or(Error::OutOfReach)?;
        if code.len() as u64 > room.code_bytes || runs.len() as u64 != room.n_runs {
            return Err(Error::Inconsistent);
        }
        let runs_start = room.start + room.code_bytes;
        let runs_end = runs_start + room.n_runs * size_of::<Run>() as u64;
        let (whole, tail) = code.as_chunks::<8>();
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        let code = whole.iter().chain([&last]).map(|bytes| u64::from_le_bytes(*bytes));
        fill(&memory.code, room.start..runs_start, code)?;
        fill(&memory.code, runs_start..runs_end, runs.iter().flat_map(run_words))
    }

    /// Makes a written copy known: slots first, then entries. `entries` are pairs of an offset from
    /// the module's base and an offset in the copy, the latter with [`LEADER`] where it applies.
    /// Returns the index of the slot.
    pub(crate) fn publish(
        &self,
        pid: u32,
        module: &MappedModule,
        room: &Room,
        entries: impl Iterator<Item = (u32, u32)>,
    ) -> Result<usize> {
        let mut state = self.lock();
        let index = state.modules.len();
        if index >= MAX_MODULES {
            return Err(Error::NoRoomForCopy { needed: 1, free: 0 });
        }
        self.check_everywhere(&state, pid, module)?;
        let copy = self.clusters[room.cluster].copy_base + room.start;
        let slot = Slot {
            copy,
            copy_len: room.code_bytes,
            runs: copy + room.code_bytes,
            n_runs: room.n_runs,
            base: module.base,
            code_start: module.exec.iter().map(|range| range.start).min().unwrap_or(0),
            code_end: module.exec.iter().map(|range| range.end).max().unwrap_or(0),
        };
        for control in state.sharers.iter().filter_map(|sharer| sharer.control.upgrade()) {
            control.add_module(index, &slot);
        }
        let &Room { cluster, version, first_cell, first_key, .. } = room;
        let module_of = module.clone();
        let published =
            Published { module: module_of, slot, cluster, version, has_entries: false, first_cell, first_key };
        state.modules.push(published);
        let is_changed = |sharer: &Sharer| sharer.control.strong_count() != 0 && has_changed(&module.exec, sharer.pid);
        if state.sharers.iter().any(is_changed) {
            state.sharers.iter().filter_map(|sharer| sharer.control.upgrade()).for_each(|it| it.remove_module(index));
            return Err(Error::Changed);
        }
        state.modules[index].has_entries = true;
        if self.write_entries(module, room, entries).is_none() {
            self.clear_entries(&mut state, index);
            return Err(Error::Inconsistent);
        }
        Ok(index)
    }

    /// First cell and first key of the module with this slot.
    pub(crate) fn first_counters(&self, slot: usize) -> (u32, u32) {
        self.lock().modules.get(slot).map_or((0, 0), |each| (each.first_cell, each.first_key))
    }

    fn write_entries(
        &self,
        module: &MappedModule,
        room: &Room,
        entries: impl Iterator<Item = (u32, u32)>,
    ) -> Option<()> {
        let bytes = self.map_range(room.cluster, room.version, module)?;
        let memory = &self.memory[room.cluster].as_ref()?.map;
        for code in &module.exec {
            let start = bytes.start + 4 * code.start.saturating_sub(module.base);
            memory.populate(start..start + 4 * (code.end - code.start));
        }
        let map = memory.words32(bytes.clone())?;
        let start = u32::try_from(room.start).ok()?;
        for (original, copy) in entries {
            let is_inside = u64::from(copy & !(LEADER | LANDING)) < room.code_bytes;
            map.get(original as usize).filter(|_| is_inside)?.store(start + copy, Ordering::Release);
        }
        memory.let_go(bytes);
        Some(())
    }

    /// Returns the bytes of the file of a cluster's maps that belong to a module.
    fn map_range(&self, cluster: usize, version: Version, module: &MappedModule) -> Option<Range<u64>> {
        let at = &self.clusters[cluster];
        let start = module.base.checked_sub(at.lo)?;
        let end = module.end.checked_sub(at.lo)?.min(at.span);
        let map = at.map_of(version).checked_sub(at.map)?;
        (start < end).then_some(map + 4 * start..map + 4 * end)
    }

    /// Every process that runs the copies must have the module where this one has it.
    fn check_everywhere(&self, state: &State, pid: u32, module: &MappedModule) -> Result<()> {
        for sharer in state.sharers.iter().filter(|sharer| sharer.control.strong_count() != 0) {
            let maps = maps::of_process(sharer.pid).unwrap_or_default();
            if is_mapped(module, &maps) {
                continue;
            }
            if sharer.pid == pid {
                return Err(Error::Unloaded);
            }
            if self.is_run_by(&maps) {
                return Err(Error::Shared);
            }
        }
        Ok(())
    }

    /// Returns whether a process with these mappings has the copies where they belong.
    pub(crate) fn is_run_by(&self, maps: &[Mapping]) -> bool {
        let is_copy = |mapping: &Mapping| mapping.path.as_bytes().starts_with(FILE_OF_COPIES.as_bytes());
        let mut in_use = self.clusters.iter().filter(|cluster| cluster.span != 0);
        in_use.any(|cluster| maps.iter().any(|each| each.range.start == cluster.copy_base && is_copy(each)))
    }

    /// Removes the entries of one module, and its slot from the process that does not have it any
    /// more.
    pub(crate) fn unpublish(&self, index: usize, control: &ControlFile) {
        let mut state = self.lock();
        self.clear_entries(&mut state, index);
        control.remove_module(index);
    }

    /// Removes what the process does not have any more, and tells it so when `before_telling` has
    /// done its part. Returns the indices of the slots.
    pub(crate) fn remove_unloaded(
        &self,
        pid: u32,
        control: &ControlFile,
        before_telling: &mut dyn FnMut(&[Slot]),
    ) -> Result<Vec<usize>> {
        let mut state = self.lock();
        let unloads = control.unloads().load(Ordering::Acquire);
        let maps = maps::of_process(pid)?;
        let is_gone = |each: &Published| each.has_entries && !is_mapped(&each.module, &maps);
        let gone = state.modules.iter().enumerate().filter(|(_, each)| is_gone(each)).map(|(index, _)| index);
        let gone: Vec<usize> = gone.collect();
        for &index in &gone {
            self.clear_entries(&mut state, index);
            control.remove_module(index);
        }
        before_telling(&gone.iter().map(|&index| state.modules[index].slot).collect::<Vec<Slot>>());
        control.unloads_cleared().store(unloads, Ordering::Release);
        Ok(gone)
    }

    /// Removes the entries of code that the process has changed. Returns the indices of the slots.
    pub(crate) fn remove_changed(&self, pid: u32) -> Result<Vec<usize>> {
        let mut state = self.lock();
        let code = maps::changed_code(pid)?;
        let is_changed = |each: &Published| each.has_entries && overlap(&each.module.exec, &code);
        let changed = state.modules.iter().enumerate().filter(|(_, each)| is_changed(each)).map(|(index, _)| index);
        let changed: Vec<usize> = changed.collect();
        changed.iter().for_each(|&index| self.clear_entries(&mut state, index));
        Ok(changed)
    }

    fn clear_entries(&self, state: &mut State, index: usize) {
        let Some(each) = state.modules.get_mut(index).filter(|each| each.has_entries) else { return };
        each.has_entries = false;
        let memory = self.memory[each.cluster].as_ref();
        let Some((memory, bytes)) = memory.zip(self.map_range(each.cluster, each.version, &each.module)) else {
            return;
        };
        if memory.map.clear(bytes.clone()).is_err() {
            let words = memory.map.words32(bytes).unwrap_or_default();
            words.iter().for_each(|word| word.store(0, Ordering::Release));
        }
    }

    /// A panic elsewhere leaves the state whole: every change is complete before anything that can
    /// panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a process has a module's code where `module` says.
fn is_mapped(module: &MappedModule, maps: &[Mapping]) -> bool {
    let file = FileId { major: module.dev.0, minor: module.dev.1, inode: module.inode };
    let has =
        |address: u64| maps.iter().any(|each| each.is_executable && each.file == file && each.range.contains(&address));
    module.exec.iter().all(|code| has(code.start) && has(code.end - 1))
}

fn has_changed(code: &[Range<u64>], pid: u32) -> bool {
    maps::changed_code(pid).is_ok_and(|changed| overlap(code, &changed))
}

fn overlap(some: &[Range<u64>], others: &[Range<u64>]) -> bool {
    some.iter().any(|one| others.iter().any(|other| one.start < other.end && other.start < one.end))
}

/// A run as it lies in memory. Writes words to a range, piece by piece, so that little of it is
/// memory of this process at a time.
fn fill(memory: &SharedMemory, range: Range<u64>, mut words: impl Iterator<Item = u64>) -> Result<()> {
    const PIECE_BYTES: usize = 16 << 20;
    for start in range.clone().step_by(PIECE_BYTES) {
        let piece = start..range.end.min(start + PIECE_BYTES as u64);
        memory.populate(piece.clone());
        let places = memory.words64(piece.clone()).ok_or(Error::Inconsistent)?;
        places.iter().zip(&mut words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        memory.let_go(piece);
    }
    Ok(())
}

fn run_words(run: &Run) -> [u64; 2] {
    let [a, b, c, d] = run.save_end;
    let second = u64::from_le_bytes([run.kind, run.saves, a, b, c, d, run.writes, run.reserved]);
    [u64::from(run.copy) | u64::from(run.original) << 32, second]
}
