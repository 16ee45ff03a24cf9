//! What an instruction waits for, and how long others wait for it.
//!
//! Enough for a model of a processor that runs instructions as soon as their inputs are there:
//! inputs and outputs as numbers of *places* (registers, flags, and words of the stack and of the
//! file's data, which forward what was stored there to who loads it), and the time from one to the
//! other. Latencies are those that current processors have in common, with everything in the
//! first-level cache. What stands where in memory by other registers is not known; such stores and
//! loads are taken to be of different places.

use iced_x86::{
    CpuidFeature, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
    UsedRegister,
};

/// Number of places.
pub const N_PLACES: usize = 256;

/// See the module's header. Inputs and outputs beyond the arrays are left out; unused entries have
/// [`Timing::NO_PLACE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Places that must be ready.
    pub inputs: [u8; 4],
    /// Places that are ready afterwards.
    pub outputs: [u8; 3],
    /// Cycles from the inputs to the outputs.
    pub latency: u8,
}

const FLAGS: u8 = 32;
const X87: u8 = 33;
const MASKS: u8 = 34;
/// The first place that is a word of memory; those behind it are words, too.
pub const FIRST_WORD: u8 = 40;
const N_WORDS: u64 = N_PLACES as u64 - 1 - FIRST_WORD as u64;
/// Cycles that loading adds to the latency of an instruction.
pub const LOAD: u8 = 4;

/// Works out the timing of instructions.
#[derive(Debug)]
pub struct Timings {
    info: InstructionInfoFactory,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings { info: InstructionInfoFactory::new() }
    }
}

impl Timings {
    /// Of one instruction.
    pub fn of(&mut self, insn: &Instruction) -> Timing {
        Timing::of(insn, self.info.info(insn))
    }
}

impl Timing {
    /// Not a place.
    pub const NO_PLACE: u8 = u8::MAX;

    const NOTHING: Timing = Timing { inputs: [Timing::NO_PLACE; 4], outputs: [Timing::NO_PLACE; 3], latency: 0 };

    fn of(insn: &Instruction, info: &InstructionInfo) -> Timing {
        let mut timing = Timing { latency: latency(insn), ..Timing::NOTHING };
        let is_zero = is_zeroing(insn);
        let (mut loads, mut stores) = (false, false);
        for memory in info.used_memory() {
            let word = word(insn, memory.base(), memory.index(), memory.displacement());
            let (reads, writes) = directions(memory.access());
            loads |= reads;
            stores |= writes;
            if reads {
                word.into_iter().for_each(|word| timing.input(word));
            }
            if writes {
                word.into_iter().for_each(|word| timing.output(word));
            }
        }
        for used in info.used_registers().iter().filter(|used| !is_stack_engine(insn, used)) {
            let Some(place) = place(used.register()) else { continue };
            let (reads, writes) = directions(used.access());
            // A short register is part of a longer one, which stays.
            let is_part = writes && used.register().is_gpr() && used.register().size() < 4;
            if !is_zero && (reads || is_part) {
                timing.input(place);
            }
            if writes {
                timing.output(place);
            }
        }
        if insn.rflags_read() != 0 && !is_zero {
            timing.input(FLAGS);
        }
        if insn.rflags_modified() != 0 {
            timing.output(FLAGS);
        }
        if loads {
            timing.latency = timing.latency.saturating_add(LOAD);
        }
        if stores && !loads {
            timing.latency = timing.latency.max(1);
        }
        timing
    }

    fn input(&mut self, place: u8) {
        add(&mut self.inputs, place);
    }

    fn output(&mut self, place: u8) {
        add(&mut self.outputs, place);
    }
}

fn add(places: &mut [u8], place: u8) {
    if !places.contains(&place)
        && let Some(free) = places.iter_mut().find(|each| **each == Timing::NO_PLACE)
    {
        *free = place;
    }
}

