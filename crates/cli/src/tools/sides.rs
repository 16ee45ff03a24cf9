//! The two profiles of a diff, with the names of what is in them.

use std::path::Path;

use anyhow::Result;
use profile::Profile;
use profile::model::{BlockId, FunctionId};

use crate::names::Names;
use crate::tools::opened;

/// A profile and its names.
pub struct Side {
    pub profile: Profile,
    names: Names,
}

impl Side {
    pub fn open(path: &Path) -> Result<Side> {
        let profile = opened::open(path)?;
        let names = Names::new(&profile, &opened::symbolizer(&profile, path));
        Ok(Side { profile, names })
    }
}

/// The profiles before and after.
pub struct Sides {
    pub before: Side,
    pub after: Side,
}

impl Sides {
    /// The name of a function that is in one of the two.
    pub fn function(&self, before: Option<FunctionId>, after: Option<FunctionId>) -> &str {
        let old = before.map(|id| self.before.names.function(id));
        after.map(|id| self.after.names.function(id)).or(old).unwrap_or("?")
    }

    /// Function and address of a block.
    pub fn block(&self, before: Option<BlockId>, after: Option<BlockId>) -> (&str, u64) {
        let new = after.map(|id| (&self.after, id));
        let Some((side, id)) = new.or(before.map(|id| (&self.before, id))) else { return ("?", 0) };
        let block = &side.profile.blocks[id.index()];
        (side.names.function(block.function), block.address)
    }

    /// The first block of a path.
    pub fn path_start(&self, row: &profile::diff::PathChange) -> (&str, u64) {
        let first = |side: &Side, id: profile::model::PathId| side.profile.paths[id.index()].blocks.first().copied();
        let before = row.before.and_then(|id| first(&self.before, id));
        self.block(before, row.after.and_then(|id| first(&self.after, id)))
    }

    /// The header of a loop.
    pub fn loop_header(&self, row: &profile::diff::LoopChange) -> (&str, u64) {
        let before = row.before.map(|id| self.before.profile.loops[id.index()].header);
        self.block(before, row.after.map(|id| self.after.profile.loops[id.index()].header))
    }
}
