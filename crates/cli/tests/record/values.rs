//! Values that loads load, and where calls and jumps go: all of them, or estimates.

use std::collections::BTreeMap;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register};
use image::{Image, Svma};
use profile::Profile;
use profile::model::{Function, NotedValue, ValueKind};
use profile::query::{ValueSite, value_sites};

use crate::build::{Executable, Program};
use crate::process::Ended;
use crate::recorder::{finish, start_recorded};

/// Loads of `loads.c`, over all threads.
const N_CONSTANT: f64 = 4.0 * 250_000.0;
const N_BYTES: f64 = 4.0 * 100_000.0;
/// Loads of each kind of `long_loads.c`, and what it prints.
const LONG_LOADS: f64 = 2000.0 * 100_000.0;
const LONG_LOADS_OUTPUT: &str = "1650000000\n";

fn recorded(executable: &Executable, options: &[&str]) -> (Profile, BTreeMap<String, String>) {
    recorded_with_output(executable, options, "7500000\n")
}

fn recorded_with_output(
    executable: &Executable,
    options: &[&str],
    output: &str,
) -> (Profile, BTreeMap<String, String>) {
    let outcome = finish("values", start_recorded(executable, options));
    assert_eq!(outcome.ended, Ended { code: 0 }, "{}", outcome.stderr);
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), output);
    let path = executable.beside("profile");
    let profile = store::open(&path).expect("a profile");
    assert!(profile.verify().is_empty(), "{:?}", profile.verify());
    (profile, store::facts(&path).expect("facts"))
}

/// The instruction of the function that ran most often, of those with values of this kind.
fn site_of(profile: &Profile, name: &str, kind: ValueKind) -> ValueSite {
    let function = profile.functions.iter().position(|function| function.name == name).expect("the function ran");
    let sites = value_sites(profile, Some(profile::model::FunctionId(function as u32)));
    let sites = sites.into_iter().filter(|site| site.kind == kind);
    sites.max_by(|a, b| a.count.value.total_cmp(&b.count.value)).expect("the function has such an instruction")
}

fn load_of(profile: &Profile, name: &str) -> ValueSite {
    site_of(profile, name, ValueKind::Load)
}

fn number(facts: &BTreeMap<String, String>, name: &str) -> u64 {
    facts[name].parse().expect("a number")
}

#[test]
fn every_load_is_counted_if_nothing_is_compressed() {
    let executable = Program::new("loads.c").flags(&["-O1", "-pthread"]).build();
    let (profile, facts) = recorded(&executable, &["--exact=blocks", "--values", "--compress", "none"]);
    let constant = load_of(&profile, "load_constant");
    assert_eq!(constant.count.value, N_CONSTANT, "{constant:?}");
    assert_eq!((constant.values.len(), constant.values[0].value, constant.interval), (1, 7, (1.0, 1.0)));
    let bytes = load_of(&profile, "load_bytes");
    assert_eq!(bytes.count.value, N_BYTES, "{bytes:?}");
    assert_eq!(bytes.values.iter().map(|seen| seen.value).collect::<Vec<_>>(), [1, 2]);
    assert!((bytes.invariance - 0.75).abs() < 1e-3, "{bytes:?}");
    assert_eq!(facts["value_events"], facts["value_events_told"]);
    assert_eq!((number(&facts, "value_messages_lost"), number(&facts, "value_events_foreign")), (0, 0));
}

/// What the loads of `every_form` in `every_load.c` load in each round, in the order of their
/// addresses: the values that follow each other, or none where only the program knows the value.
const FORMS: [&[u64]; 36] = [
    // Moves to registers.
    &[0x88],
    &[0x77],
    &[0x7788],
    &[0x88],
    &[0xffff_ff88],
    &[0x5566],
    &[0xffff_ffff_99aa_bbcc],
    &[0x1122_3344_5566_7788],
    // Operands.
    &[0x5566_7788],
    &[0x55],
    &[5],
    &[0x3344],
    &[0x99aa_bbcc_ddee_ff00],
    &[5],
    &[6, 7],
    &[9],
    &[0xa0a1_a2a3_a4a5_a6a7],
    &[2],
    &[3],
    // Push, pop, and elements of strings.
    &[5],
    &[5],
    &[0x88],
    &[0x1122_3344],
    &[0x7788],
    // Vectors, and floating point.
    &[0x99aa_bbcc_ddee_ff00],
    &[0x1122_3344],
    &[0x1122_3344_5566_7788],
    &[5],
    &[0x3ff8_0000_0000_0000],
    // Relative to the instruction pointer, to the thread, and with short registers.
    &[77],
    &[],
    &[3],
    // A call, a jump, what `leave` pops, and the return of the callee.
    &[],
    &[],
    &[0x1234],
    &[],
];

