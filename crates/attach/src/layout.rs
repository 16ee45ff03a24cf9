//! Where the shared memory goes in a target's address space.
//!
//! A copy reaches its module's code and data by signed 32-bit displacements. So every byte of an
//! area for copies must be within [`REACH`] of every byte of the modules of its cluster, and the
//! area can only be where the process has room near its code:
//!
//! ```text
//!   program loaded anywhere    | copies |16 MiB| program |  heap ->                        window: REACH below the program's end
//!   program at a fixed place   | program | heap ->        | copies |                       window: REACH above its start; low
//!                                                                                          addresses below it are few
//!   libraries, top down        | copies |   <- new mappings | libraries |     | stack |    cluster: the 1 GiB below the highest one
//!   libraries, bottom up       | copies |16 MiB| libraries | new mappings ->               cluster: the 1 GiB above the lowest one
//! ```
//!
//! The kernel places new mappings next to the libraries, growing one way, so the cluster of the
//! libraries extends that way, and what is loaded later is within reach too, up to the size of the
//! cluster. The area for copies lies behind it. Where that room is taken the area shrinks, and then
//! the cluster does.
//!
//! Maps, control file and arena can be anywhere; they go together into one block far from
//! everything that grows. Nothing is put on top of a mapping, nor where the stack may grow. The
//! choice is a pure function of the list of mappings; if the target finds something in the way
//! after all, the agent looks again.

use std::ops::Range;

use wire::PAGE;
use wire::clusters::{Cluster, LEADER, LIBRARIES, MAX_SPAN, N_CLUSTERS, PROGRAM};
use wire::control::FILE_BYTES;

use crate::area::Shape;
use crate::maps::Mapping;
use crate::modules::MappedModule;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Distance that a displacement is trusted to reach; the rest is for what a displacement is
/// relative to.
pub(crate) const REACH: u64 = 2 * GIB - 16 * MIB;
/// Room that is left between copies and a program or library that they are next to.
const NEIGHBOUR_GAP: u64 = 16 * MIB;
/// How far below the farthest address that a displacement reaches the copies above a program end.
const FIXED_MARGIN: u64 = 32 * MIB;
/// Programs below this address are at a fixed place.
const FIXED_BELOW: u64 = 4 * GIB;
/// Room that is left below the stack.
const STACK_ROOM: u64 = 128 * MIB;
/// Room that is left above the heap.
const HEAP_ROOM: u64 = 64 * MIB;
/// Bytes of copies for each byte of code that are provided for, if there is room: those that
/// simulate a cache take 40.
const COPY_FACTOR: u64 = 64;
const MIN_PROGRAM_COPIES: u64 = 64 * MIB;
const MIN_LIBRARY_COPIES: u64 = 256 * MIB;
const MAX_COPIES: u64 = GIB;
/// Areas start and end at multiples of this, so that huge pages are possible.
const ALIGNMENT: u64 = 2 * MIB;
/// Distance of the block with maps and arena from the libraries, where there is room.
const BLOCK_DISTANCE: u64 = 64 * GIB;
/// What a process may map.
const USER_SPACE: Range<u64> = MIB..0x7fff_ffff_f000;
/// Where mappings start that grow upwards: a third of the address space, and a terabyte of
/// randomness.
const BOTTOM_UP: Range<u64> = 0x2aaa_aaaa_a000..0x2baa_aaab_0000;

/// Addresses for everything that a target is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) clusters: [Cluster; N_CLUSTERS],
    pub(crate) control: u64,
    pub(crate) arena: u64,
}

/// Chooses a layout; `None` if there is room for neither cluster or not for the rest.
pub(crate) fn choose(maps: &[Mapping], modules: &[MappedModule], arena: Shape) -> Option<Layout> {
    let mut space = Space::new(maps, modules);
    let libraries = space.library_cluster(modules);
    let is_covered = |each: &MappedModule| {
        libraries.is_some_and(|covered| covered.contains(each.base) || covered.contains(each.end - 1))
    };
    let program = modules.iter().find(|each| each.is_program).filter(|each| !is_covered(each));
    let program = program.and_then(|program| space.program_cluster(program));
    if libraries.is_none() && program.is_none() {
        return None;
    }
    let mut clusters = [Cluster::default(); N_CLUSTERS];
    clusters[PROGRAM] = program.unwrap_or_default();
    clusters[LIBRARIES] = libraries.unwrap_or_default();
    let (control, arena) = space.place_block(&mut clusters, &libraries.unwrap_or_default(), arena)?;
    Some(Layout { clusters, control, arena })
}

