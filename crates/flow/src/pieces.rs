//! Which bytes of a module are code of which function: the map of *pieces*.
//!
//! A piece is one contiguous range of code with one origin: an unwind entry (FDE), a PLT stub, or,
//! where a file has neither, what lies between one known start and the next. Pieces do not overlap.
//! A function is one piece, or several when the compiler moved cold code elsewhere; which ones
//! belong together is decided later, from the jumps between them.
//!
//! A piece is *anchored* when something says that a function starts there: a symbol, a call, a
//! pointer to it, the program's entry. An unwind entry alone does not: split-off cold code has one
//! too.

use std::collections::BTreeMap;

use image::{FunctionSeed, Image, Sources, Svma, SvmaRange};

use crate::stack;

/// Index of a piece in [`Pieces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PieceId(pub u32);

/// A contiguous range of code.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub range: SvmaRange,
    /// Index of its unwind entry in [`Image::frames`].
    pub frame: Option<usize>,
    /// Whether a function is known to start at its first byte.
    pub anchored: bool,
    /// Addresses after the first byte where control enters from elsewhere, ascending.
    pub entries: Vec<Svma>,
    /// Who states that a function starts here.
    pub sources: Sources,
    /// Whether a direct call leads to its first byte.
    pub called: bool,
    /// Whether its address is stored or computed somewhere.
    pub address_taken: bool,
    /// Whether the end is a guess: the next start.
    open_ended: bool,
}

/// A place where a function starts, or is entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub at: Svma,
    pub size: Option<u64>,
    pub evidence: Evidence,
}

/// What says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    Stated(Sources),
    Called,
    AddressTaken,
    /// Code elsewhere jumps there.
    Jumped,
}

/// All pieces of a module, by address.
#[derive(Debug)]
pub(crate) struct Pieces {
    pieces: Vec<Piece>,
    /// Addresses in the middle of pieces that the program keeps or computes, ascending.
    labels: Vec<Svma>,
}

impl Pieces {
    /// The pieces that the file itself declares.
    pub fn declared(image: &Image<'_>) -> Pieces {
        let mut pieces = BTreeMap::new();
        for stub in image.plt_stubs() {
            pieces.insert(stub.range.start, Piece::new(stub.range, Sources::PLT));
        }
        for (index, frame) in image.frames().iter().enumerate() {
            if !covers_plt(image, frame.range) && in_code(image, frame.range.start) {
                let mut piece = Piece::new(frame.range, Sources::FDE);
                piece.frame = Some(index);
                piece.anchored = false;
                pieces.insert(frame.range.start, piece);
            }
        }
        let mut this = Pieces { pieces: pieces.into_values().collect(), labels: Vec::new() };
        this.clip(image);
        let stated = |seed: &FunctionSeed| {
            let sources = if is_split_off(image, seed.start) { Sources::FDE } else { seed.sources };
            Start { at: seed.start, size: seed.size, evidence: Evidence::Stated(sources) }
        };
        let starts: Vec<Start> = image.functions().iter().map(stated).collect();
        this.add(image, &starts);
        this
    }

    /// Adds places where functions start or are entered, and returns the starts of pieces that are
    /// new or have changed shape.
    pub fn add(&mut self, image: &Image<'_>, starts: &[Start]) -> Vec<Svma> {
        let mut fresh: BTreeMap<Svma, Piece> = BTreeMap::new();
        for &Start { at, size, evidence } in starts {
            match self.find(at).map(|id| &mut self.pieces[id.index()]) {
                Some(piece) if piece.range.start == at => piece.note(image, evidence),
                Some(piece) if !piece.open_ended => {
                    piece.enter(at);
                }
                _ if in_code(image, at) => {
                    let end = size.filter(|&size| size > 0).map(|size| at.offset(size));
                    let range = SvmaRange { start: at, end: end.unwrap_or(Svma(u64::MAX)) };
                    let open_ended = end.is_none();
                    let new = || Piece { open_ended, anchored: false, ..Piece::new(range, Sources::default()) };
                    fresh.entry(at).or_insert_with(new).note(image, evidence);
                }
                _ => {}
            }
        }
        if fresh.is_empty() {
            return Vec::new();
        }
        let mut changed: Vec<Svma> = fresh.keys().copied().collect();
        let open_ended: Vec<SvmaRange> =
            self.pieces.iter().filter(|piece| piece.open_ended).map(|piece| piece.range).collect();
        self.pieces.extend(fresh.into_values());
        self.pieces.sort_by_key(|piece| piece.range.start);
        self.clip(image);
        let is_same = |range: &SvmaRange| self.find(range.start).is_some_and(|id| self.get(id).range == *range);
        changed.extend(open_ended.iter().filter(|range| !is_same(range)).map(|range| range.start));
        changed
    }