fn every_load() -> Program {
    Program::new("every_load.c").flags(&["-O1", "-fno-pie", "-no-pie"])
}

/// Loads of `every_load.c` that run in each round, in the order of [`FORMS`].
fn forms(profile: &Profile) -> Vec<ValueSite> {
    let loads = |name: &str| {
        let function = profile.functions.iter().position(|function| function.name == name).expect("the function ran");
        let sites = value_sites(profile, Some(profile::model::FunctionId(function as u32)));
        let mut sites: Vec<ValueSite> = sites.into_iter().filter(|site| site.kind == ValueKind::Load).collect();
        sites.sort_by_key(|site| site.address);
        sites
    };
    let all: Vec<ValueSite> = ["every_form", "do_nothing"].into_iter().flat_map(loads).collect();
    // What is before the loop and behind it is loaded once.
    let most = all.iter().map(|site| site.count.value).fold(0.0, f64::max);
    all.into_iter().filter(|site| site.count.value > most / 2.0).collect()
}

#[test]
fn every_form_of_a_load_is_noted() {
    const ROUNDS: f64 = 1000.0;
    let executable = every_load().arguments(&["1000"]).build();
    let options = ["--exact=blocks", "--values", "--compress", "none"];
    let (profile, facts) = recorded_with_output(&executable, &options, "1122334455667788 6 9\n");
    let loads = forms(&profile);
    assert_eq!(loads.len(), FORMS.len(), "{loads:?}");
    for (load, values) in loads.iter().zip(FORMS) {
        assert_eq!(load.count.value, ROUNDS, "{load:?}");
        let mut seen: Vec<(u64, f64)> = load.values.iter().map(|seen| (seen.value, seen.count.value)).collect();
        seen.sort_by_key(|&(value, _)| value);
        let each = ROUNDS / values.len().max(1) as f64;
        let expected: Vec<(u64, f64)> = values.iter().map(|&value| (value, each)).collect();
        assert!(seen == expected || values.is_empty() && seen.len() == 1, "{expected:?}: {load:?}");
    }
    assert_eq!(facts["value_events"], facts["value_events_told"]);
}

#[test]
fn bursts_note_every_form_of_a_load() {
    let executable = every_load().arguments(&["5000000"]).build();
    let options = ["--values", "--rate", "100", "--burst", "2000", "--verify"];
    let (profile, facts) = recorded_with_output(&executable, &options, "1122334455667788 6 9\n");
    assert_eq!(number(&facts, "false_steps"), 0, "{facts:?}");
    let loads = forms(&profile);
    assert_eq!(loads.len(), FORMS.len(), "{loads:?}");
    for (load, values) in loads.iter().zip(FORMS) {
        let mut seen: Vec<u64> = load.values.iter().map(|seen| seen.value).collect();
        seen.sort_unstable();
        assert!(seen == values || values.is_empty() && seen.len() == 1, "{values:?}: {load:?}");
        assert!(load.count.seen > 1000, "{load:?}");
    }
}

/// Whether an instruction loads something that is noted: it reads at one place, all of it, and
/// whatever registers hold.
fn loads(insn: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let is_read = |access: OpAccess| matches!(access, OpAccess::Read | OpAccess::ReadWrite | OpAccess::ReadCondWrite);
    let all = factory.info(insn).used_memory().iter();
    let sizes: Vec<usize> =
        all.filter(|memory| is_read(memory.access())).map(|memory| memory.memory_size().size()).collect();
    let is_bit_string =
        matches!(insn.code(), Code::Bt_rm64_r64 | Code::Bt_rm32_r32 | Code::Bts_rm64_r64 | Code::Bts_rm32_r32);
    // One that is none takes the state of the processor from memory.
    let is_value = matches!(sizes.as_slice(), [1..=64]);
    is_value && !is_bit_string && !insn.has_op_mask()
}

