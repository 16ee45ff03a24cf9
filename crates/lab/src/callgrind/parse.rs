//! Reader of callgrind's output format, one line at a time.
//!
//! A cost line is `address line cost`, where address and line may be relative (`+n`, `-n`, `*`) to
//! those of the previous cost line. A `calls=`, `jump=` or `jcnd=` line says what the instruction
//! of the *next* line did, which is written like a cost line but is none: it and the target are
//! relative to the previous cost line too, and the next cost line is not relative to it. Names are
//! written once as `(id) name`, then as `(id)`. A jump that leaves its function names the function
//! (`jfn=`) but not the object, so objects of functions are remembered and such jumps resolved at
//! the end.

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;

use image::Svma;

use super::{JumpCount, Object, ObjectId, Recording, Transition, UNKNOWN_OBJECT};

/// Why a file is not a callgrind recording that can be used.
#[derive(Debug)]
pub struct ParseError {
    /// Line of the file, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub kind: ParseErrorKind,
}

/// What is wrong with a line.
#[derive(Debug)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The file could not be read.
    Io(std::io::Error),
    /// The `positions:` line lacks `instr`: callgrind ran without `--dump-instr=yes`.
    NoInstructionAddresses,
    /// The line is of no known form.
    Unintelligible(String),
    /// A cost line came before any `fn=` line.
    CostOutsideFunction,
    /// A name of this kind is used by number before it was written out.
    UndefinedName(String),
    /// The file ends without a `totals:` line.
    Truncated,
    /// The instructions counted here are not those that callgrind counted.
    WrongTotal {
        /// Sum of the cost lines.
        counted: u64,
        /// What the file claims.
        claimed: u64,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            ParseErrorKind::Io(error) => write!(f, "{error}"),
            ParseErrorKind::NoInstructionAddresses => {
                f.write_str("no instruction addresses; run with --dump-instr=yes")
            }
            ParseErrorKind::Unintelligible(line) => write!(f, "not a callgrind line: {line:?}"),
            ParseErrorKind::CostOutsideFunction => f.write_str("cost before the first function"),
            ParseErrorKind::UndefinedName(name) => write!(f, "name {name} is used before it is defined"),
            ParseErrorKind::Truncated => f.write_str("the file ends without totals; was callgrind killed?"),
            ParseErrorKind::WrongTotal { counted, claimed } => {
                write!(f, "cost lines add up to {counted} instructions, but the file claims {claimed}")
            }
        }
    }
}

impl std::error::Error for ParseError {}

/// Reads a recording.
pub fn parse(mut input: impl BufRead) -> Result<Recording, ParseError> {
    let mut parser = Parser::default();
    let mut line = String::new();
    let mut number = 0;
    loop {
        line.clear();
        number += 1;
        let at_line = |kind| ParseError { line: number, kind };
        if input.read_line(&mut line).map_err(|error| at_line(ParseErrorKind::Io(error)))? == 0 {
            return parser.finish().map_err(at_line);
        }
        parser.line(line.trim()).map_err(at_line)?;
    }
}

type Parsed<T> = Result<T, ParseErrorKind>;

#[derive(Default)]
struct Parser {
    objects: Vec<Object>,
    object_ids: HashMap<String, ObjectId>,
    /// Paths of objects by callgrind's number for them.
    object_names: HashMap<String, String>,
    /// Which object each function was seen in, by callgrind's number: names are not unique.
    object_of_function: HashMap<String, ObjectId>,
    /// Object of the current cost lines.
    object: Option<ObjectId>,
    /// Whether a line number follows each address.
    has_line_numbers: bool,
    has_instruction_addresses: bool,
    /// Address of the previous cost line, to which the next ones are relative.
    previous: Svma,
    callee_object: Option<ObjectId>,
    jump_function: Option<String>,
    pending: Option<Pending>,
    /// Jumps whose target's object is still to be found, by function name.
    jumps_between_functions: Vec<(ObjectId, Transition, JumpCount, String)>,
    counted: u64,
    claimed: Option<u64>,
}

