//! How to come from a frame to its caller's, by the call frame information of a module.
//!
//! All registers are carried along, and expressions are evaluated: functions that align their stack
//! find their caller's frame by a pointer that they keep in memory (GCC), and the frame of a signal
//! is nothing but expressions.

use std::rc::Rc;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EvaluationResult, Format, LittleEndian, Location,
    ParsedEhFrameHdr, Piece, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _, Value,
    X86_64,
};
use rustc_hash::FxHashMap;
use wire::sample::{RIP, RSP};

use super::{Bytes, Frame, UnwindSections};

const ENCODING: Encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };
/// Steps of an expression, which may jump.
const MAX_STEPS: u32 = 1000;

/// Hardware numbers, by those of DWARF.
const REGISTERS: [(Register, usize); 17] = [
    (X86_64::RAX, 0),
    (X86_64::RDX, 2),
    (X86_64::RCX, 1),
    (X86_64::RBX, 3),
    (X86_64::RSI, 6),
    (X86_64::RDI, 7),
    (X86_64::RBP, 5),
    (X86_64::RSP, RSP),
    (X86_64::R8, 8),
    (X86_64::R9, 9),
    (X86_64::R10, 10),
    (X86_64::R11, 11),
    (X86_64::R12, 12),
    (X86_64::R13, 13),
    (X86_64::R14, 14),
    (X86_64::R15, 15),
    (X86_64::RA, RIP),
];
/// Registers that functions leave as they are unless they say otherwise.
const PRESERVED: [usize; 6] = [3, 5, 12, 13, 14, 15];

fn hardware_number(register: Register) -> Option<usize> {
    REGISTERS.iter().find(|(known, _)| *known == register).map(|&(_, index)| index)
}

type Section = gimli::EndianReader<LittleEndian, Bytes>;

/// The rules of a module.
pub struct Rules {
    frames: EhFrame<Section>,
    index: Option<ParsedEhFrameHdr<Section>>,
    bases: BaseAddresses,
    context: Box<UnwindContext<usize>>,
    known: FxHashMap<u64, Option<Rc<Row>>>,
}

/// The rules at one address.
#[derive(Debug)]
struct Row {
    cfa: CfaRule<usize>,
    registers: Vec<(usize, RegisterRule<usize>)>,
    is_signal_frame: bool,
}

impl Rules {
    pub fn new(sections: &UnwindSections) -> Option<Rules> {
        let (range, bytes) = sections.eh_frame.as_ref()?;
        let reader = |bytes: &Bytes| Section::new(bytes.clone(), LittleEndian);
        let mut bases = BaseAddresses::default().set_eh_frame(range.start);
        if let Some((text, _)) = &sections.text {
            bases = bases.set_text(text.start);
        }
        let mut index = None;
        if let Some((range, bytes)) = &sections.eh_frame_hdr {
            bases = bases.set_eh_frame_hdr(range.start);
            index = EhFrameHdr::from(reader(bytes)).parse(&bases, 8).ok();
        }
        Some(Rules {
            frames: EhFrame::from(reader(bytes)),
            index,
            bases,
            context: Box::default(),
            known: FxHashMap::default(),
        })
    }

    /// The caller of a frame whose code is at `address` of the file, if there are rules for it; by
    /// them, it may have none.
    pub fn caller(&mut self, frame: &Frame, address: u64, read: &dyn Fn(u64) -> Option<u64>) -> Option<Option<Frame>> {
        let row = self.row(address)?;
        Some(self.apply(&row, frame, read))
    }

    fn row(&mut self, address: u64) -> Option<Rc<Row>> {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        let row = self.find(address).ok().map(Rc::new);
        self.known.insert(address, row.clone());
        row
    }

    fn find(&mut self, address: u64) -> gimli::Result<Row> {
        let Rules { frames, index, bases, context, .. } = self;
        let table = index.as_ref().and_then(ParsedEhFrameHdr::table);
        let entry = match &table {
            Some(table) => table.fde_for_address(frames, bases, address, EhFrame::cie_from_offset)?,
            None => frames.fde_for_address(bases, address, EhFrame::cie_from_offset)?,
        };
        let row = entry.unwind_info_for_address(frames, bases, context, address)?;
        let registers =
            row.registers().filter_map(|(register, rule)| Some((hardware_number(*register)?, rule.clone())));
        Ok(Row {
            cfa: row.cfa().clone(),
            registers: registers.collect(),
            is_signal_frame: entry.is_signal_trampoline(),
        })
    }

    fn apply(&self, row: &Row, frame: &Frame, read: &dyn Fn(u64) -> Option<u64>) -> Option<Frame> {
        let evaluate = |expression: &UnwindExpression<usize>, start| self.evaluate(expression, start, frame, read);
        let cfa = match &row.cfa {
            CfaRule::RegisterAndOffset { register, offset } => {
                frame.registers[hardware_number(*register)?]?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => evaluate(expression, None)?,
        };
        let mut registers = [None; 17];
        for index in PRESERVED {
            registers[index] = frame.registers[index];
        }
        registers[RSP] = Some(cfa);
        for (index, rule) in &row.registers {
            registers[*index] = match rule {
                RegisterRule::SameValue => frame.registers[*index],
                RegisterRule::Offset(offset) => read(cfa.wrapping_add_signed(*offset)),
                RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
                RegisterRule::Register(other) => frame.registers[hardware_number(*other)?],
                RegisterRule::Expression(expression) => evaluate(expression, Some(cfa)).and_then(read),
                RegisterRule::ValExpression(expression) => evaluate(expression, Some(cfa)),
                RegisterRule::Constant(value) => Some(*value),
                _ => None,
            };
        }
        // Callers are further up; only a signal may have come in on a stack of its own.
        let is_further = row.is_signal_frame || registers[RSP] > frame.registers[RSP];
        let has_caller = registers[RIP].is_some_and(|address| address != 0);
        (is_further && has_caller).then_some(Frame { registers, is_behind_call: !row.is_signal_frame })
    }

    fn evaluate(
        &self,
        expression: &UnwindExpression<usize>,
        start: Option<u64>,
        frame: &Frame,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut evaluation = expression.get(&self.frames).ok()?.evaluation(ENCODING);
        evaluation.set_max_iterations(MAX_STEPS);
        if let Some(start) = start {
            evaluation.set_initial_value(start);
        }
        let mut state = evaluation.evaluate().ok()?;
        loop {
            state = match state {
                EvaluationResult::Complete => return address_of(evaluation.result().as_slice()),
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = frame.registers[hardware_number(register)?]?;
                    evaluation.resume_with_register(Value::Generic(value)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(read(address)?)).ok()?
                }
                _ => return None,
            };
        }
    }
}

fn address_of(pieces: &[Piece<Section>]) -> Option<u64> {
    match pieces {
        [Piece { location: Location::Address { address }, .. }] => Some(*address),
        _ => None,
    }
}