/// Blocks and values are counted independently of each other. What a block loads, it loads as often
/// as it runs, in the program and in all libraries.
#[test]
fn every_executed_load_is_noted() {
    let executable = Program::new("loads.c").flags(&["-O1", "-pthread"]).build();
    let (profile, facts) =
        recorded(&executable, &["--exact=blocks", "--values", "--select", "value", "--compress", "none"]);
    let noted: BTreeMap<_, _> = profile
        .values
        .iter()
        .filter(|row| row.kind == ValueKind::Load && row.value.is_none())
        .map(|row| ((row.module, row.address), row.count.value))
        .collect();
    assert_eq!(noted.values().sum::<f64>(), number(&facts, "value_events") as f64);
    let files: Vec<Vec<u8>> =
        profile.modules.iter().map(|module| std::fs::read(&module.path).unwrap_or_default()).collect();
    let images: Vec<Option<Image<'_>>> = files.iter().map(|file| Image::parse(file).ok()).collect();
    let mut n_checked = 0;
    for block in profile.blocks.iter().filter(|block| block.count.value > 0.0) {
        let module = profile.functions[block.function.index()].module;
        let image = images[module.index()].as_ref().expect("a file that can be read");
        let bytes = image.read(Svma(block.address), block.size as usize).expect("code");
        let insns: Vec<Instruction> =
            Decoder::with_ip(64, bytes, block.address, DecoderOptions::NONE).into_iter().collect();
        // Behind a system call, the thread may have ended, or the program.
        let insns = insns.iter().take_while(|insn| insn.code() != Code::Syscall);
        for load in insns.filter(|insn| loads(insn) && insn.segment_prefix() != Register::GS) {
            let count = noted.get(&(module, load.ip())).copied().unwrap_or(0.0);
            assert_eq!(
                count,
                block.count.value,
                "{}+{:#x}: {:?}",
                profile.modules[module.index()].path,
                load.ip(),
                load.code()
            );
            n_checked += 1;
        }
    }
    assert!(n_checked > 1000, "{n_checked}");
}

#[test]
fn compressed_values_are_estimates_of_the_same() {
    let executable = Program::new("loads.c").flags(&["-O1", "-pthread"]).build();
    for expression in ["H[P251]2048", "H[P64]512 A16", "R128"] {
        let options = ["--exact=blocks", "--values", "--compress", expression, "--seed", "1"];
        let (profile, facts) = recorded(&executable, &options);
        for (name, expected, share) in [("load_constant", N_CONSTANT, 1.0), ("load_bytes", N_BYTES, 0.75)] {
            let load = load_of(&profile, name);
            assert!((load.count.value / expected - 1.0).abs() < 0.1, "{expression}: {load:?}");
            assert!((load.invariance - share).abs() < 0.05, "{expression}: {load:?}");
            assert!(
                load.interval.0 < load.interval.1 && load.interval.1 - load.interval.0 < 0.1,
                "{expression}: {load:?}"
            );
            assert!(load.interval.0 <= share, "{expression}: {load:?}");
        }
        let (events, messages) = (number(&facts, "value_events"), number(&facts, "value_messages"));
        assert!(messages * 20 < events, "{expression}: {facts:?}");
        assert_eq!(number(&facts, "value_messages_lost"), 0);
    }
}

