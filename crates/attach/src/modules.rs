//! Which files a process has loaded, and where.
//!
//! The kernel lists mappings, not modules. A file can be mapped more than once, as a library and as
//! data, and a small program can have its first page mapped twice with different permissions, so
//! neither order nor offsets alone say which mappings belong together. The segments of the file do:
//! an executable mapping and the segment that it is made of give the distance by which the image
//! was moved, and that distance is the identity of a loaded module.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use image::head::{Identity, Segments};
use wire::clusters::Cluster;

use crate::launchability::{identify, open};
use crate::maps::{FileId, Mapping};

/// Suffix of the path of a file that is no longer there.
const DELETED: &[u8] = b" (deleted)";
/// The name by which the kernel maps the code that it provides.
pub const VDSO: &str = "[vdso]";

/// A file with code in the address space of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MappedModule {
    /// Path of the file, as the process sees it.
    pub path: PathBuf,
    /// Whether the file has been deleted or replaced since.
    pub is_deleted: bool,
    /// Address of the image base: of the first page that the file's segments ask for.
    pub base: u64,
    /// Address in the process less address in the file.
    pub bias: u64,
    /// End of the image, including memory behind the file's contents.
    pub end: u64,
    /// Device that the file is on.
    pub dev: (u32, u32),
    /// Number of the file on it.
    pub inode: u64,
    /// Ranges of addresses with code.
    pub exec: Vec<Range<u64>>,
    /// Whether it is the program itself.
    pub is_program: bool,
    /// Whether it is strobe's own runtime.
    pub is_runtime: bool,
    /// The cluster that covers it; `None`: it can have no copy, and `reason` says why.
    pub cluster: Option<usize>,
    /// Why it can have no copy.
    pub reason: Option<NoCopyReason>,
}

/// Why a module can have no copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoCopyReason {
    /// It is too far from the areas for copies.
    OutOfReach,
    /// It is strobe's own runtime.
    Runtime,
    /// It is code that the kernel provides, and lies too far away.
    Vdso,
    /// Its file cannot be read, or is not what is mapped.
    Unreadable,
}

impl fmt::Display for NoCopyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            NoCopyReason::OutOfReach => "too far from the areas for copies",
            NoCopyReason::Runtime => "strobe's own runtime",
            NoCopyReason::Vdso => "code that the kernel provides, too far from the areas for copies",
            NoCopyReason::Unreadable => "its file cannot be read, or is not what is mapped",
        })
    }
}

impl MappedModule {
    /// Returns whether two processes have the same file at the same place.
    #[must_use]
    pub fn is_same_as(&self, other: &MappedModule) -> bool {
        (self.base, self.dev, self.inode, &self.exec) == (other.base, other.dev, other.inode, &other.exec)
    }

    /// Returns the number of bytes of code.
    #[must_use]
    pub fn exec_bytes(&self) -> u64 {
        self.exec.iter().map(|range| range.end - range.start).sum()
    }

    fn new(mapping: &Mapping, extent: Range<u64>, exec: Vec<Range<u64>>) -> MappedModule {
        let (path, is_deleted) = match mapping.path.as_bytes().strip_suffix(DELETED) {
            Some(path) => (OsStr::from_bytes(path), true),
            None => (mapping.path.as_os_str(), false),
        };
        MappedModule {
            path: path.into(),
            is_deleted,
            base: extent.start,
            bias: extent.start,
            end: extent.end,
            dev: (mapping.file.major, mapping.file.minor),
            inode: mapping.file.inode,
            exec,
            is_program: false,
            is_runtime: false,
            cluster: None,
            reason: None,
        }
    }
}

/// What is known about a process besides its mappings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// Target of `/proc/PID/exe`.
    pub(crate) program: &'a OsStr,
    /// Any address inside the runtime.
    pub(crate) runtime_address: u64,
    /// The clusters; all zero before they are chosen.
    pub(crate) clusters: &'a [Cluster],
}

/// Modules by address. `segments` reads the segments of a file that is mapped.
pub(crate) fn modules(
    maps: &[Mapping],
    around: Surroundings<'_>,
    segments: &mut dyn FnMut(&Mapping) -> Option<Segments>,
) -> Vec<MappedModule> {
    let is_ours = |mapping: &Mapping| around.clusters.iter().any(|cluster| cluster.holds_copy(mapping.range.start));
    let mut code_of_files: BTreeMap<FileId, Vec<&Mapping>> = BTreeMap::new();
    let mut modules = Vec::new();
    for mapping in maps.iter().filter(|mapping| mapping.is_executable) {
        if mapping.path == VDSO {
            modules.push(MappedModule::new(mapping, mapping.range.clone(), vec![mapping.range.clone()]));
        } else if mapping.is_file() && !is_ours(mapping) {
            code_of_files.entry(mapping.file).or_default().push(mapping);
        }
    }
    for code in code_of_files.values() {
        let segments = code.first().and_then(|first| segments(first));
        modules.extend(instances(code, segments.as_ref(), maps));
    }
    modules.iter_mut().for_each(|module| module.classify(around));
    modules.sort_by_key(|module| module.base);
    modules
}

