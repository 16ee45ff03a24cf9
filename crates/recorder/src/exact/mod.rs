//! Exact mode: what the agent does with counters.

pub mod callees;
pub mod contexts;
pub mod counts;
pub mod coverage;
pub mod path_trace;
pub mod stops;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use attach::{ExactCounters, PathCount};
use profile::exact::{CodePlace, ExactBuilder, PathNumber, Samples};
use profile::model::{ModuleId, Profile};
use rustc_hash::FxHashMap;
use wire::control::NativeReason;
use wire::exact::CALLEE;

use self::callees::Callees;
use self::contexts::{AreaContexts, Places, Tree};
use self::counts::{Added, Effort, Gaps};
use self::coverage::Coverage;
use self::path_trace::ProcessTrace;
use self::stops::Stopped;
use crate::error::{Error, Result};
use crate::process::Watched;
use crate::rows::Fact;
use crate::translation::Translation;

/// Makes the calls of a process look up anew where they lead, because they remember it and code is
/// gone.
pub fn forget_targets(watched: &Watched) {
    let mut targets: HashSet<u32> = HashSet::new();
    for module in watched.all_modules() {
        let Some((translation, placement)) = module.translation.as_ref().zip(module.placed) else { continue };
        let checking = translation.checking.as_ref().zip(placement.checking);
        for (copy, placed) in [(&translation.copy, placement.copy)].into_iter().chain(checking) {
            let mut next = watched.process.first_counters(placed).cell;
            for cell in copy.cells() {
                if cell.kind == emit::CellKind::Target {
                    targets.insert(next);
                }
                next += cell.n_cells();
            }
        }
    }
    // A process that is gone has nothing to forget.
    let _ = watched.process.clear_cells(&mut |number| targets.contains(&number));
}

/// Counters of all processes that have ended.
#[derive(Debug, Default)]
pub struct Totals {
    pub modules: HashMap<ModuleId, Counted>,
    pub contexts: Tree,
    pub callees: Callees,
    /// How far threads stayed in copies.
    pub stay: Stay,
    pub lost_paths: u64,
    /// Misses of simulated data caches.
    pub cache_misses: u64,
    /// Ticks that wanted samples of paths.
    pub n_sampling_ticks: u64,
    /// Words of traces that were dropped because the ring stayed full.
    pub n_words_lost: u64,
}

/// How much of the run threads spent in copies that are never left.
#[derive(Clone, Debug, Default)]
pub struct Stay {
    /// Times that threads went on natively, and why.
    pub native: BTreeMap<NativeReason, u64>,
    /// Cycles that threads spent natively.
    pub native_cycles: u64,
    /// Where ticks found threads.
    pub coverage: Coverage,
    /// Processes that gave up waiting for copies, or whose counters could not be read.
    pub n_abandoned: u64,
}

impl Stay {
    /// Adds a process that has ended.
    pub fn take(&mut self, watched: &Watched) {
        let ExactCounters { native, native_cycles, is_abandoned, ticks, .. } = watched.process.exact_counters();
        for (reason, n) in native.into_iter().filter(|&(_, n)| n != 0) {
            *self.native.entry(reason).or_default() += n;
        }
        self.native_cycles += native_cycles;
        self.coverage.add(ticks);
        self.n_abandoned += u64::from(is_abandoned && watched.process.counters().left_alone.is_none());
    }

    /// Returns how often threads left the copies for code that should have been counted.
    #[must_use]
    pub fn n_excursions(&self) -> u64 {
        let counts = |reason: &NativeReason| {
            matches!(
                reason,
                NativeReason::Outside | NativeReason::NoCopy | NativeReason::Instruction | NativeReason::Abandoned
            )
        };
        self.native.iter().filter(|(reason, _)| counts(reason)).map(|(_, n)| n).sum()
    }

    /// Returns the rows of the profile file.
    pub(crate) fn rows(&self) -> Vec<Fact> {
        let mut rows = vec![
            ("native_excursions", self.n_excursions().to_string()),
            ("abandoned_processes", self.n_abandoned.to_string()),
            ("native_cycles", self.native_cycles.to_string()),
        ];
        rows.extend(self.coverage.facts());
        rows
    }
}

/// Counters of one module.
#[derive(Debug)]
pub struct Counted {
    pub translation: Arc<Translation>,
    /// By number of the counter within the module.
    pub cells: Vec<u64>,
    /// By number of the function among those of the module that have a key, and path.
    pub paths: HashMap<(u32, u32), u64>,
    /// What the metric's counter went up by on them, or the sums of squares of samples, likewise.
    pub beside_paths: HashMap<(u32, u32), u64>,
    /// Where its functions were when threads ended.
    pub stops: Vec<counts::Stop>,
}

