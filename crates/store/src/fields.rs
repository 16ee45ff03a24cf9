//! Rows as values of SQLite: [`Fields`] on the way out, [`Columns`] on the way in.
//!
//! A file may come from anywhere. [`Columns`] therefore yields only values that the model allows:
//! numbers that fit their types, estimates that are finite and not negative. Whether handles point
//! to anything is checked when all tables are there.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use profile::Estimate;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, Statement, ToSql};

/// Events that an estimate can have been seen by: sums over a thousand profiles still fit 64 bits.
const MAX_SEEN: u64 = 1 << 53;

/// A value of a row.
#[derive(Debug)]
enum Field<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Json(String),
    Bytes(Vec<u8>),
}

impl ToSql for Field<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Field::Null => ValueRef::Null,
            Field::Integer(number) => ValueRef::Integer(*number),
            Field::Real(number) => ValueRef::Real(*number),
            Field::Text(text) => ValueRef::Text(text.as_bytes()),
            Field::Json(text) => ValueRef::Text(text.as_bytes()),
            Field::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// The values of a row, in the order of its columns.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a>(Vec<Field<'a>>);

impl<'a> Fields<'a> {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn integer(&mut self, number: impl Into<u64>) {
        // SQLite has 64-bit numbers with a sign; addresses above half the space come out negative.
        self.0.push(Field::Integer(number.into() as i64));
    }

    pub(crate) fn optional(&mut self, number: Option<u32>) {
        self.0.push(number.map_or(Field::Null, |number| Field::Integer(i64::from(number))));
    }

    pub(crate) fn text(&mut self, text: &'a str) {
        self.0.push(Field::Text(text));
    }

    pub(crate) fn bytes(&mut self, bytes: Vec<u8>) {
        self.0.push(Field::Bytes(bytes));
    }

    /// A JSON array.
    pub(crate) fn numbers(&mut self, numbers: &[u64]) {
        self.0.push(Field::Json(format!("{numbers:?}")));
    }

    pub(crate) fn estimate(&mut self, estimate: Estimate) {
        self.0.push(Field::Real(estimate.value));
        self.0.push(Field::Real(estimate.variance));
        self.0.push(Field::Integer(estimate.seen.min(MAX_SEEN) as i64));
    }

    /// What distinguishes this row from any other state of it.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for field in &self.0 {
            match field {
                Field::Null => hasher.write_u8(0),
                Field::Integer(number) => hasher.write_i64(*number),
                Field::Real(number) => hasher.write_u64(number.to_bits()),
                Field::Text(text) => text.hash(&mut hasher),
                Field::Json(text) => text.hash(&mut hasher),
                Field::Bytes(bytes) => bytes.hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    /// Runs an insertion of this row under `id`.
    pub(crate) fn insert(&self, id: usize, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        statement.raw_bind_parameter(1, id as i64)?;
        for (index, field) in self.0.iter().enumerate() {
            statement.raw_bind_parameter(index + 2, field)?;
        }
        statement.raw_execute().map(drop)
    }
}

/// What is wrong with a row.
#[derive(Debug)]
pub(crate) enum Damage {
    /// SQLite failed to read it.
    Database(rusqlite::Error),
    /// A value that cannot be.
    Value {
        /// Number of the column.
        column: usize,
    },
    /// A handle that points to nothing, or to something of another function.
    Reference,
}

impl From<rusqlite::Error> for Damage {
    fn from(error: rusqlite::Error) -> Damage {
        Damage::Database(error)
    }
}

/// The columns of a row, read from left to right.
pub(crate) struct Columns<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl fmt::Debug for Columns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Columns").field("next", &self.next).finish_non_exhaustive()
    }
}

impl<'a> Columns<'a> {
    /// Columns of the row that must have the number `index`.
    pub(crate) fn new(row: &'a Row<'a>, index: usize) -> Result<Columns<'a>, Damage> {
        let mut columns = Columns { row, next: 0 };
        if columns.integer::<u64>()? == index as u64 { Ok(columns) } else { Err(columns.damage()) }
    }

    /// The damage of having read an impossible value.
    pub(crate) fn damage(&self) -> Damage {
        Damage::Value { column: self.next.saturating_sub(1) }
    }

    fn value(&mut self) -> Result<ValueRef<'a>, Damage> {
        let value = self.row.get_ref(self.next)?;
        self.next += 1;
        Ok(value)
    }

    fn signed(&mut self) -> Result<i64, Damage> {
        match self.value()? {
            ValueRef::Integer(number) => Ok(number),
            _ => Err(self.damage()),
        }
    }

    /// Any number of 64 bits.
    pub(crate) fn address(&mut self) -> Result<u64, Damage> {
        Ok(self.signed()? as u64)
    }

    /// A number that is not negative.
    pub(crate) fn integer<T: TryFrom<u64>>(&mut self) -> Result<T, Damage> {
        let number = u64::try_from(self.signed()?).ok().and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| self.damage())
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Damage> {
        Ok(self.below(2)? == 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> Result<u32, Damage> {
        let number: u32 = self.integer()?;
        if (number as usize) < limit { Ok(number) } else { Err(self.damage()) }
    }

    /// A number of 32 bits, or nothing.
    pub(crate) fn optional(&mut self) -> Result<Option<u32>, Damage> {
        match self.value()? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => u32::try_from(number).map(Some).map_err(|_| self.damage()),
            _ => Err(self.damage()),
        }
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Damage> {
        self.value()?.as_str().map_err(|_| self.damage())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Damage> {
        self.value()?.as_blob().map_err(|_| self.damage())
    }

    /// A JSON array of numbers that are not negative.
    pub(crate) fn numbers(&mut self) -> Result<Vec<u64>, Damage> {
        let text = self.text()?.trim();
        let list = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let list = list.ok_or_else(|| self.damage())?;
        if list.trim().is_empty() {
            return Ok(Vec::new());
        }
        list.split(',').map(|number| number.trim().parse().map_err(|_| self.damage())).collect()
    }

    /// A number that is not negative, and not infinite.
    pub(crate) fn real(&mut self) -> Result<f64, Damage> {
        match self.value()? {
            ValueRef::Real(number) if 0.0 <= number && number.is_finite() => Ok(number),
            _ => Err(self.damage()),
        }
    }

    pub(crate) fn estimate(&mut self) -> Result<Estimate, Damage> {
        let value = self.real()?;
        let variance = self.real()?;
        let seen: u64 = self.integer()?;
        if MAX_SEEN < seen {
            return Err(self.damage());
        }
        Ok(Estimate { value, variance, seen })
    }
}
