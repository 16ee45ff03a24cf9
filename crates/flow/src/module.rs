//! The analysis of a whole module.

use std::collections::{BTreeMap, BTreeSet};

use image::{Image, Sources, Svma, SvmaRange};

use crate::callgraph::{Call, CallGraph, FunctionFacts, FunctionId};
use crate::cfg::EdgeKind;
use crate::conventions;
use crate::executor::Executor;
use crate::function::{self, Analyzed, Callee, FunctionFlow, Knowledge};
use crate::grouping::Groups;
use crate::noreturn;
use crate::pieces::{Evidence, PieceId, Pieces, Start};
use crate::scout::{Scouted, scout};

/// The control flow of a module.
#[derive(Debug)]
pub struct ModuleFlow {
    /// All functions, by address of their entry.
    pub functions: Vec<FunctionFlow>,
    /// Who calls whom; indices are those of `functions`.
    pub calls: CallGraph,
    /// Every part of every function, by address.
    parts: Vec<(Svma, FunctionId)>,
}

impl ModuleFlow {
    /// The function whose code contains `at`.
    #[must_use]
    pub fn function_containing(&self, at: Svma) -> Option<FunctionId> {
        let index = self.parts.partition_point(|&(start, _)| start <= at).checked_sub(1)?;
        let id = self.parts[index].1;
        self.functions[id.index()].contains(at).then_some(id)
    }

    /// The function that contains `at`.
    #[must_use]
    pub fn function_at(&self, at: Svma) -> Option<&FunctionFlow> {
        self.function_containing(at).map(|id| &self.functions[id.index()])
    }

    /// By function: whether a part of another one overlaps one of its own.
    #[must_use]
    pub fn shares_code(&self) -> Vec<bool> {
        let parts = self
            .functions
            .iter()
            .enumerate()
            .flat_map(|(id, function)| function.parts.iter().map(move |&part| (part, id)));
        let mut parts: Vec<(SvmaRange, usize)> = parts.collect();
        parts.sort_unstable();
        let mut shares = vec![false; self.functions.len()];
        let mut longest: Option<(SvmaRange, usize)> = None;
        for (part, id) in parts {
            if let Some((before, other)) = longest
                && part.start < before.end
                && other != id
            {
                (shares[id], shares[other]) = (true, true);
            }
            if longest.is_none_or(|(before, _)| part.end > before.end) {
                longest = Some((part, id));
            }
        }
        shares
    }
}

/// Rounds of feedback between functions before what is known is taken as it is. Real modules need
/// three or four.
const MAX_ROUNDS: usize = 12;
/// Functions are handed to the executor in runs of about this many bytes.
const CHUNK_BYTES: u64 = 64 << 10;

/// Analyses all code of a module.
#[must_use]
pub fn analyze(image: &Image<'_>, executor: &impl Executor) -> ModuleFlow {
    let mut pieces = Pieces::declared(image);
    let scouted = scout_all(image, &mut pieces, executor);
    let mut returns = noreturn::returning(image, &pieces, &scouted);
    let mut groups = Groups::new(image, &mut pieces, &scouted);
    drop(scouted);

    let mut functions: Vec<Option<FunctionFlow>> = vec![None; pieces.len()];
    let mut stale: BTreeSet<PieceId> = pieces.ids().map(|id| groups.head(id)).collect();
    for round in 0..=MAX_ROUNDS {
        let knowledge = Knowledge { image, pieces: &pieces, groups: &groups, returns: &returns };
        let analyzed = analyze_all(&knowledge, &stale, executor);
        if round == MAX_ROUNDS {
            analyzed.into_iter().for_each(|(head, analyzed)| functions[head.index()] = Some(analyzed.flow));
        } else {
            stale = learn(analyzed, &mut pieces, &mut groups, &mut returns, &mut functions);
            if stale.is_empty() {
                break;
            }
        }
    }
    assemble(image, functions.into_iter().flatten().collect(), &pieces, &groups)
}