/// What the instruction of the next cost line did.
enum Pending {
    Call { to: Svma, count: u64 },
    Jump { to: Svma, count: JumpCount },
}

impl Parser {
    fn line(&mut self, line: &str) -> Parsed<()> {
        let bad = || ParseErrorKind::Unintelligible(line.to_owned());
        match line.as_bytes().first() {
            None | Some(b'#') => return Ok(()),
            Some(b'+' | b'-' | b'*' | b'0'..=b'9') => return self.cost_line(line),
            Some(_) => {}
        }
        match line.find(['=', ':']) {
            Some(at) if line.as_bytes()[at] == b'=' => self.assignment(&line[..at], &line[at + 1..]),
            Some(at) => self.header(&line[..at], line[at + 1..].trim()),
            None => Err(bad()),
        }
    }

    fn header(&mut self, key: &str, value: &str) -> Parsed<()> {
        match key {
            "positions" => {
                let positions: Vec<&str> = value.split(' ').collect();
                self.has_instruction_addresses = positions.contains(&"instr");
                self.has_line_numbers = positions.contains(&"line");
                if !self.has_instruction_addresses {
                    return Err(ParseErrorKind::NoInstructionAddresses);
                }
            }
            "totals" => {
                let total = value.split(' ').next().unwrap_or_default();
                let total: u64 = total.parse().map_err(|_| ParseErrorKind::Unintelligible(value.to_owned()))?;
                self.claimed = Some(self.claimed.unwrap_or(0).saturating_add(total));
            }
            _ => {}
        }
        Ok(())
    }

    fn assignment(&mut self, key: &str, value: &str) -> Parsed<()> {
        match key {
            "ob" => self.object = Some(self.object_id(value)?),
            "cob" => self.callee_object = Some(self.object_id(value)?),
            "fn" => {
                let object = self.current_object();
                self.object = Some(object);
                self.object_of_function.insert(number_of_name(value), object);
            }
            "cfn" => {
                let object = self.callee_object.unwrap_or_else(|| self.current_object());
                self.object_of_function.insert(number_of_name(value), object);
            }
            "jfn" => self.jump_function = Some(number_of_name(value)),
            "fl" | "fi" | "fe" | "cfl" | "cfi" | "jfi" | "jfl" => {}
            "calls" => {
                let (count, to) = self.count_and_target(value)?;
                self.pending = Some(Pending::Call { to, count: number(count)? });
            }
            "jump" => {
                let (count, to) = self.count_and_target(value)?;
                let count = JumpCount { taken: number(count)?, executed_conditionally: None };
                self.pending = Some(Pending::Jump { to, count });
            }
            "jcnd" => {
                let (counts, to) = self.count_and_target(value)?;
                let (taken, executed) =
                    counts.split_once('/').ok_or_else(|| ParseErrorKind::Unintelligible(value.to_owned()))?;
                let count = JumpCount { taken: number(taken)?, executed_conditionally: Some(number(executed)?) };
                self.pending = Some(Pending::Jump { to, count });
            }
            _ => return Err(ParseErrorKind::Unintelligible(format!("{key}={value}"))),
        }
        Ok(())
    }

    /// The object behind `(id) path`, `(id)` or `path`.
    fn object_id(&mut self, value: &str) -> Parsed<ObjectId> {
        let id = number_of_name(value);
        let path = match value.strip_prefix(id.as_str()).unwrap_or_default().trim() {
            "" if value.starts_with('(') => self.object_names.get(&id).cloned(),
            "" => Some(value.to_owned()),
            path => {
                self.object_names.insert(id, path.to_owned());
                Some(path.to_owned())
            }
        };
        let path = path.ok_or_else(|| ParseErrorKind::UndefinedName(value.to_owned()))?;
        Ok(self.intern_object(path))
    }

