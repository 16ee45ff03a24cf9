//! Where code returns to that has no unwind information: found by running it to its return.
//!
//! Hand-written assembly (of codecs, of big numbers) often has no call frame information, and
//! frames that no pattern of prologues covers: the stack pointer is aligned and the old one kept in
//! memory. But when a thread is interrupted, its registers and its stack are known. So the code is
//! followed from there on, and what it does to registers and stack is done to copies of them, as
//! far as it is known: moves, additions of constants, pushes and pops. Everything else makes its
//! results unknown. A callee is taken to keep to the calling convention, and stores through unknown
//! pointers not to touch the frame. Of a branch both sides are tried, of a loop one round. At a
//! return, the word that the stack pointer points to is where the function returns to.
//!
//! What is behind a call that does not return, or another mistake, leads to a wrong word. The
//! caller says whether a word is an address behind a call, and the search goes on if it is not.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
};
use rustc_hash::FxHashSet;

use crate::clobbers::CALLER_SAVED;
use crate::liveness::writes;

/// Instructions that are followed at most.
const MAX_INSTRUCTIONS: usize = 8192;

const RSP: usize = 4;
const RBP: usize = 5;

/// General registers in hardware order, as far as they are known.
pub type Registers = [Option<u64>; 16];

/// The state of a thread, and its code.
pub struct Interrupted<'a> {
    /// Code of the module,
    pub code: &'a [u8],
    /// and its address, in the same terms as `at`.
    pub code_start: u64,
    /// The instruction to be executed next.
    pub at: u64,
    /// What is in registers.
    pub registers: Registers,
    /// What is in memory.
    pub read: &'a dyn Fn(u64) -> Option<u64>,
    /// Whether a word is an address behind a call.
    pub is_behind_call: &'a dyn Fn(u64) -> bool,
}

impl std::fmt::Debug for Interrupted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupted").field("at", &self.at).field("registers", &self.registers).finish_non_exhaustive()
    }
}

/// A caller, when its callee has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The address behind the call.
    pub to: u64,
    /// What is in registers then; those that calls do not preserve are unknown.
    pub registers: Registers,
}

/// One way that is followed.
#[derive(Clone, Debug)]
struct Way {
    at: u64,
    registers: Registers,
    /// Stores on the way, the latest last.
    stores: Vec<(u64, Option<u64>)>,
}

/// Where the interrupted function returns to.
#[must_use]
pub fn find_return(thread: &Interrupted<'_>) -> Option<Returned> {
    let mut info = InstructionInfoFactory::new();
    let mut seen = FxHashSet::default();
    let mut ways = vec![Way { at: thread.at, registers: thread.registers, stores: Vec::new() }];
    while let Some(mut way) = ways.pop() {
        while seen.len() < MAX_INSTRUCTIONS && seen.insert(way.at) {
            let Some(insn) = decode(thread, way.at) else { break };
            match insn.flow_control() {
                // A computed jump may be the end of a function that calls another in its place.
                FlowControl::Return | FlowControl::IndirectBranch => {
                    if let Some(returned) = way.caller(thread) {
                        return Some(returned);
                    }
                    break;
                }
                FlowControl::UnconditionalBranch => way.at = insn.near_branch_target(),
                FlowControl::ConditionalBranch => {
                    let at = insn.near_branch_target();
                    ways.push(Way { at, ..way.clone() });
                    way.at = insn.next_ip();
                }
                FlowControl::Call | FlowControl::IndirectCall => {
                    way.forget(CALLER_SAVED);
                    way.at = insn.next_ip();
                }
                FlowControl::Next => {
                    way.execute(&insn, thread, &mut info);
                    way.at = insn.next_ip();
                }
                FlowControl::Interrupt | FlowControl::XbeginXabortXend | FlowControl::Exception => break,
            }
        }
    }
    None
}

fn decode(thread: &Interrupted<'_>, at: u64) -> Option<Instruction> {
    let offset = usize::try_from(at.checked_sub(thread.code_start)?).ok()?;
    let bytes = thread.code.get(offset..)?;
    let insn = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
    (!insn.is_invalid()).then_some(insn)
}

/// The number of a general register of 64 bits.
fn number(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}

impl Way {
    fn caller(&self, thread: &Interrupted<'_>) -> Option<Returned> {
        let rsp = self.registers[RSP]?;
        let to = self.load(rsp, thread).filter(|&to| (thread.is_behind_call)(to))?;
        let mut caller = self.clone();
        caller.forget(CALLER_SAVED);
        caller.registers[RSP] = Some(rsp.wrapping_add(8));
        Some(Returned { to, registers: caller.registers })
    }

