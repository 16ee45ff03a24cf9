//! A module as a whole: what it contains, how much of it is understood, and why the rest is not.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::cfg::EdgeKind;
use flow::indirect::{Reason, Resolution};
use flow::{Callee, FunctionFlow};
use image::{ImageKind, Sources};
use serde::Serialize;

use crate::module::Module;
use crate::props::NumberingProps;
use crate::report::{Address, Count, Fault, Numbering, SCHEMA};

#[derive(Debug, Serialize)]
pub struct ModuleReport {
    pub schema: u32,
    pub kind: &'static str,
    pub file: String,
    pub module_kind: &'static str,
    pub is_static: bool,
    pub build_id: Option<String>,
    pub entry: Option<Address>,
    /// Separate debug files that were read; what is wrong with one is a problem.
    pub debug_files: Vec<String>,
    pub functions: FunctionCounts,
    pub code: CodeCounts,
    pub edges: Vec<Count>,
    pub loops: LoopCounts,
    pub indirect_jumps: IndirectJumpCounts,
    pub calls: CallCounts,
    pub paths: PathCounts,
    pub problems: Vec<ProblemReport>,
    /// Functions whose graph or numbering is wrong; `None` if that was not checked.
    pub faults: Option<Vec<Fault>>,
    pub threads: usize,
    pub stages: Vec<Stage>,
    pub function_list: Vec<FunctionSummary>,
}

#[derive(Debug, Serialize)]
pub struct FunctionCounts {
    pub total: usize,
    /// Functions without an unresolved indirect jump.
    pub complete: usize,
    pub noreturn: usize,
    /// Functions with code in more than one place.
    pub split: usize,
    /// Functions by who states their start; one may have several sources.
    pub by_source: Vec<Count>,
}

#[derive(Debug, Default, Serialize)]
pub struct CodeCounts {
    /// Bytes of executable sections.
    pub text_bytes: u64,
    pub decoded_bytes: u64,
    pub padding_bytes: u64,
    /// Bytes inside functions that are neither instructions nor padding.
    pub data_bytes: u64,
    pub instructions: u64,
    pub blocks: u64,
}

#[derive(Debug, Serialize)]
pub struct LoopCounts {
    pub total: usize,
    pub irreducible: usize,
    pub max_depth: u32,
}

#[derive(Debug, Serialize)]
pub struct IndirectJumpCounts {
    pub total: usize,
    pub jump_tables: usize,
    pub jump_table_entries: u64,
    pub tail_calls: usize,
    pub unresolved: usize,
    pub unresolved_by_reason: Vec<Count>,
}

#[derive(Debug, Serialize)]
pub struct CallCounts {
    /// Pairs of caller and callee in this module.
    pub direct_pairs: usize,
    pub sites: usize,
    pub indirect_sites: usize,
    pub address_taken_functions: usize,
    pub leaf_functions: usize,
}

#[derive(Debug, Serialize)]
pub struct PathCounts {
    /// Functions by the number of their paths before extra cuts.
    pub buckets: Vec<PathBucket>,
    /// Functions with edges cut because they have too many paths.
    pub cut_functions: usize,
    pub extra_cuts: usize,
    /// Edges with an addition, when each adds its own value and as placed.
    pub additions_direct: usize,
    pub additions: usize,
}

/// Functions whose number of paths, rounded up to a power of two, is 2 to the power `log2`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct PathBucket {
    pub log2: u32,
    pub functions: usize,
}

/// Something damaged or unusual that was left out.
#[derive(Debug, Serialize)]
pub struct ProblemReport {
    pub kind: String,
    pub count: u64,
    pub text: String,
}

#[derive(Debug, Serialize)]
pub struct Stage {
    pub name: &'static str,
    pub milliseconds: f64,
}

#[derive(Debug, Serialize)]
pub struct FunctionSummary {
    pub entry: Address,
    pub name: String,
    pub bytes: u64,
    pub instructions: u32,
    pub blocks: usize,
    pub edges: usize,
    pub loops: usize,
    pub complete: bool,
    pub paths: u64,
    pub log2_paths_before_cuts: f64,
}

/// What the numbering of one function shows.
struct Numbered {
    paths: u64,
    log2_before_cuts: f64,
    extra_cuts: usize,
    additions_direct: usize,
    additions: usize,
}

