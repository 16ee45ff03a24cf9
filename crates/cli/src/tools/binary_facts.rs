//! What exporters ask about the file of the one module that they describe.
//!
//! The file is read only if it is the one that ran: its build-id must be that of the profile. Facts
//! that a format does not need are not gathered, since finding all jumps takes an analysis of the
//! whole file.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use export::{BinaryFacts, Format, SymbolOffset};
use flow::cfg::EdgeKind;
use image::{BasicBlockIds, BoltNames, Image, Svma};
use profile::Profile;
use profile::model::{BlockId, ModuleId};
use rustc_hash::FxHashSet;

use crate::progress::Progress;
use crate::{input, tools};
use recorder::Threads;

/// Facts about one module; others have none.
#[derive(Debug)]
pub struct FileFacts<'a> {
    profile: &'a Profile,
    module: Option<ModuleId>,
    bolt_names: BoltNames,
    jump_targets: FxHashSet<u64>,
    ids: BasicBlockIds,
}

impl<'a> FileFacts<'a> {
    /// What a format needs to know about a module of the profile at `path`; nothing without a
    /// module.
    pub fn gather(
        profile: &'a Profile,
        path: &Path,
        module: Option<ModuleId>,
        format: Format,
    ) -> Result<FileFacts<'a>> {
        let mut facts = FileFacts {
            profile,
            module,
            bolt_names: BoltNames::default(),
            jump_targets: FxHashSet::default(),
            ids: BasicBlockIds::default(),
        };
        let Some(module) = module else { return Ok(facts) };
        match format {
            Format::BoltFdata => {
                let bytes = same_build(profile, path, module)?;
                facts.bolt_names = BoltNames::of_file(&bytes);
                if facts.bolt_names.is_empty() {
                    let name = &profile.modules[module.index()].path;
                    bail!("{name}: has no symbols, by which this format names functions; use bolt-preagg");
                }
                facts.jump_targets = jump_targets(&bytes)?;
            }
            Format::PropellerBb | Format::PropellerPaths => {
                let bytes = same_build(profile, path, module)?;
                let name = &profile.modules[module.index()].path;
                facts.ids = BasicBlockIds::of_file(&bytes).with_context(|| name.clone())?;
                if facts.ids.is_empty() {
                    bail!(
                        "{name}: has no basic-block ids; build it with clang -fbasic-block-address-map, and record again"
                    );
                }
            }
            _ => {}
        }
        Ok(facts)
    }
}

impl BinaryFacts for FileFacts<'_> {
    fn bolt_symbol(&self, module: ModuleId, address: u64) -> Option<SymbolOffset> {
        let (name, offset) = self.bolt_names.at(Svma(address)).filter(|_| Some(module) == self.module)?;
        Some(SymbolOffset { name: name.to_owned(), offset })
    }

    fn is_jump_target(&self, module: ModuleId, address: u64) -> bool {
        Some(module) == self.module && self.jump_targets.contains(&address)
    }

    fn basic_block_id(&self, block: BlockId) -> Option<u32> {
        let row = self.profile.blocks.get(block.index())?;
        let function = self.profile.functions.get(row.function.index())?;
        self.ids.at(Svma(row.address)).filter(|_| Some(function.module) == self.module)
    }
}

/// The bytes of a module's file, if it is the file that ran.
fn same_build(profile: &Profile, profile_path: &Path, module: ModuleId) -> Result<Vec<u8>> {
    let module = &profile.modules[module.index()];
    let path = tools::binary_of(profile_path, module);
    let bytes = input::read_binary(&path)?;
    let image = Image::parse(&bytes).with_context(|| path.display().to_string())?;
    let found = image.build_id().map(ToString::to_string).unwrap_or_default();
    ensure!(
        found == module.build_id,
        "{}: rebuilt since the recording (build-id {found}, recorded {}); record again, or put the old file in its place",
        path.display(),
        module.build_id
    );
    Ok(bytes)
}

/// Where the jumps of a file lead, as far as they are known.
fn jump_targets(bytes: &[u8]) -> Result<FxHashSet<u64>> {
    let progress = Progress::new();
    progress.show("analyzing control flow");
    let threads = Threads::available();
    let flow = flow::analyze(&Image::parse(bytes)?, &threads);
    let edges = flow.functions.iter().flat_map(|function| &function.cfg.edges);
    let is_jump = |kind| matches!(kind, EdgeKind::Taken | EdgeKind::JumpTable | EdgeKind::TailCall);
    let targets = edges.filter(|edge| is_jump(edge.kind)).filter_map(|edge| edge.target);
    Ok(targets.map(|target| target.0).collect())
}