    /// These registers are unknown from now on; bits by number.
    fn forget(&mut self, registers: u16) {
        let is_gone = |number: usize| registers & 1 << number != 0;
        (0..16).filter(|&number| is_gone(number)).for_each(|number| self.registers[number] = None);
    }

    fn load(&self, address: u64, thread: &Interrupted<'_>) -> Option<u64> {
        let stored = self.stores.iter().rev().find(|(at, _)| at.abs_diff(address) < 8);
        match stored {
            Some(&(at, value)) => value.filter(|_| at == address),
            None => (thread.read)(address),
        }
    }

    fn push(&mut self, value: Option<u64>) {
        self.registers[RSP] = self.registers[RSP].map(|rsp| rsp.wrapping_sub(8));
        if let Some(rsp) = self.registers[RSP] {
            self.stores.push((rsp, value));
        }
    }

    fn pop(&mut self, thread: &Interrupted<'_>) -> Option<u64> {
        let rsp = self.registers[RSP]?;
        self.registers[RSP] = Some(rsp.wrapping_add(8));
        self.load(rsp, thread)
    }

    /// The address of the instruction's memory operand.
    fn address(&self, insn: &Instruction) -> Option<u64> {
        if insn.is_ip_rel_memory_operand() {
            return Some(insn.ip_rel_memory_address());
        }
        let part = |register: Register| match register {
            Register::None => Some(0),
            register => self.registers[number(register)?],
        };
        let index = part(insn.memory_index())?.wrapping_mul(insn.memory_index_scale().into());
        let has_segment = matches!(insn.segment_prefix(), Register::FS | Register::GS);
        let base = part(insn.memory_base()).filter(|_| !has_segment)?;
        Some(base.wrapping_add(index).wrapping_add(insn.memory_displacement64()))
    }

    /// The value of an operand of 64 bits.
    fn value(&self, insn: &Instruction, operand: u32, thread: &Interrupted<'_>) -> Option<u64> {
        match insn.op_kind(operand) {
            OpKind::Register => self.registers[number(insn.op_register(operand))?],
            OpKind::Memory => self.load(self.address(insn)?, thread),
            OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate64 => Some(insn.immediate(operand)),
            _ => None,
        }
    }

    fn execute(&mut self, insn: &Instruction, thread: &Interrupted<'_>, info: &mut InstructionInfoFactory) {
        let is_to_register = insn.op_count() > 0 && insn.op0_kind() == OpKind::Register;
        let to = if is_to_register { number(insn.op0_register()) } else { None };
        let two = || Some((self.value(insn, 0, thread)?, self.value(insn, 1, thread)?));
        let result = match insn.mnemonic() {
            Mnemonic::Push if insn.stack_pointer_increment() == -8 => {
                let value = self.value(insn, 0, thread);
                return self.push(value);
            }
            Mnemonic::Pop if insn.stack_pointer_increment() == 8 && to.is_some() => self.pop(thread),
            Mnemonic::Leave if insn.code() == Code::Leaveq => {
                self.registers[RSP] = self.registers[RBP];
                self.registers[RBP] = self.pop(thread);
                return;
            }
            Mnemonic::Mov => self.value(insn, 1, thread),
            Mnemonic::Lea => self.address(insn),
            Mnemonic::Add => two().map(|(a, b)| a.wrapping_add(b)),
            Mnemonic::Sub => two().map(|(a, b)| a.wrapping_sub(b)),
            Mnemonic::And => two().map(|(a, b)| a & b),
            _ => None,
        };
        let is_pop = insn.mnemonic() == Mnemonic::Pop;
        if !is_pop {
            self.forget_written(insn, info);
        }
        // What has no result may be a comparison, which writes nothing.
        if let Some(to) = to.filter(|_| is_pop || result.is_some()) {
            self.registers[to] = result;
        } else if insn.op_count() > 0
            && insn.op0_kind() == OpKind::Memory
            && insn.mnemonic() == Mnemonic::Mov
            && let Some(address) = self.address(insn)
        {
            self.stores.push((address, result.filter(|_| insn.memory_size().size() == 8)));
        }
    }

