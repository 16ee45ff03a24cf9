//! Build-ids: the hash by which a linker names one build of a file.

use std::fmt;

/// Longest build-id that is believed; linkers write 8 to 32 bytes.
const MAX_LEN: usize = 64;

/// The unique name of one build.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId(Box<[u8]>);

impl BuildId {
    pub(crate) fn new(bytes: &[u8]) -> Option<BuildId> {
        (2..=MAX_LEN).contains(&bytes.len()).then(|| BuildId(bytes.into()))
    }

    /// The bytes of the hash.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Where a debug file for this build lies below a debug directory: `.build-id/ab/cdef.debug`.
    pub fn debug_path(&self) -> String {
        let hex = self.to_string();
        let (folder, file) = hex.split_at(2);
        format!(".build-id/{folder}/{file}.debug")
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
