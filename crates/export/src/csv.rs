//! Tables of the profile as comma-separated values (RFC 4180), for spreadsheets and data frames.
//!
//! Addresses are hexadecimal with `0x`. Every estimate takes three columns: the value and the ends
//! of its 95 % interval. Nothing is rounded. Contexts have their parent's number, so that the tree
//! can be rebuilt; blocks of paths are separated by blanks.

use std::fmt;
use std::io;
use std::str::FromStr;

use profile::model::{BlockId, EdgeKind, FunctionId};
use profile::{Estimate, Profile, Symbols, query};

use crate::error::UnknownName;
use crate::labels::Labels;
use crate::stacks::last_address;

/// A table of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// Functions.
    Functions,
    /// Steps between blocks.
    Edges,
    /// Ball-Larus paths.
    Paths,
    /// Call sites and callees.
    Calls,
    /// Calling contexts.
    Contexts,
    /// Loops.
    Loops,
    /// Functions by entries and back edges taken.
    Methods,
    /// Branches by the instructions since the branch before.
    Regions,
}

impl Table {
    /// All of them.
    pub const ALL: [Table; 8] = [
        Table::Functions,
        Table::Edges,
        Table::Paths,
        Table::Calls,
        Table::Contexts,
        Table::Loops,
        Table::Methods,
        Table::Regions,
    ];

    /// What one types.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Table::Functions => "functions",
            Table::Edges => "edges",
            Table::Paths => "paths",
            Table::Calls => "calls",
            Table::Contexts => "contexts",
            Table::Loops => "loops",
            Table::Methods => "methods",
            Table::Regions => "regions",
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Table {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Table, UnknownName> {
        let found = Table::ALL.into_iter().find(|table| table.name() == word);
        found.ok_or_else(|| UnknownName {
            what: "table",
            word: word.to_owned(),
            valid: Table::ALL.map(Table::name).join(", "),
        })
    }
}

/// Writes one table.
///
/// # Errors
/// If `out` fails.
pub fn write(profile: &Profile, symbols: &dyn Symbols, table: Table, out: &mut dyn io::Write) -> io::Result<()> {
    let mut writer = Writer { profile, labels: Labels::new(profile, symbols), out };
    match table {
        Table::Functions => writer.functions(),
        Table::Edges => writer.edges(),
        Table::Paths => writer.paths(),
        Table::Calls => writer.calls(),
        Table::Contexts => writer.contexts(),
        Table::Loops => writer.loops(),
        Table::Methods => writer.methods(),
        Table::Regions => writer.regions(),
    }
}

struct Writer<'a> {
    profile: &'a Profile,
    labels: Labels,
    out: &'a mut dyn io::Write,
}