impl Totals {
    /// Adds the counters of a process that has ended, with what was under way at the ends of its
    /// threads.
    pub fn take(&mut self, watched: &Watched, stops: &[Stopped], path_trace: Option<&ProcessTrace>) {
        self.stay.take(watched);
        self.lost_paths += watched.process.n_lost_paths();
        self.cache_misses += watched.process.n_cache_misses();
        self.n_sampling_ticks += watched.process.n_sampling_ticks();

        let mut cell_places: Vec<(u32, ModuleId)> = Vec::new();
        let mut key_places: Vec<(u32, ModuleId)> = Vec::new();
        for module in watched.all_modules() {
            let Some((translation, placed)) = module.translation.as_ref().zip(module.placed) else { continue };
            let first = watched.process.first_counters(placed.copy);
            let n_cells = translation.copy.n_cells();
            if n_cells != 0 {
                cell_places.push((first.cell, module.id));
            }
            if translation.copy.n_keys() != 0 {
                key_places.push((first.key, module.id));
            }
            self.modules.entry(module.id).or_insert_with(|| Counted {
                translation: Arc::clone(translation),
                cells: vec![0; n_cells as usize],
                paths: HashMap::new(),
                beside_paths: HashMap::new(),
                stops: Vec::new(),
            });
        }
        for stopped in stops {
            if let Some(module) = self.modules.get_mut(&stopped.module) {
                module.stops.push(stopped.stop);
            }
        }
        cell_places.sort_by_key(|&(first, _)| first);
        key_places.sort_by_key(|&(first, _)| first);
        let modules = &mut self.modules;
        let cells = watched.process.for_each_cell(&mut |number, count| {
            let Some((module, number)) = owner(&cell_places, number) else { return };
            let counter = modules.get_mut(&module).and_then(|module| module.cells.get_mut(number as usize));
            if let Some(counter) = counter {
                *counter = counter.wrapping_add(count);
            }
        });
        if let Some(trace) = path_trace {
            for (&word, &count) in &trace.counts {
                let Some((module, function)) = owner(&key_places, (word >> 32) as u32) else { continue };
                if let Some(module) = modules.get_mut(&module) {
                    *module.paths.entry((function, word as u32)).or_default() += count;
                }
            }
        }
        // The ring of a trace lies where the tables would be.
        let n_tables = if path_trace.is_some() { 0 } else { watched.process.n_areas() };
        let tables = (0..n_tables).try_for_each(|area| {
            let mut contexts = AreaContexts::default();
            watched.process.for_each_context(area, &mut |place, entry| contexts.insert(place, entry))?;
            self.contexts.add(&mut contexts, &|number| owner(&key_places, number));
            watched.process.for_each_path(area, &mut |PathCount { key, count, beside }| {
                let number = (key >> 32) as u32;
                if number & CALLEE != 0 {
                    if let Some(call) = owner(&key_places, number & !CALLEE) {
                        self.callees.add(watched, call, key as u32, count);
                    }
                    return;
                }
                let number = if contexts.is_empty() {
                    Some(number)
                } else {
                    self.contexts.add_path(&contexts, number, key as u32, (count, beside));
                    contexts.function_at(number)
                };
                let Some((module, function)) = number.and_then(|number| owner(&key_places, number)) else { return };
                if let Some(module) = modules.get_mut(&module) {
                    *module.paths.entry((function, key as u32)).or_default() += count;
                    if beside != 0 {
                        let sum = module.beside_paths.entry((function, key as u32)).or_default();
                        *sum = sum.saturating_add(beside);
                    }
                }
            })
        });
        if cells.and(tables).is_err() {
            self.stay.n_abandoned += 1;
        }
    }
}

/// The unit of the metric's counter.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// So many nanoseconds each.
    Cycles {
        ns: f64,
    },
    Misses,
}

/// What the path table has beside the paths.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Metric(Unit),
    /// Sums of squares of samples.
    Squares,
}

impl Unit {
    fn of(metric: Option<emit::Metric>, ns_per_cycle: f64) -> Unit {
        match metric {
            Some(emit::Metric::Misses(_)) => Unit::Misses,
            Some(emit::Metric::Cycles) | None => Unit::Cycles { ns: ns_per_cycle },
        }
    }
}

