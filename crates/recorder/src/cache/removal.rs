//! Keeping the cache small.
//!
//! Files go by removing their names, and nothing else: whoever has one open or mapped keeps it, and
//! whoever looks for it makes it again. So nothing is locked, and recordings, trimming and clearing
//! may go on at the same time. What can be lost is a file that somebody has just written, which
//! costs time.
//!
//! The library that programs load is the exception: a program that was recorded starts others with
//! it, also when strobe has gone, and the dynamic linker complains if it is not there. It goes when
//! nobody has started a recording with it for a month, and never if it is the one that this strobe
//! carries.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::contents::{self, Entry, Kind, Maker};
use super::runtime_file;
use super::version::Version;

/// How long nobody has used a library that may go.
const UNUSED_RUNTIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long nothing takes to be written.
const LONGEST_WRITING: Duration = Duration::from_secs(3600);
/// How long a note may be without the files that it is about.
const LONELY_NOTE: Duration = Duration::from_secs(24 * 3600);

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files.
    pub n_files: u64,
    /// Their sizes.
    pub bytes: u64,
    /// When the last of them was used that had to go because there was too much.
    pub last_used: Option<SystemTime>,
}

/// Removes what is of no use any more, and then the files that were used longest ago until the rest
/// is within the limit. Debug files from servers have a limit of their own ([`symbols`]).
pub fn trim(folder: &Path, limit_bytes: u64) -> Removed {
    let now = SystemTime::now();
    let entries = contents::limited(folder);
    let with_files: HashSet<Version> =
        entries.iter().filter(|entry| entry.kind.is_limited()).filter_map(|entry| entry.version).collect();
    let mut removed = Removed::default();
    let mut useful = Vec::new();
    for entry in entries {
        let is_lonely = entry.kind == Kind::Note && entry.version.is_none_or(|version| !with_files.contains(&version));
        if entry.is_useless(now) || (is_lonely && entry.unused(now) > LONELY_NOTE) {
            removed.remove(&entry);
        } else if entry.kind.is_limited() {
            useful.push(entry);
        }
    }
    useful.sort_by_key(|entry| entry.used);
    let mut bytes: u64 = useful.iter().map(|entry| entry.bytes).sum();
    for entry in useful {
        if bytes <= limit_bytes {
            break;
        }
        if removed.remove(&entry) {
            bytes -= entry.bytes;
            removed.last_used = Some(entry.used);
        }
    }
    removed
}

/// Removes everything that nobody needs to go on.
pub fn clear(folder: &Path) -> Removed {
    let now = SystemTime::now();
    let mut removed = Removed::default();
    for entry in contents::all(folder) {
        let stays = matches!(entry.kind, Kind::Runtime | Kind::Unfinished) && !entry.is_useless(now);
        if !stays {
            removed.remove(&entry);
        }
    }
    removed
}

impl Removed {
    fn remove(&mut self, entry: &Entry) -> bool {
        let is_removed = fs::remove_file(&entry.path).is_ok();
        if is_removed {
            self.n_files += 1;
            self.bytes += entry.bytes;
        }
        is_removed
    }
}

impl Entry {
    fn unused(&self, now: SystemTime) -> Duration {
        now.duration_since(self.used).unwrap_or_default()
    }

