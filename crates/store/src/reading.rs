//! Reading a profile.
//!
//! All tables are read in one transaction, so that a profile that is being recorded is seen as of
//! one moment. Nothing here opens the file but SQLite: closing any descriptor of a file drops all
//! locks that the process has on it, those of other connections included.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use profile::Profile;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::fields::Damage;
use crate::tables::{self, Extent, Failure, read_facts};
use crate::{APPLICATION_ID, Error, OLDEST_VERSION, SCHEMA_VERSION};

/// How long a reader waits for a write to end.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a profile.
pub fn open(path: &Path) -> Result<Profile, Error> {
    open_part(path, Extent::Whole)
}

/// Reads a profile, or part of it.
pub fn open_part(path: &Path, extent: Extent) -> Result<Profile, Error> {
    let (connection, version) = connect(path)?;
    if version < OLDEST_VERSION {
        return Err(Error::Version { path: path.to_owned(), version });
    }
    let database = |cause| Error::database(path, cause);
    let transaction = connection.unchecked_transaction().map_err(database)?;
    let n_bytes = claimed_bytes(&transaction).map_err(database)?;
    let metadata = std::fs::metadata(path).map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
    if metadata.len() < n_bytes {
        let what = format!("{} of {n_bytes} bytes are there", metadata.len());
        return Err(Error::Damaged { path: path.to_owned(), what });
    }
    tables::read(&transaction, helper(path), version, extent).map_err(|Failure { table, row, damage }| {
        let what = match damage {
            Damage::Database(cause) => return Error::database(path, cause),
            Damage::Value { column } => format!("table {table}, row {row}, column {column}"),
            Damage::Reference => format!("table {table}, row {row} refers to something that is not there"),
        };
        Error::Damaged { path: path.to_owned(), what }
    })
}

/// The facts of a recording, by name.
pub fn facts(path: &Path) -> Result<BTreeMap<String, String>, Error> {
    let (connection, _) = connect(path)?;
    read_facts(&connection).map_err(|cause| Error::database(path, cause))
}

/// The number that a query of one row and one column yields; nothing counts as 0.
pub fn count(path: &Path, sql: &str) -> Result<u64, Error> {
    let (connection, _) = connect(path)?;
    let number: rusqlite::Result<Option<i64>> = connection.query_row(sql, [], |row| row.get(0));
    Ok(number.map_err(|cause| Error::database(path, cause))?.unwrap_or(0).unsigned_abs())
}

/// Opens a profile of this version or an older one.
pub(crate) fn connect(path: &Path) -> Result<(Connection, i32), Error> {
    let not_a_profile = || Error::NotAProfile { path: path.to_owned() };
    let metadata = std::fs::metadata(path).map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
    if !metadata.is_file() {
        return Err(not_a_profile());
    }
    let database = |cause: rusqlite::Error| match cause.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => not_a_profile(),
        _ => Error::database(path, cause),
    };
    // Writing is needed to undo what a killed recorder has left half done; SQLite falls back to
    // reading if it may not.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(database)?;
    let (application_id, version) = prepare(&connection).map_err(database)?;
    if application_id != APPLICATION_ID {
        return Err(not_a_profile());
    }
    if SCHEMA_VERSION < version {
        return Err(Error::Version { path: path.to_owned(), version });
    }
    Ok((connection, version))
}

/// Prepares for a file that may be anything, and asks what it says it is.
fn prepare(connection: &Connection) -> rusqlite::Result<(i32, i32)> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", "ON")?;
    connection.pragma_update(None, "trusted_schema", "OFF")?;
    connection.pragma_update(None, "cell_size_check", "ON")?;
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok((pragma("application_id")?, pragma("user_version")?))
}

/// A second connection that sees what the first one sees: as long as both hold a lock on the file,
/// no one writes. Nothing if a writer is already waiting for the first to end.
fn helper(path: &Path) -> Option<Connection> {
    let (connection, _) = connect(path).ok()?;
    connection.busy_timeout(Duration::ZERO).ok()?;
    connection.execute_batch("BEGIN; SELECT count(*) FROM fact").ok()?;
    Some(connection)
}

/// The size of the file by its own account. SQLite notices that something is missing only when it
/// comes to it.
fn claimed_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
    Ok(u64::from(pragma("page_count")?) * u64::from(pragma("page_size")?))
}
