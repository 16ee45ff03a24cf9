//! Paths counted in the path table: those of functions with many of them, and those by calling
//! context.
//!
//! A path looks at one place of the table's front first ([`wire::exact::FRONT_PATHS`]), where paths
//! of a function are neighbours, and mostly is there. Only where another path has taken the place,
//! a stub looks further.
//!
//! ```text
//! end:    mov p, gs:[frame]; lea p, [p + id_offset]           p and i are dead, or rcx and rax, saved
//!         mov i, key << 32                                    or mov i, gs:[context]; shl i, 32
//!         or p, i                                             what is counted
//!         mov i, FRONT_FACTOR; imul i, p
//!         shr i, FRONT_SHIFT; and i, FRONT_MASK
//!         cmp gs:[i + FRONT], p
//!         jne other
//!         inc qword gs:[i + FRONT + 8]
//! back:
//!
//! other:  mov ecx, gs:[frame]; ...; or rcx, rax               behind the function, with rax, rcx and rdx saved
//!         lea rdx, [1f]
//!         jmp stub
//! 1:      jmp back
//! ```
//!
//! Where paths have cycles, the counter is read first ([`super::path_metric`]), and `rax` has what
//! the path has of it. Copies that simulate a cache are large enough already: there, a path goes to
//! the stub at once.
//!
//! ```text
//! end:    rdtsc; shl rdx, 32; or rax, rdx                     with rax, rcx and rdx saved
//!         mov rdx, gs:[charged]; mov gs:[charged], rax
//!         sub rax, rdx
//!         ...                                                 as above
//!         jne other
//!         add gs:[i + FRONT_METRIC], rax
//!         inc qword gs:[i + FRONT + 8]
//! back:
//!
//! other:  mov gs:[ended_metric], rax
//!         lea rdx, [back]
//!         jmp stub
//! ```

use wire::exact::{FRONT_PATHS, N_FRONT_PATHS, N_PATH_ENTRIES, PATH_METRIC, PATHS};
use wire::recovery::{kind, saves};
use wire::thread::offset;

use super::path_metric::{write_counter, write_elapsed};
use super::transfers::LOAD;
use super::{Metric, samples};
use crate::Probe;
use crate::asm::{Asm, Condition, Gpr, Label};
use crate::chunk::{Chunk, Destination, Ended, Original, OtherEnd, Owner, Stub};
use crate::saving::{begin_saving, saved_with_rdx, with_two_registers, write_restore};

const KEY: u32 = PATHS + std::mem::offset_of!(wire::exact::PathEntry, key) as u32;
const COUNT: u32 = PATHS + std::mem::offset_of!(wire::exact::PathEntry, count) as u32;
const ENTRY_SHIFT: u32 = size_of::<wire::exact::PathEntry>().ilog2();
const COMPARE_WITH: u8 = 0x39;
const ADD_TO: u8 = 0x01;
/// With 0 in place of a register.
pub(super) const INCREMENT: u8 = 0xff;

/// From this bit of the product on, the place in the front is the path, plus the hash of whose it
/// is. So paths of one owner are neighbours.
const FRONT_BIT: u32 = 44;
const FRONT_FACTOR: u64 = (1 << FRONT_BIT) + 0x9e37_79b1;
const FRONT_SHIFT: u8 = (FRONT_BIT - ENTRY_SHIFT) as u8;
const FRONT_MASK: u32 = (N_FRONT_PATHS - 1) << ENTRY_SHIFT;

/// The same among the other places.
const HASH_BIT: u32 = 64 - N_PATH_ENTRIES.ilog2();
const HASH_FACTOR: u64 = (1 << HASH_BIT) + 0x85eb_ca6b;
const HASH_SHIFT: u8 = (HASH_BIT - ENTRY_SHIFT) as u8;
const HASH_MASK: u32 = (N_PATH_ENTRIES - 1) << ENTRY_SHIFT;

