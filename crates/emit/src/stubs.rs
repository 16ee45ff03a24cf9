//! Code that all functions of a module share, at the start of its copy.
//!
//! ```text
//! exit:                                   rax: target, saved_rax: rax
//!     mov gs:[target], rax
//! leave:                                  the same, but the target is in gs:[target]
//!     mov gs:[saved_rdx], rdx
//!     rdtsc
//!     mov gs:[end_tsc], eax
//!     mov gs:[end_tsc + 4], edx
//!     mov rdx, gs:[saved_rdx]
//!     mov rax, gs:[saved_rax]
//!     mov dword gs:[state], ENDED
//!     jmp gs:[target]
//! miss:                                   gs:[target], saved_rax, saved_rcx, saved_flags; also `full` and `outside`
//!     mov dword gs:[end_reason], NoCopy
//!     mov rax, gs:[saved_flags]; add al, 0x7f; sahf
//!     mov rcx, gs:[saved_rcx]
//!     jmp leave
//! other:                                  the same; the target is not in the module's own cluster
//!     for each other cluster:
//!         mov rax, gs:[target]
//!         ... as in transfers, but if it is not in this cluster: on to the next one
//!     jmp outside
//! ```
//!
//! No flag changes between `exit` and the end of the burst.

use wire::clusters::{Cluster, N_CLUSTERS, Version};
use wire::recovery::{kind, saves};
use wire::sample::EndReason;
use wire::thread::{offset, thread_state};

use crate::asm::{Condition, Gpr};
use crate::chunk::{Chunk, Original};
use crate::exact;
use crate::{Options, Trigger, cache, probe};

/// Code that all functions of a module share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stub {
    /// The burst ends at the address in `rax`.
    Exit,
    /// The burst ends at the target: it has no copy, or starts no block.
    Miss,
    /// The burst ends at the target: the buffer is full.
    Full,
    /// The target is not in the module's own cluster.
    Other,
    /// The target is to be looked up, and flags are dead; only in copies that are never left.
    LookUp,
    /// The same after a return; goes to where the call's return leads.
    Land,
    /// A path, or whom a call calls, is to be counted in the path table; only in copies that are
    /// never left.
    CountPath,
    /// Bytes are accessed that are not where the data cache was used last; likewise.
    Access,
    /// The thread goes on at the target in the other version, whose block makes the same check once
    /// more.
    SwitchAtCheck,
    /// The thread goes on at the target in the other version, whose block makes no check.
    Switch,
}

/// Where the stubs are in the copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stubs {
    exit: u32,
    miss: u32,
    full: u32,
    other: u32,
    look_up: u32,
    land: u32,
    count_path: u32,
    access: u32,
    switches: [u32; 2],
}

impl Stubs {
    pub fn at(&self, stub: Stub) -> u32 {
        match stub {
            Stub::Exit => self.exit,
            Stub::Miss => self.miss,
            Stub::Full => self.full,
            Stub::Other => self.other,
            Stub::LookUp => self.look_up,
            Stub::Land => self.land,
            Stub::CountPath => self.count_path,
            Stub::Access => self.access,
            Stub::SwitchAtCheck => self.switches[0],
            Stub::Switch => self.switches[1],
        }
    }
}

/// Writes the stubs of a module in `cluster`, at the start of an empty chunk.
pub(crate) fn write(chunk: &mut Chunk, options: Options) -> Stubs {
    let Options { cluster, probe, .. } = options;
    let exit = chunk.position();
    let leave = if probe.stays() { write_exit_to_gate(chunk) } else { write_exit(chunk) };
    let miss = write_departure(chunk, EndReason::NoCopy, leave);
    let has_full = !probe.stays() || probe.trigger().is_some_and(Trigger::records);
    let full = if has_full { write_departure(chunk, EndReason::BufferFull, leave) } else { miss };
    let outside = write_departure(chunk, EndReason::Outside, leave);
    let version = probe.version();
    let others = (0..N_CLUSTERS).filter(|&each| each != cluster);
    let other = write_look_ups(chunk, version, others, [miss, outside]);
    // Where flags are dead, what `saved_flags` holds is as good as any.
    let look_up = if probe.stays() { write_look_ups(chunk, version, 0..N_CLUSTERS, [miss, outside]) } else { other };
    let land = if probe.stays() { exact::transfers::write_land_stub(chunk, version, look_up) } else { look_up };
    let switches = match probe.trigger() {
        Some(trigger) => {
            let go_on = write_look_ups(chunk, trigger.other_version(), 0..N_CLUSTERS, [miss, outside]);
            exact::trigger::write_switch_stubs(chunk, trigger, go_on, full)
        }
        None => [look_up; 2],
    };
    let count_path = chunk.position();
    if probe.has_paths() && !probe.traces_paths() || probe.has_callees() {
        exact::hashed::write_count_stub(chunk, probe);
    }
    let access = chunk.position();
    if let Some(cache) = probe.cache() {
        cache::write_stub(chunk, cache);
    }
    Stubs { exit, miss, full, other, look_up, land, count_path, access, switches }
}

