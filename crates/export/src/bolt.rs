//! The flow of one module in the terms of BOLT: transfers between addresses, and steps to the next
//! instruction.

use std::collections::BTreeSet;

use profile::Profile;
use profile::model::{Block, EdgeKind, ModuleId};

use crate::round::whole;
use crate::stacks::last_address;

/// What ran, in addresses of the module's file. No transfer or step is listed that did not happen.
#[derive(Debug, Default)]
pub(crate) struct ModuleFlow<'a> {
    /// Jumps within functions, and calls, from the address of the instruction.
    pub transfers: Vec<Transfer>,
    /// Steps from a block to the one behind it, ordered by address. A call that returns is one.
    pub fall_throughs: Vec<FallThrough<'a>>,
    /// Where jumps within functions lead, whether or not they did.
    pub jump_targets: BTreeSet<u64>,
}

/// A counted jump or call. One without `from` comes from outside of the module; one without `to`
/// leads out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Transfer {
    pub from: Option<u64>,
    pub to: Option<u64>,
    pub count: u64,
}

/// A counted step to the next instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FallThrough<'a> {
    pub from: &'a Block,
    pub to: &'a Block,
    pub count: u64,
}

impl<'a> ModuleFlow<'a> {
    pub fn new(profile: &'a Profile, module: ModuleId) -> ModuleFlow<'a> {
        let mut flow = ModuleFlow::default();
        flow.add_edges(profile, module);
        flow.add_calls(profile, module);
        flow.transfers.sort_unstable();
        flow.fall_throughs.sort_by_key(|step| (step.from.address, step.to.address));
        flow
    }

    /// An exception arrives from the unwinder, which is another module.
    fn add_edges(&mut self, profile: &'a Profile, module: ModuleId) {
        for edge in &profile.edges {
            let (from, to) = (&profile.blocks[edge.from.index()], &profile.blocks[edge.to.index()]);
            let count = whole(edge.count.value);
            if profile.functions[from.function.index()].module != module {
                continue;
            }
            if !matches!(edge.kind, EdgeKind::FallThrough | EdgeKind::PastCall) {
                self.jump_targets.insert(to.address);
            }
            if count == 0 {
                continue;
            }
            let origin = (edge.kind != EdgeKind::NonLocal).then_some(last_address(from));
            match edge.kind {
                EdgeKind::FallThrough | EdgeKind::PastCall => self.fall_throughs.push(FallThrough { from, to, count }),
                EdgeKind::Taken | EdgeKind::Table | EdgeKind::NonLocal => {
                    self.transfers.push(Transfer { from: origin, to: Some(to.address), count });
                }
            }
        }
    }

    /// Entries that no call accounts for come from outside.
    fn add_calls(&mut self, profile: &'a Profile, module: ModuleId) {
        let mut entries: Vec<f64> = profile.functions.iter().map(|function| function.entries.value).collect();
        for call in &profile.calls {
            let site = &profile.blocks[call.site.index()];
            let callee = &profile.functions[call.callee.index()];
            if profile.functions[site.function.index()].module != module {
                continue;
            }
            entries[call.callee.index()] -= call.count.value;
            let to = (callee.module == module).then_some(callee.address);
            let count = whole(call.count.value);
            if count != 0 {
                self.transfers.push(Transfer { from: Some(last_address(site)), to, count });
            }
        }
        for (function, rest) in profile.functions.iter().zip(entries) {
            let count = rest.round() as u64;
            if function.module == module && count != 0 {
                self.transfers.push(Transfer { from: None, to: Some(function.address), count });
            }
        }
    }
}
