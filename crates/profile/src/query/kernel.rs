//! System calls by site, and threads.

use rustc_hash::FxHashMap;

use crate::estimate::Estimate;
use crate::model::{ModuleId, Profile, ThreadId};
use crate::query::{share, sort_hottest_first, totals};

/// An instruction that enters the kernel, over all contexts.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemCallSite {
    /// Its module, if it is in one.
    pub module: Option<ModuleId>,
    /// The address behind it.
    pub address: u64,
    /// Contexts in which kernel time was seen there.
    pub n_contexts: u32,
    /// Kernel CPU time.
    pub kernel_ns: Estimate,
    /// `kernel_ns` as a share of CPU time.
    pub share: Estimate,
}

/// System-call sites by kernel time.
#[must_use]
pub fn system_call_sites(profile: &Profile) -> Vec<SystemCallSite> {
    let cpu_ns = totals(profile).cpu_ns;
    let mut sums: FxHashMap<(Option<ModuleId>, u64), (u32, Estimate)> = FxHashMap::default();
    for row in &profile.system_calls {
        let (n_contexts, kernel_ns) = sums.entry((row.module, row.address)).or_default();
        *n_contexts += 1;
        *kernel_ns += row.kernel_ns;
    }
    let rows = sums.into_iter().map(|((module, address), (n_contexts, kernel_ns))| SystemCallSite {
        module,
        address,
        n_contexts,
        kernel_ns,
        share: share(kernel_ns, cpu_ns),
    });
    let mut rows: Vec<SystemCallSite> = rows.collect();
    rows.sort_by_key(|row| (row.module, row.address));
    rows.sort_by(|a, b| b.kernel_ns.value.total_cmp(&a.kernel_ns.value));
    rows
}

/// Threads by CPU time.
#[must_use]
pub fn threads(profile: &Profile) -> Vec<ThreadId> {
    let mut ids: Vec<ThreadId> = (0..profile.threads.len() as u32).map(ThreadId).collect();
    sort_hottest_first(&mut ids, |id| profile.threads[id.index()].cpu_ns as f64, |id| id.0);
    ids
}
