//! Finds separate debug files: where distributions and debuggers put them, checked against the
//! build they belong to.
//!
//! In the order in which debuggers look: below the debug directory by build-id; by the name in
//! `.gnu_debuglink` beside the binary, in `.debug` beside it, and below the debug directory under
//! the binary's own path. A file shared by several debug files (`dwz`) is found by the path that
//! the debug file states, or by its own build-id.

use std::fs;
use std::path::{Path, PathBuf};

use image::{AlternateLink, DebugLinks};

const DEBUG_DIRECTORY: &str = "/usr/lib/debug";

/// A file read because another one names it.
#[derive(Debug)]
pub struct DebugFile {
    /// Where it was found.
    pub path: PathBuf,
    /// What it contains.
    pub bytes: Vec<u8>,
}

/// The debug file of `binary`, if there is one of the same build.
pub fn find(binary: &Path, links: &DebugLinks) -> Option<DebugFile> {
    let same_build = |file: &DebugFile| {
        let build_id_path = DebugLinks::of_file(&file.bytes).ok().and_then(|links| links.build_id_path);
        build_id_path.is_none() || links.build_id_path.is_none() || build_id_path == links.build_id_path
    };
    candidates(binary, links).into_iter().filter_map(read).find(same_build)
}

/// The file shared between debug files that `file` names.
pub fn find_alternate(file: &Path, link: &AlternateLink) -> Option<DebugFile> {
    let wanted = link.build_id.debug_path();
    let stated = resolve(file).parent()?.join(&link.path);
    let by_build_id = Path::new(DEBUG_DIRECTORY).join(&wanted);
    let is_wanted = |file: &DebugFile| {
        DebugLinks::of_file(&file.bytes).is_ok_and(|links| links.build_id_path.as_ref() == Some(&wanted))
    };
    [stated, by_build_id].into_iter().filter_map(read).find(is_wanted)
}

fn candidates(binary: &Path, links: &DebugLinks) -> Vec<PathBuf> {
    let binary = resolve(binary);
    let debug_directory = Path::new(DEBUG_DIRECTORY);
    let mut candidates = Vec::new();
    candidates.extend(links.build_id_path.as_ref().map(|path| debug_directory.join(path)));
    if let (Some(link), Some(folder)) = (&links.debug_link, binary.parent()) {
        let below_root = folder.strip_prefix("/").unwrap_or(folder);
        candidates.push(folder.join(&link.file_name));
        candidates.push(folder.join(".debug").join(&link.file_name));
        candidates.push(debug_directory.join(below_root).join(&link.file_name));
    }
    candidates.retain(|candidate| *candidate != binary);
    candidates
}

fn resolve(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn read(path: PathBuf) -> Option<DebugFile> {
    let bytes = path.is_file().then(|| fs::read(&path).ok())??;
    Some(DebugFile { path, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::DebugLink;

    #[test]
    fn places_are_tried_in_the_order_of_debuggers() {
        let links = DebugLinks {
            build_id_path: Some(".build-id/ab/cd.debug".to_owned()),
            debug_link: Some(DebugLink { file_name: "x.debug".to_owned(), crc: 0 }),
            alternate: None,
        };
        let places = candidates(Path::new("/no/such/bin/x"), &links);
        let places: Vec<&str> = places.iter().filter_map(|place| place.to_str()).collect();
        assert_eq!(
            places,
            [
                "/usr/lib/debug/.build-id/ab/cd.debug",
                "/no/such/bin/x.debug",
                "/no/such/bin/.debug/x.debug",
                "/usr/lib/debug/no/such/bin/x.debug",
            ]
        );
    }

    #[test]
    fn a_link_to_the_binary_itself_is_not_followed() {
        let link = DebugLink { file_name: "x".to_owned(), crc: 0 };
        let links = DebugLinks { build_id_path: None, debug_link: Some(link), alternate: None };
        let places = candidates(Path::new("/no/such/x"), &links);
        assert!(!places.contains(&PathBuf::from("/no/such/x")), "{places:?}");
    }
}
