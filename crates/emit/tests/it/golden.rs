//! The exact code of copies, as text.
//!
//! Expected texts are in `tests/golden`. To accept a change, run the tests once with
//! `STROBE_BLESS=1` and read the difference.

use std::fmt::Write as _;
use std::path::Path;

use emit::{Counting, Events, ModuleCopy, Position, Probe};
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};
use wire::recovery::{Run, kind};
use wire::thread::offset;

use crate::events::NOTED;
use crate::fixture::{assemble, parse, translate_with};
use crate::shapes::SHAPES;

const BASE: u64 = 0x40_0000;
const COPY: u64 = 0x1000_0000;

#[test]
fn traced() {
    check("traced.txt", SHAPES, Probe::Trace);
}

#[test]
fn bare() {
    check("bare.txt", SHAPES, Probe::None);
}

#[test]
fn counting_blocks() {
    check("blocks.txt", SHAPES, Probe::Exact(Counting::Blocks));
}

#[test]
fn counting_paths() {
    check("paths.txt", SHAPES, Probe::Exact(Counting::Paths));
}

#[test]
fn sampling_paths() {
    check("samples.txt", SHAPES, Probe::Exact(Counting::SampledPaths));
}

#[test]
fn tracing_paths() {
    check("trace.txt", SHAPES, Probe::Exact(Counting::TracedPaths));
}

#[test]
fn keeping_contexts() {
    check("contexts.txt", SHAPES, Probe::Exact(Counting::CONTEXTS));
}

#[test]
fn noting() {
    check_with("noted.txt", &format!(".globl _start\n_start: call calls\n{NOTED}"), Probe::Trace, Events::ALL);
}

#[track_caller]
pub fn check(golden: &str, source: &str, probe: Probe) {
    check_with(golden, source, probe, Events::NONE);
}

#[track_caller]
fn check_with(golden: &str, source: &str, probe: Probe, events: Events) {
    let file = assemble(source);
    let image = parse(&file);
    let (_, copy) = translate_with(&image, probe, events);
    let symbol = |at: u32| {
        let address = image::Svma(BASE + u64::from(at));
        let symbol = image.symbols().iter().find(|symbol| symbol.address == address && symbol.kind.is_function());
        symbol.map(|symbol| symbol.name.to_string())
    };
    let actual = listing(&copy, symbol);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden);
    if std::env::var_os("STROBE_BLESS").is_some() {
        std::fs::write(&path, &actual).expect("a writable source tree");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = expected.lines().zip(actual.lines()).position(|(expected, actual)| expected != actual);
    let line = differing.unwrap_or_else(|| expected.lines().count().min(actual.lines().count())) + 1;
    let got = actual.lines().nth(line - 1).unwrap_or_default();
    assert!(expected == actual, "tests/golden/{golden}:{line} differs; got: {got}");
}

/// The instructions of a copy, without labels.
pub fn disassembly(copy: &ModuleCopy) -> String {
    let lines = listing(copy, |_| None);
    lines.lines().filter(|line| !line.starts_with("  ") || line.starts_with("    ")).collect()
}

/// Every instruction of the copy, under the run that it is in and the entries that lead to it.
fn listing(copy: &ModuleCopy, symbol: impl Fn(u32) -> Option<String>) -> String {
    let position = Position { module_base: BASE, copy: COPY, cluster_lo: BASE, first_cell: 0, first_key: 1 };
    let code = copy.place(&position).expect("the copy reaches the module");
    let mut entries: Vec<(u32, u32, bool)> =
        copy.entries().map(|entry| (entry.copy, entry.original, entry.is_leader)).collect();
    entries.sort_unstable();
    let mut text = String::new();
    let mut decoder = Decoder::with_ip(64, &code, COPY, DecoderOptions::NONE);
    let mut insn = Instruction::default();
    let mut runs = copy.runs().iter().peekable();
    let mut is_code = true;
    while decoder.can_decode() {
        let at = decoder.position() as u32;
        if let Some(run) = runs.next_if(|run| run.copy == at) {
            is_code = run.kind != kind::NEVER;
            writeln!(text, "  {}", describe(run)).expect("text");
        }
        for &(_, original, is_leader) in entries.iter().filter(|entry| entry.0 == at) {
            if let Some(name) = symbol(original) {
                writeln!(text, "{name}:").expect("text");
            }
            writeln!(text, "  {} {original:x}", if is_leader { "block" } else { "twin" }).expect("text");
        }
        if is_code {
            decoder.decode_out(&mut insn);
            writeln!(text, "{at:6x}    {}", instruction(&insn)).expect("text");
        } else {
            let end = runs.peek().map_or(code.len(), |run| run.copy as usize);
            let rest = &code[at as usize..end];
            let words = rest.as_chunks::<8>().0.iter().filter(|_| at.is_multiple_of(8));
            let literals: Vec<u64> =
                words.map(|word| u64::from_le_bytes(*word)).filter(|&word| word >> 32 == 0).collect();
            writeln!(text, "{at:6x}    {} bytes, {literals:x?}", rest.len()).expect("text");
            decoder.set_position(end).expect("inside the code");
            decoder.set_ip(COPY + end as u64);
        }
    }
    text
}