fn directions(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write => (false, true),
        OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

fn place(register: Register) -> Option<u8> {
    match register {
        Register::RIP | Register::EIP | Register::None => None,
        _ if register.is_gpr() => Some(register.full_register().number() as u8),
        _ if register.is_vector_register() => Some(16 + register.number() as u8 % 16),
        _ if register.is_st() => Some(X87),
        _ if register.is_k() => Some(MASKS),
        _ => None,
    }
}

/// Processors keep the stack pointer of pushes, pops, calls and returns apart, so that nothing
/// waits for it.
fn is_stack_engine(insn: &Instruction, used: &UsedRegister) -> bool {
    used.register() == Register::RSP && insn.is_stack_instruction() && insn.mnemonic() != Mnemonic::Leave
}

/// The place of a word that is found by the stack or frame pointer alone, or is fixed. Pushes and
/// pops have their displacement from a stack pointer that moves, and others of the same number lie
/// between them: they are left out.
fn word(insn: &Instruction, base: Register, index: Register, displacement: u64) -> Option<u8> {
    let is_known = match base {
        Register::RSP => !insn.is_stack_instruction(),
        Register::RBP | Register::RIP | Register::None => true,
        _ => false,
    };
    if !is_known || index != Register::None {
        return None;
    }
    let key = (displacement ^ ((base as u64) << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some(FIRST_WORD + ((key >> 32) % N_WORDS) as u8)
}

/// Whether the result does not depend on the inputs, as processors know.
fn is_zeroing(insn: &Instruction) -> bool {
    use Mnemonic::{Pcmpeqd, Pxor, Sub, Vpxor, Vxorps, Xor, Xorpd, Xorps};
    let same = |a, b| {
        insn.op_kind(a) == OpKind::Register
            && insn.op_kind(b) == OpKind::Register
            && insn.op_register(a) == insn.op_register(b)
    };
    match insn.mnemonic() {
        Xor | Sub | Pxor | Xorps | Xorpd | Pcmpeqd => same(0, 1),
        Vpxor | Vxorps => same(1, 2),
        _ => false,
    }
}

/// Cycles in the unit that does the work, without loading.
fn latency(insn: &Instruction) -> u8 {
    use Mnemonic as M;
    let is_wide = insn.op0_register().size() == 8 || insn.memory_size().size() == 8;
    match insn.mnemonic() {
        // Registers are renamed; what is loaded or stored has its time elsewhere.
        M::Mov | M::Movaps | M::Movups | M::Movdqa | M::Movdqu | M::Movapd | M::Movupd | M::Nop | M::Endbr64 => 0,
        M::Vmovaps | M::Vmovups | M::Vmovdqa | M::Vmovdqu | M::Vmovapd | M::Vmovupd => 0,
        M::Push | M::Pop | M::Movss | M::Movsd | M::Movq | M::Movd | M::Vmovq | M::Vmovd if has_memory(insn) => 0,
        M::Push | M::Pop => 0,
        M::Movd | M::Movq | M::Vmovd | M::Vmovq => 2,
        M::Imul | M::Mul | M::Mulx => 3,
        M::Div | M::Idiv if is_wide => 18,
        M::Div | M::Idiv => 12,
        M::Bsf | M::Bsr => 4,
        M::Cmpxchg | M::Xadd => 6,
        M::Xchg if has_memory(insn) => 18,
        _ if insn.has_lock_prefix() => 18,
        M::Cpuid | M::Rdtsc | M::Rdtscp | M::Xgetbv | M::Pause | M::Mfence => 40,
        _ if insn.has_rep_prefix() || insn.has_repne_prefix() => rep_latency(insn),
        M::Divss | M::Vdivss | M::Divps | M::Vdivps | M::Sqrtss | M::Sqrtps => 11,
        M::Divsd | M::Vdivsd | M::Divpd | M::Vdivpd => 13,
        M::Sqrtsd | M::Sqrtpd | M::Vsqrtsd | M::Vsqrtpd => 20,
        M::Fdiv | M::Fdivr | M::Fdivp | M::Fdivrp | M::Fidiv | M::Fidivr => 15,
        M::Fsin | M::Fcos | M::Fsincos | M::Fpatan | M::Fptan | M::F2xm1 | M::Fyl2x | M::Fprem | M::Fsqrt => 60,
        _ => latency_by_name(insn),
    }
}

fn rep_latency(insn: &Instruction) -> u8 {
    use Mnemonic as M;
    match insn.mnemonic() {
        M::Movsb | M::Movsw | M::Movsd | M::Movsq | M::Stosb | M::Stosw | M::Stosd | M::Stosq => 40,
        M::Scasb | M::Cmpsb => 80,
        _ => 1,
    }
}

/// Vector and floating-point instructions, by what kind they are.
fn latency_by_name(insn: &Instruction) -> u8 {
    use Mnemonic as M;
    match insn.mnemonic() {
        M::Addss | M::Addsd | M::Addps | M::Addpd | M::Subss | M::Subsd | M::Subps | M::Subpd => 3,
        M::Mulss | M::Mulsd | M::Mulps | M::Mulpd | M::Vaddsd | M::Vaddss | M::Vsubsd | M::Vsubss | M::Vmulsd => 3,
        M::Vmulss | M::Vaddps | M::Vaddpd | M::Vsubps | M::Vsubpd | M::Vmulps | M::Vmulpd => 3,
        M::Pmullw | M::Pmulld | M::Pmuludq | M::Pmulhw | M::Pmulhuw | M::Pmaddwd | M::Pmaddubsw | M::Psadbw => 3,
        M::Vpmullw | M::Vpmulld | M::Vpmuludq | M::Vpmulhw | M::Vpmaddwd | M::Vpsadbw => 3,
        M::Comisd | M::Comiss | M::Ucomisd | M::Ucomiss | M::Vucomisd | M::Vcomisd => 3,
        M::Cvtsi2sd | M::Cvtsi2ss | M::Cvttsd2si | M::Cvtsd2si | M::Cvttss2si | M::Cvtss2si => 6,
        M::Cvtss2sd | M::Cvtsd2ss | M::Cvtdq2pd | M::Cvtdq2ps | M::Cvttps2dq | M::Cvtps2dq => 4,
        M::Vcvtsi2sd | M::Vcvttsd2si | M::Vcvtsd2ss | M::Vcvtss2sd => 5,
        M::Pmovmskb | M::Vpmovmskb | M::Movmskpd | M::Movmskps | M::Ptest | M::Pextrw | M::Pinsrw => 3,
        M::Fadd | M::Faddp | M::Fsub | M::Fsubr | M::Fsubp | M::Fsubrp | M::Fmul | M::Fmulp | M::Fiadd | M::Fimul => 6,
        _ if insn.cpuid_features().contains(&CpuidFeature::FMA) => 4,
        _ => 1,
    }
}

fn has_memory(insn: &Instruction) -> bool {
    (0..insn.op_count()).any(|operand| insn.op_kind(operand) == OpKind::Memory)
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    const RAX: u8 = 0;
    const RCX: u8 = 1;
    const RSP: u8 = 4;

    fn timing(bytes: &[u8]) -> (Vec<u8>, Vec<u8>, u8) {
        let insn = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        let Timing { inputs, outputs, latency } = Timings::default().of(&insn);
        let known = |places: &[u8]| places.iter().copied().filter(|&place| place != Timing::NO_PLACE).collect();
        (known(&inputs), known(&outputs), latency)
    }

    #[test]
    fn inputs_outputs_and_latency() {
        assert_eq!(timing(b"\x48\x01\xc8"), (vec![RAX, RCX], vec![RAX, FLAGS], 1), "add rax, rcx");
        assert_eq!(timing(b"\x48\x0f\xaf\xc1"), (vec![RAX, RCX], vec![RAX, FLAGS], 3), "imul rax, rcx");
        assert_eq!(timing(b"\x48\x8b\x01"), (vec![RCX], vec![RAX], LOAD), "mov rax, [rcx]");
        assert_eq!(timing(b"\x31\xc0"), (vec![], vec![RAX, FLAGS], 1), "xor eax, eax");
        assert_eq!(timing(b"\xb0\x01"), (vec![RAX], vec![RAX], 0), "mov al, 1 keeps the rest of rax");
        assert_eq!(timing(b"\xf2\x0f\x58\xc1"), (vec![16, 17], vec![16], 3), "addsd xmm0, xmm1");
        assert_eq!(timing(b"\x50"), (vec![RAX], vec![], 1), "push rax does not wait for the stack pointer");
        assert_eq!(timing(b"\x74\x00"), (vec![FLAGS], vec![], 1), "jz");
    }

    #[test]
    fn a_word_of_the_stack_goes_from_store_to_load() {
        let (_, stored, _) = timing(b"\x48\x89\x44\x24\x08");
        let (loaded, _, latency) = timing(b"\x48\x8b\x4c\x24\x08");
        assert_eq!((loaded, latency), ([&stored[..], &[RSP]].concat(), LOAD));
        let (other, ..) = timing(b"\x48\x8b\x4c\x24\x10");
        assert_ne!(other[0], stored[0]);
    }
}
