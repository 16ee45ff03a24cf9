//! Bursts that note events, at work: what they note is what single-stepping the original sees.
//!
//! The program writes all registers before each of its instructions. What a move loads is then in
//! its register before the next one, its target is where that one is, and the address that it
//! accesses follows from the registers before it. What other instructions read it reads itself,
//! before each of them, from where this says.

use std::collections::BTreeMap;
use std::process::Command;

use emit::{Events, ModuleCopy, Options, Probe};
use flow::Sequential;
use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
    UsedMemory,
};
use image::{Image, Svma};
use wire::events::{BURST_EMPTY, EVENTS_END, Event, Kind, N_BURST_EVENTS};
use wire::sample::EndReason;
use wire::thread::{AREA_BYTES, offset};

use crate::execution::{LO, Placed, SOURCE, defines, make_executable, place};
use crate::fixture::{build, parse};

const AREA_AT: u64 = 0x1000_0000_0000;

/// Registers of a step, as a signal handler gets them, and where those of the processor's numbers
/// are among them.
const N_REGISTERS: usize = 23;
const RIP: usize = 16;
/// Where behind the registers it is what the instruction reads.
const READ: usize = N_REGISTERS;
const BY_NUMBER: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];

type Step = [u64; N_REGISTERS + 1];
/// Address of an instruction, what is noted of it, and the value.
type Noted = (u64, Kind, u64);

/// One function of the program: what single-stepping has seen, and bursts.
struct Observed {
    steps: Vec<Step>,
    bursts: Vec<Burst>,
}

/// What one burst has noted.
struct Burst {
    room: u64,
    reason: u64,
    noted: Vec<Noted>,
}

fn program() -> Vec<u8> {
    let mut defines = defines();
    let values = [
        ("AREA_AT", AREA_AT),
        ("AREA_BYTES", AREA_BYTES),
        ("GATE", offset::GATE.into()),
        ("NEXT_EVENT", offset::NEXT_EVENT.into()),
        ("EVENTS_END", EVENTS_END.into()),
        ("N_EVENTS", N_BURST_EVENTS.into()),
    ];
    defines.extend(values.iter().map(|(name, value)| format!("-D{name}={value:#x}ul")));
    defines.push(format!("-DTARGET_NUMBER={}", offset::TARGET));
    let mut flags = vec!["-static", "-no-pie", "-O2", "-Wl,--build-id=none", "-w"];
    flags.extend(defines.iter().map(String::as_str));
    build("c", SOURCE, &flags)
}

/// All functions, and what the program printed.
fn run(program: &[u8], copy: &ModuleCopy, reads: &[u8], max_steps: u32) -> (Vec<Observed>, String) {
    let Placed { code, entries, runs } = place(copy);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    for (name, bytes) in
        [("program", program), ("copy", &code), ("entries", &entries), ("runs", &runs), ("reads", reads)]
    {
        std::fs::write(path(name), bytes).expect("a file in the temporary folder");
    }
    make_executable(&path("program"));
    let arguments = ["copy", "entries", "runs", "noted"].map(path);
    let mut command = Command::new(path("program"));
    command.args(arguments).arg(max_steps.to_string()).arg(path("reads"));
    let output = command.output().expect("it starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{:?} after {printed}", output.status);
    let bytes = std::fs::read(path("noted")).expect("what the program wrote");
    let mut words = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let mut functions = Vec::new();
    while let Some(n_steps) = words.next() {
        let mut next = || words.next().expect("a complete file");
        let steps = (0..n_steps).map(|_| std::array::from_fn(|_| next())).collect();
        let bursts = (0..6).map(|_| {
            let [room, reason, n_noted] = std::array::from_fn(|_| next());
            let noted = (0..n_noted).map(|_| {
                let [value, place] = std::array::from_fn(|_| next());
                let event = Event { value, site: place as u32, tag: (place >> 32) as u32 };
                (LO + u64::from(event.site), event.kind().expect("a kind"), value)
            });
            Burst { room, reason, noted: noted.collect() }
        });
        functions.push(Observed { steps, bursts: bursts.collect() });
    }
    (functions, printed)
}

