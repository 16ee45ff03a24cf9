//! Which pieces of code can return to their caller.
//!
//! A piece returns if control can flow from an entry to a return, to a jump that leads to unknown
//! code, or to a jump into a piece that returns; and control flows past a call only if the callee
//! returns. The answer is the least fixed point: what cannot be shown to return does not. Functions
//! that never return by their documented contract are known by name (`noreturn_names`).

use image::{Image, Sources};

use crate::cfg::{Cfg, EdgeKind, EntryKind};
use crate::graph::BlockId;
use crate::noreturn_names::is_noreturn_by_name;
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