/// Chooses addresses for the control file and the arena of a process that has its clusters already.
pub(crate) fn choose_for_fork(maps: &[Mapping], clusters: [Cluster; N_CLUSTERS], arena: Shape) -> Option<Layout> {
    let space = Space::new(maps, &[]);
    let (control, arena) = space.place_block(&mut [Cluster::default(); N_CLUSTERS], &clusters[LIBRARIES], arena)?;
    Some(Layout { clusters, control, arena })
}

/// What is taken, sorted and disjoint.
struct Space {
    taken: Vec<Range<u64>>,
}

impl Space {
    fn new(maps: &[Mapping], modules: &[MappedModule]) -> Space {
        let mut space = Space { taken: Vec::new() };
        for mapping in maps {
            let Range { start, end } = mapping.range;
            let range = match mapping.path.to_str() {
                Some("[stack]") => start.saturating_sub(STACK_ROOM)..end,
                Some("[heap]") => start..end.saturating_add(HEAP_ROOM),
                _ => start..end,
            };
            space.taken.push(range);
        }
        for program in modules.iter().filter(|module| module.is_program) {
            space.taken.push(program.base..program.end.saturating_add(NEIGHBOUR_GAP));
        }
        space.normalize();
        space
    }

    fn normalize(&mut self) {
        self.taken.sort_by_key(|range| range.start);
        self.taken.dedup_by(|next, last| {
            let touches = next.start <= last.end;
            if touches {
                last.end = last.end.max(next.end);
            }
            touches
        });
    }

    fn take(&mut self, range: Range<u64>) {
        self.taken.push(range);
        self.normalize();
    }

    /// Free ranges, aligned.
    fn gaps(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let starts = std::iter::once(USER_SPACE.start).chain(self.taken.iter().map(|range| range.end));
        let ends = self.taken.iter().map(|range| range.start).chain(std::iter::once(USER_SPACE.end));
        starts.zip(ends).map(|(start, end)| aligned(start..end))
    }

    /// A free range in a window, as long as wanted if possible, at least as long as needed, and as
    /// high as possible.
    fn find(&self, window: &Range<u64>, wanted: u64, needed: u64) -> Option<Range<u64>> {
        let inside = |gap: Range<u64>| aligned(gap.start.max(window.start)..gap.end.min(window.end));
        let gaps = self.gaps().map(inside).filter(|gap| gap.start < gap.end && gap.end - gap.start >= needed);
        let best = gaps.max_by_key(|gap| ((gap.end - gap.start).min(wanted), gap.end))?;
        Some(best.end - (best.end - best.start).min(wanted)..best.end)
    }

    fn program_cluster(&mut self, program: &MappedModule) -> Option<Cluster> {
        let lo = program.base;
        let code_end = program.exec.iter().map(|range| range.end).max()?;
        let span = code_end.checked_sub(lo)?.next_multiple_of(PAGE).min(MAX_SPAN);
        let reach = program.end.saturating_sub(REACH).max(USER_SPACE.start)..lo.saturating_add(REACH);
        let above = program.end..lo.saturating_add(2 * GIB - FIXED_MARGIN);
        let below = reach.start..lo.saturating_sub(NEIGHBOUR_GAP);
        let windows = if lo < FIXED_BELOW { [above, below] } else { [below, above] };
        let wanted = program.exec_bytes().saturating_mul(COPY_FACTOR).clamp(MIN_PROGRAM_COPIES, MAX_COPIES);
        let fits = |window: &Range<u64>| self.find(window, wanted.next_multiple_of(ALIGNMENT), MIN_PROGRAM_COPIES);
        let copies =
            windows.iter().map(|window| window.start.max(reach.start)..window.end).find_map(|window| fits(&window))?;
        Some(self.cluster(lo, span, copies))
    }