fn instruction_at(image: &Image<'_>, at: u64) -> Instruction {
    const LONGEST: usize = 15;
    let bytes = (1..=LONGEST).rev().find_map(|len| image.read(Svma(at), len)).expect("code of the program");
    Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode()
}

/// The register that an instruction loads as a whole, whose value is noted behind it.
fn loaded_register(insn: &Instruction) -> Option<Register> {
    let is_move = matches!(insn.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd);
    let is_load = is_move && insn.op0_kind() == OpKind::Register && insn.op1_kind() == OpKind::Memory;
    Some(insn.op0_register()).filter(|to| is_load && (to.is_gpr32() || to.is_gpr64()))
}

/// The place that an instruction reads, and whether it is relative to the thread; `None` if that is
/// not noted before it.
fn read_of(insn: &Instruction) -> Option<(UsedMemory, bool)> {
    let is_read = |memory: &&UsedMemory| {
        let access = memory.access();
        matches!(access, OpAccess::Read | OpAccess::ReadWrite | OpAccess::ReadCondWrite | OpAccess::CondRead)
    };
    let mut factory = InstructionInfoFactory::new();
    let all: Vec<UsedMemory> = factory.info(insn).used_memory().iter().filter(is_read).copied().collect();
    let &[memory] = all.as_slice() else { return None };
    let is_repeated = insn.is_string_instruction() && (insn.has_rep_prefix() || insn.has_repne_prefix());
    let is_bit_string = matches!(insn.mnemonic(), Mnemonic::Bt | Mnemonic::Bts) && insn.op1_kind() == OpKind::Register;
    let is_odd = is_repeated || is_bit_string || insn.has_op_mask() || loaded_register(insn).is_some();
    let has_value = (1..=64).contains(&memory.memory_size().size());
    (!is_odd && has_value).then_some((memory, memory.segment() == Register::FS))
}

/// What all instructions of a copy read, for the program.
fn reads(image: &Image<'_>, copy: &ModuleCopy) -> Vec<u8> {
    let of_entry = |original: u32| {
        let insn = instruction_at(image, LO + u64::from(original));
        let (memory, is_thread_relative) = read_of(&insn)?;
        let number = |register: Register| match register {
            Register::None => N_REGISTERS as u64,
            _ => BY_NUMBER[register.number()] as u64,
        };
        let n_bytes = memory.memory_size().size().min(8) as u64;
        let [base, index] = [memory.base(), memory.index()].map(number);
        let scale = u64::from(memory.scale());
        Some([original.into(), base, index, scale, is_thread_relative.into(), n_bytes, memory.displacement()])
    };
    let all = copy.entries().filter_map(|entry| of_entry(entry.original));
    all.flatten().flat_map(u64::to_le_bytes).collect()
}

/// What is to be noted of an instruction, with registers before it and before the next one.
fn expected(insn: &Instruction, before: &Step, next: &Step) -> Vec<Noted> {
    let at = insn.ip();
    let value_in = |step: &Step, register: Register| step[BY_NUMBER[register.full_register().number()]];
    let has_memory = (0..insn.op_count()).any(|op| insn.op_kind(op) == OpKind::Memory);
    let has_segment = matches!(insn.memory_segment(), Register::FS | Register::GS);
    let is_accessed = InstructionInfoFactory::new()
        .info(insn)
        .used_memory()
        .iter()
        .any(|memory| memory.access() != OpAccess::NoMemAccess);
    let mut noted = Vec::new();
    if has_memory && !has_segment && is_accessed && !insn.is_stack_instruction() {
        let op = (0..insn.op_count()).find(|&op| insn.op_kind(op) == OpKind::Memory).expect("it has memory");
        let value_of =
            |register: Register, _, _| if register.is_gpr() { Some(value_in(before, register)) } else { Some(0) };
        noted.push((at, Kind::Address, insn.virtual_address(op, 0, value_of).expect("registers are known")));
    }
    noted.extend(read_of(insn).map(|_| (at, Kind::Load, before[READ])));
    match insn.code() {
        Code::Call_rm64 if !has_segment => noted.push((at, Kind::CallTarget, next[RIP])),
        Code::Jmp_rm64 if !has_segment && !insn.is_ip_rel_memory_operand() => {
            noted.push((at, Kind::JumpTarget, next[RIP]));
        }
        _ if insn.is_jcc_short_or_near() => noted.push((at, Kind::BranchTarget, next[RIP])),
        _ => noted.extend(loaded_register(insn).map(|register| (at, Kind::Load, value_in(next, register)))),
    }
    noted
}

