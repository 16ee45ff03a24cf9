//! Copies whose checks lead from one version to the other, at work: bursts begin and end after as
//! many checks as they should, and log the blocks that single-stepping the original sees.

use std::collections::HashMap;
use std::process::Command;

use emit::{Events, ModuleCopy, Options};
use flow::{ModuleFlow, Sequential};
use image::{Image, Svma};
use wire::clusters::Version;
use wire::exact::AREA_BITS;
use wire::path_trace::Mark;
use wire::sample::RECORD_ADDRESS_BITS;
use wire::thread::offset;

use crate::exact::AREA_AT;
use crate::execution::{LO, Placed, SOURCE, can_follow, defines, make_executable, place_all};
use crate::fixture::{build, parse};
use crate::triggered::triggered;

/// One function of the program, once in the original and then in copies.
struct Work {
    /// Executions of instructions of the original, by address.
    hits: HashMap<u64, u64>,
    runs: Vec<Logged>,
}

/// A run that has begun in the checking version.
struct Logged {
    /// Checks that versions run for.
    n_check: u64,
    n_instr: u64,
    /// What the run has left.
    checks: u64,
    is_instrumented: bool,
    words: Vec<u64>,
}

impl Logged {
    fn n_bursts_ended(&self) -> u64 {
        self.words.iter().filter(|&&word| word == Mark::BurstEnd.word()).count() as u64
    }

    /// The addresses of blocks, burst by burst.
    fn bursts(&self) -> impl Iterator<Item = Vec<Svma>> {
        let block = |word: &u64| Svma(LO + (word >> 32 & ((1 << RECORD_ADDRESS_BITS) - 1)));
        self.words.split(|&word| word == Mark::BurstEnd.word()).map(move |burst| burst.iter().map(block).collect())
    }
}

fn program() -> Vec<u8> {
    let mut defines = defines();
    let values = [
        ("AREA_AT", AREA_AT),
        ("AREA_BYTES", 1 << AREA_BITS),
        ("GATE", offset::GATE.into()),
        ("NEXT_EVENT", offset::NEXT_EVENT.into()),
        ("EVENTS_END", wire::events::EVENTS_END.into()),
        ("EVENTS_EMPTY", wire::events::EMPTY),
        ("N_CHECK", offset::N_CHECK.into()),
        ("N_INSTR", offset::N_INSTR.into()),
        ("IS_INSTRUMENTED", offset::IS_INSTRUMENTED.into()),
    ];
    defines.extend(values.iter().map(|(name, value)| format!("-D{name}={value:#x}ul")));
    defines.push(format!("-DTARGET_NUMBER={}", offset::TARGET));
    let mut flags = vec!["-static", "-no-pie", "-O2", "-Wl,--build-id=none", "-w"];
    flags.extend(defines.iter().map(String::as_str));
    build("c", SOURCE, &flags)
}

fn translate(image: &Image<'_>, flow: &ModuleFlow, policy: &str, version: Version) -> ModuleCopy {
    let options = Options { cluster: 0, probe: triggered(policy, version, true), events: Events::NONE };
    let copy = emit::translate(image, flow, options, &Sequential);
    assert_eq!(emit_verify::verify(image, flow, &copy), Ok(()), "{policy}, {version:?}");
    copy
}

/// Runs the program with copies of both versions. Returns what it did, and what it printed.
fn run(policy: &str, max_steps: u32) -> (Vec<Work>, String) {
    let program = program();
    let image = parse(&program);
    let flow = flow::analyze(&image, &Sequential);
    let copies = [Version::Instrumented, Version::Checking].map(|version| translate(&image, &flow, policy, version));
    let Placed { code, entries, runs } = place_all(&copies);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    for (name, bytes) in [("program", &program), ("copy", &code), ("entries", &entries), ("runs", &runs)] {
        std::fs::write(path(name), bytes).expect("a file in the temporary folder");
    }
    make_executable(&path("program"));
    let arguments = ["copy", "entries", "runs", "log"].map(path);
    let run = Command::new(path("program")).args(arguments).arg(max_steps.to_string()).output();
    let output = run.expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{policy}: {:?} after {printed}", output.status);
    let bytes = std::fs::read(path("log")).expect("what the program wrote");
    let mut words = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let mut all = Vec::new();
    while let Some(n_hits) = words.next() {
        let hits = words.by_ref().take(n_hits as usize).map(|pair| (LO + (pair & 0xffff_ffff), pair >> 32)).collect();
        let mut logged = || {
            let [n_check, n_instr, checks, is_instrumented, n_words] =
                std::array::from_fn(|_| words.next().expect("a fact"));
            let words = words.by_ref().take(n_words as usize).collect();
            Logged { n_check, n_instr, checks, is_instrumented: is_instrumented != 0, words }
        };
        let runs = (0..N_RUNS).map(|_| logged()).collect();
        all.push(Work { hits, runs });
    }
    if policy == "orig" {
        compare_blocks(&image, &flow, &all);
    }
    // Blocks of boring loops are not logged.
    if !policy.contains('L') || policy == "EL" {
        check_order(&flow, &all);
    }
    (all, printed)
}

