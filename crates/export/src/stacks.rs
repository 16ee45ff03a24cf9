//! Calling contexts as stacks of places.
//!
//! A context that is told apart by its call knows from where it was called. Any other says only
//! which function called which: the place of its call is then taken to be the call site from which
//! the caller enters the callee most often; if none was recorded, the start of the caller.

use profile::Profile;
use profile::model::{Block, Context, ContextId, FunctionId};
use rustc_hash::FxHashMap;

use crate::round::whole;

/// Where a frame of a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// At an address of a function.
    Code {
        /// The function.
        function: FunctionId,
        /// The address.
        address: u64,
    },
    /// In the kernel.
    Kernel,
}

/// Call sites by caller and callee.
#[derive(Debug)]
pub(crate) struct Stacks<'a> {
    profile: &'a Profile,
    sites: FxHashMap<(FunctionId, FunctionId), u64>,
}

impl<'a> Stacks<'a> {
    pub fn new(profile: &'a Profile) -> Stacks<'a> {
        let mut hottest: FxHashMap<(FunctionId, FunctionId), (f64, u64)> = FxHashMap::default();
        for call in &profile.calls {
            let block = &profile.blocks[call.site.index()];
            let address = last_address(block);
            let best = hottest.entry((block.function, call.callee)).or_insert((call.count.value, address));
            if best.0 < call.count.value {
                *best = (call.count.value, address);
            }
        }
        Stacks { profile, sites: hottest.into_iter().map(|(pair, (_, address))| (pair, address)).collect() }
    }

    /// The first address of a context's function.
    pub fn entry(&self, context: &Context) -> Place {
        let function = context.function;
        Place::Code { function, address: self.profile.functions[function.index()].address }
    }

    /// The place in its parent from which a context was entered.
    pub fn call_site(&self, context: &Context) -> Option<(ContextId, Place)> {
        let parent = context.parent?;
        let function = self.profile.contexts[parent.index()].function;
        let usual_site = || self.sites.get(&(function, context.function)).copied();
        let site = context.call_site.or_else(usual_site);
        let address = site.unwrap_or(self.profile.functions[function.index()].address);
        Some((parent, Place::Code { function, address }))
    }

    /// The places of a context's callers, the caller first, the root last.
    pub fn callers(&self, context: &'a Context) -> impl Iterator<Item = Place> {
        let mut at = Some(context);
        std::iter::from_fn(move || {
            let (parent, place) = self.call_site(at?)?;
            at = self.profile.contexts.get(parent.index());
            Some(place)
        })
    }
}

/// The functions of a context and its callers, the root first.
pub(crate) fn functions_from_root(profile: &Profile, context: &Context) -> Vec<FunctionId> {
    let mut functions = vec![context.function];
    let mut at = context;
    while let Some(parent) = at.parent {
        at = &profile.contexts[parent.index()];
        functions.push(at.function);
    }
    functions.reverse();
    functions
}

/// User and kernel CPU time of a context itself, in whole nanoseconds.
pub(crate) fn own_ns(context: &Context) -> (u64, u64) {
    (whole(context.self_ns.value), whole(context.kernel_ns.value))
}

/// Adds up over every context and all below it.
pub(crate) fn inclusive(profile: &Profile, own: impl Fn(&Context) -> u64) -> Vec<u64> {
    let mut sums: Vec<u64> = profile.contexts.iter().map(own).collect();
    for (index, context) in profile.contexts.iter().enumerate().rev() {
        if let Some(parent) = context.parent {
            sums[parent.index()] = sums[parent.index()].saturating_add(sums[index]);
        }
    }
    sums
}

/// Address of a block's last instruction.
pub(crate) fn last_address(block: &Block) -> u64 {
    block.address.saturating_add(u64::from(block.last))
}

#[cfg(test)]
mod tests {
    use profile::Estimate;
    use profile::model::{BlockEnd, BlockId, Call, Function, ModuleId};

    use super::*;

    #[test]
    fn the_own_call_site_of_a_context_goes_before_the_usual_one() {
        let zero = Estimate::exact(0);
        let function = |address| Function {
            module: ModuleId(0),
            address,
            size: 0x40,
            name: String::new(),
            entries: zero,
            self_ns: zero,
        };
        let (caller, callee) = (FunctionId(0), FunctionId(1));
        let context = |parent, function, call_site| Context {
            parent,
            function,
            call_site,
            entries: zero,
            self_ns: zero,
            kernel_ns: zero,
            misses: 0,
        };
        let block = Block {
            function: caller,
            address: 0x1010,
            size: 8,
            last: 3,
            n_insns: 2,
            end: BlockEnd::Call,
            count: zero,
            self_ns: zero,
        };
        let root = Some(ContextId(0));
        let mut profile = Profile {
            functions: vec![function(0x1000), function(0x2000)],
            blocks: vec![block],
            contexts: vec![
                context(None, caller, None),
                context(root, callee, None),
                context(root, callee, Some(0x1030)),
            ],
            ..Profile::default()
        };
        let places = |profile: &Profile| {
            let stacks = Stacks::new(profile);
            let places = profile.contexts.iter().map(|context| stacks.call_site(context).map(|(_, place)| place));
            places.collect::<Vec<_>>()
        };
        let at = |address| Some(Place::Code { function: caller, address });
        assert_eq!(places(&profile), [None, at(0x1000), at(0x1030)]);
        profile.calls = vec![Call { site: BlockId(0), callee, is_tail: false, count: zero }];
        assert_eq!(places(&profile), [None, at(0x1013), at(0x1030)]);
    }
}