/// Scouts every piece, and the pieces that this turns up, until there are no more.
fn scout_all(image: &Image<'_>, pieces: &mut Pieces, executor: &impl Executor) -> Vec<Scouted> {
    let data_pointers = image.code_pointers();
    let address_taken = |at| Start { at, size: None, evidence: Evidence::AddressTaken };
    let starts: Vec<Start> = data_pointers
        .iter()
        .map(|&(_, at)| at)
        .filter(|&at| is_plausible_start(pieces, at))
        .map(address_taken)
        .collect();
    pieces.add(image, &starts);
    let mut scouted: BTreeMap<Svma, Scouted> = BTreeMap::new();
    loop {
        let ids: Vec<PieceId> = pieces.ids().filter(|&id| !scouted.contains_key(&pieces.get(id).range.start)).collect();
        let chunks = chunks(&ids, |id| pieces.get(id).range.len());
        let shared = &*pieces;
        let fresh = executor.map(&chunks, |chunk| -> Vec<(Svma, Scouted)> {
            chunk.iter().map(|&id| (shared.get(id).range.start, scout(image, shared.get(id)))).collect()
        });
        let mut starts = Vec::new();
        for (_, piece) in fresh.iter().flatten() {
            let calls = piece.calls.iter().filter(|&&(at, reached)| reached || is_plausible_start(pieces, at));
            starts.extend(calls.map(|&(at, _)| Start { at, size: None, evidence: Evidence::Called }));
            let pointers = piece.pointers.iter().copied().filter(|&at| is_plausible_start(pieces, at));
            starts.extend(pointers.map(address_taken));
            let jumps = piece.exits.iter().filter(|exit| exit.reached && pieces.is_uncharted(exit.target));
            starts.extend(jumps.map(|exit| Start { at: exit.target, size: None, evidence: Evidence::Jumped }));
        }
        scouted.extend(fresh.into_iter().flatten());
        let changed = pieces.add(image, &starts);
        if changed.is_empty() {
            let computed = scouted.values().flat_map(|piece| &piece.pointers);
            pieces.label(data_pointers.iter().map(|(_, at)| at).chain(computed).copied());
            return pieces.ids().filter_map(|id| scouted.remove(&pieces.get(id).range.start)).collect();
        }
        changed.iter().for_each(|start| drop(scouted.remove(start)));
    }
}

/// Whether a code address that need not be a function is the start of a known piece, or in none
/// with known bounds.
fn is_plausible_start(pieces: &Pieces, at: Svma) -> bool {
    pieces.is_uncharted(at) || pieces.find(at).is_some_and(|id| pieces.get(id).range.start == at)
}

fn analyze_all(
    knowledge: &Knowledge<'_, '_>,
    heads: &BTreeSet<PieceId>,
    executor: &impl Executor,
) -> Vec<(PieceId, Analyzed)> {
    let functions: Vec<Vec<PieceId>> =
        knowledge.groups.functions(knowledge.pieces).into_iter().filter(|parts| heads.contains(&parts[0])).collect();
    let size = |parts: &Vec<PieceId>| parts.iter().map(|&part| knowledge.pieces.get(part).range.len()).sum();
    let indices: Vec<usize> = (0..functions.len()).collect();
    let chunks = chunks(&indices, |index| size(&functions[index]));
    let analyze = |chunk: &&[usize]| -> Vec<(PieceId, Analyzed)> {
        chunk.iter().map(|&index| (functions[index][0], function::analyze(knowledge, &functions[index]))).collect()
    };
    executor.map(&chunks, analyze).into_iter().flatten().collect()
}

/// Splits items into runs of similar size.
fn chunks<T: Copy>(items: &[T], bytes: impl Fn(T) -> u64) -> Vec<&[T]> {
    let mut total = 0;
    let mut boundary = items.iter().map(|&item| {
        total += bytes(item).max(1);
        total / CHUNK_BYTES
    });
    let labels: Vec<u64> = boundary.by_ref().collect();
    let mut chunks = Vec::new();
    let mut start = 0;
    for end in 1..=items.len() {
        if end == items.len() || labels[end] != labels[start] {
            chunks.push(&items[start..end]);
            start = end;
        }
    }
    chunks
}

