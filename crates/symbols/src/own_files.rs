//! Plain files that belong to the user: what strobe keeps from run to run.
//!
//! A file that another user has made, or can write to, is as if it were not there. Files are opened
//! without waiting, so that a pipe or a device in their place stops nobody. Whether nobody else can
//! exchange files in the folder is for the caller to know.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::SystemTime;

/// Bits of a mode that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;
/// Programs that change their user read these files, too.
const FILE_MODE: u32 = 0o644;

/// Opens a plain file that belongs to the user and that nobody else can write to.
pub fn open(path: &Path) -> io::Result<File> {
    own(options(OpenOptions::new().read(true)).open(path)?)
}

/// Reads such a file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_open(path).map(|(bytes, _)| bytes)
}

/// Reads such a file and returns it, too.
pub fn read_open(path: &Path) -> io::Result<(Vec<u8>, File)> {
    let mut file = open(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok((bytes, file))
}

/// Makes the time of change of an own file that of its last use. Where that cannot be, the file
/// only looks older than it is.
pub fn mark_used(file: &File) {
    let _ = file.set_modified(SystemTime::now());
}

/// Writes a file so that readers see the old one or the new one. Whatever has its name is replaced.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_parts(path, &[bytes])
}

/// The same, with bytes from several places.
pub(crate) fn write_parts(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().display();
    // Containers that share the folder have processes with the same number.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let temporary = path.with_file_name(format!(".{}.{now}.{name}.tmp", std::process::id()));
    let write = || {
        let mut file = options(OpenOptions::new().write(true).create_new(true)).open(&temporary)?;
        // Whatever the user keeps from others by default.
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Opens a file to be locked, made if it is missing.
pub fn open_lock(path: &Path) -> io::Result<File> {
    own(options(OpenOptions::new().read(true).write(true).create(true)).open(path)?)
}

/// Neither waits for the other end of a pipe, nor follows a link.
fn options(options: &mut OpenOptions) -> &mut OpenOptions {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.mode(FILE_MODE).custom_flags(flags.bits().cast_signed())
}

fn own(file: File) -> io::Result<File> {
    let metadata = file.metadata()?;
    let is_own = metadata.is_file() && metadata.uid() == own_user() && metadata.mode() & OTHERS_WRITE == 0;
    if is_own { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// Whether files can be given to another user, as root can.
    fn is_root() -> bool {
        let is_root = own_user() == 0;
        if !is_root {
            eprintln!("not tested: what another user has made; only root can");
        }
        is_root
    }

    const NOBODY: u32 = 65534;

    #[test]
    fn only_plain_files_of_the_user_are_read() {
        let base = tempfile::tempdir().unwrap();
        let [file, link, pipe, socket, folder] =
            ["file", "link", "pipe", "socket", "folder"].map(|name| base.path().join(name));
        write(&file, b"content").unwrap();
        assert_eq!(read(&file).unwrap(), b"content");
        symlink(&file, &link).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        fs::create_dir(&folder).unwrap();
        for path in [&link, &pipe, &socket, &folder, &PathBuf::from("/dev/zero")] {
            assert!(read(path).is_err(), "{}", path.display());
            assert!(open_lock(path).is_err(), "{}", path.display());
        }
        for path in [&link, &pipe, &socket] {
            write(path, b"new").unwrap();
            assert_eq!(read(path).unwrap(), b"new");
        }
        assert_eq!(read(&file).unwrap(), b"content", "what a link leads to is left alone");
        for mode in [0o664, 0o646] {
            set_mode(&file, mode);
            assert!(read(&file).is_err());
        }
        set_mode(&file, 0o600);
        assert!(read(&file).is_ok());
        if is_root() {
            chown(&file, Some(NOBODY), None).unwrap();
            assert!(read(&file).is_err());
        }
    }
}
