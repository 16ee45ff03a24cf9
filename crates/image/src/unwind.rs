//! Unwind rows: how to find the caller's registers, for each stretch of a frame.

use crate::frame::{Frame, FrameTable};
use crate::{Error, Svma, SvmaRange};

/// Most rows read per frame; the longest real ones have a few thousand.
const MAX_ROWS: usize = 1 << 14;

/// DWARF number of the return address, the last of the registers that calls preserve or need.
const RETURN_ADDRESS: u16 = 16;

/// The rules that hold on a stretch of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnwindRow {
    /// Where they hold.
    pub range: SvmaRange,
    /// How to compute the canonical frame address.
    pub cfa: Cfa,
    /// DWARF numbers of general registers (16 is the return address) with the way to restore each,
    /// in ascending order.
    pub registers: Vec<(u16, RegisterRule)>,
}

/// The canonical frame address: the stack pointer before the call that made the frame.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Cfa {
    /// `register + offset`.
    Register {
        /// DWARF register number; 7 is `rsp`, 6 is `rbp`.
        register: u16,
        /// Bytes to add.
        offset: i64,
    },
    /// The result of a DWARF expression.
    Expression,
}

/// How to restore one register of the caller.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum RegisterRule {
    /// Lost.
    Undefined,
    /// Unchanged.
    SameValue,
    /// The word at `cfa + offset`.
    Offset(i64),
    /// `cfa + offset` itself.
    ValueOffset(i64),
    /// The value of another register.
    Register(u16),
    /// The word at the address a DWARF expression gives.
    Expression,
    /// The value a DWARF expression gives.
    ValueExpression,
    /// A rule of the processor's own, or a constant.
    Other,
}

pub(crate) fn rows(table: &FrameTable<'_>, frame: &Frame) -> Result<Vec<UnwindRow>, Error> {
    let malformed = |cause| Error::Unwind { frame: frame.range.start, cause };
    let entry = table.entry(frame).map_err(malformed)?;
    let section = table.eh_frame();
    let mut context = gimli::UnwindContext::new();
    let mut source = entry.rows(&section, table.bases(), &mut context).map_err(malformed)?;
    let mut rows = Vec::new();
    while let Some(row) = source.next_row().map_err(malformed)? {
        if rows.len() == MAX_ROWS {
            return Err(Error::TooManyRows { frame: frame.range.start, limit: MAX_ROWS });
        }
        let range = SvmaRange {
            start: Svma(row.start_address()).max(frame.range.start),
            end: Svma(row.end_address()).min(frame.range.end),
        };
        if range.is_empty() {
            continue;
        }
        let general = row.registers().filter(|(register, _)| register.0 <= RETURN_ADDRESS);
        let mut registers: Vec<_> = general.map(|(register, rule)| (register.0, register_rule(rule))).collect();
        registers.sort_by_key(|&(register, _)| register);
        rows.push(UnwindRow { range, cfa: cfa_rule(row.cfa()), registers });
    }
    Ok(rows)
}

fn cfa_rule(rule: &gimli::CfaRule<usize>) -> Cfa {
    match rule {
        gimli::CfaRule::RegisterAndOffset { register, offset } => {
            Cfa::Register { register: register.0, offset: *offset }
        }
        gimli::CfaRule::Expression(_) => Cfa::Expression,
    }
}

fn register_rule(rule: &gimli::RegisterRule<usize>) -> RegisterRule {
    match rule {
        gimli::RegisterRule::Undefined => RegisterRule::Undefined,
        gimli::RegisterRule::SameValue => RegisterRule::SameValue,
        gimli::RegisterRule::Offset(offset) => RegisterRule::Offset(*offset),
        gimli::RegisterRule::ValOffset(offset) => RegisterRule::ValueOffset(*offset),
        gimli::RegisterRule::Register(register) => RegisterRule::Register(register.0),
        gimli::RegisterRule::Expression(_) => RegisterRule::Expression,
        gimli::RegisterRule::ValExpression(_) => RegisterRule::ValueExpression,
        _ => RegisterRule::Other,
    }
}