    fn library_cluster(&mut self, modules: &[MappedModule]) -> Option<Cluster> {
        let of_libraries = || modules.iter().filter(|module| !module.is_program && module.inode != 0);
        let hi = of_libraries().map(|module| module.end).max()?;
        let grows_up = BOTTOM_UP.contains(&hi);
        let lowest = of_libraries().map(|module| module.base).filter(|base| hi - base <= MAX_SPAN).min()?;
        let spans = [MAX_SPAN, MAX_SPAN / 2, MAX_SPAN / 4, MAX_SPAN / 8];
        for span in spans.into_iter().filter(|&span| span >= hi - lowest) {
            let lo = if grows_up { lowest } else { hi.saturating_sub(span).max(USER_SPACE.start) };
            let end = if grows_up { lo + span } else { hi };
            let below = end.saturating_sub(REACH)..if grows_up { lo.saturating_sub(NEIGHBOUR_GAP) } else { lo };
            let above = end..lo.saturating_add(REACH).min(USER_SPACE.end);
            let found = [below, above].iter().find_map(|window| self.find(window, MAX_COPIES, MIN_LIBRARY_COPIES));
            if let Some(copies) = found {
                return Some(self.cluster(lo, end - lo, copies));
            }
        }
        None
    }

    fn cluster(&mut self, lo: u64, span: u64, copies: Range<u64>) -> Cluster {
        self.take(copies.clone());
        Cluster {
            lo,
            span,
            map: 0,
            checking_map: 0,
            leader_base: copies.start.wrapping_sub(u64::from(LEADER)),
            copy_base: copies.start,
            copy_len: copies.end - copies.start,
        }
    }

    /// Gives maps, control file and arena their addresses, with gaps between them, far below the
    /// libraries if possible.
    fn place_block(
        &self,
        clusters: &mut [Cluster; N_CLUSTERS],
        libraries: &Cluster,
        shape: Shape,
    ) -> Option<(u64, u64)> {
        let stride = |bytes: u64| bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT;
        let maps: u64 = clusters.iter().map(|cluster| stride(cluster.maps_bytes())).sum();
        let total = shape.area_bytes() + shape.bytes() + stride(0) + maps + stride(FILE_BYTES);
        let growing = if libraries.span == 0 { USER_SPACE.end } else { libraries.lo.min(libraries.copy_base) };
        let windows = [USER_SPACE.start..growing.saturating_sub(BLOCK_DISTANCE), USER_SPACE];
        let block = windows.iter().find_map(|window| self.find(window, total, total))?;
        let arena = block.start.next_multiple_of(shape.area_bytes());
        let mut next = arena + shape.bytes() + ALIGNMENT;
        for cluster in clusters.iter_mut().filter(|cluster| cluster.span != 0) {
            cluster.map = next;
            cluster.checking_map = next + cluster.map_bytes();
            next += stride(cluster.maps_bytes());
        }
        Some((next, arena))
    }
}

