//! The callees of calls. Where blocks are counted, the counts of direct calls follow from those of
//! blocks; indirect calls have counters of their own.
//!
//! * **Computed targets** are counted in the path table, under the number of the call
//!   ([`wire::exact::CALLEE`]). An entry has the lower half of the target's address only, which
//!   says where it is as long as no two functions of the process agree in it; if two do, the calls
//!   are those of nobody.
//! * **Call sites.** Where contexts tell call sites apart and nothing else is counted, a direct
//!   call was made as often as its contexts say.

use std::collections::HashMap;

use emit::CellKind;
use flow::Transfer;
use flow::callgraph::FunctionId;
use image::Svma;
use profile::exact::{CodePlace, ExactBuilder};
use profile::model::ModuleId;
use rustc_hash::FxHashMap;

use super::Counted;
use super::contexts::{Callee as Numbered, Tree};
use crate::error::Result;
use crate::process::Watched;

/// A place in the file of a module.
type Place = (ModuleId, Svma);

/// Counts of calls of computed targets.
#[derive(Debug, Default)]
pub struct Callees {
    /// By call, and places that the target may be at.
    counts: FxHashMap<(Numbered, Vec<Place>), u64>,
}

impl Callees {
    /// Adds what an entry of the path table of a process says.
    pub fn add(&mut self, watched: &Watched, call: Numbered, target: u32, count: u64) {
        let mut places: Vec<Place> = watched
            .all_modules()
            .filter_map(|module| {
                let distance = target.wrapping_sub(module.mapped.base as u32);
                let address = module.mapped.base.wrapping_add(u64::from(distance));
                let at = Svma(address.wrapping_sub(module.mapped.bias));
                module.contains(address).then_some((module.id, at))
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        let sum = self.counts.entry((call, places)).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Adds the calls to the profile. `numbers` are those of modules in the profile.
    pub fn fill(
        &self,
        builder: &mut ExactBuilder,
        modules: &HashMap<ModuleId, Counted>,
        numbers: &HashMap<ModuleId, ModuleId>,
    ) -> Result<()> {
        let sites = Sites::new(modules, numbers, CellKind::Callees);
        for ((call, places), &count) in &self.counts {
            let mut entered = places.iter().filter_map(|&(module, at)| sites.function_entered(module, at));
            if let (Some(&(site, _)), Some(callee), None) = (sites.by_number.get(call), entered.next(), entered.next())
            {
                builder.call(site, callee, false, count)?;
            }
        }
        Ok(())
    }
}

/// Hands on how often direct calls were made, by the contexts of calls, with the blocks that end in
/// them.
pub fn fill_by_sites(
    builder: &mut ExactBuilder,
    tree: &Tree,
    modules: &HashMap<ModuleId, Counted>,
    numbers: &HashMap<ModuleId, ModuleId>,
) -> Result<()> {
    let sites = Sites::new(modules, numbers, CellKind::CallSite);
    let mut counts: FxHashMap<Numbered, u64> = FxHashMap::default();
    tree.for_each_entry(&mut |callee, n| {
        if sites.by_number.contains_key(&callee) {
            let sum = counts.entry(callee).or_default();
            *sum = sum.saturating_add(n);
        }
    });
    for (call, n) in counts {
        let Some(&(site, at)) = sites.by_number.get(&call) else { continue };
        builder.block(site.module, site.index, n)?;
        if let Some(callee) = sites.called_directly(call.0, at) {
            builder.call(site, callee, false, n)?;
        }
    }
    Ok(())
}

/// Calls that have numbers.
struct Sites<'a> {
    modules: &'a HashMap<ModuleId, Counted>,
    numbers: &'a HashMap<ModuleId, ModuleId>,
    /// The block that ends in the call, and where the call is.
    by_number: FxHashMap<Numbered, (CodePlace, Svma)>,
}

impl<'a> Sites<'a> {
    fn new(
        modules: &'a HashMap<ModuleId, Counted>,
        numbers: &'a HashMap<ModuleId, ModuleId>,
        kind: CellKind,
    ) -> Sites<'a> {
        let mut by_number = FxHashMap::default();
        for (&id, Counted { translation, .. }) in modules {
            let Some((code, &module)) = translation.code.get().zip(numbers.get(&id)) else { continue };
            for cell in translation.copy.cells().iter().filter(|cell| cell.kind == kind) {
                let at = translation.copy.base().offset(u64::from(cell.at));
                if let Some(index) = code.block_containing(at.0) {
                    by_number.insert((id, cell.to), (CodePlace { module, index }, at));
                }
            }
        }
        Sites { modules, numbers, by_number }
    }

    fn place(&self, module: ModuleId, function: FunctionId) -> Option<CodePlace> {
        Some(CodePlace { module: *self.numbers.get(&module)?, index: function.0 })
    }

    /// The function that has an entry at an address.
    fn function_entered(&self, module: ModuleId, at: Svma) -> Option<CodePlace> {
        let flow = self.modules.get(&module)?.translation.blocks.get()?.flow();
        let function = flow.function_containing(at)?;
        let cfg = &flow.functions[function.index()].cfg;
        let block = cfg.block_at(at).filter(|&block| cfg.graph.is_entry(block));
        block.and_then(|_| self.place(module, function))
    }

    /// The function that the call at an address names.
    fn called_directly(&self, module: ModuleId, at: Svma) -> Option<CodePlace> {
        let flow = self.modules.get(&module)?.translation.blocks.get()?.flow();
        let cfg = &flow.function_at(at)?.cfg;
        let block = cfg.graph.blocks().find(|&block| cfg.block(block).last() == at)?;
        match cfg.block(block).transfer {
            Transfer::Call(target) => self.place(module, flow.function_containing(target)?),
            _ => None,
        }
    }
}
