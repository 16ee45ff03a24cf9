//! The address space of a process, as `/proc/PID/maps` tells it.

use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) range: Range<u64>,
    pub(crate) is_executable: bool,
    pub(crate) is_writable: bool,
    /// Offset in the file.
    pub(crate) offset: u64,
    pub(crate) file: FileId,
    /// Path, `[heap]` and the like, or nothing.
    pub(crate) path: OsString,
}

/// Tells files apart. Zero for memory without a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) inode: u64,
}

impl Mapping {
    pub(crate) fn is_file(&self) -> bool {
        self.file.inode != 0
    }
}

/// Mappings of a process, by address. Empty for a process that has died but is still there.
pub(crate) fn of_process(pid: u32) -> Result<Vec<Mapping>> {
    let path = PathBuf::from(format!("/proc/{pid}/maps"));
    let text = fs::read(&path).map_err(|cause| Error::ProcessFile { path, cause })?;
    Ok(parse(&text))
}

/// Ranges of files' mappings that are not what the file has, or need not be in a moment: they can
/// be written to, or pages of them have been. Data is among them; code should not be. Code that is
/// being rewritten may not even be executable meanwhile.
pub(crate) fn changed_code(pid: u32) -> Result<Vec<Range<u64>>> {
    let path = PathBuf::from(format!("/proc/{pid}/smaps"));
    let text = fs::read(&path).map_err(|cause| Error::ProcessFile { path, cause })?;
    Ok(parse_changed_code(&text))
}

/// Every mapping is a line as in `maps`, followed by lines of a name, a colon and a number.
fn parse_changed_code(text: &[u8]) -> Vec<Range<u64>> {
    let mut changed = Vec::new();
    let mut current: Option<Mapping> = None;
    for line in text.split(|&byte| byte == b'\n') {
        if let Some(mapping) = parse_line(line) {
            changed.extend((mapping.is_file() && mapping.is_writable).then(|| mapping.range.clone()));
            current = Some(mapping).filter(|mapping| mapping.is_file() && !mapping.is_writable);
        } else if line
            .strip_prefix(b"Anonymous:")
            .is_some_and(|size| size.iter().any(|digit| (b'1'..=b'9').contains(digit)))
        {
            changed.extend(current.take().map(|mapping| mapping.range));
        }
    }
    changed
}

/// Lines that do not look as expected are left out.
pub(crate) fn parse(text: &[u8]) -> Vec<Mapping> {
    text.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let (field, after) = rest.split_at(end);
        rest = after.strip_prefix(b" ").unwrap_or(after);
        std::str::from_utf8(field).ok()
    };
    let (start, end) = field()?.split_once('-')?;
    let permissions = field()?;
    let offset = hex(field()?)?;
    let (major, minor) = field()?.split_once(':')?;
    let inode = field()?.parse().ok()?;
    let path = unescape(rest.trim_ascii_start());
    Some(Mapping {
        range: hex(start)?..hex(end)?,
        is_executable: permissions.as_bytes().get(2) == Some(&b'x'),
        is_writable: permissions.as_bytes().get(1) == Some(&b'w'),
        offset,
        file: FileId { major: hex(major)? as u32, minor: hex(minor)? as u32, inode },
        path: OsString::from_vec(path),
    })
}

fn hex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

/// The kernel writes a newline in a path as `\012`, and nothing else in that way.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            out.push(b'\n');
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_all_sorts() {
        let text =
            b"555555554000-555555556000 r-xp 00002000 fe:1f 247030                     /opt/a b\\012c (deleted)\n\
            7f0dce13f000-7f0dce161000 rw-p 00000000 00:00 0 \n\
            7ffe1b323000-7ffe1b344000 rw-p 00000000 00:00 0                          [stack]\n\
            nonsense\n";
        let maps = parse(text);
        assert_eq!(maps.len(), 3);
        assert_eq!(maps[0].range, 0x5555_5555_4000..0x5555_5555_6000);
        assert!(maps[0].is_executable && maps[0].is_file());
        assert_eq!(maps[0].offset, 0x2000);
        assert_eq!(maps[0].file, FileId { major: 0xfe, minor: 0x1f, inode: 247_030 });
        assert_eq!(maps[0].path, "/opt/a b\nc (deleted)");
        assert_eq!(maps[1].path, "");
        assert!(!maps[1].is_executable && !maps[1].is_file());
        assert_eq!(maps[2].path, "[stack]");
    }

    #[test]
    fn own_maps_contain_this_function() {
        let maps = of_process(std::process::id()).unwrap();
        let here = own_maps_contain_this_function as *const () as u64;
        assert!(maps.iter().any(|each| each.range.contains(&here) && each.is_executable && each.is_file()));
        assert!(maps.is_sorted_by_key(|each| each.range.start));
    }

    #[test]
    fn code_that_was_written_to_is_found() {
        let text = b"400000-401000 r-xp 00000000 fe:1f 7     /opt/a\nSize:        4 kB\nAnonymous:        0 kB\n\
            500000-501000 r-xp 00000000 fe:1f 7     /opt/a\nSize:        4 kB\nAnonymous:       10 kB\n\
            600000-601000 rw-p 00000000 fe:1f 7     /opt/a\nSize:        4 kB\nAnonymous:        4 kB\n\
            700000-701000 rwxp 00000000 fe:1f 7     /opt/a\nSize:        4 kB\nAnonymous:        4 kB\n\
            800000-801000 r-xp 00000000 00:00 0     [vdso]\nSize:        4 kB\nAnonymous:        4 kB\n";
        assert_eq!(parse_changed_code(text), [0x50_0000..0x50_1000, 0x60_0000..0x60_1000, 0x70_0000..0x70_1000]);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            parse(&text);
            parse_changed_code(&text);
        }
    }
}