/// Returns the images of one file, given its executable mappings.
fn instances(code: &[&Mapping], segments: Option<&Segments>, maps: &[Mapping]) -> Vec<MappedModule> {
    let mut modules: BTreeMap<u64, MappedModule> = BTreeMap::new();
    for mapping in code {
        let extent = segments.and_then(|segments| extent(mapping, segments, maps));
        let is_known = extent.is_some();
        let extent = extent.unwrap_or(mapping.range.clone());
        let module = modules.entry(extent.start).or_insert_with(|| MappedModule::new(mapping, extent, Vec::new()));
        module.exec.push(mapping.range.clone());
        module.bias = module.base.wrapping_sub(segments.map_or(0, Segments::image_base));
        if !is_known {
            module.reason = Some(NoCopyReason::Unreadable);
        }
    }
    modules.into_values().collect()
}

/// Returns the image that an executable mapping is a part of.
fn extent(mapping: &Mapping, segments: &Segments, maps: &[Mapping]) -> Option<Range<u64>> {
    let starts_with_file = |base: u64| maps.iter().any(|each| each.range.contains(&base) && each.file == mapping.file);
    let biases = segments.loads.iter().filter(|load| load.is_executable);
    let bias = biases
        .filter_map(|load| load.bias(mapping.range.start, mapping.offset))
        .find(|bias| starts_with_file(bias.wrapping_add(segments.image_base())))?;
    let range = segments.image_base().wrapping_add(bias)..segments.image_end().wrapping_add(bias);
    (range.start <= mapping.range.start && mapping.range.end <= range.end).then_some(range)
}

impl MappedModule {
    fn classify(&mut self, around: Surroundings<'_>) {
        self.is_program = !self.path.as_os_str().is_empty() && is_path_of(self, around.program);
        self.is_runtime = (self.base..self.end).contains(&around.runtime_address);
        let whole = |cluster: &Cluster| cluster.contains(self.base) && cluster.contains(self.end - 1);
        let code_only = |cluster: &Cluster| {
            self.exec.iter().all(|code| cluster.contains(code.start) && cluster.contains(code.end - 1))
        };
        // The program's cluster was laid out around its image, data included, even where that
        // reaches beyond the cluster.
        let covers = |cluster: &Cluster| {
            if self.is_program { cluster.contains(self.base) && code_only(cluster) } else { whole(cluster) }
        };
        let cluster = around.clusters.iter().position(covers);
        if self.path.as_os_str() == VDSO && cluster.is_none() {
            self.reason = Some(NoCopyReason::Vdso);
        } else if self.is_runtime {
            self.reason = Some(NoCopyReason::Runtime);
        } else if self.reason.is_none() && cluster.is_none() {
            self.reason = Some(NoCopyReason::OutOfReach);
        }
        self.cluster = cluster.filter(|_| self.reason.is_none());
    }
}

fn is_path_of(module: &MappedModule, link: &OsStr) -> bool {
    let link = link.as_bytes();
    module.path.as_os_str().as_bytes() == link.strip_suffix(DELETED).unwrap_or(link)
}