/// A profile made from counters, and what they leave unknown, by path of the module.
pub struct Outcome {
    pub profile: Profile,
    pub gaps: BTreeMap<String, Gaps>,
    pub effort: Effort,
    /// Calls of functions whose paths were not counted, though paths were to be.
    pub n_calls_without_paths: u64,
    /// Modules whose counters could not be understood, with the reason.
    pub problems: Vec<String>,
    /// Accesses to memory, if a data cache was simulated and blocks were counted.
    pub accesses: Accesses,
    /// Modules of the recording by their numbers in the profile.
    pub in_profile: HashMap<ModuleId, ModuleId>,
}

/// Accesses to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Accesses that went through the simulated data cache.
    pub simulated: u64,
    /// Accesses that did not.
    pub not_simulated: u64,
}

impl Totals {
    /// Makes the profile from counters of `counting`. `names` are the paths of modules; `per_tick`
    /// says how many paths are samples at a tick, if they are.
    pub fn outcome(
        &self,
        counting: emit::Counting,
        per_tick: u32,
        ns_per_cycle: f64,
        names: &HashMap<ModuleId, String>,
    ) -> Outcome {
        let mut builder = ExactBuilder::new();
        let mut outcome = Outcome {
            profile: Profile::default(),
            gaps: BTreeMap::new(),
            effort: Effort::default(),
            n_calls_without_paths: 0,
            problems: Vec::new(),
            accesses: Accesses::default(),
            in_profile: HashMap::new(),
        };
        let metric = Unit::of(counting.metric(), ns_per_cycle);
        let mut in_profile = HashMap::new();
        let mut modules: Vec<(&ModuleId, &Counted)> = self.modules.iter().collect();
        modules.sort_by_key(|&(id, _)| *id);
        let mut places = Places::default();
        let mut paths = FxHashMap::default();
        for (&id, counted) in modules {
            let name = names.get(&id).cloned().unwrap_or_default();
            let mut number = |numbered, place| {
                match numbered {
                    Numbered::Key(key) => drop(places.functions.insert((id, key), place)),
                    Numbered::Entry(at) => drop(places.entered.insert((id, at), place)),
                    Numbered::WithoutPaths => drop(places.without_paths.insert(place)),
                };
            };
            match add_module(&mut builder, &name, counted, counting, &mut number) {
                Ok((number, added)) => {
                    in_profile.insert(id, number);
                    outcome.gaps.insert(name, added.gaps);
                    outcome.effort += added.effort;
                    paths.extend(added.paths);
                    let copy = &counted.translation.copy;
                    let address = |at: u32| copy.base().offset(u64::from(at)).0;
                    let calls = contexts::numbered_calls(copy.cells());
                    places.call_sites.extend(calls.map(|(key, at)| ((id, key), address(at))));
                }
                Err(error) => outcome.problems.push(format!("{name}: {error}")),
            }
        }
        if counting.has_paths() {
            outcome.n_calls_without_paths = self.contexts.n_calls_without_paths(&places);
        }
        if let Err(error) = self.contexts.fill(&mut builder, &places, &paths, metric) {
            outcome.problems.push(format!("calling contexts: {error}"));
        }
        let by_site = counting.has_call_sites() && !counting.has_paths();
        let calls = self.callees.fill(&mut builder, &self.modules, &in_profile).and_then(|()| match by_site {
            true => callees::fill_by_sites(&mut builder, &self.contexts, &self.modules, &in_profile),
            false => Ok(()),
        });
        if let Err(error) = calls {
            outcome.problems.push(format!("calls: {error}"));
        }
        let is_sampled = counting == emit::Counting::SampledPaths;
        let unit = if is_sampled { Beside::Squares } else { Beside::Metric(metric) };
        if let Err(error) = self.add_beside_paths(&mut builder, &places, &paths, unit) {
            outcome.problems.push(format!("the metric of paths: {error}"));
        }
        let samples = Samples { n_ticks: self.n_sampling_ticks, per_tick };
        outcome.profile = if is_sampled { builder.profile_of_samples(samples) } else { builder.profile() };
        outcome.accesses = self.accesses(&outcome.profile, &in_profile);
        outcome.in_profile = in_profile;
        outcome
    }

    /// What was accessed, by how often blocks ran.
    fn accesses(&self, profile: &Profile, in_profile: &HashMap<ModuleId, ModuleId>) -> Accesses {
        let mut each: FxHashMap<(ModuleId, u64), &emit::BlockAccesses> = FxHashMap::default();
        for (id, counted) in &self.modules {
            let Some(&module) = in_profile.get(id) else { continue };
            let copy = &counted.translation.copy;
            let address = |at: u32| copy.base().offset(u64::from(at)).0;
            each.extend(copy.accesses().iter().map(|block| ((module, address(block.at)), block)));
        }
        let mut sum = Accesses::default();
        for block in &profile.blocks {
            let module = profile.functions[block.function.index()].module;
            if let Some(accesses) = each.get(&(module, block.address)) {
                let count = block.count.value as u64;
                sum.simulated += count * u64::from(accesses.simulated);
                sum.not_simulated += count * u64::from(accesses.not_simulated);
            }
        }
        sum
    }