fn describe(run: &Run) -> String {
    let Run { original, saves, save_end, .. } = *run;
    let rule = match run.kind {
        kind::STRAIGHT => format!("straight {original:x}"),
        kind::PROBE => format!("probe {original:x}"),
        kind::FORWARD => "forward".to_owned(),
        kind::EXIT => "exit".to_owned(),
        kind::AFTER_SYSTEM_CALL => format!("after system call {original:x}"),
        kind::SYSTEM_CALL => format!("system call {original:x}"),
        _ => "never".to_owned(),
    };
    let n_saves = saves.count_ones() as usize;
    if n_saves == 0 { rule } else { format!("{rule}, saves {saves:#x} at {:?}", &save_end[..n_saves]) }
}

const FIELDS: [(u32, &str); 34] = [
    (offset::SAMPLES_WANTED, "samples_wanted"),
    (offset::ENDS_TO_SKIP, "ends_to_skip"),
    (offset::ENDS_BETWEEN, "ends_between"),
    (offset::SAMPLING_TICK, "sampling_tick"),
    (offset::SAVED_RAX, "saved_rax"),
    (offset::SAVED_RCX, "saved_rcx"),
    (offset::SAVED_RDX, "saved_rdx"),
    (offset::SAVED_FLAGS, "saved_flags"),
    (offset::TARGET, "target"),
    (offset::TWIN, "twin"),
    (offset::CURSOR, "cursor"),
    (offset::LIMIT, "limit"),
    (offset::CHECKS, "checks"),
    (offset::END_REASON, "end_reason"),
    (offset::STATE, "state"),
    (offset::N_SYSTEM_CALLS, "n_system_calls"),
    (offset::SYSTEM_CALL_START, "system_call_start"),
    (offset::SYSTEM_CALL_START + 4, "system_call_start+4"),
    (offset::SYSTEM_CALL_END, "system_call_end"),
    (offset::SYSTEM_CALL_END + 4, "system_call_end+4"),
    (offset::SYSTEM_CALL_CYCLES, "system_call_cycles"),
    (offset::SYSTEM_CALLS_THAT_LEAVE, "system_calls_that_leave"),
    (offset::UNLOADS_PENDING, "unloads_pending"),
    (offset::SYSTEM_CALL_NUMBER, "system_call_number"),
    (offset::END_TSC, "end_tsc"),
    (offset::FRAME, "frame"),
    (offset::GATE, "gate"),
    (offset::N_PATH_ENTRIES, "n_path_entries"),
    (offset::LOST_PATHS, "lost_paths"),
    (offset::CHARGED, "charged"),
    (offset::MISSES, "misses"),
    (offset::LINE, "line"),
    (offset::LAST_LINE, "last_line"),
    (offset::HAS_MISSED, "has_missed"),
];

fn instruction(insn: &Instruction) -> String {
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_hex_prefix("0x");
    formatter.options_mut().set_hex_suffix("");
    formatter.options_mut().set_uppercase_hex(false);
    formatter.options_mut().set_space_after_operand_separator(true);
    let mut text = String::new();
    formatter.format(insn, &mut text);
    let field = FIELDS.iter().find(|&&(at, _)| text.contains(&format!("gs:[{at:#x}]")));
    match field {
        Some((at, name)) => text.replace(&format!("gs:[{at:#x}]"), &format!("gs:[{name}]")),
        None => text,
    }
}
