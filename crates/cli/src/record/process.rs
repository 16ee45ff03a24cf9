//! One recorded process: its modules, and what becomes of its samples.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use attach::{Hindrance, MappedModule, PerfTicks, Placed, Process, SampleRef};
use profile::Builder;
use profile::builder::BlockRef;
use profile::model::{ModuleId, ValueKind};
use store::{ProcessId, Recording};
use wire::control::Policy;
use wire::sample::{EndReason, Outcome, RIP};

use crate::props::RecordProps;
use crate::record::converge::Converging;
use crate::record::digest::Digest;
use crate::record::events::Messages;
use crate::record::exact::farewells::Stopped;
use crate::record::layout::Layout;
use crate::record::tally::{Tally, end_reason_name};
use crate::record::trace_check::{self, Burst, CheckedModule, Findings};
use crate::record::tracing::ProcessTrace;
use crate::record::translation::Translation;
use crate::record::unwind::{StackUnwinder, UnwindSections};

/// A process under recording.
#[derive(Debug)]
pub struct Watched {
    pub process: Arc<Process>,
    pub id: ProcessId,
    pub last_scan: Instant,
    pub cpu_ns: u64,
    pub modules: Vec<Module>,
    pub unwinder: StackUnwinder,
    pub layout: Layout,
    pub digest: Digest,
    checked: Vec<CheckedModule>,
    /// Ticks in code that has no copy yet, by the module's base; 0: no known module.
    pub wanted: BTreeMap<u64, u64>,
    /// Where bursts ended before their time, and why.
    pub departures: BTreeMap<(EndReason, u64), u64>,
    threads: ThreadFilter,
    trace: Vec<u8>,
    n_traced: u64,
    pub perf_ticks: Option<PerfTicks>,
    /// Why no bursts may start just now.
    pub hindrance: Option<Hindrance>,
    /// Threads that were seen to get no ticks.
    pub blind_threads: HashSet<u32>,
    /// Modules that are gone, but whose counters are not.
    pub retired: Vec<Module>,
    /// In exact mode: the request that is being worked on.
    pub answering: Option<u32>,
    /// What loads loaded.
    pub events: Messages,
    /// If events are to end when that is known.
    pub converging: Option<Converging>,
    /// If paths are traced.
    pub path_trace: Option<ProcessTrace>,
    /// What was under way when threads ended.
    pub stops: Vec<Stopped>,
}

/// A module of the process.
#[derive(Debug)]
pub struct Module {
    pub mapped: MappedModule,
    pub id: ModuleId,
    pub translation: Option<Arc<Translation>>,
    pub placed: Option<Placed>,
    pub problem: Option<String>,
    pub unwind: UnwindSections,
}

impl Module {
    pub fn contains(&self, pc: u64) -> bool {
        self.mapped.base <= pc && pc < self.mapped.end
    }
}

/// Where samples go.
#[derive(Debug)]
pub struct Sinks<'a> {
    pub builder: &'a mut Builder,
    pub tally: &'a mut Tally,
    pub findings: &'a mut Findings,
    pub recording: &'a mut Recording,
    /// Of the time-stamp counter.
    pub ns_per_cycle: f64,
}

/// What of the samples is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub checks_traces: bool,
    pub keeps_traces: bool,
}

/// Samples before a kept trace is compressed and handed on.
const TRACE_BYTES: usize = 4 << 20;

impl Watched {
    pub fn new(process: Arc<Process>, id: ProcessId, command: String, props: &RecordProps) -> Watched {
        let stride = if props.policy == Policy::Full { props.stride } else { 1 };
        Watched {
            layout: Layout::new(process.clusters().iter().map(|cluster| cluster.lo).collect()),
            digest: Digest::new(process.pid(), command, stride),
            process,
            id,
            last_scan: Instant::now(),
            cpu_ns: 0,
            modules: Vec::new(),
            unwinder: StackUnwinder::default(),
            checked: Vec::new(),
            wanted: BTreeMap::new(),
            departures: BTreeMap::new(),
            threads: ThreadFilter::new(&props.threads),
            trace: Vec::new(),
            n_traced: 0,
            perf_ticks: None,
            hindrance: None,
            blind_threads: HashSet::new(),
            answering: None,
            retired: Vec::new(),
            events: Messages::default(),
            converging: props.tolerance.map(Converging::new),
            path_trace: None,
            stops: Vec::new(),
        }
    }