    /// Hands on what the path table has beside paths. What paths have of which only the rest is
    /// known has no place.
    fn add_beside_paths(
        &self,
        builder: &mut ExactBuilder,
        places: &Places,
        paths: &FxHashMap<(CodePlace, u64), PathNumber>,
        beside: Beside,
    ) -> Result<()> {
        for (&id, counted) in &self.modules {
            for (at, path, n) in cell_misses(counted) {
                let place = places.entered.get(&(id, at));
                if let Some(&path) = place.and_then(|&place| paths.get(&(place, path))) {
                    builder.path_misses(path, n)?;
                }
            }
            for (&(function, path), &value) in &counted.beside_paths {
                let place = places.functions.get(&(id, function));
                if let Some(&path) = place.and_then(|&place| paths.get(&(place, u64::from(path)))) {
                    match beside {
                        Beside::Squares => builder.path_squares(path, value)?,
                        Beside::Metric(Unit::Cycles { ns }) => builder.path_time(path, value as f64 * ns)?,
                        Beside::Metric(Unit::Misses) => builder.path_misses(path, value)?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// How counters name a function.
enum Numbered {
    /// By its key among those of the module.
    Key(u32),
    /// By its entry, less the image base.
    Entry(u32),
    /// Not at all: only its calls are counted, by context.
    WithoutPaths,
}

fn add_module(
    builder: &mut ExactBuilder,
    name: &str,
    counted: &Counted,
    counting: emit::Counting,
    number: &mut dyn FnMut(Numbered, CodePlace),
) -> Result<(ModuleId, Added)> {
    let translation = &counted.translation;
    let unknown = || Error::Refused("its control flow is not known".to_owned());
    let code = translation.code.get().ok_or_else(unknown)?;
    let index = translation.blocks.get().ok_or_else(unknown)?;
    let id = builder.module(name, translation.build_id.as_deref().unwrap_or_default(), Arc::clone(code))?;
    let truncation = counting.truncation();
    let module = counts::Module { id, flow: index.flow(), base: translation.copy.base(), code, truncation };
    let cells = translation.copy.cells();
    for (key, at) in contexts::numbered(cells) {
        if let Some(function) = counts::function_entered_at(module.flow, module.base.offset(u64::from(at))) {
            number(Numbered::Key(key), CodePlace { module: id, index: function.0 });
        }
    }
    for cell in cells.iter().filter(|cell| cell.kind == emit::CellKind::PathMisses) {
        if let Some(function) = counts::function_entered_at(module.flow, module.base.offset(u64::from(cell.at))) {
            number(Numbered::Entry(cell.at), CodePlace { module: id, index: function.0 });
        }
    }
    for at in contexts::without_paths(cells) {
        if let Some(function) = counts::function_entered_at(module.flow, module.base.offset(u64::from(at))) {
            number(Numbered::WithoutPaths, CodePlace { module: id, index: function.0 });
        }
    }
    // Whether a sample would have been taken of a path that did not end is not known.
    let has_all_paths = counting.has_paths() && counting != emit::Counting::SampledPaths;
    let stops = if has_all_paths { counted.stops.as_slice() } else { &[] };
    let unfinished = counts::unfinished(&module, stops);
    let added = counts::add(
        builder,
        &module,
        &counts::Counted { cells, counters: &counted.cells, hashed: &counted.paths, unfinished: &unfinished },
    )?;
    Ok((id, added))
}

/// Misses on paths that have cells: the function's entry, the number of the path, and how many.
fn cell_misses(counted: &Counted) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
    let mut rest = counted.cells.as_slice();
    let each = counted.translation.copy.cells().iter().map(move |cell| {
        let (own, behind) = rest.split_at_checked(cell.n_cells() as usize).unwrap_or((rest, &[]));
        rest = behind;
        (cell, own)
    });
    let misses = each.filter(|(cell, _)| cell.kind == emit::CellKind::PathMisses);
    misses.flat_map(|(cell, own)| (0..).zip(own).filter(|&(_, &n)| n != 0).map(|(path, &n)| (cell.at, path, n)))
}

/// Whose a number is, and which of its numbers.
fn owner(firsts: &[(u32, ModuleId)], number: u32) -> Option<(ModuleId, u32)> {
    let index = firsts.partition_point(|&(first, _)| first <= number).checked_sub(1)?;
    let (first, module) = firsts[index];
    Some((module, number - first))
}