/// Runs of each function, and functions.
const N_RUNS: usize = 7;
const N_FUNCTIONS: usize = 13;

/// With all checks there is one before the first block. If a burst starts there and does not end,
/// every block must be logged as often as it was stepped through, where the copy does not go to the
/// gate.
fn compare_blocks(image: &Image<'_>, flow: &ModuleFlow, all: &[Work]) {
    let harness = image.sections().iter().find(|section| section.name == "harness").expect("a section").range;
    let mut n_compared = 0;
    for (number, Work { hits, runs }) in all.iter().enumerate().filter(|&(number, _)| number != SYSTEM_CALLS) {
        let mut logged: HashMap<u64, u64> = HashMap::new();
        for block in runs[1].bursts().flatten() {
            *logged.entry(block.0).or_default() += 1;
        }
        for block in flow.functions.iter().flat_map(|function| &function.cfg.blocks) {
            let at = block.range.start;
            let [counted, expected] = [&logged, hits].map(|counts| counts.get(&at.0).copied().unwrap_or(0));
            if !harness.contains(at) {
                assert_eq!(counted, expected, "block at {:#x} of function {number}", at.0);
                n_compared += u32::from(expected > 0);
            }
        }
    }
    assert!(n_compared > 300, "only {n_compared} blocks ran");
}

/// Which of the functions makes system calls.
const SYSTEM_CALLS: usize = 9;

/// Inside a burst, blocks follow each other.
fn check_order(flow: &ModuleFlow, all: &[Work]) {
    for burst in all.iter().flat_map(|work| &work.runs).flat_map(Logged::bursts) {
        for pair in burst.windows(2) {
            assert!(can_follow(flow, pair[0], pair[1]), "{} cannot follow {}", pair[1], pair[0]);
        }
    }
}

/// Both versions make the same checks, so that their number alone says where a run is at its end.
fn check_counts(policy: &str, all: &[Work]) -> u64 {
    let mut n_ended = 0;
    for (number, Work { runs, .. }) in all.iter().enumerate() {
        let n_checks = runs[0].n_check - runs[0].checks;
        assert!(runs[0].words.is_empty() && !runs[0].is_instrumented, "{policy}: function {number}");
        for run in runs {
            let period = run.n_check + run.n_instr;
            let left = period - n_checks % period;
            let expected = if left > run.n_instr { (left - run.n_instr, false) } else { (left, true) };
            let what = format!("{policy}: function {number} with {} and {}", run.n_check, run.n_instr);
            assert_eq!((run.checks, run.is_instrumented), expected, "{what}");
            assert_eq!(run.n_bursts_ended(), n_checks / period, "{what}");
            n_ended += run.n_bursts_ended();
        }
    }
    n_ended
}

#[test]
fn bursts_begin_and_end_when_they_should() {
    let mut n_ended = Vec::new();
    for policy in ["orig", "EL", "EC", "L10", "EC+L4"] {
        let (all, _) = run(policy, 0);
        assert_eq!(all.len(), N_FUNCTIONS);
        n_ended.push(check_counts(policy, &all));
    }
    // Fewer checks are fewer bursts.
    assert!(n_ended[1..].iter().all(|&fewer| 0 < fewer && fewer < n_ended[0]), "{n_ended:?}");
}

#[test]
fn recovery_from_every_step() {
    let (_, printed) = run("orig", 120);
    assert_eq!(printed.matches("same after any of").count(), N_FUNCTIONS, "{printed}");
    assert!(printed.matches("same after any of 120 steps").count() >= 3, "{printed}");
}
