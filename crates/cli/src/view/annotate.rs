//! `strobe annotate`: one function, block by block in order of address, with what ran how often.

use iced_x86::Instruction;
use profile::Estimate;
use profile::model::{BlockEnd, BlockId, FunctionId};
use profile::query::{self, BlockDetail, FunctionDetail};
use rustc_hash::FxHashMap;
use serde::Serialize;
use symbols::Status;

use crate::figures::Figure;
use crate::report::Address;
use crate::view::code::{InstructionLine, targets};
use crate::view::props::CodeStyle;
use crate::view::subject::{FunctionLabel, Place, SourceLine, Subject};

#[derive(Debug, Serialize)]
pub struct AnnotateView {
    pub function: FunctionLabel,
    pub size: u64,
    pub entries: Figure,
    pub self_ns: Figure,
    /// `self_ns` as a share of CPU time.
    pub self_share: Figure,
    pub hottest_path: Option<HottestPath>,
    pub blocks: Vec<BlockLine>,
    /// Why instructions or source lines are missing.
    pub note: Option<String>,
    #[serde(skip)]
    pub is_timeless: bool,
    #[serde(skip)]
    pub style: CodeStyle,
}

#[derive(Debug, Serialize)]
pub struct HottestPath {
    pub blocks: Vec<Address>,
    pub self_ns: Figure,
    /// Share of the function's own time.
    pub share_of_function: Figure,
    pub count: Figure,
}

#[derive(Debug, Serialize)]
pub struct BlockLine {
    pub address: Address,
    pub size: u32,
    pub n_instructions: u32,
    pub count: Figure,
    /// User CPU time in it, by the addresses of ticks.
    pub self_ns: Figure,
    /// `self_ns` as a share of the function's own time.
    pub share: Figure,
    pub on_hottest_path: bool,
    pub instructions: Vec<CodeLine>,
    /// Which way the branch at the end goes.
    pub branch: Option<BranchWay>,
    pub callees: Vec<CalleeLine>,
}

/// An instruction and where it comes from; without the file that ran, only the place.
#[derive(Debug, Serialize)]
pub struct CodeLine {
    #[serde(flatten)]
    pub instruction: InstructionLine,
    pub source: Option<SourceLine>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct BranchWay {
    /// Share of executions that take it.
    pub bias: Figure,
    pub entropy_bits: f64,
    pub conditional_entropy_bits: Option<f64>,
}

#[derive(Debug, Serialize)]
pub struct CalleeLine {
    pub function: FunctionLabel,
    pub count: Figure,
}

pub fn view(subject: &mut Subject, function: FunctionId, style: CodeStyle) -> AnnotateView {
    let detail = query::function_detail(&subject.profile, function);
    let material = Material::new(subject, &detail);
    let row = subject.function(function);
    let cpu_ns = query::totals(&subject.profile).cpu_ns;
    AnnotateView {
        function: subject.label(function),
        size: row.size,
        entries: row.entries.into(),
        self_ns: row.self_ns.into(),
        self_share: query::share(row.self_ns, cpu_ns).into(),
        hottest_path: hottest_path(subject, &detail),
        blocks: detail.blocks.iter().map(|block| material.block(subject, block)).collect(),
        note: note(subject, &material, function),
        is_timeless: query::is_timeless(&subject.profile),
        style,
    }
}

/// What the lines are made from.
struct Material {
    instructions: FxHashMap<BlockId, Vec<Instruction>>,
    ways: FxHashMap<BlockId, BranchWay>,
    callees: FxHashMap<BlockId, Vec<(FunctionId, Estimate)>>,
}

impl Material {
    fn new(subject: &mut Subject, detail: &FunctionDetail) -> Material {
        let read = |block: &BlockDetail| (block.block, subject.instructions(block.block));
        let instructions: FxHashMap<BlockId, Vec<Instruction>> = detail.blocks.iter().map(read).collect();
        let mut callees: FxHashMap<BlockId, Vec<(FunctionId, Estimate)>> = FxHashMap::default();
        for call in subject.profile.calls.iter().filter(|call| instructions.contains_key(&call.site)) {
            callees.entry(call.site).or_default().push((call.callee, call.count));
        }
        callees.values_mut().for_each(|calls| calls.sort_by(|(_, a), (_, b)| b.value.total_cmp(&a.value)));
        let ways = query::branches(&subject.profile, Some(detail.function)).into_iter().map(|row| {
            let (entropy_bits, conditional_entropy_bits) = (row.entropy_bits, row.conditional_entropy_bits);
            (row.block, BranchWay { bias: row.bias.into(), entropy_bits, conditional_entropy_bits })
        });
        let ways = ways.collect();
        let mut places: Vec<Place> = Vec::new();
        for (&block, insns) in &instructions {
            places.extend(targets(subject.module_of(block), insns));
            places.extend([subject.start_of(block), subject.end_of(block)]);
        }
        let functions: Vec<FunctionId> =
            callees.values().flatten().map(|&(callee, _)| callee).chain([detail.function]).collect();
        subject.resolve(functions, places);
        Material { instructions, ways, callees }
    }