    /// Looks whether anything speaks against bursts in the process. Whether that has changed.
    pub fn look_for_hindrances(&mut self) -> bool {
        let Ok(now) = self.process.hindrance() else { return false };
        std::mem::replace(&mut self.hindrance, now) != now
    }

    /// A module has been translated and placed.
    /// Whether there are modules that are being translated.
    pub fn has_gaps(&self) -> bool {
        let is_awaited = |module: &Module| {
            module.translation.is_none() && module.problem.is_none() && module.mapped.cluster.is_some()
        };
        self.modules.iter().any(is_awaited)
    }

    /// In exact mode, calls remember where they led; when code is gone, they must find out anew.
    pub fn forget_targets(&self) {
        let mut targets: HashSet<u32> = HashSet::new();
        for module in self.modules.iter().chain(&self.retired) {
            let Some((translation, placed)) = module.translation.as_ref().zip(module.placed) else { continue };
            let mut next = self.process.first_counters(placed).cell;
            for cell in translation.copy.cells() {
                if cell.kind == emit::CellKind::Target {
                    targets.insert(next);
                }
                next += cell.n_cells();
            }
        }
        // A process that is gone has nothing to forget.
        let _ = self.process.clear_cells(&mut |number| targets.contains(&number));
    }

    /// Module and address in its file of a block or instruction, by its record.
    pub fn place_of_record(&self, record: u32) -> Option<(ModuleId, u64)> {
        let address = self.layout.record_address(record);
        let module = self.modules.iter().chain(&self.retired).find(|module| module.contains(address))?;
        Some((module.id, address.wrapping_sub(module.mapped.bias)))
    }

    /// A value as it goes into a profile: a place where control goes, or a table, by its address in the file.
    pub fn place_of_value(&self, kind: ValueKind, value: u64) -> (Option<ModuleId>, u64) {
        let is_place = match kind {
            ValueKind::CallTarget | ValueKind::JumpTarget | ValueKind::BranchTarget | ValueKind::MethodTable => true,
            ValueKind::Load | ValueKind::Address | ValueKind::Argument(_) => false,
        };
        let module = self.modules.iter().chain(&self.retired).find(|module| is_place && module.contains(value));
        module.map_or((None, value), |module| (Some(module.id), value.wrapping_sub(module.mapped.bias)))
    }

    /// Whether there is a module at this address whose translation is not known.
    pub fn lacks(&self, base: u64) -> bool {
        self.modules.iter().any(|module| module.mapped.base == base && module.translation.is_none())
    }

    pub fn add_module(&mut self, module: Module) {
        let MappedModule { base, end, bias, .. } = &module.mapped;
        self.unwinder.add(*base..*end, *bias, &module.unwind);
        self.modules.push(module);
    }

    pub fn add_translation(&mut self, base: u64, translation: &Arc<Translation>, placed: Option<Placed>) {
        let Some(module) = self.modules.iter_mut().find(|module| module.mapped.base == base) else { return };
        module.translation = Some(Arc::clone(translation));
        module.placed = placed;
        if let Some(blocks) = translation.blocks.get() {
            let name = module.mapped.path.display().to_string();
            let (start, end, bias) = (module.mapped.base, module.mapped.end, module.mapped.bias);
            let blocks = Arc::clone(blocks);
            self.checked.push(CheckedModule { name, start, end, bias, blocks });
        }
    }

    /// The control flow of a module is known, its blocks numbered from `first`.
    pub fn set_code(&mut self, base: u64, first: BlockRef, translation: &Translation, builder: &mut Builder) {
        let Some(code) = translation.code.get() else { return };
        self.layout.set_code(base, first, Arc::clone(code));
        self.digest.release(builder, &mut self.layout, false);
    }

    /// Takes copies of changed code out of use. Returns the paths of the modules.
    pub fn unplace_changed(&self) -> Vec<PathBuf> {
        let changed = self.process.unplace_changed().unwrap_or_default();
        let modules =
            self.modules.iter().filter(|module| module.placed.is_some_and(|placed| changed.contains(&placed)));
        modules.map(|module| module.mapped.path.clone()).collect()
    }

    /// A module has been unloaded.
    pub fn remove(&mut self, base: u64) {
        let Some(index) = self.modules.iter().position(|module| module.mapped.base == base) else { return };
        self.unwinder.remove(base);
        self.layout.remove(base);
        self.checked.retain(|module| module.start != base);
        self.retired.push(self.modules.remove(index));
    }

