//! Tables on disk, one file for each build of a module.
//!
//! The name of a file is the build-id, so that answers stay right when the module moves, and stay
//! there when it is gone. A module without build-id goes by its path, size and time of change. What
//! is not whole, or lies under another name, is not read ([`crate::sealed`]).
//!
//! Several runs may want to extend one table. Each writes a file of its own and renames it, so that
//! a reader sees the old table or the new one; a lock makes them take turns with reading, adding
//! and renaming. Whoever finds the lock taken does not write: then the next run looks up again what
//! this one did. Nothing here fails: without a cache everything only takes longer.

use std::fs::{self, Metadata};
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::table::{Table, TableBuilder};
use crate::{own_files, sealed};

/// Bytes of tables that are kept by themselves; whoever has the folder may keep less.
const MAX_BYTES: u64 = 1 << 30;

const LOCK_NAME: &str = ".lock";

/// A folder of tables.
#[derive(Clone, Debug)]
pub struct Cache(PathBuf);

/// What a table is filed under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheKey(String);

impl CacheKey {
    pub fn of_build(build_id: &BuildIdText) -> CacheKey {
        CacheKey(build_id.0.clone())
    }

    /// For a file that has no build-id.
    pub fn of_file(path: &Path, metadata: &Metadata) -> CacheKey {
        let mut hasher = std::hash::DefaultHasher::new();
        (path, metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino()).hash(&mut hasher);
        CacheKey(format!("file-{:016x}", hasher.finish()))
    }
}

/// A build-id in lower-case hexadecimal. Profiles come from anywhere, and this becomes a file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildIdText(String);

impl BuildIdText {
    /// Returns the build-id that a text is; nothing if it is none.
    pub fn new(text: &str) -> Option<BuildIdText> {
        let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_sensible = is_hexadecimal && text.len().is_multiple_of(2) && (4..=128).contains(&text.len());
        is_sensible.then(|| BuildIdText(text.to_ascii_lowercase()))
    }

    /// Returns the text of a build-id.
    pub fn from_bytes(bytes: &[u8]) -> BuildIdText {
        BuildIdText(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where the debug file lies below a debug directory.
    pub fn debug_path(&self) -> String {
        let (folder, file) = self.0.split_at(2);
        format!(".build-id/{folder}/{file}.debug")
    }
}

impl Cache {
    /// The folder `symbols` in the folder given.
    pub fn open(base: &Path) -> Option<Cache> {
        let folder = base.join("symbols");
        fs::create_dir_all(&folder).ok()?;
        Some(Cache(folder))
    }

    pub fn load(&self, key: &CacheKey) -> Option<Table> {
        Table::from_bytes(sealed::read(&self.path(key)).ok()?)
    }

    /// Keeps a table, with what others have added to the file in the meantime.
    pub fn keep(&self, key: &CacheKey, table: &Table) {
        let Ok(lock) = own_files::open_lock(&self.0.join(LOCK_NAME)) else { return };
        if lock.try_lock().is_err() {
            return;
        }
        let merged = match self.load(key) {
            Some(other) if other.origin() == table.origin() && !table.covers(&other) => merge(table, &other),
            Some(other) if other.origin().has_lines && !table.origin().has_lines => None,
            _ => Some(table.clone()),
        };
        if let Some(merged) = merged {
            let _ = sealed::write(&self.path(key), merged.as_bytes());
        }
        keep_below(&self.0, MAX_BYTES);
    }

    fn path(&self, key: &CacheKey) -> PathBuf {
        self.0.join(format!("{}.symbols", key.0))
    }
}

fn merge(table: &Table, other: &Table) -> Option<Table> {
    let mut builder = TableBuilder::new();
    builder.absorb(table);
    builder.absorb(other);
    builder.finish(&table.origin())
}

/// Removes the files that were used longest ago until the rest is within the limit.
pub fn keep_below(folder: &Path, max_bytes: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let files = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let metadata = entry.metadata().ok().filter(Metadata::is_file)?;
        Some((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len(), entry.path()))
    });
    let mut files: Vec<(SystemTime, u64, PathBuf)> = files.collect();
    files.sort();
    let mut total_bytes: u64 = files.iter().map(|(_, len, _)| len).sum();
    for (_, len, path) in files {
        if total_bytes <= max_bytes {
            break;
        }
        if fs::remove_file(path).is_ok() {
            total_bytes -= len;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::table::Origin;

    fn table(addresses: &[u64], has_lines: bool) -> Table {
        let mut builder = TableBuilder::new();
        addresses.iter().for_each(|&address| builder.add(address, "f", &[]));
        builder.finish(&Origin { has_lines, ..Origin::default() }).unwrap()
    }

    fn key() -> CacheKey {
        CacheKey::of_build(&BuildIdText::new("abCD").unwrap())
    }

    #[track_caller]
    fn assert_kept(cache: &Cache, addresses: &[u64]) {
        let kept = cache.load(&key()).expect("a table");
        assert_eq!(addresses.iter().map(|&at| kept.get(at).is_some()).collect::<Vec<_>>(), vec![true; addresses.len()]);
    }

    #[test]
    fn build_ids_are_no_paths() {
        for bad in ["", "ab", "abc", "../../etc/passwd", "abcg", "ab/d", &"ab".repeat(65)] {
            assert_eq!(BuildIdText::new(bad), None, "{bad}");
        }
        let build_id = BuildIdText::new("ABcd01").unwrap();
        assert_eq!(build_id, BuildIdText::from_bytes(&[0xab, 0xcd, 0x01]));
        assert_eq!(build_id.debug_path(), ".build-id/ab/cd01.debug");
    }

    #[test]
    fn tables_of_two_runs_are_joined() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        cache.keep(&key(), &table(&[1, 3], true));
        cache.keep(&key(), &table(&[2], true));
        assert_kept(&cache, &[1, 2, 3]);
    }

    #[test]
    fn lines_win_over_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        cache.keep(&key(), &table(&[1], false));
        cache.keep(&key(), &table(&[2], true));
        cache.keep(&key(), &table(&[3], false));
        assert_eq!(cache.load(&key()), Some(table(&[2], true)));
    }

    #[test]
    fn a_damaged_table_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        fs::write(cache.path(&key()), b"strbsym\x01 and then something else").unwrap();
        assert_eq!(cache.load(&key()), None);
        cache.keep(&key(), &table(&[7], true));
        assert_kept(&cache, &[7]);
    }

    #[test]
    fn while_another_run_holds_the_lock_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let lock = File::create(cache.0.join(LOCK_NAME)).unwrap();
        lock.lock().unwrap();
        cache.keep(&key(), &table(&[1], true));
        assert_eq!(cache.load(&key()), None);
        drop(lock);
        cache.keep(&key(), &table(&[1], true));
        assert_kept(&cache, &[1]);
    }

    #[test]
    fn concurrent_runs_leave_a_whole_table() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        cache.keep(&key(), &table(&[0], true));
        std::thread::scope(|scope| {
            for run in 1..5 {
                let cache = &cache;
                scope.spawn(move || {
                    for round in 0..50 {
                        cache.keep(&key(), &table(&[0, run * 1000 + round], true));
                        assert_kept(cache, &[0]);
                    }
                });
            }
        });
        assert_kept(&cache, &[0]);
    }

    #[test]
    fn the_oldest_files_go_first() {
        let folder = tempfile::tempdir().unwrap();
        for (name, age) in [("old", 1), ("new", 3), ("middle", 2)] {
            let path = folder.path().join(name);
            fs::write(&path, [0; 10]).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age);
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        keep_below(folder.path(), 20);
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["middle", "new"]);
    }
}
