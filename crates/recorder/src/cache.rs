//! Files that strobe keeps from run to run, and whom it trusts with them.
//!
//! A program that is recorded runs what is in the cache: strobe's runtime, and copies of code. So nobody but the user and root may be able to put anything
//! there. A folder is trusted if all folders on the way to it, links resolved, belong to root or the user, and only their owner can write to them; others may be
//! able to write to a folder with the sticky bit (`/tmp`), because what is below it has an owner of its own that is looked at next. Then nobody
//! else can exchange what was looked at, and a path is as good as a descriptor.
//!
//! Of a trusted folder, plain files of the user are read: what another user has made, or can write to, is as if it were not there. They are opened
//! without waiting, so that a pipe or a device does not stop a recording.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, refused};

/// Bits of a mode that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// Programs that change their user load the runtime, too.
const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// `$XDG_CACHE_HOME/strobe`, or `~/.cache/strobe`, made if it is missing; nothing if it cannot be used.
pub fn folder() -> Option<PathBuf> {
    folder_or_why().ok()
}

/// The same, with the reason.
pub fn folder_or_why() -> Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let Some(base) = base else { return refused("neither XDG_CACHE_HOME nor HOME is set") };
    trusted(&base.join("strobe"))
}

/// A folder of the user where everybody has one, for when there is no cache.
pub fn temporary_folder() -> Result<PathBuf> {
    trusted(&std::env::temp_dir().join(format!("strobe-{}", own_user())))
}

/// The folder without links, made if it is missing, if nobody else can put anything there.
fn trusted(folder: &Path) -> Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.and_then(|()| fs::canonicalize(folder)).map_err(Error::io(folder.display())).and_then(|real| {
        let way: Vec<&Path> = real.ancestors().collect();
        for step in way.into_iter().rev() {
            check(step, step == real)?;
        }
        Ok(real)
    })
}

fn check(folder: &Path, is_last: bool) -> Result<()> {
    let name = folder.display();
    let metadata = fs::symlink_metadata(folder).map_err(Error::io(&name))?;
    let (owner, mode) = (metadata.uid(), metadata.mode());
    if !metadata.is_dir() {
        return refused(format!("{name}: not a folder"));
    }
    if owner != own_user() && (is_last || owner != 0) {
        return refused(format!(
            "{name}: belongs to user {owner}, who could have strobe load other code into programs"
        ));
    }
    if mode & OTHERS_WRITE != 0 && (is_last || mode & STICKY == 0) {
        return refused(format!(
            "{name}: others can write there, and could have strobe load other code into programs; chmod go-w {name}"
        ));
    }
    Ok(())
}

/// A plain file that belongs to the user and that nobody else can write to.
pub fn open(path: &Path) -> io::Result<File> {
    own(options(OpenOptions::new().read(true)).open(path)?)
}

/// What such a file contains.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file so that readers see the old one or the new one. Whatever has its name is replaced.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().display();
    // Containers that share the folder have processes with the same number.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let temporary = path.with_file_name(format!(".{}.{now}.{name}.tmp", std::process::id()));
    let write = || {
        let mut file = options(OpenOptions::new().write(true).create_new(true)).open(&temporary)?;
        // Whatever the user keeps from others by default.
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        file.write_all(bytes)?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// A file to be locked, made if it is missing.
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
    fn folders_that_others_can_write_to_are_refused_by_name() {
        let base = tempfile::tempdir().unwrap();
        let [outer, inner] = ["outer", "outer/inner"].map(|name| base.path().join(name));
        assert_eq!(trusted(&inner).unwrap(), fs::canonicalize(&inner).unwrap());
        for (folder, mode, is_trusted) in [
            (&inner, 0o775, false),
            (&inner, 0o757, false),
            (&inner, 0o1777, false),
            (&outer, 0o775, false),
            (&outer, 0o757, false),
            (&outer, 0o1777, true),
            (&outer, 0o700, true),
        ] {
            set_mode(folder, mode);
            let result = trusted(&inner);
            assert_eq!(result.is_ok(), is_trusted, "{mode:o}");
            if let Err(error) = result {
                assert!(error.to_string().contains(&folder.display().to_string()), "{error}");
                assert!(error.to_string().contains("chmod go-w"), "{error}");
            }
            set_mode(folder, 0o755);
        }
    }

    #[test]
    fn links_lead_to_where_they_lead() {
        let base = tempfile::tempdir().unwrap();
        let [open, folder, link] = ["open", "open/folder", "link"].map(|name| base.path().join(name));
        trusted(&folder).unwrap();
        symlink(&folder, &link).unwrap();
        assert_eq!(trusted(&link).unwrap(), fs::canonicalize(&folder).unwrap());
        set_mode(&open, 0o777);
        assert!(trusted(&link).is_err());
    }

    #[test]
    fn folders_of_others_are_refused() {
        if !is_root() {
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let [outer, inner] = ["outer", "outer/inner"].map(|name| base.path().join(name));
        trusted(&inner).unwrap();
        for folder in [&inner, &outer] {
            chown(folder, Some(NOBODY), None).unwrap();
            let error = trusted(&inner).unwrap_err().to_string();
            assert!(error.contains("belongs to user 65534"), "{error}");
            chown(folder, Some(0), None).unwrap();
        }
        trusted(&inner).unwrap();
    }

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
