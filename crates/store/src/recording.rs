//! Writing a profile while the program runs.
//!
//! Nothing that fails here loses anything: what could not be written, because the disk is full or a
//! reader holds the file, waits for the next time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use profile::Profile;
use rusqlite::{Connection, Transaction, params};

use crate::snapshot::Snapshot;
use crate::{APPLICATION_ID, Error, SCHEMA_VERSION};

/// How long a write waits for readers of the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// A process whose burst logs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub(crate) i64);

/// A profile being written.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    connection: Connection,
    facts: BTreeMap<String, String>,
    written: Snapshot,
    pub(crate) n_processes: i64,
    pub(crate) pending: Pending,
}

/// Rows that are written once.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub processes: Vec<(ProcessId, u32, Option<u32>, String)>,
    pub mappings: Vec<(ProcessId, String, u64)>,
    pub traces: Vec<(ProcessId, u64, u64, Vec<u8>)>,
}

impl Recording {
    /// Creates the file. An older profile of that name is kept with `.old` behind its name; any
    /// other file is left alone.
    pub fn create(path: &Path) -> Result<Recording, Error> {
        set_aside(path)?;
        let create = |cause| Error::Create { path: path.to_owned(), cause };
        File::create(path).map_err(create)?;
        let database = |cause| Error::database(path, cause);
        let connection = Connection::open(path).map_err(database)?;
        set_up(&connection).map_err(database)?;
        Ok(Recording {
            path: path.to_owned(),
            connection,
            facts: BTreeMap::new(),
            written: Snapshot::default(),
            n_processes: 0,
            pending: Pending::default(),
        })
    }

    /// Where the profile is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// States a fact about the recording; a later one of the same name replaces it. It goes before
    /// a fact of the profile.
    pub fn fact(&mut self, name: &str, value: impl ToString) {
        self.facts.insert(name.to_owned(), value.to_string());
    }

    /// Adds a process.
    pub fn process(&mut self, pid: u32, parent_pid: Option<u32>, command: &str) -> ProcessId {
        self.n_processes += 1;
        let id = ProcessId(self.n_processes);
        self.pending.processes.push((id, pid, parent_pid, command.to_owned()));
        id
    }

    /// States where a module was loaded in a process.
    pub fn module_at(&mut self, process: ProcessId, path: &str, bias: u64) {
        self.pending.mappings.push((process, path.to_owned(), bias));
    }

    /// Keeps raw samples, already compressed.
    pub fn trace(&mut self, process: ProcessId, n_samples: u64, n_bytes: u64, compressed: Vec<u8>) {
        self.pending.traces.push((process, n_samples, n_bytes, compressed));
    }

    /// Makes the file equal to `profile`, and writes what [`Recording::flush`] does, in one
    /// transaction.
    pub fn write(&mut self, profile: &Profile) -> Result<(), Error> {
        let database = |cause| Error::database(&self.path, cause);
        let transaction = self.connection.transaction().map_err(database)?;
        let write = || {
            self.pending.write(&transaction)?;
            self.written.write(&transaction, profile, &self.facts)
        };
        let written = write().map_err(database)?;
        transaction.commit().map_err(database)?;
        self.written = written;
        self.pending = Pending::default();
        Ok(())
    }

    /// Writes facts, processes and traces, in one transaction.
    pub fn flush(&mut self) -> Result<(), Error> {
        let database = |cause| Error::database(&self.path, cause);
        let transaction = self.connection.transaction().map_err(database)?;
        let write = || {
            self.pending.write(&transaction)?;
            self.written.add_facts(&transaction, &self.facts)
        };
        write().map_err(database)?;
        transaction.commit().map_err(database)?;
        self.written.facts_were_added(&self.facts);
        self.pending = Pending::default();
        Ok(())
    }
}

