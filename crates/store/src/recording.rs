//! Writing a profile while the program runs.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, params};

use crate::{APPLICATION_ID, Error, SCHEMA_VERSION};

/// A module of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(i64);

/// A process of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(i64);

/// A place in the code: an address of a module's file, or of the process if there is no module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The module.
    pub module: Option<ModuleId>,
    /// The address in it.
    pub address: u64,
}

/// What ticks are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TickKey {
    /// The process.
    pub process: ProcessId,
    /// The thread.
    pub tid: u32,
    /// What came of the tick.
    pub outcome: &'static str,
}

/// Sums over bursts.
#[derive(Clone, Copy, Debug, Default)]
pub struct BurstCounts {
    /// Bursts.
    pub n: u64,
    /// Block records.
    pub records: u64,
    /// Checks passed.
    pub checks: u64,
    /// Cycles in bursts.
    pub cycles: u64,
}

/// A profile being written.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    connection: Connection,
    n_processes: i64,
    processes: Vec<(i64, u32, Option<u32>, String)>,
    modules: HashMap<String, i64>,
    new_modules: Vec<(i64, String)>,
    build_ids: Vec<(ModuleId, String)>,
    mappings: Vec<(ProcessId, ModuleId, u64)>,
    contexts: HashMap<(i64, Address), i64>,
    new_contexts: Vec<(i64, i64, Address)>,
    ticks: HashMap<(TickKey, i64), u64>,
    bursts: HashMap<(Address, &'static str), BurstCounts>,
    edges: HashMap<(Address, Address), u64>,
    traces: Vec<(ProcessId, u64, u64, Vec<u8>)>,
    facts: Vec<(String, String)>,
}

impl Recording {
    /// Creates the file. An older profile of that name is replaced; any other file is left alone.
    pub fn create(path: &Path) -> Result<Recording, Error> {
        remove_profile(path)?;
        let create = |cause| Error::Create { path: path.to_owned(), cause };
        File::create(path).map_err(create)?;
        let database = |cause| Error::Database { path: path.to_owned(), cause };
        let connection = Connection::open(path).map_err(database)?;
        let set_up = |connection: &Connection| -> rusqlite::Result<()> {
            // An empty profile is worth no wait for the disk; what comes later is.
            connection.pragma_update(None, "synchronous", "OFF")?;
            connection.execute_batch(&format!(
                "BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; {} COMMIT;",
                include_str!("schema.sql")
            ))?;
            connection.pragma_update(None, "synchronous", "NORMAL")
        };
        set_up(&connection).map_err(database)?;
        Ok(Recording {
            path: path.to_owned(),
            connection,
            n_processes: 0,
            processes: Vec::new(),
            modules: HashMap::new(),
            new_modules: Vec::new(),
            build_ids: Vec::new(),
            mappings: Vec::new(),
            contexts: HashMap::new(),
            new_contexts: Vec::new(),
            ticks: HashMap::new(),
            bursts: HashMap::new(),
            edges: HashMap::new(),
            traces: Vec::new(),
            facts: Vec::new(),
        })
    }

    /// Where the profile is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// States a fact about the recording; a later one of the same name replaces it.
    pub fn fact(&mut self, name: &str, value: impl ToString) {
        self.facts.push((name.to_owned(), value.to_string()));
    }

    /// Adds a process.
    pub fn process(&mut self, pid: u32, parent_pid: Option<u32>, command: &str) -> ProcessId {
        self.n_processes += 1;
        self.processes.push((self.n_processes, pid, parent_pid, command.to_owned()));
        ProcessId(self.n_processes)
    }

    /// Adds a module, or finds it.
    pub fn module(&mut self, path: &str) -> ModuleId {
        if let Some(&id) = self.modules.get(path) {
            return ModuleId(id);
        }
        let id = self.modules.len() as i64 + 1;
        self.modules.insert(path.to_owned(), id);
        self.new_modules.push((id, path.to_owned()));
        ModuleId(id)
    }

    /// States the build-id of a module.
    pub fn build_id(&mut self, module: ModuleId, build_id: &str) {
        self.build_ids.push((module, build_id.to_owned()));
    }

    /// States where a module is loaded.
    pub fn mapping(&mut self, process: ProcessId, module: ModuleId, bias: u64) {
        self.mappings.push((process, module, bias));
    }

    /// Counts a tick whose stack is `frames`, innermost first.
    pub fn tick(&mut self, key: TickKey, frames: &[Address]) {
        let mut context = 0;
        for &frame in frames.iter().rev() {
            let next = self.contexts.len() as i64 + 1;
            let parent = context;
            context = *self.contexts.entry((parent, frame)).or_insert(next);
            if context == next {
                self.new_contexts.push((next, parent, frame));
            }
        }
        *self.ticks.entry((key, context)).or_default() += 1;
    }

    /// Counts a burst that started at `start`.
    pub fn burst(&mut self, start: Address, end_reason: &'static str, counts: BurstCounts) {
        let sums = self.bursts.entry((start, end_reason)).or_default();
        sums.n += counts.n;
        sums.records += counts.records;
        sums.checks += counts.checks;
        sums.cycles += counts.cycles;
    }