    fn block(&self, subject: &Subject, detail: &BlockDetail) -> BlockLine {
        let id = detail.block;
        let row = subject.block(id);
        let callees = self.callees.get(&id).into_iter().flatten();
        BlockLine {
            address: subject.spot(subject.start_of(id)).address,
            size: row.size,
            n_instructions: row.n_insns,
            count: row.count.into(),
            self_ns: detail.self_ns.into(),
            share: query::share(detail.self_ns, subject.function(row.function).self_ns).into(),
            on_hottest_path: detail.is_on_hottest_path,
            instructions: self.code(subject, id),
            branch: self.ways.get(&id).copied(),
            callees: callees
                .map(|&(callee, count)| CalleeLine { function: subject.label(callee), count: count.into() })
                .collect(),
        }
    }

    fn code(&self, subject: &Subject, id: BlockId) -> Vec<CodeLine> {
        let module = subject.module_of(id);
        let insns = self.instructions.get(&id).map_or(&[][..], Vec::as_slice);
        if insns.is_empty() {
            return without_instructions(subject, id);
        }
        let lines = subject.listing(id, insns).into_iter().map(|instruction| {
            let source = subject.source_line((module, instruction.address.0.0));
            CodeLine { instruction, source }
        });
        lines.collect()
    }
}

/// The places of a block's first and last instruction, and how it ends.
fn without_instructions(subject: &Subject, id: BlockId) -> Vec<CodeLine> {
    let block = subject.block(id);
    let first = (subject.start_of(id), format!("({} instructions)", block.n_insns));
    let last = (subject.end_of(id), format!("({})", end_name(block.end)));
    let places = if 0 < block.last { vec![first, last] } else { vec![first] };
    let word = |(place, text): (Place, String)| {
        let spot = subject.spot(place);
        CodeLine { instruction: InstructionLine { address: spot.address, text }, source: spot.source }
    };
    places.into_iter().map(word).collect()
}

fn end_name(end: BlockEnd) -> &'static str {
    match end {
        BlockEnd::Next => "next block",
        BlockEnd::Jump => "jump",
        BlockEnd::Branch => "branch",
        BlockEnd::IndirectJump => "indirect jump",
        BlockEnd::Call => "call",
        BlockEnd::IndirectCall => "indirect call",
        BlockEnd::Return => "return",
        BlockEnd::Trap => "trap",
    }
}

fn hottest_path(subject: &Subject, detail: &FunctionDetail) -> Option<HottestPath> {
    let path = &subject.profile.paths[detail.hottest_path?.index()];
    let self_ns = subject.function(detail.function).self_ns;
    Some(HottestPath {
        blocks: path.blocks.iter().map(|&block| subject.spot(subject.start_of(block)).address).collect(),
        self_ns: path.self_ns.into(),
        share_of_function: query::share(path.self_ns, self_ns).into(),
        count: path.count.into(),
    })
}

fn note(subject: &Subject, material: &Material, function: FunctionId) -> Option<String> {
    let has_code = material.instructions.values().any(|insns| !insns.is_empty());
    match subject.symbolizer.status(subject.function(function).module) {
        Status::Ok => None,
        Status::NoDebugInfo if has_code => {
            Some("no source lines: no debug data was found; try --debuginfod".to_owned())
        }
        status => Some(format!("no instructions: {status}")),
    }
}