/// Goes to the twin of the target in one of these clusters and this version. Returns where that is.
fn write_look_ups(
    chunk: &mut Chunk,
    version: Version,
    clusters: impl Iterator<Item = usize>,
    [miss, outside]: [u32; 2],
) -> u32 {
    let start = chunk.position();
    chunk.begin_run(kind::FORWARD, Original(0), saves::RAX | saves::RCX | saves::FLAGS, [0; 4]);
    for each in clusters {
        chunk.asm.load(Gpr::RAX, offset::TARGET);
        let [not_here, unknown] = write_look_up(chunk, version, each);
        chunk.asm.set_displacement(unknown, miss);
        let next = chunk.position();
        chunk.asm.set_displacement(not_here, next);
    }
    let hole = chunk.asm.jump();
    chunk.asm.set_displacement(hole, outside);
    start
}

/// Goes to the twin of the target, which is in `rax`, if it is in `cluster`. Everything is saved
/// that changes, and restored at the end. Returns the displacements of the jumps that are taken if
/// it is not in the cluster, and if it starts no block with a copy.
pub(crate) fn write_look_up(chunk: &mut Chunk, version: Version, cluster: usize) -> [u32; 2] {
    let holes = write_find_twin(chunk, version, cluster);
    let asm = &mut chunk.asm;
    asm.store(offset::TWIN, Gpr::RAX);
    probe::restore_all(asm);
    asm.jump_through(offset::TWIN);
    holes
}

/// Turns the target, which is in `rax`, into its twin; changes `rcx` and flags. Returns as
/// [`write_look_up`] does.
pub(crate) fn write_find_twin(chunk: &mut Chunk, version: Version, cluster: usize) -> [u32; 2] {
    write_find_twin_with(chunk, version, cluster, Gpr::RCX)
}

/// The same with another register in place of `rcx`.
pub(crate) fn write_find_twin_with(chunk: &mut Chunk, version: Version, cluster: usize, scratch: Gpr) -> [u32; 2] {
    let asm = &mut chunk.asm;
    let field = |at: usize| offset::cluster(cluster) + at as u32;
    asm.subtract(Gpr::RAX, field(std::mem::offset_of!(Cluster, lo)));
    asm.compare(Gpr::RAX, field(std::mem::offset_of!(Cluster, span)));
    let not_here = asm.jump_if(Condition::AE);
    asm.load(scratch, map_field(version, cluster));
    asm.load_map_entry(scratch);
    asm.bytes(&[0x85, 0xc0]); // test eax, eax
    let unknown = asm.jump_if(Condition::NS);
    asm.add(Gpr::RAX, field(std::mem::offset_of!(Cluster, leader_base)));
    [not_here, unknown]
}

/// Where the address of a cluster's map is in the thread's header.
pub(crate) fn map_field(version: Version, cluster: usize) -> u32 {
    let in_cluster = match version {
        Version::Instrumented => std::mem::offset_of!(Cluster, map),
        Version::Checking => std::mem::offset_of!(Cluster, checking_map),
    };
    offset::cluster(cluster) + in_cluster as u32
}

fn write_exit(chunk: &mut Chunk) -> u32 {
    chunk.begin_run(kind::EXIT, Original(0), saves::RAX | saves::RDX, [9, 18, 0, 0]);
    let asm = &mut chunk.asm;
    asm.store(offset::TARGET, Gpr::RAX);
    let leave = asm.position();
    asm.store(offset::SAVED_RDX, Gpr::RDX);
    asm.bytes(&[0x0f, 0x31]); // rdtsc
    asm.store_low(offset::END_TSC, Gpr::RAX);
    asm.store_low(offset::END_TSC + 4, Gpr::RDX);
    asm.load(Gpr::RDX, offset::SAVED_RDX);
    asm.load(Gpr::RAX, offset::SAVED_RAX);
    asm.store_constant(offset::STATE, thread_state::ENDED);
    asm.jump_through(offset::TARGET);
    leave
}

/// The same in a copy that is never left: to the gate.
fn write_exit_to_gate(chunk: &mut Chunk) -> u32 {
    chunk.begin_run(kind::EXIT, Original(0), saves::RAX, [9, 0, 0, 0]);
    chunk.asm.store(offset::TARGET, Gpr::RAX);
    let leave = chunk.position();
    chunk.asm.load(Gpr::RAX, offset::SAVED_RAX);
    chunk.asm.jump_through(offset::GATE);
    leave
}

fn write_departure(chunk: &mut Chunk, reason: EndReason, leave: u32) -> u32 {
    let start = chunk.position();
    chunk.begin_run(kind::EXIT, Original(0), saves::RAX | saves::RCX | saves::FLAGS, [0; 4]);
    chunk.asm.store_constant(offset::END_REASON, reason as u32);
    probe::restore_flags(&mut chunk.asm);
    chunk.asm.load(Gpr::RCX, offset::SAVED_RCX);
    let hole = chunk.asm.jump();
    chunk.asm.set_displacement(hole, leave);
    start
}