    /// Counts steps from block to block.
    pub fn edge(&mut self, from: Address, to: Address, n: u64) {
        *self.edges.entry((from, to)).or_default() += n;
    }

    /// Keeps raw samples, already compressed.
    pub fn trace(&mut self, process: ProcessId, n_samples: u64, n_bytes: u64, compressed: Vec<u8>) {
        self.traces.push((process, n_samples, n_bytes, compressed));
    }

    /// Writes everything counted since the last time, in one transaction.
    pub fn flush(&mut self) -> Result<(), Error> {
        let database = |cause| Error::Database { path: self.path.clone(), cause };
        let transaction = self.connection.transaction().map_err(database)?;
        let write = |db: &Transaction<'_>| -> rusqlite::Result<()> {
            let mut statement = db.prepare_cached("INSERT OR REPLACE INTO fact VALUES (?, ?)")?;
            for (name, value) in &self.facts {
                statement.execute(params![name, value])?;
            }
            let mut statement = db.prepare_cached("INSERT INTO process VALUES (?, ?, ?, ?)")?;
            for (id, pid, parent_pid, command) in &self.processes {
                statement.execute(params![id, pid, parent_pid, command])?;
            }
            let mut statement = db.prepare_cached("INSERT INTO module (id, path) VALUES (?, ?)")?;
            for (id, path) in &self.new_modules {
                statement.execute(params![id, path])?;
            }
            let mut statement = db.prepare_cached("UPDATE module SET build_id = ? WHERE id = ?")?;
            for (module, build_id) in &self.build_ids {
                statement.execute(params![build_id, module.0])?;
            }
            let mut statement = db.prepare_cached("INSERT OR IGNORE INTO mapping VALUES (?, ?, ?)")?;
            for (process, module, bias) in &self.mappings {
                statement.execute(params![process.0, module.0, *bias as i64])?;
            }
            let mut statement = db.prepare_cached("INSERT INTO context VALUES (?, ?, ?, ?)")?;
            for (id, parent, frame) in &self.new_contexts {
                statement.execute(params![id, parent, frame.module.map(|id| id.0), frame.address as i64])?;
            }
            let mut statement = db.prepare_cached(
                "INSERT INTO tick VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
            )?;
            for ((key, context), n) in &self.ticks {
                statement.execute(params![key.process.0, key.tid, context, key.outcome, *n as i64])?;
            }
            let mut statement = db.prepare_cached(
                "INSERT INTO burst VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n, \
                 records = records + excluded.records, checks = checks + excluded.checks, cycles = cycles + excluded.cycles",
            )?;
            for ((start, reason), sums) in &self.bursts {
                // NULL would make every row distinct.
                let module = start.module.map_or(0, |id| id.0);
                let BurstCounts { n, records, checks, cycles } = *sums;
                let sums = [n as i64, records as i64, checks as i64, cycles as i64];
                statement.execute(params![module, start.address as i64, reason, sums[0], sums[1], sums[2], sums[3]])?;
            }
            let mut statement = db.prepare_cached(
                "INSERT INTO edge VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
            )?;
            for ((from, to), n) in &self.edges {
                let module = |address: &Address| address.module.map_or(0, |id| id.0);
                statement.execute(params![
                    module(from),
                    from.address as i64,
                    module(to),
                    to.address as i64,
                    *n as i64
                ])?;
            }
            let mut statement =
                db.prepare_cached("INSERT INTO trace (process, samples, bytes, data) VALUES (?, ?, ?, ?)")?;
            for (process, n_samples, n_bytes, data) in &self.traces {
                statement.execute(params![process.0, *n_samples as i64, *n_bytes as i64, data])?;
            }
            Ok(())
        };
        write(&transaction).and_then(|()| transaction.commit()).map_err(database)?;
        self.facts.clear();
        self.processes.clear();
        self.new_modules.clear();
        self.build_ids.clear();
        self.mappings.clear();
        self.new_contexts.clear();
        self.ticks.clear();
        self.bursts.clear();
        self.edges.clear();
        self.traces.clear();
        Ok(())
    }
}

/// Removes an older profile, with what an interrupted recording may have left beside it.
fn remove_profile(path: &Path) -> Result<(), Error> {
    let mut start = [0; 72];
    match File::open(path).and_then(|mut file| file.read(&mut start)) {
        Ok(0) => {}
        Ok(n) => {
            let is_profile =
                n == 72 && start.starts_with(b"SQLite format 3\0") && start[68..72] == APPLICATION_ID.to_be_bytes();
            if !is_profile {
                return Err(Error::Foreign { path: path.to_owned() });
            }
        }
        Err(_) => return Ok(()),
    }
    let journal = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    for leftover in [journal("-journal"), journal("-wal"), journal("-shm")] {
        let _ = std::fs::remove_file(leftover);
    }
    std::fs::remove_file(path).map_err(|cause| Error::Create { path: path.to_owned(), cause })
}
