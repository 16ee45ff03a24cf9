//! The folder in which strobe keeps files from run to run, and which folders it trusts.
//!
//! A program that is recorded runs what is in the cache: strobe's runtime, and copies of code. So
//! nobody but the user and root may be able to put anything there. A folder is trusted if all
//! folders on the way to it, links resolved, belong to root or the user, and only their owner can
//! write to them; others may be able to write to a folder with the sticky bit (`/tmp`), because
//! what is below it has an owner of its own that is looked at next. Then nobody else can exchange
//! what was looked at, and a path is as good as a descriptor.
//!
//! Of a trusted folder, plain files of the user are read ([`symbols::own_files`]), and only what
//! was written under the name that they have ([`symbols::sealed`]).
//!
//! What is in the cache is told by names ([`contents`]), and goes when it is too much
//! ([`removal`]).

mod contents;
mod removal;
pub(crate) mod runtime_file;
mod version;

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, refused};

pub(crate) use contents::name;
pub use contents::{Entry, Kind, Maker, all};
pub use removal::{Removed, clear, trim};
pub(crate) use symbols::sealed::{read, write};
pub(crate) use version::Version;

/// Bytes of translations and names that are kept, if the user says nothing.
pub(crate) const DEFAULT_LIMIT: u64 = 2 << 30;
/// What the user sets to say how much is kept.
pub const LIMIT_VARIABLE: &str = "STROBE_CACHE_LIMIT";

/// Bits of a mode that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// Programs that change their user load the runtime, too.
const FOLDER_MODE: u32 = 0o755;

/// `$XDG_CACHE_HOME/strobe`, or `~/.cache/strobe`, made if it is missing; nothing if it cannot be
/// used.
pub fn folder() -> Option<PathBuf> {
    folder_or_why().ok()
}

/// Returns that folder, or the reason why it cannot be used.
pub fn folder_or_why() -> Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let Some(base) = base else { return refused("neither XDG_CACHE_HOME nor HOME is set") };
    trusted(&base.join("strobe"))
}

/// Returns the bytes of translations and names that are kept: what `STROBE_CACHE_LIMIT` says, or
/// 2 GiB.
///
/// # Errors
/// If what it says is no size.
pub fn limit() -> Result<u64> {
    let Some(text) = std::env::var_os(LIMIT_VARIABLE) else { return Ok(DEFAULT_LIMIT) };
    text.to_str().and_then(size).map_or_else(|| refused(format!("{LIMIT_VARIABLE}: {SIZE_HELP}")), Ok)
}

/// What is said of a text that is no size.
pub const SIZE_HELP: &str = "give a number of bytes such as 500M, 2G, 1.5GiB, or 0";

/// Parses a number of bytes; units are powers of 1024.
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    const LARGEST: f64 = (1u64 << 60) as f64;
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let unit = unit.to_ascii_lowercase();
    let shift = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    let bytes = number.trim().parse::<f64>().ok()? * (1u64 << shift) as f64;
    (0.0..=LARGEST).contains(&bytes).then_some(bytes as u64)
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

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

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
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("12", 12),
            ("500M", 500 << 20),
            ("2g", 2 << 30),
            ("1.5 GiB", 3 << 29),
            ("64kB", 64 << 10),
            ("7B", 7),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for bad in ["", "G", "-1", "1X", "1GG", "1e9G", "nan", "2 3", "ib"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

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
}
