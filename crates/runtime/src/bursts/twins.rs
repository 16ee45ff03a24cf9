//! From addresses of the original to their twins, by the maps of [`wire::clusters`].
//!
//! With the counted trigger there are two versions of the copies; twins are those of the version
//! that the calling thread is in.

use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed};

use wire::clusters::{Cluster, LANDING, LEADER, Version};

use crate::process::session;
use crate::threads::area::Area;

/// Returns the twin of `pc`, if it has a copy.
pub fn of(pc: u64) -> Option<u64> {
    in_cluster(cluster_of(pc)?, pc)
}

/// Returns the twin of `pc`, if it has a copy and starts a block: where a thread may enter in exact
/// mode that comes from elsewhere than a copy. In the middle of a block the copy relies on the path
/// register, which such a thread does not have.
pub fn of_leader(pc: u64) -> Option<u64> {
    let cluster = cluster_of(pc)?;
    let entry = entry(cluster, pc);
    (entry & LEADER != 0).then(|| cluster.copy_base + u64::from(entry & !LEADER))
}

/// Returns where the return of a call leads that returns to `pc`: what goes on with the caller's
/// path.
pub fn behind_call(pc: u64) -> Option<u64> {
    let last_byte = pc.wrapping_sub(1);
    let cluster = cluster_of(last_byte)?;
    let entry = entry(cluster, last_byte);
    (entry & (LEADER | LANDING) == LANDING).then(|| cluster.copy_base + u64::from(entry & !LANDING))
}

/// Returns where a thread may enter in exact mode that has returned to `pc`.
pub fn of_return(pc: u64) -> Option<u64> {
    behind_call(pc).or_else(|| of_leader(pc))
}

/// Returns the cluster that `pc` is in.
pub fn cluster_of(pc: u64) -> Option<&'static Cluster> {
    session::clusters().iter().find(|cluster| cluster.contains(pc))
}

/// Returns the twin of `pc`, which is in `cluster`.
pub fn in_cluster(cluster: &Cluster, pc: u64) -> Option<u64> {
    let entry = entry(cluster, pc);
    (entry != 0 && entry & LANDING == 0).then(|| cluster.copy_base + u64::from(entry & !LEADER))
}

/// Returns the version that the calling thread is in; a thread without an area would begin in the
/// checking one.
fn version() -> Version {
    let Some(session) = session::attached().filter(|session| session.has_counted_trigger()) else {
        return Version::Instrumented;
    };
    let is_instrumented = |area: Area| area.header().trigger.is_instrumented.load(Relaxed) != 0;
    if Area::own(session).is_some_and(is_instrumented) { Version::Instrumented } else { Version::Checking }
}

fn entry(cluster: &Cluster, pc: u64) -> u32 {
    let entry = (cluster.map_of(version()) + 4 * (pc - cluster.lo)) as *const AtomicU32;
    // SAFETY: the map has an entry for every address in the cluster.
    unsafe { &*entry }.load(Acquire)
}