    fn is_useless(&self, now: SystemTime) -> bool {
        match self.kind {
            Kind::Unfinished => self.unused(now) > LONGEST_WRITING,
            Kind::Runtime => self.unused(now) > UNUSED_RUNTIME && self.subject != runtime_file::name(),
            _ => self.maker == Maker::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::cache::contents::name;
    use crate::cache::version::machine;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn write(path: &Path, n_bytes: usize, unused: Duration) {
        fs::write(path, vec![b'x'; n_bytes]).unwrap();
        File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - unused).unwrap();
    }

    fn copy(folder: &Path, number: u64) -> PathBuf {
        folder.join(name(Path::new("module"), number, "copy"))
    }

    #[test]
    fn what_no_strobe_can_use_goes_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (own, names) = (copy(folder.path(), 1), at("symbols").join("abcd.symbols"));
        fs::create_dir(at("symbols")).unwrap();
        let stays = [
            own,
            names,
            at(".1.2.new.tmp"),
            at(&runtime_file::name()),
            at("runtime-0000000000000001.so"),
            at("foreign.so"),
            at("notes.txt"),
        ];
        let ages = [0, 100, 0, 100, 29, 100, 100];
        stays.iter().zip(ages).for_each(|(path, days)| write(path, 10, DAY * days));
        let goes = [
            ("earlier-0123456789abcdef.copy", 0),
            ("earlier-0123456789abcdef.code", 0),
            ("module-0123456789abcdef-0123456789abcdef.copy", 0),
            ("0123456789abcdef.strobe", 0),
            (".1.2.old.tmp", 1),
            ("runtime-0000000000000002.so", 31),
        ];
        goes.iter().for_each(|&(name, days)| write(&at(name), 10, DAY * days));
        let removed = trim(folder.path(), 1 << 20);
        assert_eq!(removed, Removed { n_files: goes.len() as u64, bytes: 60, last_used: None });
        stays.iter().for_each(|path| assert!(path.exists(), "{}", path.display()));
        goes.iter().for_each(|(name, _)| assert!(!at(name).exists(), "{name}"));

        clear(folder.path());
        let left = stays.iter().map(|path| path.exists()).collect::<Vec<_>>();
        assert_eq!(left, [false, false, true, true, true, true, true]);
    }

    #[test]
    fn what_another_build_has_made_stays_as_long_as_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("other");
        fs::write(&program, [fs::read("/proc/self/exe").unwrap(), vec![0]].concat()).unwrap();
        let version = Version::of(&program).unwrap();
        let parts = [&machine(), &b"\0"[..], program.as_os_str().as_encoded_bytes()];
        fs::write(folder.path().join(format!("{version}.strobe")), parts.concat()).unwrap();
        let theirs = folder.path().join(format!("x-{version}-0000000000000001.copy"));
        write(&theirs, 10, DAY * 300);
        let makers = || contents::all(folder.path()).iter().map(|entry| entry.maker).collect::<Vec<_>>();
        assert_eq!(makers(), [Maker::Other; 2]);
        assert_eq!(trim(folder.path(), 1 << 20), Removed::default());
        fs::write(&program, "another build").unwrap();
        assert_eq!(makers(), [Maker::Gone; 2]);
        assert_eq!(trim(folder.path(), 1 << 20).n_files, 2);
        assert!(!theirs.exists());
    }

    proptest! {
        /// What stays is within the limit, what goes had to, and nothing that stays was used before
        /// something that went.
        #[test]
        fn the_least_recently_used_go_first(
            files in prop::collection::vec((1usize..100, 0u32..50), 0..20),
            limit in 0u64..1000,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = |number: usize| copy(folder.path(), number as u64);
            files.iter().enumerate().for_each(|(n, &(bytes, days))| write(&path(n), bytes, DAY * days));
            let removed = trim(folder.path(), limit);
            let (left, gone): (BTreeSet<usize>, BTreeSet<usize>) = (0..files.len()).partition(|&n| path(n).exists());
            let bytes = |numbers: &BTreeSet<usize>| numbers.iter().map(|&n| files[n].0 as u64).sum::<u64>();
            prop_assert!(bytes(&left) <= limit);
            prop_assert_eq!((removed.n_files, removed.bytes), (gone.len() as u64, bytes(&gone)));
            let unused = |n: &usize| files[*n].1;
            let (oldest, newest) = (left.iter().map(unused).max(), gone.iter().map(unused).min());
            prop_assert!(oldest <= newest.or(oldest));
            if let Some(last) = gone.iter().filter(|&n| Some(unused(n)) == newest).map(|&n| files[n].0 as u64).max() {
                prop_assert!(bytes(&left) + last > limit);
            }
        }
    }
}
