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

use wire::clusters::{N_CLUSTERS, Version};
use wire::recovery::{kind, saves};
use wire::sample::EndReason;
use wire::thread::{offset, thread_state};

use crate::asm::Gpr;
use crate::chunk::{Chunk, Original, Stub};
use crate::exact;
use crate::look_up::write_look_up;
use crate::{Options, Trigger, cache, probe};

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