/// Counts a path that ends.
pub(super) fn write_end(chunk: &mut Chunk, ended: Ended, metric: Option<Metric>) {
    let [label, back] = [(); 2].map(|()| chunk.asm.new_label());
    let Ended { original, live, .. } = ended;
    let saved = if let Some(metric) = metric {
        let saved = saved_with_rdx(live);
        begin_saving(chunk, original, saved);
        write_counter(chunk, metric);
        write_elapsed(chunk);
        if metric != Metric::Cycles {
            chunk.asm.store(offset::ENDED_METRIC, Gpr::RAX);
            write_key(chunk, ended, [Gpr::RCX, Gpr::RDX]);
            write_stub_call(chunk, original, back);
            chunk.asm.bind(back);
            chunk.begin_run(kind::PROBE, original, saved, [0; 4]);
            return write_restore(chunk, saved);
        }
        write_front_search(chunk, ended, [Gpr::RCX, Gpr::RDX], label);
        chunk.asm.gs_based(ADD_TO, Gpr::RAX, Gpr::RDX, PATH_METRIC + FRONT_PATHS);
        chunk.asm.gs_based(INCREMENT, Gpr(0), Gpr::RDX, COUNT + FRONT_PATHS);
        chunk.asm.bind(back);
        chunk.begin_run(kind::PROBE, original, saved, [0; 4]);
        write_restore(chunk, saved);
        saved
    } else {
        let saved = with_two_registers(chunk, original, live, |chunk, [path, place]| {
            write_front_search(chunk, ended, [path, place], label);
            chunk.asm.gs_based(INCREMENT, Gpr(0), place, COUNT + FRONT_PATHS);
        });
        chunk.begin_clean_probe(original);
        chunk.asm.bind(back);
        saved
    };
    chunk.other_ends.push(OtherEnd { label, back, ended, saved, has_metric: metric.is_some() });
}

/// Goes to `other` unless the path's place in the front is its own. It is in the second register
/// then; the first one has what is counted.
fn write_front_search(chunk: &mut Chunk, ended: Ended, [path, place]: [Gpr; 2], other: Label) {
    write_key(chunk, ended, [path, place]);
    write_place(&mut chunk.asm, [path, place], FRONT_FACTOR, FRONT_SHIFT, FRONT_MASK);
    chunk.asm.gs_based(COMPARE_WITH, path, place, KEY + FRONT_PATHS);
    chunk.asm.jump_to_if(Condition::NZ, other);
}

/// What is counted, in the first register; changes the second one.
fn write_key(chunk: &mut Chunk, Ended { owner, id_offset, .. }: Ended, [path, high]: [Gpr; 2]) {
    let counted = if matches!(owner, Owner::Call(_)) { offset::TARGET } else { offset::FRAME };
    chunk.asm.load_dword(path, counted);
    if id_offset != 0 {
        chunk.asm.advance_dword(path, id_offset);
    }
    match owner {
        Owner::Function(key) | Owner::Call(key) => {
            let place = chunk.asm.load_wide_constant(high, u64::from(key) << 32) + 4;
            chunk.keys.push(place);
        }
        Owner::Context => {
            chunk.asm.load_dword(high, offset::CONTEXT);
            chunk.asm.shift_left(high, 32);
        }
    }
    chunk.asm.or(path, high);
}

fn write_place(asm: &mut Asm, [path, place]: [Gpr; 2], factor: u64, shift: u8, mask: u32) {
    asm.load_wide_constant(place, factor);
    asm.multiply(place, path);
    asm.shift_right(place, shift);
    asm.and_dword(place, mask);
}

/// Writes where path ends of the function go that have not found their place, or that a sample is
/// wanted of.
pub(crate) fn write_other_ends(chunk: &mut Chunk) {
    for OtherEnd { label, back, ended, saved, has_metric } in std::mem::take(&mut chunk.other_ends) {
        let Ended { original, live, .. } = ended;
        chunk.asm.bind(label);
        chunk.begin_run(kind::PROBE, original, saved, [0; 4]);
        if has_metric {
            chunk.asm.store(offset::ENDED_METRIC, Gpr::RAX);
            write_stub_call(chunk, original, back);
        } else {
            write_restore(chunk, saved);
            let saved = saved_with_rdx(live);
            begin_saving(chunk, original, saved);
            write_key(chunk, ended, [Gpr::RCX, Gpr::RAX]);
            let counted = chunk.asm.new_label();
            write_stub_call(chunk, original, counted);
            chunk.asm.bind(counted);
            chunk.begin_run(kind::PROBE, original, saved, [0; 4]);
            write_restore(chunk, saved);
            chunk.begin_clean_probe(original);
            chunk.asm.jump_to(back);
        }
    }
}

/// Has the module's stub count what `rcx` has, and go on at the label.
fn write_stub_call(chunk: &mut Chunk, original: Original, back: Label) {
    chunk.load_original(Gpr::RDX, original);
    chunk.asm.store(offset::TARGET, Gpr::RDX);
    let hole = chunk.asm.address_of(Gpr::RDX);
    chunk.asm.use_label(hole, back);
    let hole = chunk.asm.jump();
    chunk.refer(hole, Destination::Stub(Stub::CountPath));
}