/// Takes in what the functions' graphs show, and returns the heads of functions that must be looked
/// at again.
fn learn(
    analyzed: Vec<(PieceId, Analyzed)>,
    pieces: &mut Pieces,
    groups: &mut Groups,
    returns: &mut [bool],
    functions: &mut [Option<FunctionFlow>],
) -> BTreeSet<PieceId> {
    let mut stale = BTreeSet::new();
    let mut no_longer_returning = BTreeSet::new();
    for (head, Analyzed { flow, absorbs }) in analyzed {
        if returns[head.index()] && !flow.returns {
            returns[head.index()] = false;
            no_longer_returning.insert(head);
        }
        for edge in flow.cfg.edges.iter().filter(|edge| edge.kind == EdgeKind::TailCall) {
            if let Some(owner) =
                edge.target.and_then(|target| pieces.find(target).filter(|&id| pieces.add_entry(id, target)))
            {
                stale.insert(groups.head(owner));
            }
        }
        functions[head.index()] = Some(flow);
        for piece in absorbs {
            let other = groups.head(piece);
            if other != head && groups.join(pieces, head, piece) {
                functions[other.index()] = None;
                functions[head.index()] = None;
                stale.insert(groups.head(head));
            }
        }
    }
    if !no_longer_returning.is_empty() {
        for flow in functions.iter().flatten() {
            let callees = flow.calls.iter().filter_map(|call| match call.callee {
                Callee::Direct(target) => pieces.find(target),
                Callee::Slot(_) | Callee::Computed => None,
            });
            let exits = flow.cfg.edges.iter().filter(|edge| edge.kind == EdgeKind::TailCall);
            let exits = exits.filter_map(|edge| pieces.find(edge.target?));
            if callees.chain(exits).any(|piece| no_longer_returning.contains(&groups.head(piece))) {
                stale.extend(pieces.find(flow.entry).map(|piece| groups.head(piece)));
            }
        }
    }
    stale
}

fn assemble(image: &Image<'_>, mut functions: Vec<FunctionFlow>, pieces: &Pieces, groups: &Groups) -> ModuleFlow {
    let mut id_of = vec![None; pieces.len()];
    for (index, function) in functions.iter().enumerate() {
        if let Some(head) = pieces.find(function.entry) {
            id_of[head.index()] = Some(FunctionId(index as u32));
        }
    }
    let owner = |at: Svma| pieces.find(at).and_then(|piece| id_of[groups.head(piece).index()]);
    conventions::settle(image, &mut functions, |at| owner(at).map(FunctionId::index));
    let mut calls = Vec::new();
    let mut facts = Vec::with_capacity(functions.len());
    for (index, function) in functions.iter().enumerate() {
        let caller = FunctionId(index as u32);
        let mut calls_unknown = false;
        let mut call = |callee: Option<FunctionId>| match callee {
            Some(callee) => calls.push(Call { caller, callee }),
            None => calls_unknown = true,
        };
        for site in &function.calls {
            call(match site.callee {
                Callee::Direct(target) => owner(target),
                Callee::Slot(slot) => image.slot_target(slot).and_then(owner),
                Callee::Computed => None,
            });
        }
        let exits = function.cfg.graph.edges().iter().zip(&function.cfg.edges).filter(|(edge, _)| edge.to.is_none());
        for (_, exit) in exits {
            match (exit.kind, exit.target) {
                (EdgeKind::Return | EdgeKind::Trap, _) => {}
                (_, Some(target)) => call(owner(target)),
                (_, None) => call(None),
            }
        }
        let outside = [
            Sources::ENTRY,
            Sources::INIT,
            Sources::FINI,
            Sources::INIT_ARRAY,
            Sources::FINI_ARRAY,
            Sources::DYNSYM,
            Sources::RESOLVER,
        ];
        facts.push(FunctionFacts {
            address_taken: function.address_taken,
            called_from_outside: outside.iter().any(|&source| function.sources.contains(source)),
            calls_unknown,
        });
    }
    let mut parts: Vec<(Svma, FunctionId)> = functions
        .iter()
        .enumerate()
        .flat_map(|(index, function)| function.parts.iter().map(move |part| (part.start, FunctionId(index as u32))))
        .collect();
    parts.sort_unstable();
    ModuleFlow { functions, calls: CallGraph::new(calls, facts), parts }
}
