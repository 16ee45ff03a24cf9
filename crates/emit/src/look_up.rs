//! From an address to its twin, through the map of a cluster: in stubs and in functions.

use wire::clusters::{Cluster, Version};
use wire::thread::offset;

use crate::asm::{Condition, Gpr};
use crate::chunk::Chunk;
use crate::probe;

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
