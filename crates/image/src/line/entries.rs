//! Facts of single DWARF entries: where a function begins in its source, and discriminators.
//!
//! A discriminator tells apart the blocks of one line, so that `a ? b : c` has three counts and not
//! one. The line table has it for an instruction; the entry of an inlined call has it for the call,
//! and so for the line of the caller.
//!
//! The entry of an inlined or out-of-line copy does not repeat what the entry it is a copy of
//! states, but refers to it, in the same unit, in another one, or in the file shared between debug
//! files. References are followed up to a limit, as they may form a ring.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use gimli::{AttributeValue, DebugInfoOffset, Dwarf, EndianSlice, LittleEndian, Unit, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

/// Bytes of a section.
pub type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Longest chain of references; compilers make three.
const MAX_REFERENCES: usize = 16;

/// What the entry of a function, perhaps inlined, states beyond its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFacts {
    /// Line at which the function begins; 0 if unknown.
    pub line: u32,
    /// Discriminator of the call that was inlined.
    pub call_discriminator: u32,
}

/// Reads entries, each once.
#[derive(Debug)]
pub struct Entries<'a> {
    dwarf: Arc<Dwarf<Slice<'a>>>,
    own_units: Units<'a>,
    shared_units: Units<'a>,
    functions: FxHashMap<(UnitKey, UnitOffset), FunctionFacts>,
    discriminators: FxHashMap<UnitKey, Discriminators>,
}

/// Offset of a unit in `.debug_info`.
type UnitKey = Option<DebugInfoOffset>;

/// Stretches of code with a discriminator, ascending.
type Discriminators = Vec<(Range<u64>, u32)>;

impl<'a> Entries<'a> {
    pub fn new(dwarf: Arc<Dwarf<Slice<'a>>>) -> Entries<'a> {
        let (own_units, shared_units) = (Units::default(), Units::default());
        Entries {
            dwarf,
            own_units,
            shared_units,
            functions: FxHashMap::default(),
            discriminators: FxHashMap::default(),
        }
    }

    /// The discriminator in the line table; 0 if there is none.
    pub fn line_discriminator(&mut self, unit: UnitRef<'_, Slice<'a>>, address: u64) -> u32 {
        let key = unit.header.debug_info_offset();
        let stretches = self.discriminators.entry(key).or_insert_with(|| discriminators(unit));
        let after = stretches.partition_point(|(range, _)| range.start <= address);
        let last = after.checked_sub(1).and_then(|index| stretches.get(index));
        last.filter(|(range, _)| range.contains(&address)).map_or(0, |&(_, discriminator)| discriminator)
    }

    pub fn function_facts(&mut self, unit: UnitRef<'_, Slice<'a>>, entry: UnitOffset) -> FunctionFacts {
        let key = (unit.header.debug_info_offset(), entry);
        if let Some(&facts) = self.functions.get(&key) {
            return facts;
        }
        let facts = FunctionFacts {
            line: self.function_line(unit.unit, entry).unwrap_or(0),
            call_discriminator: number(unit.unit, entry, gimli::DW_AT_GNU_discriminator).unwrap_or(0),
        };
        self.functions.insert(key, facts);
        facts
    }

    fn function_line(&mut self, unit: &Unit<Slice<'a>>, entry: UnitOffset) -> Option<u32> {
        let mut other: Option<Rc<Unit<Slice<'a>>>> = None;
        let (mut entry, mut is_shared) = (entry, false);
        for _ in 0..MAX_REFERENCES {
            let unit = other.as_deref().unwrap_or(unit);
            if let Some(line) = number(unit, entry, gimli::DW_AT_decl_line) {
                return Some(line);
            }
            let entry_here = unit.entry(entry).ok()?;
            let origin = entry_here.attr_value(gimli::DW_AT_abstract_origin);
            let offset = match origin.or_else(|| entry_here.attr_value(gimli::DW_AT_specification))? {
                AttributeValue::UnitRef(offset) => {
                    entry = offset;
                    continue;
                }
                AttributeValue::DebugInfoRef(offset) => offset,
                AttributeValue::DebugInfoRefSup(offset) => {
                    is_shared = true;
                    offset
                }
                _ => return None,
            };
            let next = match self.dwarf.sup() {
                Some(shared) if is_shared => self.shared_units.containing(shared, offset)?,
                _ => self.own_units.containing(&self.dwarf, offset)?,
            };
            entry = offset.to_unit_offset(&next.header)?;
            other = Some(next);
        }
        None
    }
}

fn number(unit: &Unit<Slice<'_>>, entry: UnitOffset, attribute: gimli::DwAt) -> Option<u32> {
    let value = unit.entry(entry).ok()?.attr(attribute)?.udata_value()?;
    u32::try_from(value).ok()
}

/// A row of the line table holds until the next one of its sequence; of several for one address the
/// last counts.
fn discriminators(unit: UnitRef<'_, Slice<'_>>) -> Discriminators {
    let mut stretches = Vec::new();
    let Some(program) = unit.line_program.clone() else { return stretches };
    let mut rows = program.rows();
    let mut last: Option<(u64, u32)> = None;
    while let Ok(Some((_, row))) = rows.next_row() {
        let start = row.address();
        if let Some((from, discriminator)) = last
            && discriminator != 0
            && from < start
        {
            stretches.push((from..start, discriminator));
        }
        let discriminator = u32::try_from(row.discriminator()).unwrap_or(0);
        last = (!row.end_sequence()).then_some((start, discriminator));
    }
    stretches.sort_by_key(|(range, _)| range.start);
    stretches
}

/// The units of one file, parsed when a reference leads there.
#[derive(Debug, Default)]
struct Units<'a> {
    starts: Option<Vec<DebugInfoOffset>>,
    parsed: FxHashMap<DebugInfoOffset, Option<Rc<Unit<Slice<'a>>>>>,
}

impl<'a> Units<'a> {
    fn containing(&mut self, dwarf: &Dwarf<Slice<'a>>, offset: DebugInfoOffset) -> Option<Rc<Unit<Slice<'a>>>> {
        let starts = self.starts.get_or_insert_with(|| unit_starts(dwarf));
        let start = *starts.get(starts.partition_point(|start| start.0 <= offset.0).checked_sub(1)?)?;
        let parse = || {
            let header = dwarf.debug_info.header_from_offset(start).ok()?;
            dwarf.unit(header).ok().map(Rc::new)
        };
        self.parsed.entry(start).or_insert_with(parse).clone()
    }
}

fn unit_starts(dwarf: &Dwarf<Slice<'_>>) -> Vec<DebugInfoOffset> {
    let mut units = dwarf.units();
    let headers = std::iter::from_fn(|| units.next().ok().flatten());
    headers.filter_map(|header| header.debug_info_offset()).collect()
}