    fn forget_written(&mut self, insn: &Instruction, info: &mut InstructionInfoFactory) {
        let used = info.info(insn).used_registers().iter().filter(|used| writes(used.access()));
        let registers = used.map(|used| used.register().full_register()).filter_map(number);
        self.forget(registers.fold(0, |set, number| set | 1 << number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: u64 = 0x1000;
    const STACK: u64 = 0x7000;
    const BEHIND_CALL: u64 = 0x4242;

    /// Interrupts code at an offset, with a stack whose words are given.
    fn returned(code: &[u8], at: u64, rbp: u64, stack: &[u64]) -> Option<Returned> {
        let mut registers = [Some(7); 16];
        registers[RSP] = Some(STACK);
        registers[RBP] = Some(rbp);
        let read = |address: u64| stack.get(usize::try_from(address.checked_sub(STACK)? / 8).ok()?).copied();
        let is_behind_call = |word: u64| word == BEHIND_CALL;
        let (code_start, at) = (CODE, CODE + at);
        find_return(&Interrupted { code, code_start, at, registers, read: &read, is_behind_call: &is_behind_call })
    }

    #[test]
    fn pushes_and_pops_are_followed() {
        // push rbx; sub rsp, 16; (interrupted) xor ebx, ebx; add rsp, 16; pop rbx; ret
        let code = [0x53, 0x48, 0x83, 0xec, 0x10, 0x31, 0xdb, 0x48, 0x83, 0xc4, 0x10, 0x5b, 0xc3];
        let found = returned(&code, 5, 0, &[1, 2, 33, BEHIND_CALL, 5]).unwrap();
        assert_eq!((found.to, found.registers[RSP], found.registers[3]), (BEHIND_CALL, Some(STACK + 32), Some(33)));
        assert_eq!((found.registers[0], found.registers[12]), (None, Some(7)));
    }

    /// As in libjpeg-turbo: the stack pointer before it was aligned is in the first word of the
    /// frame.
    #[test]
    fn an_aligned_stack_is_left_by_the_pointer_that_was_kept() {
        // (interrupted) mov rsp, rbp; pop rsp; pop rbp; ret
        let code = [0x48, 0x89, 0xec, 0x5c, 0x5d, 0xc3];
        let stack = [1, STACK + 24, 3, 99, BEHIND_CALL, 5];
        let found = returned(&code, 0, STACK + 8, &stack).unwrap();
        assert_eq!((found.to, found.registers[RSP], found.registers[RBP]), (BEHIND_CALL, Some(STACK + 40), Some(99)));
    }

    #[test]
    fn loops_are_left_and_dead_ends_are_given_up() {
        // dec rax; jne self; test; je over; call nowhere (does not return); ud2; over: ret
        let code = [0x48, 0xff, 0xc8, 0x75, 0xfb, 0x74, 0x07, 0xe8, 0, 0, 0, 0, 0x0f, 0x0b, 0xc3];
        assert_eq!(returned(&code, 0, 0, &[BEHIND_CALL]).map(|found| found.to), Some(BEHIND_CALL));
    }

    #[test]
    fn a_word_that_is_no_return_address_is_not_believed() {
        assert_eq!(returned(&[0xc3], 0, 0, &[3]), None);
        // jmp rax: a call in its place, if the stack is as on entry
        assert_eq!(returned(&[0xff, 0xe0], 0, 0, &[3]), None);
        assert!(returned(&[0xff, 0xe0], 0, 0, &[BEHIND_CALL]).is_some());
    }

    #[test]
    fn a_stack_pointer_that_is_computed_is_unknown() {
        // sub rsp, rax with rax from memory that is not known; ret
        let code = [0x48, 0x8b, 0x00, 0x48, 0x29, 0xc4, 0xc3];
        assert_eq!(returned(&code, 0, 0, &[BEHIND_CALL]), None);
    }

    #[test]
    fn comparisons_leave_registers_as_they_are() {
        // cmp rbp, rax; test rsp, rsp; mov rsp, rbp; pop rbp; ret
        let code = [0x48, 0x39, 0xc5, 0x48, 0x85, 0xe4, 0x48, 0x89, 0xec, 0x5d, 0xc3];
        let found = returned(&code, 0, STACK + 8, &[1, 99, BEHIND_CALL]).unwrap();
        assert_eq!((found.to, found.registers[RBP]), (BEHIND_CALL, Some(99)));
    }

    #[test]
    fn stores_of_less_than_a_word_make_it_unknown() {
        // mov dword [rsp], eax; pop rbx; ret
        let code = [0x89, 0x04, 0x24, 0x5b, 0xc3];
        let found = returned(&code, 0, 0, &[1, BEHIND_CALL]).unwrap();
        assert_eq!(found.registers[3], None);
    }
}
