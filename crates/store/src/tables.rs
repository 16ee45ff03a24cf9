//! Reading the tables of the file into a profile.
//!
//! Tables are decoded independently of each other, half of them by a second thread, and checked
//! against each other when all are there. What passes cannot make a query or a merge go astray.
//! That keys are distinct is not checked: it would take as long as reading, and merging adds rows
//! of equal keys anyway.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;

use profile::Profile;
use profile::model::{
    Block, BranchHistory, Call, Context, ContextPath, Edge, Function, Loop, Module, NotedValue, Path, Recursion,
    SystemCall, Thread,
};
use rusqlite::Connection;

use crate::fields::{Columns, Damage};
use crate::records::{Record, Tables, for_each_record};
use crate::snapshot::{MIX_ERROR, SCALE_ERROR, SYSTEM_NS, UNOBSERVED_FLOW, UNSEEN_AT_MOST, UNWATCHED_NS, USER_NS};

/// What is read of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// Without edges and histories of branches, which make up half of a large profile, and without
    /// values and paths by context. Their tables are empty.
    WithoutBranches,
}

/// Where reading failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub table: &'static str,
    pub row: usize,
    pub damage: Damage,
}

impl Failure {
    fn of(table: &'static str, damage: impl Into<Damage>) -> Failure {
        Failure { table, row: 0, damage: damage.into() }
    }
}

/// Reads all tables of a file of some version. A helper must see the same state of the file.
pub(crate) fn read(
    connection: &Connection,
    helper: Option<Connection>,
    version: i32,
    extent: Extent,
) -> Result<Profile, Failure> {
    let (code, flow) = match helper {
        None => (read_code(connection, version, extent), read_flow(connection, version, extent)),
        Some(helper) => thread::scope(|scope| {
            let flow = scope.spawn(move || read_flow(&helper, version, extent));
            (read_code(connection, version, extent), flow.join().unwrap_or_else(|panic| resume_unwind(panic)))
        }),
    };
    let (code, flow) = (code?, flow?);
    let profile = Profile {
        paths: flow.paths,
        calls: flow.calls,
        contexts: flow.contexts,
        recursions: flow.recursions,
        context_paths: flow.context_paths,
        loops: flow.loops,
        histories: flow.histories,
        system_calls: flow.system_calls,
        values: flow.values,
        ..code
    };
    check(&profile)?;
    Ok(profile)
}

/// The facts of a recording, by name.
pub(crate) fn read_facts(connection: &Connection) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = connection.prepare("SELECT name, value FROM fact")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

macro_rules! read_tables {
    ($connection:expr, $version:expr, $profile:expr, $($record:ty),*) => {$(
        *<$record>::rows_mut(&mut $profile) = read_table::<$record>($connection, $version)?;
    )*};
}

fn read_code(connection: &Connection, version: i32, extent: Extent) -> Result<Profile, Failure> {
    let mut profile = Profile {
        facts: read_facts(connection).map_err(|cause| Failure::of("fact", cause))?,
        ticks: read_ticks(connection).map_err(|cause| Failure::of("tick", cause))?,
        ..Profile::default()
    };
    read_figures(connection, &mut profile).map_err(|damage| Failure::of("figure", damage))?;
    read_tables!(connection, version, profile, Module, Function, Block, Thread);
    if extent == Extent::Whole {
        read_tables!(connection, version, profile, Edge);
    }
    Ok(profile)
}

fn read_flow(connection: &Connection, version: i32, extent: Extent) -> Result<Profile, Failure> {
    let mut profile = Profile::default();
    read_tables!(connection, version, profile, Path, Call, Context, Recursion, Loop, SystemCall);
    if extent == Extent::Whole {
        read_tables!(connection, version, profile, BranchHistory, NotedValue, ContextPath);
    }
    Ok(profile)
}

fn read_table<R: Record>(connection: &Connection, version: i32) -> Result<Vec<R>, Failure> {
    let sql = format!("SELECT id, {} FROM {} ORDER BY id", R::columns_of(version), R::TABLE);
    let mut records = Vec::new();
    let failure = |row: usize, damage: Damage| Failure { table: R::TABLE, row, damage };
    let mut statement = connection.prepare(&sql).map_err(|cause| failure(0, cause.into()))?;
    let mut rows = statement.raw_query();
    loop {
        let index = records.len();
        match rows.next() {
            Ok(Some(row)) => {
                let record = Columns::new(row, index).and_then(|mut columns| R::decode(&mut columns));
                records.push(record.map_err(|damage| failure(index, damage))?);
            }
            Ok(None) => return Ok(records),
            Err(cause) => return Err(failure(index, cause.into())),
        }
    }
}

/// Checks that every handle points to what it should.
fn check(profile: &Profile) -> Result<(), Failure> {
    let tables = Tables::new(profile);
    macro_rules! check_tables {
        ($($record:ty),*) => {$(
            let is_unsound = |(index, row): (usize, &$record)| !row.is_sound(index, &tables);
            if let Some(row) = <$record>::rows(profile).iter().enumerate().position(is_unsound) {
                return Err(Failure { table: <$record>::TABLE, row, damage: Damage::Reference });
            }
        )*};
    }
    for_each_record!(check_tables);
    Ok(())
}

fn read_ticks(connection: &Connection) -> rusqlite::Result<BTreeMap<String, u64>> {
    let mut statement = connection.prepare("SELECT outcome, n FROM tick")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?.collect()
}

/// A profile that was never written has none.
fn read_figures(connection: &Connection, profile: &mut Profile) -> Result<(), Damage> {
    let mut statement = connection.prepare("SELECT 0, value, value_variance, value_seen, name FROM figure")?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new(row, 0)?;
        let figure = columns.estimate()?;
        match columns.text()? {
            UNWATCHED_NS => profile.unwatched_ns = figure.value,
            USER_NS => profile.measured_cpu.user_ns = figure.value,
            SYSTEM_NS => profile.measured_cpu.system_ns = figure.value,
            UNSEEN_AT_MOST => profile.unseen_at_most = figure.value,
            SCALE_ERROR => profile.scale_error = figure.value,
            MIX_ERROR => profile.mix_error = figure.value,
            UNOBSERVED_FLOW => profile.unobserved_flow = figure,
            _ => return Err(columns.damage()),
        }
    }
    Ok(())
}
