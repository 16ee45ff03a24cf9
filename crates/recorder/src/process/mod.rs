//! One process under recording: its modules and where they are. A [`crate::reader::Reader`] deals
//! with its samples or counters.

pub mod layout;
pub mod looks;
pub mod threads;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use attach::{Hindrance, MappedModule, PerfTicks, Placed, Process};
use profile::model::{ModuleId, ValueKind};
use store::ProcessId;

use self::layout::Layout;
use self::looks::{CostlyLooks, Looks, Scans};
use crate::translation::Translation;
use crate::translation::work::Placement;
use crate::unwind::{StackUnwinder, UnwindSections};

/// A process under recording.
#[derive(Debug)]
pub struct Watched {
    /// The process as `attach` knows it.
    pub process: Arc<Process>,
    /// Its number in the profile file.
    pub id: ProcessId,
    /// When its modules were looked at.
    pub scans: Scans,
    /// When it was looked for hindrances.
    pub hindrance_looks: Looks,
    /// When all of its memory and threads were looked at.
    pub costly_looks: CostlyLooks,
    /// CPU time so far.
    pub cpu_ns: u64,
    /// Modules that are loaded.
    pub modules: Vec<Module>,
    /// Modules that are gone, but whose counters are not.
    pub retired: Vec<Module>,
    /// What unwinds its stacks.
    pub unwinder: StackUnwinder,
    /// Where its modules are.
    pub layout: Layout,
    /// Ticks in code that has no copy yet, by the base of the module; under 0 those in no known
    /// module.
    pub wanted: BTreeMap<u64, u64>,
    /// Ticks by perf events, if they come from there.
    pub perf_ticks: Option<PerfTicks>,
    /// Why no bursts may start just now.
    pub hindrance: Option<Hindrance>,
    /// Threads that were seen to get no ticks.
    pub blind_threads: HashSet<u32>,
}

/// A module of a process.
#[derive(Debug)]
pub struct Module {
    /// Where it is.
    pub mapped: MappedModule,
    /// Its number in the profile.
    pub id: ModuleId,
    /// Its copy, once it has been made.
    pub translation: Option<Arc<Translation>>,
    /// Where its copies are.
    pub placed: Option<Placement>,
    /// Why it has no copy.
    pub problem: Option<String>,
    /// What unwinding needs of it.
    pub unwind: UnwindSections,
}

impl Module {
    /// Returns whether an address of the process lies in the module.
    pub fn contains(&self, pc: u64) -> bool {
        self.mapped.base <= pc && pc < self.mapped.end
    }

    /// Returns whether a copy is still to come.
    fn is_awaited(&self) -> bool {
        self.translation.is_none() && self.problem.is_none() && self.mapped.cluster.is_some()
    }
}

impl Watched {
    /// Returns a process of which no module is known yet.
    pub fn new(process: Arc<Process>, id: ProcessId) -> Watched {
        Watched {
            layout: Layout::new(process.clusters().iter().map(|cluster| cluster.lo).collect()),
            process,
            id,
            scans: Scans::new(),
            hindrance_looks: Looks::new(),
            costly_looks: CostlyLooks::new(),
            cpu_ns: 0,
            modules: Vec::new(),
            retired: Vec::new(),
            unwinder: StackUnwinder::default(),
            wanted: BTreeMap::new(),
            perf_ticks: None,
            hindrance: None,
            blind_threads: HashSet::new(),
        }
    }

    /// Looks for reasons against bursts in the process; returns whether the answer has changed.
    pub fn look_for_hindrances(&mut self) -> bool {
        let Ok(now) = self.process.hindrance() else { return false };
        std::mem::replace(&mut self.hindrance, now) != now
    }

    /// Returns whether copies of modules are still to come.
    pub fn awaits_copies(&self) -> bool {
        self.modules.iter().any(Module::is_awaited)
    }

    /// Returns whether a module starts at `base` whose translation is not known here.
    pub fn lacks(&self, base: u64) -> bool {
        self.modules.iter().any(|module| module.mapped.base == base && module.translation.is_none())
    }

    /// Returns all modules, those that are gone behind those that are there.
    pub fn all_modules(&self) -> impl Iterator<Item = &Module> {
        self.modules.iter().chain(&self.retired)
    }

    /// Returns module and address in its file of a block or instruction, by its record.
    pub fn place_of_record(&self, record: u32) -> Option<(ModuleId, u64)> {
        let address = self.layout.record_address(record);
        let module = self.all_modules().find(|module| module.contains(address))?;
        Some((module.id, address.wrapping_sub(module.mapped.bias)))
    }

    /// Returns a noted value as a profile has it: a place where control goes, or a table, by its
    /// address in the file.
    pub fn place_of_value(&self, kind: ValueKind, value: u64) -> (Option<ModuleId>, u64) {
        let is_place = match kind {
            ValueKind::CallTarget | ValueKind::JumpTarget | ValueKind::BranchTarget | ValueKind::MethodTable => true,
            ValueKind::Load | ValueKind::Address | ValueKind::Argument(_) => false,
        };
        let module = self.all_modules().find(|module| is_place && module.contains(value));
        module.map_or((None, value), |module| (Some(module.id), value.wrapping_sub(module.mapped.bias)))
    }

    /// Returns an address of the process in words: file and address in it.
    pub fn place_in_words(&self, pc: u64) -> String {
        match self.modules.iter().find(|module| module.contains(pc)) {
            Some(module) => {
                let name = module.mapped.path.file_name().unwrap_or_default().to_string_lossy();
                format!("{name}+{:#x}", pc.wrapping_sub(module.mapped.bias))
            }
            None => format!("{pc:#x}"),
        }
    }

    /// Adds a module.
    pub fn add_module(&mut self, module: Module) {
        let MappedModule { base, end, bias, .. } = &module.mapped;
        self.unwinder.add(*base..*end, *bias, &module.unwind);
        self.modules.push(module);
    }

    /// Gives the module at `base` its translation; returns the module.
    pub fn set_translation(
        &mut self,
        base: u64,
        translation: &Arc<Translation>,
        placed: Option<Placement>,
    ) -> Option<&Module> {
        let module = self.modules.iter_mut().find(|module| module.mapped.base == base)?;
        module.translation = Some(Arc::clone(translation));
        module.placed = placed;
        Some(module)
    }

    /// Takes copies of changed code out of use; returns the paths of the modules.
    pub fn unplace_changed(&self) -> Vec<PathBuf> {
        let changed = self.process.unplace_changed().unwrap_or_default();
        let has_changed =
            |module: &&Module| module.placed.is_some_and(|placement| placement.any(|placed| changed.contains(&placed)));
        let modules = self.modules.iter().filter(has_changed);
        modules.map(|module| module.mapped.path.clone()).collect()
    }

    /// Returns the base of the module whose copy is at a place.
    pub fn base_of(&self, placed: Placed) -> Option<u64> {
        let is_there = |module: &&Module| module.placed.is_some_and(|placement| placement.any(|each| each == placed));
        let module = self.modules.iter().find(is_there);
        module.map(|module| module.mapped.base)
    }

    /// Retires a module that has been unloaded; returns whether there was one.
    pub fn retire(&mut self, base: u64) -> bool {
        let Some(index) = self.modules.iter().position(|module| module.mapped.base == base) else { return false };
        self.unwinder.remove(base);
        self.layout.remove(base);
        self.retired.push(self.modules.remove(index));
        true
    }
}