#[test]
fn bursts_note_what_single_stepping_sees() {
    let file = program();
    let image = parse(&file);
    let flow = flow::analyze(&image, &Sequential);
    let events =
        Events::LOADS | Events::ADDRESSES | Events::CALL_TARGETS | Events::JUMP_TARGETS | Events::BRANCH_TARGETS;
    let copy = emit::translate(&image, &flow, Options { cluster: 0, probe: Probe::Trace, events }, &Sequential);
    assert_eq!(emit_verify::verify(&image, &flow, &copy), Ok(()));
    assert_eq!(BURST_EMPTY, (2 * u64::from(N_BURST_EVENTS)).wrapping_neg());
    let harness = image.sections().iter().find(|section| section.name == "harness").expect("a section").range;
    let (functions, printed) = run(&file, &copy, &reads(&image, &copy), 100);
    assert_eq!(printed.matches("same after any of").count(), functions.len(), "{printed}");

    let mut n_of_kind: BTreeMap<Kind, u32> = BTreeMap::new();
    let mut n_by_others_than_moves = 0;
    for Observed { steps, bursts } in functions {
        let in_function = steps.windows(2).filter(|pair| !harness.contains(Svma(pair[0][RIP])));
        let of_step = in_function.flat_map(|pair| {
            let insn = instruction_at(&image, pair[0][RIP]);
            let mut noted = expected(&insn, &pair[0], &pair[1]);
            // The processor does not stop behind a system call. What it has not stopped at is a
            // return, or has nothing to note.
            let is_passed_over = insn.code() == Code::Syscall && pair[1][RIP] != insn.next_ip();
            let passed_over = is_passed_over.then(|| instruction_at(&image, insn.next_ip()));
            let is_return = passed_over.is_some_and(|passed_over| passed_over.code() == Code::Retnq);
            noted.extend(is_return.then(|| (insn.next_ip(), Kind::Load, pair[1][RIP])));
            noted
        });
        let seen: Vec<Noted> = of_step.collect();
        for Burst { room, reason, noted } in bursts {
            let is_full = reason == EndReason::EventsFull as u64;
            assert_eq!(is_full, noted.len() as u64 == room);
            assert!(is_full || noted.len() == seen.len(), "{} of {}, reason {reason}", noted.len(), seen.len());
            let differing = noted.iter().zip(&seen).position(|(noted, seen)| noted != seen);
            assert_eq!(differing.map(|index| (noted[index], seen[index])), None);
            noted.iter().for_each(|&(_, kind, _)| *n_of_kind.entry(kind).or_default() += 1);
            let loads = noted.iter().filter(|(_, kind, _)| *kind == Kind::Load);
            let is_no_move = |&&(at, ..): &&Noted| loaded_register(&instruction_at(&image, at)).is_none();
            n_by_others_than_moves += loads.filter(is_no_move).count();
        }
    }
    assert!(n_by_others_than_moves > 300, "{n_by_others_than_moves}");
    let enough = [
        (Kind::Load, 500),
        (Kind::Address, 1000),
        (Kind::CallTarget, 5),
        (Kind::JumpTarget, 20),
        (Kind::BranchTarget, 500),
    ];
    for (kind, least) in enough {
        assert!(n_of_kind.get(&kind) >= Some(&least), "{n_of_kind:?}");
    }
}