    /// Takes one sample.
    pub fn take(&mut self, sample: &SampleRef<'_>, wanted: Wanted, sinks: &mut Sinks<'_>) {
        let header = &sample.header;
        sinks.tally.add(header);
        if !self.threads.wants(self.process.pid(), header.tid) {
            return;
        }
        let Some(outcome) = Outcome::from_u8(header.outcome) else { return };
        let frames = self.unwinder.unwind(header, sample.stack);
        self.digest.take(sinks.builder, &mut self.layout, sample, &frames, sinks.ns_per_cycle);
        match outcome {
            Outcome::Burst => self.take_burst(sample, wanted, sinks),
            Outcome::NoCopy | Outcome::Outside => {
                let module = self.modules.iter().find(|module| module.contains(header.registers[RIP]));
                *self.wanted.entry(module.map_or(0, |module| module.mapped.base)).or_default() += 1;
            }
            _ => {}
        }
    }

    fn take_burst(&mut self, sample: &SampleRef<'_>, wanted: Wanted, sinks: &mut Sinks<'_>) {
        let header = &sample.header;
        let end_reason = EndReason::from_u8(header.end_reason).unwrap_or(EndReason::None);
        if end_reason != EndReason::Full {
            *self.departures.entry((end_reason, header.end_pc)).or_default() += 1;
        }
        if wanted.checks_traces {
            let blocks: Vec<u64> = sample.records.iter().map(|&record| self.layout.record_address(record)).collect();
            let burst = Burst { start_pc: header.registers[RIP], blocks: &blocks, end_reason, end_pc: header.end_pc };
            trace_check::check(&self.checked, &burst, sinks.findings);
        }
        if wanted.keeps_traces {
            self.keep(sample, sinks.recording);
        }
    }

    /// Kept samples are the start address, the number of records, the checks to skip by the policy, and the records, all little-endian.
    fn keep(&mut self, sample: &SampleRef<'_>, recording: &mut Recording) {
        self.trace.extend_from_slice(&sample.header.registers[RIP].to_le_bytes());
        self.trace.extend_from_slice(&(sample.records.len() as u32).to_le_bytes());
        self.trace.extend_from_slice(&sample.header.checks_to_skip.to_le_bytes());
        self.trace.extend(sample.records.iter().flat_map(|record| record.to_le_bytes()));
        self.n_traced += 1;
        if self.trace.len() >= TRACE_BYTES {
            self.hand_on_trace(recording);
        }
    }

    fn hand_on_trace(&mut self, recording: &mut Recording) {
        let raw = std::mem::take(&mut self.trace);
        let n_samples = std::mem::take(&mut self.n_traced);
        if let Ok(compressed) = zstd::bulk::compress(&raw, 1) {
            recording.trace(self.id, n_samples, raw.len() as u64, compressed);
        }
    }

    /// Hands kept samples to the recording.
    pub fn hand_on(&mut self, recording: &mut Recording) {
        if !self.trace.is_empty() {
            self.hand_on_trace(recording);
        }
    }

    /// The places where most bursts ended early, in words.
    pub fn named_departures(&self) -> impl Iterator<Item = (String, u64)> {
        self.departures.iter().map(|(&(reason, pc), &n)| {
            let module = self.modules.iter().find(|module| module.contains(pc));
            let place = match module {
                Some(module) => {
                    let name = module.mapped.path.file_name().unwrap_or_default().to_string_lossy();
                    format!("{name}+{:#x}", pc.wrapping_sub(module.mapped.bias))
                }
                None => format!("{pc:#x}"),
            };
            (format!("{} at {place}", end_reason_name(reason)), n)
        })
    }
}

/// Which threads are wanted, by id or name.
#[derive(Debug)]
struct ThreadFilter {
    patterns: Vec<String>,
    wanted: HashSet<u32>,
    unwanted: HashSet<u32>,
}

impl ThreadFilter {
    fn new(patterns: &[String]) -> ThreadFilter {
        ThreadFilter { patterns: patterns.to_vec(), wanted: HashSet::new(), unwanted: HashSet::new() }
    }

    fn wants(&mut self, pid: u32, tid: u32) -> bool {
        if self.patterns.is_empty() || self.wanted.contains(&tid) {
            return true;
        }
        if self.unwanted.contains(&tid) {
            return false;
        }
        let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        let is_wanted =
            self.patterns.iter().any(|pattern| *pattern == tid.to_string() || name.contains(pattern.as_str()));
        if is_wanted {
            self.wanted.insert(tid)
        } else {
            self.unwanted.insert(tid)
        };
        is_wanted
    }
}
