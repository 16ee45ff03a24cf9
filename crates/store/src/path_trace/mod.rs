//! The file of a full trace: every path that ended, in order, thread by thread.
//!
//! A file is a header and frames. A frame is its kind, the length of its content and a checksum (4
//! bytes each, little-endian), and the content. Frames are only ever appended, each by one write,
//! so that whatever happens to the recorder or to the disk, what was written before can be read
//! ([`file`]).
//!
//! * **Words** of one thread, packed ([`chunk`]). A word is a path that ended: the key of its
//!   function and its number; or a mark ([`wire::path_trace`]). Words of a thread are in the order
//!   in which its paths ended.
//! * **Facts** in words of JSON, packed by zstd ([`facts`]): which functions keys stand for, which
//!   blocks the numbers, and what was under way at the end. They come as soon as they are known,
//!   mostly before the words that need them, at the latest at the end of the process.
//!
//! [`order`] turns paths in the order in which they ended into blocks in the order in which they
//! ran.

pub mod chunk;
pub mod facts;
pub mod file;
pub mod order;

/// Where the trace of a profile is.
pub fn path_beside(profile: &std::path::Path) -> std::path::PathBuf {
    let mut name = profile.as_os_str().to_owned();
    name.push(".trace");
    name.into()
}