impl ModuleReport {
    pub fn new(module: &mut Module<'_>, props: NumberingProps, verify: bool) -> ModuleReport {
        let numbered = module.map_functions("number", |_, function| Numbered::new(function, props));
        let faults = verify.then(|| {
            let found = module.map_functions("verify", |image, function| Fault::find(image, function, props));
            found.into_iter().flatten().collect()
        });
        let module = &*module;
        let image = &module.image;
        ModuleReport {
            schema: SCHEMA,
            kind: "module",
            file: module.files.path.display().to_string(),
            module_kind: match image.kind() {
                ImageKind::Executable => "executable",
                ImageKind::PositionIndependentExecutable => "position-independent executable",
                ImageKind::SharedObject => "shared object",
            },
            is_static: image.is_static(),
            build_id: image.build_id().map(ToString::to_string),
            entry: image.entry().map(Address),
            debug_files: module.files.debug_files().map(|file| file.path.display().to_string()).collect(),
            functions: FunctionCounts::new(module),
            code: CodeCounts::new(module),
            edges: edges(&module.flow.functions),
            loops: LoopCounts::new(&module.flow.functions),
            indirect_jumps: IndirectJumpCounts::new(&module.flow.functions),
            calls: CallCounts::new(module),
            paths: PathCounts::new(&numbered),
            problems: problems(module),
            faults,
            threads: module.threads.0.get(),
            stages: module.stages.iter().map(Stage::new).collect(),
            function_list: summaries(module, &numbered),
        }
    }
}

impl Numbered {
    fn new(function: &FunctionFlow, props: NumberingProps) -> Numbered {
        let numbering = Numbering::new(function, props);
        Numbered {
            paths: numbering.plan.n_paths(),
            log2_before_cuts: numbering.plan.log2_paths_before_extra_cuts(),
            extra_cuts: numbering.plan.extra_cuts().len(),
            additions_direct: numbering.n_direct_additions,
            additions: numbering.placement.n_additions(),
        }
    }
}

impl FunctionCounts {
    fn new(module: &Module<'_>) -> FunctionCounts {
        let functions = &module.flow.functions;
        let count = |test: fn(&FunctionFlow) -> bool| functions.iter().filter(|function| test(function)).count();
        FunctionCounts {
            total: functions.len(),
            complete: count(FunctionFlow::is_complete),
            noreturn: count(|function| !function.returns),
            split: count(|function| function.parts.len() > 1),
            by_source: by_source(functions),
        }
    }
}

/// Functions by who states their start. One may have several sources; those with none are found in
/// the code alone.
fn by_source(functions: &[FunctionFlow]) -> Vec<Count> {
    let all = functions.iter().fold(Sources::default(), |all, function| all.union(function.sources));
    let having = |source| functions.iter().filter(|function| function.sources.contains(source)).count();
    let mut counts: Vec<Count> = all.iter().map(|(source, name)| Count::new(name, having(source))).collect();
    let unstated = || functions.iter().filter(|function| function.sources == Sources::default());
    counts.push(Count::new("calls only", unstated().filter(|function| function.called).count()));
    counts.push(Count::new("pointers only", unstated().filter(|function| !function.called).count()));
    counts.retain(|count| count.count > 0);
    counts
}

impl CodeCounts {
    fn new(module: &Module<'_>) -> CodeCounts {
        let text_bytes = module.image.code_regions().iter().map(|region| region.range.len()).sum();
        let mut counts = CodeCounts { text_bytes, ..CodeCounts::default() };
        for function in &module.flow.functions {
            counts.decoded_bytes += function.cfg.blocks.iter().map(|block| block.range.len()).sum::<u64>();
            counts.padding_bytes += function.padding_bytes;
            counts.data_bytes += function.data_bytes;
            counts.instructions += u64::from(function.n_insns);
            counts.blocks += function.cfg.blocks.len() as u64;
        }
        counts
    }
}

fn edges(functions: &[FunctionFlow]) -> Vec<Count> {
    let kinds = || functions.iter().flat_map(|function| &function.cfg.edges).map(|edge| edge.kind);
    EdgeKind::ALL.map(|kind| Count::new(kind, kinds().filter(|&other| other == kind).count())).into()
}

impl LoopCounts {
    fn new(functions: &[FunctionFlow]) -> LoopCounts {
        let loops = || functions.iter().flat_map(|function| function.loops.all());
        LoopCounts {
            total: loops().count(),
            irreducible: loops().filter(|found| found.irreducible).count(),
            max_depth: loops().map(|found| found.depth).max().unwrap_or(0),
        }
    }
}

