//! Which pieces of code can return to their caller.
//!
//! A piece returns if control can flow from an entry to a return, to a jump that leads to unknown
//! code, or to a jump into a piece that returns; and control flows past a call only if the callee
//! returns. The answer is the least fixed point: what cannot be shown to return does not. Functions
//! that never return by their documented contract but end in an indirect jump (`longjmp`) are known
//! by name.

use iced_x86::{Instruction, OpKind};
use image::{Image, Sources, Svma};

use crate::cfg::{Cfg, EdgeKind, EntryKind};
use crate::graph::BlockId;
use crate::pieces::{PieceId, Pieces};
use crate::scout::Scouted;
use crate::transfer::Transfer;

/// For each piece, whether it can return.
pub(crate) fn returning(image: &Image<'_>, pieces: &Pieces, scouted: &[Scouted]) -> Vec<bool> {
    let graphs: Vec<ReturnGraph> = scouted.iter().map(|scouted| ReturnGraph::new(&scouted.cfg, pieces)).collect();
    let never: Vec<bool> = pieces.ids().map(|id| is_noreturn_by_name(image, pieces.get(id).range.start)).collect();
    let mut dependents: Vec<Vec<PieceId>> = vec![Vec::new(); pieces.len()];
    for (id, graph) in pieces.ids().zip(&graphs) {
        for callee in graph.depends_on() {
            dependents[callee.index()].push(id);
        }
    }
    let mut returns = vec![false; pieces.len()];
    let mut pending: Vec<PieceId> = pieces.ids().collect();
    while let Some(id) = pending.pop() {
        // The second half of a linkage stub leads to the dynamic linker, which goes on to where the
        // first half will.
        let is_stub = pieces.get(id).sources.contains(Sources::PLT);
        let counts = |kind| kind != EntryKind::Unknown || !is_stub;
        if !returns[id.index()]
            && !never[id.index()]
            && graphs[id.index()].returns(&scouted[id.index()].cfg, counts, &returns)
        {
            returns[id.index()] = true;
            pending.extend(&dependents[id.index()]);
        }
    }
    returns
}

/// Whether a whole function can return, given which pieces do. Code that no known flow reaches
/// counts only where `is_complete` does not hold.
pub(crate) fn can_return(cfg: &Cfg, is_complete: bool, pieces: &Pieces, returns: &[bool]) -> bool {
    ReturnGraph::new(cfg, pieces).returns(cfg, |kind| kind != EntryKind::Unknown || !is_complete, returns)
}

/// What a piece's return depends on, with targets looked up once.
struct ReturnGraph {
    /// By block: the piece it calls.
    callees: Vec<Option<PieceId>>,
    /// By edge, for jumps out: the piece it reaches.
    exits: Vec<Option<PieceId>>,
}

impl ReturnGraph {
    fn new(cfg: &Cfg, pieces: &Pieces) -> ReturnGraph {
        let callees = cfg
            .blocks
            .iter()
            .map(|block| match block.transfer {
                Transfer::Call(target) => pieces.find(target),
                _ => None,
            })
            .collect();
        let exits = cfg
            .graph
            .edges()
            .iter()
            .zip(&cfg.edges)
            .map(|(edge, facts)| facts.target.filter(|_| edge.to.is_none()).and_then(|target| pieces.find(target)))
            .collect();
        ReturnGraph { callees, exits }
    }

    fn depends_on(&self) -> impl Iterator<Item = PieceId> {
        self.callees.iter().chain(&self.exits).filter_map(|&piece| piece)
    }

    fn returns(&self, cfg: &Cfg, counts: impl Fn(EntryKind) -> bool, returns: &[bool]) -> bool {
        let mut reached = vec![false; cfg.blocks.len()];
        let entries = cfg.graph.entries().iter().zip(&cfg.entry_kinds);
        let mut pending: Vec<BlockId> = entries.filter(|&(_, &kind)| counts(kind)).map(|(&block, _)| block).collect();
        while let Some(block) = pending.pop() {
            if std::mem::replace(&mut reached[block.index()], true) {
                continue;
            }
            if self.callees[block.index()].is_some_and(|callee| !returns[callee.index()]) {
                continue;
            }
            for edge in cfg.graph.out_edges(block) {
                match (cfg.graph.edge(edge).to, cfg.edge_facts(edge).kind) {
                    (Some(next), _) => pending.push(next),
                    (None, EdgeKind::Trap) => {}
                    (None, _) => match self.exits[edge.index()] {
                        Some(piece) if !returns[piece.index()] => {}
                        _ => return true,
                    },
                }
            }
        }
        false
    }
}

/// Whether a call or jump goes through a slot that the dynamic linker binds to a function known not
/// to return.
pub(crate) fn calls_noreturn_import(image: &Image<'_>, insn: &Instruction) -> bool {
    constant_slot(insn).and_then(|slot| image.import_at(slot)).is_some_and(is_noreturn_name)
}

/// The memory operand of an indirect call or jump, if its address is constant.
pub(crate) fn constant_slot(insn: &Instruction) -> Option<Svma> {
    let constant = insn.op0_kind() == OpKind::Memory
        && !matches!(insn.memory_segment(), iced_x86::Register::FS | iced_x86::Register::GS)
        && (insn.is_ip_rel_memory_operand()
            || insn.memory_base() == iced_x86::Register::None && insn.memory_index() == iced_x86::Register::None);
    constant.then(|| Svma(insn.memory_displacement64()))
}

fn is_noreturn_by_name(image: &Image<'_>, start: Svma) -> bool {
    let name = image.name_of(start);
    is_noreturn_name(name.raw.trim_end_matches("@plt"))
}

/// Functions of the C, C++, Rust and common libraries that never return.
fn is_noreturn_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "_Exit",
        "_Unwind_Resume",
        "_ZSt9terminatev",
        "__GI___assert_fail",
        "__assert",
        "__assert_fail",
        "__assert_perror_fail",
        "__chk_fail",
        "__cxa_bad_cast",
        "__cxa_bad_typeid",
        "__cxa_call_terminate",
        "__cxa_call_unexpected",
        "__cxa_deleted_virtual",
        "__cxa_pure_virtual",
        "__cxa_rethrow",
        "__cxa_throw",
        "__cxa_throw_bad_array_new_length",
        "__fortify_fail",
        "__libc_fatal",
        "__libc_start_call_main",
        "__libc_start_main",
        "__longjmp_chk",
        "__stack_chk_fail",
        "_exit",
        "_longjmp",
        "abort",
        "err",
        "errx",
        "exit",
        "longjmp",
        "pthread_exit",
        "quick_exit",
        "rust_begin_unwind",
        "rust_panic",
        "siglongjmp",
        "thrd_exit",
        "verr",
        "verrx",
        "xalloc_die",
    ];
    NAMES.binary_search(&name).is_ok() || is_standard_throw(name)
}

/// `std::__throw_*` of libstdc++ and libc++, all of which throw.
fn is_standard_throw(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("_ZSt") else { return false };
    rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("__throw_")
}

#[cfg(test)]
mod tests {
    use super::is_noreturn_name;

    #[test]
    fn names() {
        for name in ["abort", "_Exit", "xalloc_die", "_ZSt20__throw_length_errorPKc", "__stack_chk_fail"] {
            assert!(is_noreturn_name(name), "{name}");
        }
        for name in ["error", "aborted", "_ZSt4sortv", "__throw_x"] {
            assert!(!is_noreturn_name(name), "{name}");
        }
    }
}
