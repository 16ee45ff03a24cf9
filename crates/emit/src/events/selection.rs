//! Which places note events: not all that could, if the caller chooses.
//!
//! The choice is made before anything is translated, and is part of the copy, so that writing and
//! checking are about the same places. What is not chosen has no probe, and costs nothing.

use flow::callgraph::FunctionId;
use flow::{Executor, FunctionFlow, ModuleFlow};
use iced_x86::{Instruction, OpAccess};
use image::{Image, Svma};

use super::{Events, sources};
use crate::chunk::{Original, REACH};
use crate::image_base;

/// A place where something could be noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The instruction.
    pub at: Svma,
    /// The function that it is in; code that functions share comes once for each.
    pub function: FunctionId,
    /// What could be noted, one of the set.
    pub event: Events,
    /// Whether the instruction reads memory through its operand, or, where loads are noted, at all.
    pub reads: bool,
    /// Whether it writes there.
    pub writes: bool,
    /// Bytes of that; 0: none, or not known.
    pub bytes: u32,
}

/// Places that note events, with what they note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Vec<(Original, Events)>);

impl Selection {
    /// Those of a module that are wanted.
    #[must_use]
    pub fn choose(
        image: &Image<'_>,
        flow: &ModuleFlow,
        events: Events,
        executor: &impl Executor,
        is_wanted: impl Fn(&Candidate) -> bool + Sync,
    ) -> Selection {
        let base = image_base(image);
        let ids: Vec<FunctionId> = (0..flow.functions.len() as u32).map(FunctionId).collect();
        let chosen = executor.map(&ids, |&id| {
            let all = candidates(image, &flow.functions[id.index()], id, events);
            let chosen = all.filter(|candidate| is_wanted(candidate) && candidate.at - base < REACH);
            chosen.map(|candidate| (Original((candidate.at - base) as u32), candidate.event)).collect::<Vec<_>>()
        });
        let mut places: Vec<(Original, Events)> = chosen.into_iter().flatten().collect();
        places.sort_unstable_by_key(|&(Original(at), events)| (at, events.bits()));
        places.dedup_by(|&mut (at, more), (kept, events)| {
            let is_same = at == *kept;
            if is_same {
                *events = *events | more;
            }
            is_same
        });
        Selection(places)
    }

    /// What is noted at a place.
    #[must_use]
    pub fn at(&self, at: Original) -> Events {
        self.0.binary_search_by_key(&at.0, |place| place.0.0).map_or(Events::NONE, |index| self.0[index].1)
    }

    /// As pairs of numbers.
    pub(crate) fn pairs(&self) -> impl ExactSizeIterator<Item = [u32; 2]> {
        self.0.iter().map(|&(Original(at), events)| [at, events.bits()])
    }

    /// From what [`Selection::pairs`] has given.
    pub(crate) fn from_pairs(pairs: impl Iterator<Item = [u32; 2]>) -> Option<Selection> {
        let place = |[at, bits]: [u32; 2]| Some((Original(at), Events::from_bits(bits)?));
        let places = pairs.map(place).collect::<Option<Vec<_>>>()?;
        places.is_sorted_by(|(before, _), (after, _)| before.0 < after.0).then_some(Selection(places))
    }
}

/// What a function could note.
fn candidates(
    image: &Image<'_>,
    flow: &FunctionFlow,
    function: FunctionId,
    events: Events,
) -> impl Iterator<Item = Candidate> {
    let blocks = flow.cfg.graph.blocks();
    blocks.flat_map(move |block| {
        let entry = Some(block).filter(|_| events.has(Events::ARGUMENTS));
        let has_arguments = entry.is_some_and(|block| !sources::arguments(image, flow, block).is_empty());
        let argument = has_arguments.then(|| Candidate {
            at: flow.cfg.block(block).range.start,
            function,
            event: Events::ARGUMENTS,
            reads: false,
            writes: false,
            bytes: 0,
        });
        let insns = flow.cfg.instructions(image, block);
        argument.into_iter().chain(insns.flat_map(move |insn| of_instruction(&insn, function, events)))
    })
}

fn of_instruction(insn: &Instruction, function: FunctionId, events: Events) -> Vec<Candidate> {
    let (n_reads, n_bytes_read) = sources::places_read(insn);
    let has_load = events.has(Events::LOADS) && n_reads != 0;
    let has_branch = events.has(Events::BRANCH_TARGETS) && sources::is_branch(insn);
    // Those that are not noted count as such only where they are selected.
    let counted = [(has_load, Events::LOADS), (has_branch, Events::BRANCH_TARGETS)];
    let counted = counted.into_iter().filter(|&(is_there, _)| is_there).map(|(_, event)| event);
    let before = sources::before(insn, events).map(|(kind, _)| Events::of(kind));
    let is_counted = |event: &Events| matches!(*event, Events::LOADS | Events::BRANCH_TARGETS);
    let all: Vec<Events> = counted.chain(before.filter(|event| !is_counted(event))).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let reads = sources::reads_memory(insn);
    let writes = sources::accesses_operand(insn, |access| {
        matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
    });
    let bytes = if reads || writes { insn.memory_size().size() as u32 } else { 0 };
    let candidate = |event: Events| match event {
        // Also through no operand.
        Events::LOADS => {
            let bytes = if bytes == 0 { n_bytes_read as u32 } else { bytes };
            Candidate { at: Svma(insn.ip()), function, event, reads: true, writes, bytes }
        }
        _ => Candidate { at: Svma(insn.ip()), function, event, reads, writes, bytes },
    };
    all.into_iter().map(candidate).collect()
}