impl IndirectJumpCounts {
    fn new(functions: &[FunctionFlow]) -> IndirectJumpCounts {
        let jumps = || functions.iter().flat_map(|function| &function.indirect_jumps).map(|jump| &jump.resolution);
        let tables = || jumps().filter_map(|jump| if let Resolution::Table(table) = jump { Some(table) } else { None });
        let unresolved_for = |reason| jumps().filter(|jump| **jump == Resolution::Unresolved(reason)).count();
        let by_reason = Reason::ALL.map(|reason| Count::new(reason, unresolved_for(reason)));
        IndirectJumpCounts {
            total: jumps().count(),
            jump_tables: tables().count(),
            jump_table_entries: tables().map(|table| u64::from(table.n_entries)).sum(),
            tail_calls: jumps().filter(|jump| matches!(jump, Resolution::TailCall { .. })).count(),
            unresolved: jumps().filter(|jump| matches!(jump, Resolution::Unresolved(_))).count(),
            unresolved_by_reason: by_reason.into_iter().filter(|count| count.count > 0).collect(),
        }
    }
}

impl CallCounts {
    fn new(module: &Module<'_>) -> CallCounts {
        let flow = &module.flow;
        let sites = || flow.functions.iter().flat_map(|function| &function.calls);
        CallCounts {
            direct_pairs: flow.calls.n_calls(),
            sites: sites().count(),
            indirect_sites: sites().filter(|site| !matches!(site.callee, Callee::Direct(_))).count(),
            address_taken_functions: flow.functions.iter().filter(|function| function.address_taken).count(),
            leaf_functions: flow.calls.functions().filter(|&id| flow.calls.is_leaf(id)).count(),
        }
    }
}

impl PathCounts {
    fn new(numbered: &[Numbered]) -> PathCounts {
        PathCounts {
            buckets: buckets(numbered.iter().map(|numbered| numbered.log2_before_cuts)),
            cut_functions: numbered.iter().filter(|numbered| numbered.extra_cuts > 0).count(),
            extra_cuts: numbered.iter().map(|numbered| numbered.extra_cuts).sum(),
            additions_direct: numbered.iter().map(|numbered| numbered.additions_direct).sum(),
            additions: numbered.iter().map(|numbered| numbered.additions).sum(),
        }
    }
}

fn buckets(log2s: impl Iterator<Item = f64>) -> Vec<PathBucket> {
    let mut buckets: BTreeMap<u32, usize> = BTreeMap::new();
    for log2 in log2s {
        *buckets.entry(log2.ceil() as u32).or_default() += 1;
    }
    buckets.into_iter().map(|(log2, functions)| PathBucket { log2, functions }).collect()
}

fn problems(module: &Module<'_>) -> Vec<ProblemReport> {
    let in_image = module.image.problems().iter().map(|problem| ProblemReport {
        kind: format!("{:?}", problem.kind),
        count: problem.count,
        text: problem.to_string(),
    });
    let in_debug_file = module.debug_file_fault.iter().map(|fault| ProblemReport {
        kind: "DebugFile".to_owned(),
        count: 1,
        text: fault.clone(),
    });
    in_image.chain(in_debug_file).collect()
}

impl Stage {
    fn new(&(name, duration): &(&'static str, Duration)) -> Stage {
        Stage { name, milliseconds: duration.as_secs_f64() * 1e3 }
    }
}

fn summaries(module: &Module<'_>, numbered: &[Numbered]) -> Vec<FunctionSummary> {
    let summary = |(function, numbered): (&FunctionFlow, &Numbered)| FunctionSummary {
        entry: Address(function.entry),
        name: module.name(function),
        bytes: function.parts.iter().map(|part| part.len()).sum(),
        instructions: function.n_insns,
        blocks: function.cfg.blocks.len(),
        edges: function.cfg.edges.len(),
        loops: function.loops.all().len(),
        complete: function.is_complete(),
        paths: numbered.paths,
        log2_paths_before_cuts: numbered.log2_before_cuts,
    };
    module.flow.functions.iter().zip(numbered).map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_round_up_to_powers_of_two() {
        let bucket = |log2, functions| PathBucket { log2, functions };
        let paths = [1.0f64, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(buckets(paths.iter().map(|n| n.log2())), [bucket(0, 1), bucket(1, 1), bucket(2, 2), bucket(3, 1)]);
    }
}