    /// Takes in the addresses that the program keeps or computes. Those in the middle of pieces are
    /// where control may come by them: labels of computed jumps, handlers of exceptions.
    pub fn label(&mut self, addresses: impl IntoIterator<Item = Svma>) {
        let is_inside = |&at: &Svma| self.find(at).is_some_and(|id| self.get(id).range.start != at);
        let mut labels: Vec<Svma> = addresses.into_iter().filter(is_inside).collect();
        labels.sort_unstable();
        labels.dedup();
        self.labels = labels;
    }

    /// Addresses in the middle of pieces that the program keeps or computes, ascending.
    pub fn labels(&self) -> &[Svma] {
        &self.labels
    }

    /// Whether `at` lies in no piece, or in one whose end is only known to be before the next
    /// start.
    pub fn is_uncharted(&self, at: Svma) -> bool {
        self.find(at).is_none_or(|id| self.get(id).open_ended)
    }

    /// Ends every piece at the next one, and at the end of its region.
    fn clip(&mut self, image: &Image<'_>) {
        let mut next = Svma(u64::MAX);
        for piece in self.pieces.iter_mut().rev() {
            let region_end = region_end(image, piece.range.start).unwrap_or(piece.range.start);
            if piece.open_ended {
                piece.range.end = next.min(region_end);
            } else {
                piece.range.end = piece.range.end.min(next).min(region_end);
            }
            next = piece.range.start;
        }
        self.pieces.retain(|piece| !piece.range.is_empty());
    }

    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    pub fn ids(&self) -> impl Iterator<Item = PieceId> + use<> {
        (0..self.pieces.len() as u32).map(PieceId)
    }

    pub fn get(&self, id: PieceId) -> &Piece {
        &self.pieces[id.index()]
    }

    /// The piece that contains `at`.
    pub fn find(&self, at: Svma) -> Option<PieceId> {
        let index = self.pieces.partition_point(|piece| piece.range.start <= at).checked_sub(1)?;
        self.pieces[index].range.contains(at).then_some(PieceId(index as u32))
    }

    /// Notes that other code jumps into a piece; tells whether that is new.
    pub fn add_entry(&mut self, id: PieceId, at: Svma) -> bool {
        self.pieces[id.index()].enter(at)
    }
}

impl Piece {
    fn new(range: SvmaRange, sources: Sources) -> Piece {
        Piece {
            range,
            frame: None,
            anchored: true,
            entries: Vec::new(),
            sources,
            called: false,
            address_taken: false,
            open_ended: false,
        }
    }

    /// Whether nothing but the return address is on the stack at its start, as far as unwind
    /// information tells.
    pub fn begins_like_function(&self, image: &Image<'_>) -> bool {
        self.frame.is_none_or(|frame| stack::is_at_entry_height_at_start(image, frame))
    }

    fn note(&mut self, image: &Image<'_>, evidence: Evidence) {
        self.anchored |= match evidence {
            Evidence::Stated(sources) => {
                self.sources = self.sources.union(sources);
                sources != Sources::FDE
            }
            Evidence::Called => {
                self.called = true;
                true
            }
            // A table of labels may point to split-off code, which begins with a stack frame in
            // place.
            Evidence::AddressTaken => {
                self.address_taken = true;
                self.begins_like_function(image)
            }
            Evidence::Jumped => self.frame.is_none(),
        };
    }

    fn enter(&mut self, at: Svma) -> bool {
        match self.entries.binary_search(&at) {
            Err(index) if at != self.range.start => {
                self.entries.insert(index, at);
                true
            }
            _ => false,
        }
    }
}

impl PieceId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether a symbol calls this a split-off part of a function: `name.cold`, `name.cold.3`.
fn is_split_off(image: &Image<'_>, start: Svma) -> bool {
    let name = image.name_of(start);
    let suffix = name.raw.rsplit_once(".cold").map(|(_, suffix)| suffix);
    suffix.is_some_and(|suffix| suffix.chars().all(|c| c == '.' || c.is_ascii_digit()))
}

/// Whether an unwind entry describes a whole PLT rather than a function.
fn covers_plt(image: &Image<'_>, range: SvmaRange) -> bool {
    let stubs = image.plt_stubs();
    let index = stubs.partition_point(|stub| stub.range.start < range.start);
    stubs.get(index).is_some_and(|stub| range.contains(stub.range.start))
}

fn in_code(image: &Image<'_>, at: Svma) -> bool {
    region_end(image, at).is_some()
}

fn region_end(image: &Image<'_>, at: Svma) -> Option<Svma> {
    let regions = image.code_regions();
    let index = regions.partition_point(|region| region.range.start <= at).checked_sub(1)?;
    regions[index].range.contains(at).then_some(regions[index].range.end)
}
