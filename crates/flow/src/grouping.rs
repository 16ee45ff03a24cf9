//! Which pieces of code form one function.
//!
//! Compilers split a function: `foo.cold` lies elsewhere, has its own unwind entry, and in a
//! stripped file no name. What tells it from a function is how it is reached: by a jump that leaves
//! a stack frame in place, or as a landing pad, or it jumps back into the middle of the code that
//! jumped to it. A piece that is *anchored* (see [`crate::pieces`]) heads its function; two
//! anchored pieces are never joined. Where one of them jumps into the middle of the other, as
//! hand-written string functions do, the target becomes a secondary entry of its owner.

use std::collections::BTreeMap;

use image::{Image, Svma};

use crate::pieces::{PieceId, Pieces};
use crate::scout::{Exit, Scouted, landing_pads};
use crate::stack::StackHeights;

/// A partition of pieces into functions.
#[derive(Debug)]
pub(crate) struct Groups {
    parent: Vec<PieceId>,
}

impl Groups {
    /// Groups pieces by the jumps between them, and notes jumps into the middle of other functions
    /// as entries there.
    pub fn new(image: &Image<'_>, pieces: &mut Pieces, scouted: &[Scouted]) -> Groups {
        let mut groups = Groups { parent: pieces.ids().collect() };
        for id in pieces.ids() {
            for pad in landing_pads(image, pieces.get(id)) {
                if let Some(owner) = pieces.find(pad) {
                    groups.join(pieces, id, owner);
                }
            }
        }
        let ids: Vec<PieceId> = pieces.ids().collect();
        for &id in &ids {
            groups.join_by_jumps(image, pieces, scouted, id);
        }
        for &id in &ids {
            for exit in scouted[id.index()].exits.iter().filter(|exit| exit.reached) {
                if let Some(owner) = pieces.find(exit.target)
                    && groups.head(owner) != groups.head(id)
                {
                    pieces.add_entry(owner, exit.target);
                }
            }
        }
        groups
    }

    fn join_by_jumps(&mut self, image: &Image<'_>, pieces: &Pieces, scouted: &[Scouted], from: PieceId) {
        let mut heights = None;
        for &Exit { at: jump, target, .. } in &scouted[from.index()].exits {
            let Some(to) = pieces.find(target).filter(|&to| to != from) else { continue };
            let (from_piece, to_piece) = (pieces.get(from), pieces.get(to));
            if from_piece.anchored && to_piece.anchored {
                continue;
            }
            let jumps = |from: PieceId, is_match: &dyn Fn(Svma) -> bool| {
                scouted[from.index()].exits.iter().any(|exit| is_match(exit.target))
            };
            let (from_start, to_start) = (from_piece.range.start, to_piece.range.start);
            let returns_home = jumps(to, &|at| from_piece.range.contains(at) && at != from_start);
            let heights = heights.get_or_insert_with(|| StackHeights::new(image, from_piece.frame));
            let frame_in_place = heights.at_entry(jump) == Some(false);
            if frame_in_place || target != to_start || returns_home {
                // The part that begins with a frame in place is not the one that is called; nor is
                // the one that the other jumps to the start of.
                let cues = [
                    (from_piece.begins_like_function(image), to_piece.begins_like_function(image)),
                    (jumps(from, &|at| at == to_start), jumps(to, &|at| at == from_start)),
                ];
                match cues.into_iter().find(|(from_leads, to_leads)| from_leads != to_leads) {
                    Some((false, true)) => self.join(pieces, to, from),
                    _ => self.join(pieces, from, to),
                };
            }
        }
    }

    /// Makes two pieces parts of one function, unless both head functions of their own. Where
    /// neither does, `main` leads. Tells whether they are one now.
    pub fn join(&mut self, pieces: &Pieces, main: PieceId, part: PieceId) -> bool {
        let (main, part) = (self.shortened_head(main), self.shortened_head(part));
        if main == part {
            return true;
        }
        match (pieces.get(main).anchored, pieces.get(part).anchored) {
            (true, true) => return false,
            (false, true) => self.parent[main.index()] = part,
            (_, false) => self.parent[part.index()] = main,
        }
        true
    }

    /// The piece that holds the entry of the function to which `id` belongs.
    pub fn head(&self, mut id: PieceId) -> PieceId {
        while self.parent[id.index()] != id {
            id = self.parent[id.index()];
        }
        id
    }

    /// The head of `id`, which from now on is found in one step.
    fn shortened_head(&mut self, id: PieceId) -> PieceId {
        let head = self.head(id);
        self.parent[id.index()] = head;
        head
    }

    /// Every function as its pieces, the head first, the others by address; functions by address of
    /// their head.
    pub fn functions(&self, pieces: &Pieces) -> Vec<Vec<PieceId>> {
        let mut functions: BTreeMap<PieceId, Vec<PieceId>> = BTreeMap::new();
        for id in pieces.ids() {
            let head = self.head(id);
            let parts = functions.entry(head).or_insert_with(|| vec![head]);
            if id != head {
                parts.push(id);
            }
        }
        functions.into_values().collect()
    }
}