/// Whatever a compressor holds of threads that are still there when the process ends is sent, or
/// said to be left.
#[test]
fn events_of_threads_that_live_on_are_not_lost() {
    let executable = Program::new("lingering.c").flags(&["-O1", "-pthread"]).build();
    for expression in ["A64", "H[P64]512 A16", "none"] {
        let options = ["--exact=blocks", "--values", "--compress", expression, "--seed", "1"];
        let (profile, facts) = recorded_with_output(&executable, &options, "2100000\n");
        let unsent: i64 = facts["value_events_unsent"].parse().expect("a number");
        let [events, told] = ["value_events", "value_events_told"].map(|name| number(&facts, name));
        assert_eq!(events as i64, told as i64 + unsent, "{expression}: {facts:?}");
        assert_eq!(
            (number(&facts, "value_messages_lost"), unsent == 0),
            (0, expression != "H[P64]512 A16"),
            "{facts:?}"
        );
        if unsent == 0 {
            assert_eq!(load_of(&profile, "load_constant").count.value, 3.0 * 100_000.0, "{expression}");
        }
    }
}

#[test]
fn targets_of_calls_and_jumps_are_counted() {
    const N_CALLS: f64 = 40_000.0;
    let executable = Program::new("targets.c").flags(&["-O1", "-fno-pie", "-no-pie"]).build();
    let options =
        ["--exact=blocks", "--values", "--call-targets", "--branches", "--types", "--addresses", "--compress", "none"];
    let (profile, facts) = recorded_with_output(&executable, &options, "7170325512\n");
    let names = |site: &ValueSite| -> Vec<(String, f64)> {
        let name = |id: profile::model::FunctionId| profile.functions[id.index()].name.clone();
        site.values.iter().map(|seen| (seen.function.map_or_else(String::new, name), seen.count.value)).collect()
    };
    let method = site_of(&profile, "call_method", ValueKind::CallTarget);
    assert_eq!(names(&method), [("add_one".to_owned(), 0.75 * N_CALLS), ("add_two".to_owned(), 0.25 * N_CALLS)]);
    let table = site_of(&profile, "call_method", ValueKind::MethodTable);
    assert_eq!((table.values.len(), table.invariance), (2, 0.75));
    assert!(table.values.iter().all(|seen| seen.module == Some(method.module)), "{table:?}");
    let pointer = site_of(&profile, "call_pointer", ValueKind::CallTarget);
    assert_eq!(names(&pointer), [("add_two".to_owned(), N_CALLS)]);
    let jump = site_of(&profile, "choose", ValueKind::JumpTarget);
    // The eighth case is what is left behind a comparison.
    assert_eq!((jump.values.len(), jump.values[0].count.value), (7, N_CALLS / 8.0), "{jump:?}");
    // That comparison, and the end of the loop.
    let branch = site_of(&profile, "choose", ValueKind::BranchTarget);
    let ways: Vec<f64> = branch.values.iter().map(|seen| seen.count.value).collect();
    assert_eq!((ways.as_slice(), branch.invariance), ([7.0, 1.0].map(|n| n * N_CALLS / 8.0).as_slice(), 7.0 / 8.0));
    assert!(branch.values.iter().all(|seen| seen.module == Some(branch.module)), "{branch:?}");
    let last = site_of(&profile, "main", ValueKind::BranchTarget);
    assert_eq!((last.values.len(), last.values[0].count.value), (2, N_CALLS - 1.0), "{last:?}");
    let argument = site_of(&profile, "call_pointer", ValueKind::Argument(0));
    assert_eq!((argument.count.value, argument.invariance), (N_CALLS, 1.0));
    let address = site_of(&profile, "call_method", ValueKind::Address);
    assert_eq!((address.count.value, address.values.len()), (N_CALLS, 4), "{address:?}");
    assert_eq!(facts["value_events"], facts["value_events_told"]);
}