fn aligned(range: Range<u64>) -> Range<u64> {
    let start = range.start.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX);
    start..(range.end / ALIGNMENT * ALIGNMENT).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::FileId;
    use proptest::prelude::*;

    const PIE: u64 = 0x5555_5555_4000;
    const STACK: Range<u64> = 0x7ffe_1b32_3000..0x7ffe_1b34_4000;

    /// A process made of modules and other mappings.
    #[derive(Default)]
    struct Invented {
        maps: Vec<Mapping>,
        modules: Vec<MappedModule>,
    }

    impl Invented {
        fn new(program: Range<u64>) -> Invented {
            let mut invented = Invented::default().with(STACK, "[stack]");
            invented.add_module(program, true);
            invented
        }

        fn with(mut self, range: Range<u64>, path: &str) -> Invented {
            self.map(range, 0, path);
            self
        }

        fn with_library(mut self, range: Range<u64>) -> Invented {
            self.add_module(range, false);
            self
        }

        fn map(&mut self, range: Range<u64>, inode: u64, path: &str) {
            let file = FileId { major: 8, minor: 1, inode };
            let (is_executable, is_writable) = (inode != 0, false);
            self.maps.push(Mapping { range, is_executable, is_writable, offset: 0, file, path: path.into() });
            self.maps.sort_by_key(|mapping| mapping.range.start);
        }

        fn add_module(&mut self, range: Range<u64>, is_program: bool) {
            let inode = 100 + self.modules.len() as u64;
            self.map(range.clone(), inode, "/file");
            self.modules.push(MappedModule {
                path: "/file".into(),
                is_deleted: false,
                base: range.start,
                bias: range.start,
                end: range.end,
                dev: (8, 1),
                inode,
                exec: std::iter::once(range.start..range.end.min(range.start + 16 * MIB)).collect(),
                is_program,
                is_runtime: false,
                cluster: None,
                reason: None,
            });
        }

        fn choose(&self) -> Option<Layout> {
            let layout = choose(&self.maps, &self.modules, Shape::BURSTS)?;
            self.check(&layout);
            Some(layout)
        }

        /// What must be true of every layout.
        fn check(&self, layout: &Layout) {
            let mut areas =
                vec![layout.arena..layout.arena + Shape::BURSTS.bytes(), layout.control..layout.control + FILE_BYTES];
            let in_use = || layout.clusters.iter().filter(|cluster| cluster.span != 0);
            for cluster in in_use() {
                assert!(cluster.span <= MAX_SPAN && cluster.span % PAGE == 0);
                assert_eq!(cluster.leader_base.wrapping_add(u64::from(LEADER)), cluster.copy_base);
                areas.push(cluster.copy_base..cluster.copy_base + cluster.copy_len);
                areas.push(cluster.map..cluster.map + cluster.maps_bytes());
                self.check_reach(cluster);
            }
            for (index, area) in areas.iter().enumerate() {
                assert!(USER_SPACE.start <= area.start && area.end <= USER_SPACE.end && area.start % PAGE == 0);
                let taken = self.maps.iter().map(|mapping| &mapping.range).chain(&areas[..index]);
                for other in taken {
                    assert!(area.end <= other.start || other.end <= area.start, "{area:x?} overlaps {other:x?}");
                }
                assert!(area.end <= STACK.start - STACK_ROOM || STACK.end <= area.start);
            }
            let [program, libraries] = [layout.clusters[PROGRAM], layout.clusters[LIBRARIES]];
            let is_apart = program.lo + program.span <= libraries.lo || libraries.lo + libraries.span <= program.lo;
            assert!(program.span == 0 || libraries.span == 0 || is_apart);
            assert_eq!(layout.arena % Shape::BURSTS.area_bytes(), 0);
        }

        fn check_reach(&self, cluster: &Cluster) {
            let copies = cluster.copy_base..cluster.copy_base + cluster.copy_len;
            for module in self.modules.iter().filter(|module| cluster.contains(module.base)) {
                let is_usable = module.is_program || cluster.contains(module.end - 1);
                let farthest = (copies.end.abs_diff(module.base)).max(module.end.abs_diff(copies.start));
                assert!(!is_usable || farthest <= REACH, "{farthest:x} from {module:x?} to {copies:x?}");
            }
        }
    }

    fn usual_libraries(process: Invented) -> Invented {
        process.with_library(0x7f0d_ce1c_1000..0x7f0d_ce39_6000).with_library(0x7f0d_ce3b_9000..0x7f0d_ce3e_e000)
    }

    #[test]
    fn position_independent_program() {
        let layout = usual_libraries(Invented::new(PIE..PIE + 30 * MIB)).choose().unwrap();
        let [program, libraries, spare] = layout.clusters;
        assert!(program.copy_base + program.copy_len <= PIE - NEIGHBOUR_GAP);
        assert_eq!(program.copy_len, 16 * MIB * COPY_FACTOR);
        assert_eq!(libraries.span, MAX_SPAN);
        assert!(libraries.copy_base + libraries.copy_len <= libraries.lo);
        assert!(libraries.copy_len > 1000 * MIB);
        assert_eq!(spare, Cluster::default());
        assert!(layout.arena + Shape::BURSTS.bytes() < libraries.copy_base - BLOCK_DISTANCE / 2);
    }

    #[test]
    fn program_at_a_fixed_place_leaves_room_for_the_heap() {
        let process = Invented::new(0x40_0000..0x80_0000).with(0x90_0000..0x98_0000, "[heap]");
        let program = usual_libraries(process).choose().unwrap().clusters[PROGRAM];
        assert!(program.copy_base > GIB);
        assert!(program.copy_base + program.copy_len <= 0x40_0000 + 2 * GIB - FIXED_MARGIN);
    }

    #[test]
    fn large_data_brings_the_copies_closer_or_rules_them_out() {
        let with_data = |bytes: u64| usual_libraries(Invented::new(PIE..PIE + bytes)).choose().unwrap();
        assert!(with_data(1800 * MIB).clusters[PROGRAM].copy_len < 300 * MIB);
        let beyond = with_data(2 * GIB);
        assert_eq!(beyond.clusters[PROGRAM].span, 0);
        assert_ne!(beyond.clusters[LIBRARIES].span, 0);
    }

    #[test]
    fn libraries_that_grow_upwards() {
        let lo = 0x2aaa_aaaa_b000;
        let process = Invented::new(PIE..PIE + MIB).with_library(lo..lo + MIB).with_library(lo + 2 * MIB..lo + 9 * MIB);
        let libraries = process.choose().unwrap().clusters[LIBRARIES];
        assert_eq!((libraries.lo, libraries.span), (lo, MAX_SPAN));
        assert!(libraries.copy_base + libraries.copy_len < lo);
    }

    #[test]
    fn program_among_the_libraries_is_one_of_them() {
        let layout = Invented::new(0x7f0d_ce1c_1000..0x7f0d_ce39_6000).with_library(0x7f0d_ce3b_9000..0x7f0d_ce3e_e000);
        let layout = layout.choose().unwrap();
        assert_eq!(layout.clusters[PROGRAM].span, 0);
        assert!(layout.clusters[LIBRARIES].contains(0x7f0d_ce1c_1000));
    }

    #[test]
    fn an_occupied_neighbourhood_shrinks_the_area() {
        let hi = 0x7f0d_ce3e_e000;
        let process = usual_libraries(Invented::new(PIE..PIE + MIB)).with(hi - 1600 * MIB..hi - 1100 * MIB, "");
        let libraries = process.choose().unwrap().clusters[LIBRARIES];
        assert!((MIN_LIBRARY_COPIES..900 * MIB).contains(&libraries.copy_len));
    }

    #[test]
    fn this_process() {
        let maps = crate::maps::of_process(std::process::id()).unwrap();
        let program = crate::process::program_link(std::process::id()).unwrap();
        let around = crate::modules::Surroundings { program: &program, runtime_address: 0, clusters: &[] };
        let read = &mut |each: &Mapping| crate::modules::segments_of_mapped_file(std::process::id(), each);
        let modules = crate::modules::modules(&maps, around, read);
        assert!(modules.iter().any(|module| module.is_program));
        let layout = choose(&maps, &modules, Shape::BURSTS).unwrap();
        assert!(layout.clusters[PROGRAM].contains(this_process as *const () as u64));
        assert!(layout.clusters[LIBRARIES].contains(libc::getpid as *const () as u64));
    }

    #[test]
    fn a_forked_child_keeps_its_clusters() {
        let process = usual_libraries(Invented::new(PIE..PIE + MIB));
        let clusters = process.choose().unwrap().clusters;
        let mut child = process;
        for cluster in &clusters[..2] {
            child.map(cluster.copy_base..cluster.copy_base + cluster.copy_len, 900, "/memfd:strobe-copies (deleted)");
            child.map(cluster.map..cluster.map + cluster.maps_bytes(), 901, "/memfd:strobe-map (deleted)");
        }
        let layout = choose_for_fork(&child.maps, clusters, Shape::BURSTS).unwrap();
        assert_eq!(layout.clusters, clusters);
        for area in [layout.arena..layout.arena + Shape::BURSTS.bytes(), layout.control..layout.control + FILE_BYTES] {
            assert!(child.maps.iter().all(|each| area.end <= each.range.start || each.range.end <= area.start));
        }
    }

    proptest! {
        #[test]
        fn layouts_are_sound(
            is_fixed in any::<bool>(),
            program_pages in 1u64..600_000,
            slide in 0u64..1 << 28,
            libraries in proptest::collection::vec((0u64..200_000, 1u64..40_000), 1..8),
            obstacles in proptest::collection::vec((0u64..1 << 20, 1u64..300_000), 0..12),
        ) {
            let program = if is_fixed { 0x40_0000 } else { PIE + slide * PAGE };
            let mut process = Invented::new(program..program + program_pages * PAGE);
            let mut top = 0x7ff0_0000_0000 - slide * PAGE;
            for (gap, pages) in libraries {
                process = process.with_library(top - pages * PAGE..top);
                top -= (pages + gap) * PAGE;
            }
            for (place, pages) in obstacles {
                let near = [program, top][(place % 2) as usize].saturating_sub(GIB).max(MIB) / PAGE + place;
                let range = near * PAGE..(near + pages) * PAGE;
                let is_free = process.maps.iter().all(|each| range.end <= each.range.start || each.range.end <= range.start);
                if is_free {
                    process.map(range, 0, "");
                }
            }
            process.choose();
        }
    }
}
