//! Files that strobe keeps from run to run, each with a seal by which anything else in its place is
//! recognized.
//!
//! The seal is the end of the file: the length of the content, and a checksum of the content and
//! the file's *name*. The name says all that the content depends on, so a file that was cut off,
//! damaged, or put under another name is as if it were not there, and is made again. The checksum
//! finds accidents; forgeries are kept out by who may write to the folder.
//!
//! That is also why writing waits for no disk: what a crash leaves of a file has no seal. Content
//! comes first, so that its places in the file are those that it has by itself.
//!
//! Reading a file marks it as used: its time of change is now. That of access is not kept on most
//! systems. Nobody changes a file that has a name; whoever removes one takes only the name, and
//! those who have it open or mapped keep what they have.

use std::io;
use std::path::Path;

use crate::own_files;

const MAGIC: [u8; 4] = *b"seal";
const SEAL_BYTES: usize = 16;

/// Reads the content of a file, and marks the file as used.
///
/// # Errors
/// If it cannot be read, or is not what was written under this name.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (mut bytes, file) = own_files::read_open(path)?;
    let Some((content, stored)) = bytes.split_last_chunk::<SEAL_BYTES>() else { return Err(broken()) };
    if *stored != seal(content, path) {
        return Err(broken());
    }
    bytes.truncate(bytes.len() - SEAL_BYTES);
    own_files::mark_used(&file);
    Ok(bytes)
}

/// Writes a file so that readers see the old one or the new one.
///
/// # Errors
/// If it cannot be written; then the old one is there.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    own_files::write_parts(path, &[content, &seal(content, path)])
}

fn seal(content: &[u8], path: &Path) -> [u8; SEAL_BYTES] {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(content);
    checksum.update(path.file_name().unwrap_or_default().as_encoded_bytes());
    let mut seal = [0; SEAL_BYTES];
    let (len, rest) = seal.split_at_mut(8);
    len.copy_from_slice(&(content.len() as u64).to_le_bytes());
    let (sum, magic) = rest.split_at_mut(4);
    sum.copy_from_slice(&checksum.finalize().to_le_bytes());
    magic.copy_from_slice(&MAGIC);
    seal
}

fn broken() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn only_what_was_written_under_the_name_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["name", "other"].map(|name| folder.path().join(name));
        for content in [&b"content"[..], b""] {
            write(&path, content).unwrap();
            assert_eq!(read(&path).unwrap(), content);
            let whole = fs::read(&path).unwrap();
            for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                fs::write(&path, bytes).unwrap();
                assert!(read(&path).is_err(), "bit {bit} of byte {at}");
            }
            for len in 0..whole.len() {
                fs::write(&path, &whole[..len]).unwrap();
                assert!(read(&path).is_err(), "{len} bytes");
            }
            for longer in [[&whole[..], &[0]].concat(), [&whole[..], &whole].concat(), [&[0], &whole[..]].concat()] {
                fs::write(&path, longer).unwrap();
                assert!(read(&path).is_err());
            }
            fs::write(&other, whole).unwrap();
            assert!(read(&other).is_err(), "another name");
        }
    }

    #[test]
    fn reading_marks_a_file_as_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("name");
        write(&path, b"content").unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        read(&path).unwrap();
        let used = fs::metadata(&path).unwrap().modified().unwrap();
        assert!(used.elapsed().unwrap_or_default() < Duration::from_secs(3600), "{used:?}");
    }
}