/// The stub that counts a path in the path table: `rcx` is what is counted, `rdx` where to go on.
/// An entry is taken by `cmpxchg`, so that a signal handler that counts meanwhile cannot take the
/// same one. What is in brackets is there if paths have a metric; for what is there if they are
/// sampled, see [`samples`].
///
/// ```text
///     mov gs:[twin], rdx
/// again:
///     rdx = rcx * FRONT_FACTOR >> FRONT_SHIFT & FRONT_MASK | FRONT_PATHS
///     mov rax, gs:[rdx + PATHS]
///     cmp rax, rcx
///     jz count
///     test rax, rax
///     jz free
///     rdx = rcx * HASH_FACTOR >> HASH_SHIFT & HASH_MASK
/// look:
///     mov rax, gs:[rdx + PATHS]
///     cmp rax, rcx
///     jz count
///     test rax, rax
///     jz free
///     rdx = (rdx + 16) & mask
///     jmp look
/// free:
///     cmp dword gs:[n_path_entries], MAX_PATH_ENTRIES
///     jae lost
///     cmpxchg gs:[rdx + PATHS], rcx
///     jnz again
///     inc qword gs:[n_path_entries]
/// count:
///     [mov rax, gs:[ended_metric]; add gs:[rdx + PATH_METRIC], rax]
///     inc qword gs:[rdx + PATHS + 8]
///     jmp gs:[twin]
/// lost:
///     inc qword gs:[lost_paths]
///     jmp gs:[twin]
/// ```
pub(crate) fn write_count_stub(chunk: &mut Chunk, probe: Probe) {
    const PATH: Gpr = Gpr::RCX;
    const PLACE: Gpr = Gpr::RDX;
    let all = saves::RAX | saves::RCX | saves::RDX | saves::FLAGS;
    chunk.begin_run(kind::FORWARD, Original(0), all, [0; 4]);
    let asm = &mut chunk.asm;
    let [again, look, free, count, lost] = [(); 5].map(|()| asm.new_label());
    let write_look = |asm: &mut Asm| {
        asm.gs_based(LOAD, Gpr::RAX, PLACE, KEY);
        asm.bytes(&[0x48, 0x39, 0xc8]); // cmp rax, rcx
        asm.jump_to_if(Condition::Z, count);
        asm.bytes(&[0x48, 0x85, 0xc0]); // test rax, rax
        asm.jump_to_if(Condition::Z, free);
    };
    asm.store(offset::TWIN, Gpr::RDX);
    if probe.samples_paths() {
        samples::write_countdown(asm);
    }
    asm.bind(again);
    write_place(asm, [PATH, PLACE], FRONT_FACTOR, FRONT_SHIFT, FRONT_MASK);
    asm.bytes(&[0x81, 0xca]); // or edx, FRONT_PATHS
    asm.bytes(&FRONT_PATHS.to_le_bytes());
    write_look(asm);
    write_place(asm, [PATH, PLACE], HASH_FACTOR, HASH_SHIFT, HASH_MASK);
    asm.bind(look);
    write_look(asm);
    asm.bytes(&[0x83, 0xc2, 1 << ENTRY_SHIFT]); // add edx, 16
    asm.and_dword(PLACE, HASH_MASK);
    asm.jump_to(look);
    asm.bind(free);
    asm.compare_constant(offset::N_PATH_ENTRIES, wire::exact::MAX_PATH_ENTRIES);
    asm.jump_to_if(Condition::AE, lost);
    asm.bytes(&[0x65, 0x48, 0x0f, 0xb1, 0x8a]); // cmpxchg gs:[rdx + PATHS], rcx
    asm.bytes(&KEY.to_le_bytes());
    asm.jump_to_if(Condition::NZ, again);
    asm.increment(offset::N_PATH_ENTRIES);
    asm.bind(count);
    if probe.has_path_metric() {
        asm.load(Gpr::RAX, offset::ENDED_METRIC);
        asm.gs_based(ADD_TO, Gpr::RAX, PLACE, PATH_METRIC);
    }
    if probe.samples_paths() {
        samples::write_squares(asm);
    }
    asm.gs_based(INCREMENT, Gpr(0), PLACE, COUNT);
    asm.jump_through(offset::TWIN);
    asm.bind(lost);
    asm.increment(offset::LOST_PATHS);
    asm.jump_through(offset::TWIN);
    asm.resolve_labels();
}
