//! Making the tables of the file equal to a profile.
//!
//! A [`Snapshot`] remembers what the file says, by a fingerprint per row: 64 bits instead of a
//! second profile in memory. A row whose fingerprint has not changed is not written again.

use std::collections::BTreeMap;

use profile::model::{
    Block, BranchHistory, Call, Context, ContextPath, Edge, Function, Loop, Module, NotedValue, Path, Recursion,
    SystemCall, Thread,
};
use profile::{Estimate, Profile};
use rusqlite::{Transaction, params};

use crate::fields::Fields;
use crate::records::{Record, for_each_record};

/// Name of [`Profile::scale_error`] among the figures.
pub(crate) const SCALE_ERROR: &str = "scale_error";
/// Name of [`Profile::mix_error`] among the figures.
pub(crate) const MIX_ERROR: &str = "mix_error";
/// Name of [`Profile::unseen_at_most`] among the figures.
pub(crate) const UNSEEN_AT_MOST: &str = "unseen_at_most";

/// Name of [`Profile::unwatched_ns`] among the figures.
pub(crate) const UNWATCHED_NS: &str = "unwatched_ns";

/// Name of the user time in [`Profile::measured_cpu`] among the figures.
pub(crate) const USER_NS: &str = "user_ns";

/// Name of the system time in [`Profile::measured_cpu`] among the figures.
pub(crate) const SYSTEM_NS: &str = "system_ns";

/// Name of [`Profile::unobserved_flow`] among the figures.
pub(crate) const UNOBSERVED_FLOW: &str = "unobserved_flow";

/// What the file says.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    facts: BTreeMap<String, String>,
    ticks: BTreeMap<String, u64>,
    /// By table and row.
    fingerprints: BTreeMap<&'static str, Vec<u64>>,
}

impl Snapshot {
    /// Writes what `profile` and `facts` say and the file does not. Returns what the file says once
    /// the transaction is committed.
    pub(crate) fn write(
        &self,
        db: &Transaction<'_>,
        profile: &Profile,
        facts: &BTreeMap<String, String>,
    ) -> rusqlite::Result<Snapshot> {
        let all_facts = union(&profile.facts, facts);
        self.write_facts(db, &all_facts)?;
        self.write_ticks(db, &profile.ticks)?;
        write_figures(db, profile)?;
        let mut fingerprints = BTreeMap::new();
        macro_rules! write_tables {
            ($($record:ty),*) => {$(
                let known = self.fingerprints.get(<$record>::TABLE).map_or(&[][..], Vec::as_slice);
                fingerprints.insert(<$record>::TABLE, write_table::<$record>(db, profile, known)?);
            )*};
        }
        for_each_record!(write_tables);
        Ok(Snapshot { facts: all_facts, ticks: profile.ticks.clone(), fingerprints })
    }

    /// Writes `facts` beside those that are there.
    pub(crate) fn add_facts(&self, db: &Transaction<'_>, facts: &BTreeMap<String, String>) -> rusqlite::Result<()> {
        self.write_facts(db, &union(&self.facts, facts))
    }

    /// Takes note that the transaction of [`Snapshot::add_facts`] is committed.
    pub(crate) fn facts_were_added(&mut self, facts: &BTreeMap<String, String>) {
        self.facts = union(&self.facts, facts);
    }

    fn write_facts(&self, db: &Transaction<'_>, facts: &BTreeMap<String, String>) -> rusqlite::Result<()> {
        let mut insert = db.prepare_cached("INSERT OR REPLACE INTO fact VALUES (?, ?)")?;
        for (name, value) in facts.iter().filter(|(name, value)| self.facts.get(*name) != Some(value)) {
            insert.execute(params![name, value])?;
        }
        let mut delete = db.prepare_cached("DELETE FROM fact WHERE name = ?")?;
        for name in self.facts.keys().filter(|name| !facts.contains_key(*name)) {
            delete.execute([name])?;
        }
        Ok(())
    }

    fn write_ticks(&self, db: &Transaction<'_>, ticks: &BTreeMap<String, u64>) -> rusqlite::Result<()> {
        let mut insert = db.prepare_cached("INSERT OR REPLACE INTO tick VALUES (?, ?)")?;
        for (outcome, n) in ticks.iter().filter(|(outcome, n)| self.ticks.get(*outcome) != Some(n)) {
            insert.execute(params![outcome, *n as i64])?;
        }
        let mut delete = db.prepare_cached("DELETE FROM tick WHERE outcome = ?")?;
        for outcome in self.ticks.keys().filter(|outcome| !ticks.contains_key(*outcome)) {
            delete.execute([outcome])?;
        }
        Ok(())
    }
}

/// Both, `stated` where they differ.
fn union(facts: &BTreeMap<String, String>, stated: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all = facts.clone();
    all.extend(stated.iter().map(|(name, value)| (name.clone(), value.clone())));
    all
}

fn write_figures(db: &Transaction<'_>, profile: &Profile) -> rusqlite::Result<()> {
    let plain = |value| Estimate { value, ..Estimate::default() };
    let mut insert = db.prepare_cached("INSERT OR REPLACE INTO figure VALUES (?, ?, ?, ?)")?;
    let figures = [
        (UNSEEN_AT_MOST, plain(profile.unseen_at_most)),
        (UNWATCHED_NS, plain(profile.unwatched_ns)),
        (USER_NS, plain(profile.measured_cpu.user_ns)),
        (SYSTEM_NS, plain(profile.measured_cpu.system_ns)),
        (SCALE_ERROR, plain(profile.scale_error)),
        (MIX_ERROR, plain(profile.mix_error)),
        (UNOBSERVED_FLOW, profile.unobserved_flow),
    ];
    for (name, figure) in figures {
        insert.execute(params![name, figure.value, figure.variance, figure.seen as i64])?;
    }
    Ok(())
}

/// Writes the rows that differ from what is known, and returns the fingerprints of all.
fn write_table<R: Record>(db: &Transaction<'_>, profile: &Profile, known: &[u64]) -> rusqlite::Result<Vec<u64>> {
    let rows = R::rows(profile);
    let (table, columns) = (R::TABLE, R::COLUMNS);
    let values = "?, ".repeat(columns.split(',').count());
    let mut insert =
        db.prepare_cached(&format!("INSERT OR REPLACE INTO {table} (id, {columns}) VALUES ({values}?)"))?;
    let mut fingerprints = Vec::with_capacity(rows.len());
    let mut fields = Fields::default();
    for (index, row) in rows.iter().enumerate() {
        fields.clear();
        row.encode(&mut fields);
        let fingerprint = fields.fingerprint();
        if known.get(index) != Some(&fingerprint) {
            fields.insert(index, &mut insert)?;
        }
        fingerprints.push(fingerprint);
    }
    if rows.len() < known.len() {
        db.execute(&format!("DELETE FROM {table} WHERE id >= ?"), [rows.len() as i64])?;
    }
    Ok(fingerprints)
}
