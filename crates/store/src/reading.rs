//! Reading a profile.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::{APPLICATION_ID, Error, SCHEMA_VERSION};

/// The facts of a recording, by name.
pub fn facts(path: &Path) -> Result<BTreeMap<String, String>, Error> {
    let database = |cause| Error::Database { path: path.to_owned(), cause };
    let connection = open(path)?;
    let mut statement = connection.prepare("SELECT name, value FROM fact").map_err(database)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(database)?;
    rows.collect::<rusqlite::Result<_>>().map_err(database)
}

/// The number that a query of one row and one column yields; nothing counts as 0.
pub fn count(path: &Path, sql: &str) -> Result<u64, Error> {
    let database = |cause| Error::Database { path: path.to_owned(), cause };
    let number: Option<i64> = open(path)?.query_row(sql, [], |row| row.get(0)).map_err(database)?;
    Ok(number.unwrap_or(0).unsigned_abs())
}

/// Opens a profile of this version.
fn open(path: &Path) -> Result<Connection, Error> {
    let database = |cause| Error::Database { path: path.to_owned(), cause };
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(database)?;
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).map_err(database);
    if pragma("application_id")? != APPLICATION_ID {
        return Err(Error::NotAProfile { path: path.to_owned() });
    }
    match pragma("user_version")? {
        SCHEMA_VERSION => Ok(connection),
        version => Err(Error::Version { path: path.to_owned(), version }),
    }
}