/// Reads the segments of a file as the process sees it.
pub(crate) fn segments_of_mapped_file(pid: u32, mapping: &Mapping) -> Option<Segments> {
    let path = Path::new(&mapping.path);
    let seen_by_process = Path::new("/proc").join(pid.to_string()).join("root").join(path.strip_prefix("/").ok()?);
    let file = open(&seen_by_process).or_else(|_| open(path)).ok()?;
    // A path can lead to something that is not a regular file any more.
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    match identify(&file).ok()? {
        Identity::Native(segments) => Some(segments),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::parse;
    use image::head::Load;

    const PROGRAM: &str = "/opt/program";

    fn load(offset: u64, address: u64, bytes: u64, is_executable: bool) -> Load {
        Load { offset, address, file_bytes: bytes, memory_bytes: bytes, is_executable }
    }

    /// Returns the segments that files of these names have.
    fn segments(mapping: &Mapping) -> Option<Segments> {
        let data = Load { memory_bytes: 0x9000, ..load(0x3000, 0x4000, 0x800, false) };
        let loads = match mapping.path.to_str()? {
            "/opt/program" | "/opt/program (deleted)" | "/lib/a" => {
                vec![load(0, 0, 0x700, false), load(0x1000, 0x1000, 0x1fff, true), data]
            }
            "/opt/fixed" => vec![load(0, 0x40_0000, 0x700, false), load(0x1000, 0x40_1000, 0x1000, true)],
            "/opt/packed" => vec![load(0, 0, 0x560, false), load(0x560, 0x1560, 0x300, true)],
            _ => return None,
        };
        Some(Segments { loads, interpreter: None })
    }

    fn found(maps: &str, program: &str, clusters: &[Cluster]) -> Vec<MappedModule> {
        let around = Surroundings { program: OsStr::new(program), runtime_address: 0x7f00_2000_1010, clusters };
        modules(&parse(maps.as_bytes()), around, &mut segments)
    }

    fn cluster(range: Range<u64>, copies: Range<u64>) -> Cluster {
        Cluster {
            lo: range.start,
            span: range.end - range.start,
            copy_base: copies.start,
            copy_len: copies.end - copies.start,
            ..Cluster::default()
        }
    }

    const ONE_OF_EACH: &str = "\
        555500000000-555500001000 r--p 00000000 08:01 1 /opt/program\n\
        555500001000-555500003000 r-xp 00001000 08:01 1 /opt/program\n\
        555500004000-555500005000 rw-p 00003000 08:01 1 /opt/program\n\
        7f0000000000-7f0000100000 r-xs 00000000 00:01 7 /memfd:strobe-copies (deleted)\n\
        7f0010000000-7f0010001000 r--p 00000000 08:01 2 /lib/a\n\
        7f0010001000-7f0010003000 r-xp 00001000 08:01 2 /lib/a\n\
        7f0010004000-7f0010005000 rw-p 00003000 08:01 2 /lib/a\n\
        7f0011000000-7f0011004000 r--p 00000000 08:01 2 /lib/a\n\
        7f0012000000-7f0012001000 r--p 00000000 08:01 2 /lib/a\n\
        7f0012001000-7f0012003000 r-xp 00001000 08:01 2 /lib/a\n\
        7f0020000000-7f0020001000 r--p 00000000 08:01 3 /lib/a\n\
        7f0020001000-7f0020003000 r-xp 00001000 08:01 3 /lib/a\n\
        7f0030000000-7f0030001000 r-xp 00000000 08:01 4 /lib/unknown\n\
        7fff00000000-7fff00002000 r-xp 00000000 00:00 0 [vdso]\n";

    #[test]
    fn mappings_become_modules() {
        let clusters = [
            cluster(0x5555_0000_0000..0x5555_0000_3000, 0x5554_0000_0000..0x5554_1000_0000),
            cluster(0x7f00_0100_0000..0x7f00_1100_0000, 0x7f00_0000_0000..0x7f00_0010_0000),
        ];
        let modules = found(ONE_OF_EACH, PROGRAM, &clusters);
        let seen: Vec<_> = modules.iter().map(|each| (each.base, each.end, each.cluster, each.reason)).collect();
        let expected = [
            (0x5555_0000_0000, 0x5555_0000_d000, Some(0), None),
            (0x7f00_1000_0000, 0x7f00_1000_d000, Some(1), None),
            (0x7f00_1200_0000, 0x7f00_1200_d000, None, Some(NoCopyReason::OutOfReach)),
            (0x7f00_2000_0000, 0x7f00_2000_d000, None, Some(NoCopyReason::Runtime)),
            (0x7f00_3000_0000, 0x7f00_3000_1000, None, Some(NoCopyReason::Unreadable)),
            (0x7fff_0000_0000, 0x7fff_0000_2000, None, Some(NoCopyReason::Vdso)),
        ];
        assert_eq!(seen, expected);
        let programs: Vec<_> = modules.iter().filter(|module| module.is_program).map(|module| module.base).collect();
        assert_eq!(programs, [0x5555_0000_0000]);
        assert_eq!(modules[0].exec, vec![0x5555_0000_1000..0x5555_0000_3000]);
        assert_eq!(modules[0].bias, 0x5555_0000_0000);
        assert!(!modules[1].is_same_as(&modules[2]), "one file, two places");
    }

    #[test]
    fn program_at_a_fixed_place() {
        let maps = "00400000-00401000 r--p 00000000 08:01 1 /opt/fixed\n\
            00401000-00402000 r-xp 00001000 08:01 1 /opt/fixed\n";
        let modules = found(maps, "/opt/fixed", &[]);
        assert_eq!((modules[0].base, modules[0].bias), (0x40_0000, 0));
    }

    #[test]
    fn one_page_of_the_file_mapped_twice_is_one_module() {
        let maps = "555500000000-555500001000 r--p 00000000 08:01 1 /opt/packed\n\
            555500001000-555500002000 r-xp 00000000 08:01 1 /opt/packed\n";
        let modules = found(maps, "/opt/packed", &[]);
        assert_eq!(modules.len(), 1);
        assert_eq!((modules[0].base, modules[0].end), (0x5555_0000_0000, 0x5555_0000_2000));
    }

    #[test]
    fn a_deleted_program_is_still_the_program() {
        let maps = "555500000000-555500001000 r--p 00000000 08:01 1 /opt/program (deleted)\n\
            555500001000-555500003000 r-xp 00001000 08:01 1 /opt/program (deleted)\n";
        let modules = found(maps, "/opt/program (deleted)", &[]);
        assert!(modules[0].is_program && modules[0].is_deleted);
        assert_eq!(modules[0].path, Path::new(PROGRAM));
    }

    #[test]
    fn segments_that_do_not_fit_the_mapping_are_not_believed() {
        let maps = "555500000000-555500010000 r-xp 00001000 08:01 1 /opt/program\n";
        assert_eq!(found(maps, PROGRAM, &[])[0].reason, Some(NoCopyReason::Unreadable));
    }
}
