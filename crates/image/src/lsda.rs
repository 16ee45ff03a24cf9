//! Exception tables (the "language-specific data area" of the C++ ABI, which C, Rust, Ada and D
//! share).
//!
//! The table of a frame lists call sites in ascending order; each may name a landing pad, where the
//! unwinder resumes when an exception passes. Landing pads are relative to `LPStart`, which is the
//! frame's start unless the table says otherwise, as clang's does when a function is split over
//! several sections. The order is required, not assumed: a table that goes backwards is refused,
//! which also bounds its entries that are not empty by the frame's length.

use crate::error::CallSiteFault;
use crate::frame::{Frame, Reader};
use crate::memory::Memory;
use crate::{Error, Svma, SvmaRange};
use gimli::{DwEhPe, EndianSlice, LittleEndian, Reader as _, constants};

/// A stretch of code in which calls may throw.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct CallSite {
    /// The code; the return address of a call is inside or at the end.
    pub range: SvmaRange,
    /// Where an exception resumes, if the frame catches it or cleans up.
    pub landing_pad: Option<Svma>,
    /// 0 for clean-up only, else 1 + offset into the table of actions.
    pub action: u64,
}

pub(crate) fn call_sites(
    memory: &Memory<'_>,
    frame: &Frame,
    pointer_at: impl Fn(Svma) -> Option<Svma>,
) -> Result<Vec<CallSite>, Error> {
    let Some(table) = frame.lsda else { return Ok(Vec::new()) };
    let fail = |fault| Error::CallSites { table, fault };
    let bytes = memory.tail(table).ok_or(fail(CallSiteFault::Truncated))?;
    let start = EndianSlice::new(bytes, LittleEndian);
    let mut input = Input { rest: start, start, at: table };
    read_table(&mut input, frame, pointer_at).map_err(fail)
}

fn read_table(
    input: &mut Input<'_>,
    frame: &Frame,
    pointer_at: impl Fn(Svma) -> Option<Svma>,
) -> Result<Vec<CallSite>, CallSiteFault> {
    let base = frame.range.start;
    let landing_base = match input.encoding()? {
        constants::DW_EH_PE_omit => base,
        encoding => input.pointer(encoding, pointer_at)?,
    };
    if input.encoding()? != constants::DW_EH_PE_omit {
        input.uleb()?;
    }
    let encoding = input.encoding()?;
    let len = usize::try_from(input.uleb()?).map_err(|_| CallSiteFault::Truncated)?;
    input.rest.truncate(len).map_err(|_| CallSiteFault::Truncated)?;

    let mut sites = Vec::new();
    let mut end = base;
    while !input.rest.is_empty() {
        let start = base.offset(input.value(encoding)?);
        let len = input.value(encoding)?;
        let landing_offset = input.value(encoding)?;
        let action = input.uleb()?;
        let range = SvmaRange::at(start, len).ok_or(CallSiteFault::Order)?;
        if range.start < end || range.end > frame.range.end {
            return Err(CallSiteFault::Order);
        }
        // Where code that could throw has been optimized away.
        if range.is_empty() {
            continue;
        }
        end = range.end;
        let landing_pad = (landing_offset != 0).then(|| landing_base.offset(landing_offset));
        sites.push(CallSite { range, landing_pad, action });
    }
    Ok(sites)
}

/// The rest of the table, and where it came from.
struct Input<'data> {
    rest: Reader<'data>,
    start: Reader<'data>,
    at: Svma,
}

impl Input<'_> {
    fn encoding(&mut self) -> Result<DwEhPe, CallSiteFault> {
        self.rest.read_u8().map(DwEhPe).map_err(|_| CallSiteFault::Truncated)
    }

    fn uleb(&mut self) -> Result<u64, CallSiteFault> {
        self.rest.read_uleb128().map_err(|_| CallSiteFault::Truncated)
    }

    /// A number in one of the value formats, without any base.
    fn value(&mut self, encoding: DwEhPe) -> Result<u64, CallSiteFault> {
        let rest = &mut self.rest;
        let value = match encoding.format() {
            constants::DW_EH_PE_absptr | constants::DW_EH_PE_udata8 | constants::DW_EH_PE_sdata8 => rest.read_u64(),
            constants::DW_EH_PE_uleb128 => rest.read_uleb128(),
            constants::DW_EH_PE_sleb128 => rest.read_sleb128().map(i64::cast_unsigned),
            constants::DW_EH_PE_udata2 => rest.read_u16().map(u64::from),
            constants::DW_EH_PE_udata4 => rest.read_u32().map(u64::from),
            constants::DW_EH_PE_sdata2 => rest.read_i16().map(|value| i64::from(value).cast_unsigned()),
            constants::DW_EH_PE_sdata4 => rest.read_i32().map(|value| i64::from(value).cast_unsigned()),
            _ => return Err(CallSiteFault::Encoding(encoding.0)),
        };
        value.map_err(|_| CallSiteFault::Truncated)
    }

    /// An address, absolute or relative to its own place, perhaps through a word that holds it.
    fn pointer(&mut self, encoding: DwEhPe, pointer_at: impl Fn(Svma) -> Option<Svma>) -> Result<Svma, CallSiteFault> {
        let place = self.at.offset(self.rest.offset_from(self.start) as u64);
        let value = self.value(encoding)?;
        let address = match encoding.application() {
            constants::DW_EH_PE_absptr if encoding.format() == constants::DW_EH_PE_absptr => {
                pointer_at(place).unwrap_or(Svma(value))
            }
            constants::DW_EH_PE_absptr => Svma(value),
            constants::DW_EH_PE_pcrel => place.offset(value),
            _ => return Err(CallSiteFault::Encoding(encoding.0)),
        };
        if encoding.is_indirect() {
            return pointer_at(address).ok_or(CallSiteFault::Truncated);
        }
        Ok(address)
    }
}