/// Writes a profile to a file at once. An older profile of that name is replaced when all of the
/// new one is there; any other file is left alone.
pub fn save(path: &Path, profile: &Profile) -> Result<(), Error> {
    refuse_foreign(path)?;
    let beside = beside(path, &format!(".{}.partial", std::process::id()));
    let result = Recording::create(&beside).and_then(|mut recording| recording.write(profile)).and_then(|()| {
        let create = |cause| Error::Create { path: path.to_owned(), cause };
        remove_journals(path);
        std::fs::rename(&beside, path).map_err(create)
    });
    if result.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    result
}

impl Pending {
    fn write(&self, db: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut insert = db.prepare_cached("INSERT INTO process VALUES (?, ?, ?, ?)")?;
        for (id, pid, parent_pid, command) in &self.processes {
            insert.execute(params![id.0, pid, parent_pid, command])?;
        }
        let mut insert = db.prepare_cached("INSERT OR IGNORE INTO mapping VALUES (?, ?, ?)")?;
        for (process, path, bias) in &self.mappings {
            insert.execute(params![process.0, path, *bias as i64])?;
        }
        let mut insert = db.prepare_cached("INSERT INTO trace (process, samples, bytes, data) VALUES (?, ?, ?, ?)")?;
        for (process, n_samples, n_bytes, data) in &self.traces {
            insert.execute(params![process.0, *n_samples as i64, *n_bytes as i64, data])?;
        }
        Ok(())
    }
}

/// Makes an empty profile.
fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // The references between tables are documentation; rows are written in an order of their own.
    connection.pragma_update(None, "foreign_keys", "OFF")?;
    // An empty profile is worth no wait for the disk; what comes later is.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.execute_batch(&format!(
        "BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; {} COMMIT;",
        include_str!("schema.sql")
    ))?;
    connection.pragma_update(None, "synchronous", "NORMAL")
}

/// Renames an older profile, with the journal that an interrupted recording may have left beside it
/// and that it cannot be read without. What was set aside before is gone.
fn set_aside(path: &Path) -> Result<(), Error> {
    refuse_foreign(path)?;
    let create = |cause| Error::Create { path: path.to_owned(), cause };
    if !matches!(header(path), Ok(Header::Profile)) {
        remove_journals(path);
        return match std::fs::remove_file(path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(create(cause)),
            _ => Ok(()),
        };
    }
    let old = beside(path, ".old");
    refuse_foreign(&old)?;
    remove_journals(&old);
    for suffix in JOURNALS {
        let _ = std::fs::rename(beside(path, suffix), beside(&old, suffix));
    }
    std::fs::rename(path, &old).map_err(create)
}

/// Only profiles and empty files may be overwritten.
fn refuse_foreign(path: &Path) -> Result<(), Error> {
    match header(path) {
        Ok(Header::Profile | Header::Empty) => Ok(()),
        Ok(Header::Foreign) => Err(Error::Foreign { path: path.to_owned() }),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(Error::Create { path: path.to_owned(), cause }),
    }
}

/// What the start of a file says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    Profile,
    Empty,
    Foreign,
}

/// Looks at the start of a file. Pipes, devices and folders are foreign without a look.
fn header(path: &Path) -> io::Result<Header> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    const APPLICATION_ID_OFFSET: usize = 68;
    if !std::fs::metadata(path)?.is_file() {
        return Ok(Header::Foreign);
    }
    let mut start = Vec::new();
    File::open(path)?.take(APPLICATION_ID_OFFSET as u64 + 4).read_to_end(&mut start)?;
    let has_id = start.get(APPLICATION_ID_OFFSET..) == Some(&APPLICATION_ID.to_be_bytes()[..]);
    Ok(match (start.is_empty(), start.starts_with(MAGIC) && has_id) {
        (true, _) => Header::Empty,
        (_, true) => Header::Profile,
        _ => Header::Foreign,
    })
}

/// What SQLite may have beside a file, by the ends of the names.
const JOURNALS: [&str; 3] = ["-journal", "-wal", "-shm"];

fn remove_journals(path: &Path) {
    for suffix in JOURNALS {
        let _ = std::fs::remove_file(beside(path, suffix));
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
