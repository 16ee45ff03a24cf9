//! From functions to the module.
//!
//! Functions are translated in chunks, at the same time if the executor likes; then the chunks are
//! put one behind the other, and the references between them filled in. The result does not depend
//! on the executor, nor on the size of chunks but for padding.

use flow::callgraph::FunctionId;
use flow::{Executor, FunctionFlow, ModuleFlow};
use image::Image;
use wire::recovery::{Run, kind};

use crate::cell::Cell;
use crate::chunk::{Chunk, Destination, Original, REACH, Stretch};
use crate::copy::ModuleCopy;
use crate::events::Selection;
use crate::module::Module;
use crate::statistics::{SkipReason, Skipped, Statistics};
use crate::stubs::{self, Stubs};
use crate::{Options, blocks};

/// Functions are handed to the executor in runs of about this many bytes.
const CHUNK_BYTES: u64 = 64 << 10;
/// Copies, and the literals in them, end at multiples of this.
const ALIGNMENT: usize = 16;
const LITERAL_BYTES: usize = 8;

/// Translates a module.
#[must_use]
pub fn translate(image: &Image<'_>, flow: &ModuleFlow, options: Options, executor: &impl Executor) -> ModuleCopy {
    translate_module(&Module::new(image, flow, options, None, executor), executor)
}

/// Translates a module so that only these places note events.
#[must_use]
pub fn translate_selected(
    image: &Image<'_>,
    flow: &ModuleFlow,
    options: Options,
    selection: Selection,
    executor: &impl Executor,
) -> ModuleCopy {
    let copy = translate_module(&Module::new(image, flow, options, Some(&selection), executor), executor);
    ModuleCopy { selection: Some(selection), ..copy }
}

fn translate_module(module: &Module<'_, '_>, executor: &impl Executor) -> ModuleCopy {
    let Module { flow, options, .. } = *module;
    let ranges = chunk_ranges(&flow.functions);
    let chunks = executor.map(&ranges, |range| write_chunk(module, range.clone()));
    let mut first = Chunk::default();
    let stubs = stubs::write(&mut first, options);
    first.align(ALIGNMENT as u32);

    let n_literals: usize = chunks.iter().map(n_literals).sum();
    let code_len: usize = first.asm.code.len() + chunks.iter().map(|chunk| chunk.asm.code.len()).sum::<usize>();
    let total_len = (code_len + n_literals * LITERAL_BYTES).next_multiple_of(ALIGNMENT);
    if total_len as u64 >= REACH {
        return nothing(module, SkipReason::ModuleTooLarge);
    }
    let mut linker = Linker::new(module, stubs, first, code_len as u32, total_len);
    linker.reserve(&chunks);
    let leaders = Leaders::new(linker.copy.code.len() as u32, &chunks);
    for chunk in chunks {
        linker.append(chunk, &leaders);
    }
    linker.finish()
}

/// Splits functions into runs of similar size.
fn chunk_ranges(functions: &[FunctionFlow]) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let (mut start, mut n_bytes) = (0, 0);
    for (index, function) in functions.iter().enumerate() {
        n_bytes += function.parts.iter().map(|part| part.len()).sum::<u64>().max(1);
        if n_bytes >= CHUNK_BYTES || index + 1 == functions.len() {
            ranges.push(start..index + 1);
            (start, n_bytes) = (index + 1, 0);
        }
    }
    ranges
}

fn write_chunk(module: &Module<'_, '_>, functions: std::ops::Range<usize>) -> Chunk {
    let mut chunk = Chunk::default();
    for id in functions.map(|index| FunctionId(index as u32)) {
        match module.skip_reason(id) {
            None => blocks::write(module, id, &mut chunk),
            Some(reason) => chunk.statistics.skipped.push(Skipped { entry: module.function(id).entry, reason }),
        }
    }
    chunk.align(ALIGNMENT as u32);
    chunk.shrink();
    chunk
}

fn n_literals(chunk: &Chunk) -> usize {
    chunk.externals.iter().filter(|external| matches!(external.to, Destination::Literal(_))).count()
}

/// The copy of a module whose functions are all skipped.
fn nothing(module: &Module<'_, '_>, reason: SkipReason) -> ModuleCopy {
    let skipped = module.flow.functions.iter().map(|function| Skipped { entry: function.entry, reason }).collect();
    let mut copy = empty(module);
    copy.statistics = Statistics { skipped, ..Statistics::default() };
    copy
}

fn empty(module: &Module<'_, '_>) -> ModuleCopy {
    ModuleCopy {
        base: module.base,
        cluster: module.options.cluster,
        probe: module.options.probe,
        events: module.options.events,
        selection: None,
        code: Vec::new(),
        literals: 0,
        addresses: Vec::new(),
        records: Vec::new(),
        runs: Vec::new(),
        stretches: Vec::new(),
        lengths: Vec::new(),
        landings: Vec::new(),
        cells: Vec::new(),
        cell_uses: Vec::new(),
        keys: Vec::new(),
        accesses: Vec::new(),
        statistics: Statistics::default(),
    }
}

/// Where the probes of blocks are in the copy, sorted by original address. Of two copies of one
/// block the first is kept.
struct Leaders(Vec<(Original, u32)>);