/// Also with copies from the cache, and with those of another choice in it.
#[test]
fn only_what_is_selected_is_noted() {
    let executable = Program::new("targets.c").flags(&["-O1", "-fno-pie", "-no-pie"]).build();
    let places = |select: &[&str]| {
        let noted = ["--exact=blocks", "--values", "--call-targets", "--branches", "--addresses", "--compress", "none"];
        let select = select.iter().flat_map(|&text| ["--select", text]);
        let options: Vec<&str> = noted.into_iter().chain(select).collect();
        let (profile, facts) = recorded_with_output(&executable, &options, "7170325512\n");
        // Of sites, some say what follows from counts of edges and calls, noted or not.
        let name = |row: &NotedValue| {
            let is_of = |function: &&Function| {
                function.module == row.module
                    && (function.address..function.address + function.size).contains(&row.address)
            };
            profile.functions.iter().find(is_of).expect("in a function").name.clone()
        };
        let mut found: Vec<(String, ValueKind)> = profile.values.iter().map(|row| (name(row), row.kind)).collect();
        found.sort();
        found.dedup();
        (found, number(&facts, "value_places"), facts["select"].clone())
    };
    let of = |name: &str, kind: ValueKind| (name.to_owned(), kind);
    let targets = places(&["target & function:call_method"]);
    let expected = vec![of("call_method", ValueKind::CallTarget)];
    assert_eq!(targets, (expected, 1, "target & function:call_method".to_owned()));
    assert_eq!(places(&["target & function:call_method"]), targets);
    let (found, ..) = places(&["function:call_pointer & argument", "address & load & function:call_method"]);
    let arguments = [0, 1].map(|index| of("call_pointer", ValueKind::Argument(index)));
    assert_eq!(found, [&[of("call_method", ValueKind::Address)], &arguments[..]].concat());
    let (found, ..) = places(&["branch & function:choose"]);
    assert_eq!(found, [of("choose", ValueKind::BranchTarget)]);
    assert_eq!(places(&["jump & function:choose"]).1, 1);
    assert_eq!(places(&["store2 & module:no_such_module"]).1, 0);
}

/// The program does not wait for strobe to look, but values that are not compressed wait for it to
/// read.
#[test]
fn a_profile_that_is_known_ends_events() {
    let executable = Program::new("long_loads.c").flags(&["-O1"]).build();
    let options = ["--exact=blocks", "--values", "--compress", "none", "--converge", "5%"];
    let (profile, facts) = recorded_with_output(&executable, &options, LONG_LOADS_OUTPUT);
    assert_eq!(number(&facts, "value_profiles_stable"), 1, "{facts:?}");
    let [until, taken, passed_over, lost] =
        ["value_events_until_stable", "value_events", "value_events_passed_over", "value_messages_lost"]
            .map(|name| number(&facts, name));
    assert!(until <= taken && passed_over > taken && lost == 0, "{facts:?}");
    for (name, share) in [("load_constant", 1.0), ("load_bytes", 0.75)] {
        let load = load_of(&profile, name);
        // It counts as often as its block, but not all of it was seen.
        assert_eq!(load.count.value, LONG_LOADS, "{load:?}");
        assert!((load.invariance - share).abs() < 0.05, "{load:?}");
        assert!((load.count.seen as f64) < LONG_LOADS && load.interval.0 < load.interval.1, "{load:?}");
    }
}

/// Bursts see a part of the loads; their counts are those of blocks.
#[test]
fn bursts_note_values() {
    let executable = Program::new("long_loads.c").flags(&["-O1"]).build();
    let options = ["--values", "--branches", "--rate", "100", "--burst", "2000", "--verify"];
    let (profile, facts) = recorded_with_output(&executable, &options, LONG_LOADS_OUTPUT);
    assert_eq!(number(&facts, "false_steps"), 0, "{facts:?}");
    assert!(number(&facts, "value_events") > 0, "{facts:?}");
    assert_eq!(facts["value_events"], facts["value_events_told"]);
    for (name, share) in [("load_constant", 1.0), ("load_bytes", 0.75)] {
        let load = load_of(&profile, name);
        assert!((load.invariance - share).abs() < 0.01, "{load:?}");
        let block = profile.blocks.iter().find(|block| {
            let is_in = (block.address..block.address + u64::from(block.size)).contains(&load.address);
            is_in && profile.functions[block.function.index()].module == load.module
        });
        assert_eq!(block.expect("a block around the load").count.value, load.count.value);
        assert!(load.count.variance > 0.0 && load.count.seen > 1000, "{load:?}");
        // The loop around it goes round 99,999 times of 100,000.
        let branch = site_of(&profile, name, ValueKind::BranchTarget);
        assert!(branch.count.seen > 1000 && branch.invariance > 0.99, "{branch:?}");
    }
}
