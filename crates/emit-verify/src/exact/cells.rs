//! The counters of a copy by what it says that they count.

use emit::{Cell, CellKind, ModuleCopy};
use rustc_hash::FxHashMap;
use wire::exact::CELLS;

use crate::{Fault, SAMPLE};

/// The counters of a copy.
#[derive(Debug)]
pub(crate) struct Cells {
    /// By kind, address, and the block that an edge leads to: number of the first counter, and how
    /// the copy describes it.
    listed: FxHashMap<(CellKind, u32, u32), (u32, Cell)>,
    n_cells: u32,
    n_keys: u32,
}

impl Cells {
    pub fn new(copy: &ModuleCopy) -> Result<Cells, Fault> {
        let mut cells = Cells { listed: FxHashMap::default(), n_cells: 0, n_keys: 0 };
        for cell in copy.cells() {
            let first = cells.n_cells;
            let n_cells = first.checked_add(cell.n_cells()).filter(|&n_cells| n_cells <= MAX_CELLS);
            cells.n_cells = n_cells.ok_or(Fault::Cells)?;
            let to = if cell.kind.is_edge() { cell.to } else { 0 };
            if cell.kind.has_key() {
                // Numbers of functions are given out in order.
                (cell.to == cells.n_keys).then_some(()).ok_or(Fault::Cells)?;
                cells.n_keys += 1;
            }
            if cells.listed.insert((cell.kind, cell.at, to), (first, *cell)).is_some() {
                return Err(Fault::Cells);
            }
        }
        Ok(cells)
    }

    pub fn len(&self) -> usize {
        self.listed.len()
    }

    pub fn find(&self, kind: CellKind, at: u32, to: u32) -> Option<u32> {
        self.listed.get(&(kind, at, to)).map(|&(first, _)| first)
    }

    /// The cells for the paths of the function at `at`: the first one, and how many.
    pub fn paths(&self, at: u32) -> Option<(u32, u32)> {
        self.listed.get(&(CellKind::Paths, at, 0)).map(|&(first, cell)| (first, cell.to))
    }

    /// How many cells the function at `at` has for its paths, if as many behind them count misses.
    pub fn missing_paths(&self, at: u32) -> Option<u32> {
        let (first, n_cells) = self.paths(at)?;
        let &(misses, cell) = self.listed.get(&(CellKind::PathMisses, at, 0))?;
        (first.checked_add(n_cells) == Some(misses) && cell.to == n_cells).then_some(n_cells)
    }

    /// The key of the function at `at`.
    pub fn key(&self, at: u32) -> Option<u32> {
        self.key_of(CellKind::HashedPaths, at)
    }

    pub fn key_of(&self, kind: CellKind, at: u32) -> Option<u32> {
        self.listed.get(&(kind, at, 0)).map(|&(_, cell)| cell.to)
    }
}

/// All cells that there are.
const MAX_CELLS: u32 = wire::exact::CELLS_BYTES / 8;

/// The number of the cell at an offset from `gs:` when the copy is at the sample position; it need
/// not exist.
pub(super) fn cell_at(offset: i64) -> Option<i64> {
    let bytes = offset - i64::from(CELLS) - i64::from(SAMPLE.first_cell) * 8;
    (bytes % 8 == 0).then_some(bytes / 8)
}