impl Leaders {
    /// `start` is where the first chunk goes.
    fn new(mut start: u32, chunks: &[Chunk]) -> Leaders {
        let mut leaders = Vec::with_capacity(chunks.iter().map(|chunk| chunk.stretches.len()).sum());
        for chunk in chunks {
            let own = chunk.stretches.iter().filter(|stretch| stretch.is_leader);
            leaders.extend(own.map(|stretch| (stretch.original, stretch.record + start)));
            start += chunk.position();
        }
        leaders.sort();
        leaders.dedup_by_key(|&mut (original, _)| original);
        Leaders(leaders)
    }

    fn find(&self, original: Original) -> Option<u32> {
        let index = self.0.binary_search_by_key(&original, |&(original, _)| original).ok()?;
        Some(self.0[index].1)
    }
}

struct Linker {
    copy: ModuleCopy,
    stubs: Stubs,
    literals: Vec<Original>,
    total_len: usize,
    n_cells: u32,
    n_keys: u32,
}

/// Adds to the value at a place in the code.
fn add_to_field(code: &mut [u8], place: u32, amount: u32) {
    let field = &mut code[place as usize..place as usize + 4];
    let value = field.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
    field.copy_from_slice(&value.wrapping_add(amount).to_le_bytes());
}

impl Linker {
    fn new(module: &Module<'_, '_>, stubs: Stubs, first: Chunk, literals: u32, total_len: usize) -> Linker {
        let mut copy = empty(module);
        copy.code = first.asm.code;
        copy.code.reserve_exact(total_len - copy.code.len());
        copy.runs = first.runs;
        copy.literals = literals;
        Linker { copy, stubs, literals: Vec::new(), total_len, n_cells: 0, n_keys: 0 }
    }

    /// Makes room for what the chunks have: the tables are too large to be moved as they grow.
    fn reserve(&mut self, chunks: &[Chunk]) {
        let sum = |len: fn(&Chunk) -> usize| chunks.iter().map(len).sum::<usize>();
        let copy = &mut self.copy;
        copy.addresses.reserve_exact(sum(|chunk| chunk.addresses.len()));
        copy.records.reserve_exact(sum(|chunk| chunk.records.len()));
        copy.runs.reserve_exact(sum(|chunk| chunk.runs.len()) + 1);
        copy.stretches.reserve_exact(sum(|chunk| chunk.stretches.len()));
        copy.lengths.reserve_exact(sum(|chunk| chunk.lengths.len()));
        copy.landings.reserve_exact(sum(|chunk| chunk.landings.len()));
    }

    fn append(&mut self, mut chunk: Chunk, leaders: &Leaders) {
        let start = self.copy.code.len() as u32;
        for &place in &chunk.cells {
            add_to_field(&mut chunk.asm.code, place, self.n_cells * 8);
        }
        for &place in &chunk.keys {
            add_to_field(&mut chunk.asm.code, place, self.n_keys);
        }
        for external in &chunk.externals {
            let target = match external.to {
                Destination::Stub(stub) => self.stubs.at(stub),
                Destination::Literal(original) => {
                    self.literals.push(original);
                    self.copy.literals + ((self.literals.len() - 1) * LITERAL_BYTES) as u32
                }
                Destination::Leader(original) => {
                    leaders.find(original).expect("Module::has_leader knows only blocks that are written")
                }
            };
            chunk.asm.set_displacement(external.hole, target.wrapping_sub(start));
        }
        for &place in &chunk.addresses {
            add_to_field(&mut chunk.asm.code, place, start.wrapping_neg());
        }
        let copy = &mut self.copy;
        copy.code.append(&mut chunk.asm.code);
        copy.addresses.extend(chunk.addresses.iter().map(|place| place + start));
        copy.records.extend(chunk.records.iter().map(|place| place + start));
        copy.runs.extend(chunk.runs.iter().map(|run| Run { copy: run.copy + start, ..*run }));
        copy.stretches.extend(chunk.stretches.iter().map(|stretch| Stretch {
            copy: stretch.copy + start,
            record: stretch.record + start,
            ..*stretch
        }));
        copy.lengths.append(&mut chunk.lengths);
        copy.landings.extend(chunk.landings.iter().map(|&(last_byte, place)| (last_byte, place + start)));
        copy.cells.extend(chunk.cells.iter().map(|place| place + start));
        copy.keys.extend(chunk.keys.iter().map(|place| place + start));
        copy.cell_uses.extend(chunk.cell_uses.iter().map(|&cell| match cell.kind {
            kind if kind.has_key() => Cell { to: cell.to + self.n_keys, ..cell },
            _ => cell,
        }));
        copy.accesses.append(&mut chunk.accesses);
        self.n_cells += chunk.n_cells;
        self.n_keys += chunk.n_keys;
        copy.statistics += &chunk.statistics;
    }

    fn finish(mut self) -> ModuleCopy {
        let copy = &mut self.copy;
        if self.total_len > copy.code.len() {
            copy.runs.push(Run { copy: copy.literals, kind: kind::NEVER, ..Run::default() });
        }
        for literal in &self.literals {
            copy.code.extend_from_slice(&u64::from(literal.0).to_le_bytes());
        }
        copy.code.resize(self.total_len, 0);
        copy.statistics.bytes = self.total_len as u64;
        self.copy
    }
}
