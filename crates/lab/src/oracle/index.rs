//! What the analysis says about an address: is it an instruction, which blocks end there, where do
//! they go.

use std::collections::HashMap;

use flow::cfg::{EdgeFacts, EdgeKind};
use flow::graph::BlockId;
use flow::{FunctionFlow, ModuleFlow, Transfer};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use image::{Image, Svma};

/// The analysis of one file, by address.
#[derive(Debug)]
pub struct Index<'a> {
    image: &'a Image<'a>,
    module: &'a ModuleFlow,
    boundaries: AddressSet,
    /// Blocks by the address of their last instruction; several where functions share code.
    ends: HashMap<Svma, Vec<BlockPlace>>,
}

/// A block of a function of the module.
#[derive(Clone, Copy, Debug)]
struct BlockPlace {
    function: u32,
    block: BlockId,
}

/// A block that ends with a given instruction, and its function.
#[derive(Clone, Copy, Debug)]
pub struct BlockEnd<'a> {
    /// The function that has the block.
    pub function: &'a FunctionFlow,
    /// The block.
    pub block: BlockId,
}

impl<'a> BlockEnd<'a> {
    /// Kinds and targets of the ways out of the block.
    pub fn ways_out(self) -> impl Iterator<Item = EdgeFacts> + 'a {
        let cfg = &self.function.cfg;
        cfg.graph.out_edges(self.block).map(|edge| cfg.edge_facts(edge))
    }

    /// Whether `at` is inside the function, other than at its entry.
    #[must_use]
    pub fn is_inside(self, at: Svma) -> bool {
        at != self.function.entry && self.function.contains(at)
    }
}

impl<'a> Index<'a> {
    /// Indexes every block of every function.
    #[must_use]
    pub fn new(image: &'a Image<'a>, module: &'a ModuleFlow) -> Index<'a> {
        let mut boundaries = AddressSet::new(image);
        let mut ends: HashMap<Svma, Vec<BlockPlace>> = HashMap::new();
        for (function, flow) in module.functions.iter().enumerate() {
            for block in flow.cfg.graph.blocks() {
                for insn in flow.cfg.instructions(image, block) {
                    boundaries.insert(Svma(insn.ip()));
                }
                let place = BlockPlace { function: function as u32, block };
                ends.entry(flow.cfg.block(block).last()).or_default().push(place);
            }
        }
        Index { image, module, boundaries, ends }
    }

    /// Whether the analysis has an instruction that starts here.
    #[must_use]
    pub fn is_instruction(&self, at: Svma) -> bool {
        self.boundaries.contains(at)
    }

    /// The instruction at an address, decoded afresh.
    #[must_use]
    pub fn instruction(&self, at: Svma) -> Option<Instruction> {
        const LONGEST: usize = 15;
        let bytes = (1..=LONGEST).rev().find_map(|len| self.image.read(at, len))?;
        let insn = Decoder::with_ip(64, bytes, at.0, DecoderOptions::NONE).decode();
        (!insn.is_invalid()).then_some(insn)
    }

    /// The blocks whose last instruction is at this address.
    pub fn block_ends(&self, at: Svma) -> impl Iterator<Item = BlockEnd<'a>> {
        let places = self.ends.get(&at).map(Vec::as_slice).unwrap_or_default();
        let module = self.module;
        places.iter().map(|place| BlockEnd { function: &module.functions[place.function as usize], block: place.block })
    }

    /// Whether an indirect jump can lead to an address of its own function.
    #[must_use]
    pub fn is_table_entry(&self, from: Svma, to: Svma) -> bool {
        let leads_there = |way: EdgeFacts| way.kind == EdgeKind::JumpTable && way.target == Some(to);
        self.block_ends(from).any(|end| end.ways_out().any(leads_there))
    }

    /// Addresses of calls that the analysis says do not come back, with their return sites.
    pub fn calls_without_return(&self) -> impl Iterator<Item = (Svma, Svma)> {
        let functions = self.module.functions.iter();
        functions.flat_map(|function| {
            let blocks = function.cfg.graph.blocks();
            blocks.filter_map(move |block| {
                let end = BlockEnd { function, block };
                let facts = function.cfg.block(block);
                let is_call = matches!(facts.transfer, Transfer::Call(_) | Transfer::IndirectCall);
                let never_returns = is_call && end.ways_out().all(|way| way.kind == EdgeKind::Trap);
                never_returns.then_some((facts.last(), facts.range.end))
            })
        })
    }

    /// Whether an address lies in a procedure linkage table stub.
    #[must_use]
    pub fn is_plt(&self, at: Svma) -> bool {
        let stubs = self.image.plt_stubs();
        let after = stubs.partition_point(|stub| stub.range.start <= at);
        after.checked_sub(1).and_then(|index| stubs.get(index)).is_some_and(|stub| stub.range.contains(at))
    }

    /// Whether an address lies in executable code outside the section `.text`, the only one whose
    /// code callgrind attributes.
    #[must_use]
    pub fn is_outside_text(&self, at: Svma) -> bool {
        self.image.code_regions().iter().any(|region| region.name != ".text" && region.range.contains(at))
    }

    /// An address with the function that it belongs to.
    #[must_use]
    pub fn describe(&self, at: Svma) -> String {
        match self.function_name(at) {
            Some(name) => format!("{at} in {name}"),
            None => format!("{at} outside every function"),
        }
    }

    /// The function that an address belongs to.
    #[must_use]
    pub fn function(&self, at: Svma) -> Option<&'a FunctionFlow> {
        self.module.function_at(at)
    }

    /// Its name.
    #[must_use]
    pub fn function_name(&self, at: Svma) -> Option<String> {
        Some(self.image.name_of(self.function(at)?.entry).demangled())
    }
}

/// A set of addresses of executable code: one bit per byte.
#[derive(Debug)]
struct AddressSet {
    regions: Vec<(Svma, Vec<u64>)>,
}

impl AddressSet {
    fn new(image: &Image<'_>) -> AddressSet {
        let bits = |len: u64| vec![0; usize::try_from(len / 64 + 1).unwrap_or(0)];
        let regions = image.code_regions().iter().map(|region| (region.range.start, bits(region.range.len())));
        AddressSet { regions: regions.collect() }
    }

    fn insert(&mut self, at: Svma) {
        if let Some((region, word, bit)) = self.locate(at)
            && let Some(word) = self.regions[region].1.get_mut(word)
        {
            *word |= bit;
        }
    }

    fn contains(&self, at: Svma) -> bool {
        let word = self.locate(at).and_then(|(region, word, bit)| Some(self.regions[region].1.get(word)? & bit));
        word.is_some_and(|bits| bits != 0)
    }

    fn locate(&self, at: Svma) -> Option<(usize, usize, u64)> {
        let region = self.regions.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
        let offset = at - self.regions[region].0;
        Some((region, usize::try_from(offset / 64).ok()?, 1 << (offset % 64)))
    }
}