impl Writer<'_> {
    fn functions(&mut self) -> io::Result<()> {
        self.header(&["module", "function", "address", "bytes", "linkage_name"], &["entries", "self_ns"])?;
        for (handle, row) in (0..).map(FunctionId).zip(&self.profile.functions) {
            let mut cells = self.function(handle);
            cells.extend([row.size.to_string(), row.name.clone()]);
            self.row(cells, &[row.entries, row.self_ns])?;
        }
        Ok(())
    }

    fn edges(&mut self) -> io::Result<()> {
        self.header(&["module", "function", "address", "from", "to", "kind", "is_back"], &["count"])?;
        for row in &self.profile.edges {
            let mut cells = self.function(self.profile.blocks[row.from.index()].function);
            cells.extend([self.block(row.from), self.block(row.to)]);
            cells.extend([edge_kind(row.kind).to_owned(), row.is_back.to_string()]);
            self.row(cells, &[row.count])?;
        }
        Ok(())
    }

    fn paths(&mut self) -> io::Result<()> {
        let columns = ["module", "function", "address", "blocks", "back_to", "n_branches"];
        self.header(&columns, &["count", "self_ns"])?;
        for row in &self.profile.paths {
            let mut cells = self.function(row.function);
            let blocks: Vec<String> = row.blocks.iter().map(|&block| self.block(block)).collect();
            let back_to = row.back_to.map(|block| self.block(block)).unwrap_or_default();
            cells.extend([blocks.join(" "), back_to, row.n_branches.to_string()]);
            self.row(cells, &[row.count, row.self_ns])?;
        }
        Ok(())
    }

    fn calls(&mut self) -> io::Result<()> {
        let caller = ["module", "function", "address", "site"];
        let callee = ["callee_module", "callee", "callee_address", "is_tail"];
        self.header(&[caller, callee].concat(), &["count"])?;
        for row in &self.profile.calls {
            let block = &self.profile.blocks[row.site.index()];
            let mut cells = self.function(block.function);
            cells.push(hex(last_address(block)));
            cells.extend(self.function(row.callee));
            cells.push(row.is_tail.to_string());
            self.row(cells, &[row.count])?;
        }
        Ok(())
    }

    fn contexts(&mut self) -> io::Result<()> {
        let columns = ["context", "parent", "module", "function", "address"];
        self.header(&columns, &["entries", "self_ns", "kernel_ns"])?;
        for (index, row) in self.profile.contexts.iter().enumerate() {
            let parent = row.parent.map(|parent| parent.0.to_string()).unwrap_or_default();
            let mut cells = vec![index.to_string(), parent];
            cells.extend(self.function(row.function));
            self.row(cells, &[row.entries, row.self_ns, row.kernel_ns])?;
        }
        Ok(())
    }

    fn loops(&mut self) -> io::Result<()> {
        let columns =
            ["loop", "parent", "module", "function", "address", "header", "n_partial_visits", "trips_by_log2"];
        self.header(&columns, &["entries", "iterations", "self_ns"])?;
        for (index, row) in self.profile.loops.iter().enumerate() {
            let parent = row.parent.map(|parent| parent.0.to_string()).unwrap_or_default();
            let mut cells = vec![index.to_string(), parent];
            cells.extend(self.function(row.function));
            let trips: Vec<String> = row.trips.iter().map(u64::to_string).collect();
            cells.extend([self.block(row.header), row.n_partial_visits.to_string(), trips.join(" ")]);
            self.row(cells, &[row.entries, row.iterations, row.self_ns])?;
        }
        Ok(())
    }

    fn methods(&mut self) -> io::Result<()> {
        self.header(&["module", "function", "address"], &["entries", "back_edges", "count"])?;
        for row in query::methods(self.profile) {
            self.row(self.function(row.function), &[row.entries, row.back_edges, row.count])?;
        }
        Ok(())
    }

    fn regions(&mut self) -> io::Result<()> {
        self.header(&["module", "function", "address", "branch", "n_insns"], &["count"])?;
        for row in query::regions(self.profile, None) {
            let mut cells = self.function(row.function);
            cells.extend([hex(last_address(&self.profile.blocks[row.block.index()])), row.n_insns.to_string()]);
            self.row(cells, &[row.count])?;
        }
        Ok(())
    }

    /// Module, name and address.
    fn function(&self, function: FunctionId) -> Vec<String> {
        let row = &self.profile.functions[function.index()];
        let module = self.profile.modules[row.module.index()].path.clone();
        vec![module, self.labels.function(function).to_owned(), hex(row.address)]
    }

    fn block(&self, block: BlockId) -> String {
        hex(self.profile.blocks[block.index()].address)
    }

    fn header(&mut self, columns: &[&str], estimates: &[&str]) -> io::Result<()> {
        let mut cells: Vec<String> = columns.iter().map(|&column| column.to_owned()).collect();
        for estimate in estimates {
            cells.extend([(*estimate).to_owned(), format!("{estimate}_low"), format!("{estimate}_high")]);
        }
        self.row(cells, &[])
    }

    fn row(&mut self, mut cells: Vec<String>, estimates: &[Estimate]) -> io::Result<()> {
        for estimate in estimates {
            let (low, high) = estimate.interval();
            cells.extend([estimate.value, low, high].map(|number| number.to_string()));
        }
        let quoted: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
        write!(self.out, "{}\r\n", quoted.join(","))
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains(['"', ',', '\r', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

fn hex(address: u64) -> String {
    format!("{address:#x}")
}

fn edge_kind(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::FallThrough => "fall-through",
        EdgeKind::Taken => "taken",
        EdgeKind::Table => "table",
        EdgeKind::PastCall => "past-call",
        EdgeKind::NonLocal => "non-local",
    }
}