    fn intern_object(&mut self, path: String) -> ObjectId {
        *self.object_ids.entry(path).or_insert_with_key(|path| {
            self.objects.push(Object { path: path.clone(), ..Object::default() });
            ObjectId(self.objects.len() - 1)
        })
    }

    fn current_object(&mut self) -> ObjectId {
        match self.object {
            Some(object) => object,
            None => self.intern_object(UNKNOWN_OBJECT.to_owned()),
        }
    }

    /// Splits `count target [line]`; the target may be relative.
    fn count_and_target<'a>(&self, value: &'a str) -> Parsed<(&'a str, Svma)> {
        let mut fields = value.split_ascii_whitespace();
        match (fields.next(), fields.next()) {
            (Some(count), Some(target)) => Ok((count, self.address(target)?)),
            _ => Err(ParseErrorKind::Unintelligible(value.to_owned())),
        }
    }

    fn address(&self, field: &str) -> Parsed<Svma> {
        let previous = self.previous.0;
        let address = match field.as_bytes().first() {
            Some(b'*') => previous,
            Some(b'+') => previous.wrapping_add(number(&field[1..])?),
            Some(b'-') => previous.wrapping_sub(number(&field[1..])?),
            _ => number(field)?,
        };
        Ok(Svma(address))
    }

    fn cost_line(&mut self, line: &str) -> Parsed<()> {
        if !self.has_instruction_addresses {
            return Err(ParseErrorKind::NoInstructionAddresses);
        }
        let mut fields = line.split_ascii_whitespace();
        let at = self.address(fields.next().unwrap_or_default())?;
        if self.has_line_numbers {
            fields.next();
        }
        let object = self.object.ok_or(ParseErrorKind::CostOutsideFunction)?;
        match self.pending.take() {
            Some(pending) => self.transition(object, at, pending),
            None => {
                self.previous = at;
                let cost = fields.next().map_or(Ok(0), number)?;
                self.counted = self.counted.saturating_add(cost);
                let executed = self.objects[object.0].executed.entry(at).or_default();
                *executed = executed.saturating_add(cost);
            }
        }
        Ok(())
    }

    fn transition(&mut self, object: ObjectId, from: Svma, pending: Pending) {
        match pending {
            Pending::Call { to, count } => {
                let to_object = Some(self.callee_object.take().unwrap_or(object));
                let total = self.objects[object.0].calls.entry(Transition { from, to_object, to }).or_default();
                *total = total.saturating_add(count);
            }
            Pending::Jump { to, count } => {
                let transition = Transition { from, to_object: Some(object), to };
                match self.jump_function.take() {
                    None => self.objects[object.0].add_jump(transition, count),
                    Some(function) => self.jumps_between_functions.push((object, transition, count, function)),
                }
            }
        }
    }

    fn finish(mut self) -> Parsed<Recording> {
        let claimed = self.claimed.ok_or(ParseErrorKind::Truncated)?;
        if claimed != self.counted {
            return Err(ParseErrorKind::WrongTotal { counted: self.counted, claimed });
        }
        for (object, mut transition, count, function) in self.jumps_between_functions {
            transition.to_object = self.object_of_function.get(&function).copied();
            self.objects[object.0].add_jump(transition, count);
        }
        Ok(Recording { objects: self.objects, total_instructions: claimed })
    }
}

/// Decimal, or hexadecimal after `0x`.
fn number(field: &str) -> Parsed<u64> {
    let parsed = match field.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => field.parse(),
    };
    parsed.map_err(|_| ParseErrorKind::Unintelligible(field.to_owned()))
}

/// The part of a compressed name that identifies it: `(id)`; the whole of one that is not
/// compressed.
fn number_of_name(value: &str) -> String {
    match value.find(')') {
        Some(end) if value.starts_with('(') => value[..=end].to_owned(),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
