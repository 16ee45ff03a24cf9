//! Copies that note what instructions load, and other values.

use emit::{Candidate, Counting, Events, ModuleCopy, Options, Position, Probe, Selection};
use flow::Sequential;
use wire::sample::EndReason;

use crate::fixture::{assemble, check_with, parse, translate_with};
use crate::mutation::{every_bit_of_code_matters, every_fix_up_of_a_copy_matters, every_run_of_a_copy_matters};
use crate::shapes::{COUNTED, SHAPES};

const LOADS: &str = include_str!("../loads.S");
pub const NOTED: &str = include_str!("../noted.S");
const READS: &str = include_str!("../reads.S");
const COUNTINGS: [Counting; 4] = [Counting::Nothing, Counting::Blocks, Counting::Paths, Counting::CONTEXT_PATHS];

#[test]
fn all_shapes_verify() {
    let file = assemble(&[SHAPES, COUNTED, LOADS, NOTED, READS].concat());
    for counting in COUNTINGS {
        for events in [Events::LOADS, Events::ALL] {
            let copy = check_with(&parse(&file), "shapes", Probe::Exact(counting), events);
            let statistics = copy.statistics();
            assert_eq!(statistics.leaving_for(EndReason::EventsFull), statistics.events);
            assert!(statistics.probes_dead_register > 0 && statistics.probes_spilled > 0, "{statistics:?}");
        }
    }
}

/// Translates with the loads of one function noted, verifies, and returns how many are noted, and
/// how many are not.
fn loads_of(file: &[u8], function: &str) -> (u64, u64) {
    let image = parse(file);
    let symbol = image.symbols().iter().find(|symbol| symbol.name == function).expect("a function");
    let next = image.symbols().iter().map(|symbol| symbol.address).filter(|&address| symbol.address < address).min();
    let range = symbol.address..next.unwrap_or(image::Svma(u64::MAX));
    let is_in = |candidate: &Candidate| range.contains(&candidate.at);
    let copy = check_selected(file, Events::LOADS, is_in);
    (copy.statistics().events, copy.statistics().loads_not_noted)
}

#[test]
fn every_load_is_noted() {
    let file = assemble(&format!(".globl _start\n_start: nop\n{LOADS}{READS}"));
    let moves = ["all_alive", "flags_dead", "ends_block", "other_loads"].map(|name| (name, loads_of(&file, name)));
    let expected = [("all_alive", (4, 0)), ("flags_dead", (9, 0)), ("ends_block", (2, 0)), ("other_loads", (6, 0))];
    assert_eq!(moves, expected);
    let others = ["parts", "reads_operands", "changes", "stack", "vectors", "strings", "all_are_needed"];
    let noted = others.map(|name| loads_of(&file, name));
    assert_eq!(noted, [(8, 0), (24, 0), (11, 0), (10, 0), (18, 0), (8, 0), (3, 0)]);
    let copy = check_with(&parse(&file), "loads", Probe::Exact(Counting::Nothing), Events::NONE);
    assert_eq!((copy.statistics().events, copy.statistics().loads_not_noted), (0, 0));
}

#[test]
fn what_may_not_be_read_is_counted() {
    let file = assemble(&format!(".globl _start\n_start: nop\n{READS}"));
    // What is noted is the return.
    assert_eq!(loads_of(&file, "not_read"), (1, 13));
    assert_eq!(loads_of(&file, "leaves"), (1, 2));
    assert_eq!(loads_of(&file, "no_reads"), (0, 0));
}

#[test]
fn every_bit_of_what_notes_reads_matters() {
    let source = format!(".globl _start\n_start: nop\n{READS}");
    for probe in [Probe::Trace, Probe::Exact(Counting::Nothing)] {
        every_bit_of_code_matters(&source, probe, Events::LOADS);
        let file = assemble(&source);
        every_fix_up_of_a_copy_matters(&file, probe, Events::LOADS);
        every_run_of_a_copy_matters(&file, probe, Events::LOADS);
    }
}

/// A program that calls one of the functions of `noted.S`.
fn calling(function: &str) -> String {
    format!(".globl _start\n_start: call {function}\n{NOTED}")
}

#[test]
fn what_goes_before_an_instruction_is_noted() {
    let file = assemble(&format!(
        ".globl _start\n_start: call takes_arguments\ncall goes_round\ncall calls\ncall jumps\ncall branches\ncall addresses\n{NOTED}"
    ));
    let n_events = |events: Events| -> u64 {
        let copy: ModuleCopy = check_with(&parse(&file), "noted", Probe::Exact(Counting::Nothing), events);
        copy.statistics().events
    };
    assert_eq!(n_events(Events::CALL_TARGETS), 6);
    assert_eq!(n_events(Events::JUMP_TARGETS), 2);
    assert_eq!(n_events(Events::METHOD_TABLES), 1);
    // Those of `branches` and the function that it goes to, and one in each of three others.
    assert_eq!(n_events(Events::BRANCH_TARGETS), 3 + 3);
    // Those of `addresses`, the two loads of `calls`, and the tables of jumps.
    assert_eq!(n_events(Events::ADDRESSES), 10 + 2 + 3);
    let sum: u64 = [
        Events::LOADS,
        Events::CALL_TARGETS,
        Events::JUMP_TARGETS,
        Events::METHOD_TABLES,
        Events::ADDRESSES,
        Events::ARGUMENTS,
        Events::BRANCH_TARGETS,
    ]
    .into_iter()
    .map(n_events)
    .sum();
    assert_eq!(n_events(Events::ALL), sum);
}

#[test]
fn branches_on_a_counter_are_not_noted_but_counted() {
    let file = assemble(&calling("branches"));
    let image = parse(&file);
    for probe in [Probe::Trace, Probe::Exact(Counting::Blocks)] {
        let copy = check_with(&image, "branches", probe, Events::BRANCH_TARGETS);
        assert_eq!(copy.statistics().branches_not_noted, 2);
        let without = check_with(&image, "branches", probe, Events::JUMP_TARGETS);
        assert_eq!(without.statistics().branches_not_noted, 0);
    }
}

#[test]
fn arguments_are_what_a_function_reads_first() {
    let source = calling("takes_arguments");
    let file = assemble(&source[..source.find(".type calls").expect("it is there")]);
    let copy = check_with(&parse(&file), "arguments", Probe::Exact(Counting::Nothing), Events::ARGUMENTS);
    assert_eq!(copy.statistics().events, 3);
}

/// A function whose first block overwrites arguments only if a condition holds, or a register is
/// not zero. It always overwrites `r9`.
const KEEPS: &str = "
        .type keeps, @function
keeps:  test %rsi, %rsi
        cmovz %rax, %rdi
        bsf %rax, %rdx
        tzcnt %rax, %rcx
        cmovz %eax, %r8d
        mov $1, %r9d
        ret
";

#[test]
fn arguments_that_a_function_may_keep_are_noted() {
    let file = assemble(&format!(".globl _start\n_start: call keeps\nret\n{KEEPS}"));
    for probe in [Probe::Trace, Probe::Exact(Counting::Nothing)] {
        let copy = check_with(&parse(&file), "keeps", probe, Events::ARGUMENTS);
        assert_eq!(copy.statistics().events, 5);
    }
}

#[test]
fn bursts_note_the_same_and_end_when_the_buffer_is_full() {
    let file = assemble(&[SHAPES, COUNTED, LOADS, NOTED, READS].concat());
    for events in [Events::LOADS, Events::ALL] {
        let exact = check_with(&parse(&file), "shapes", Probe::Exact(Counting::Blocks), events);
        for probe in [Probe::Trace, Probe::None] {
            let copy = check_with(&parse(&file), "shapes", probe, events);
            assert_eq!(copy.statistics().events, exact.statistics().events);
            assert_eq!(copy.statistics().leaving_for(EndReason::EventsFull), copy.statistics().events);
        }
    }
}

#[test]
fn every_bit_matters() {
    let source = format!(".globl _start\n_start: call flags_dead\ncall ends_block\n{LOADS}");
    every_bit_of_code_matters(&source, Probe::Exact(Counting::Blocks), Events::LOADS);
    every_bit_of_code_matters(&calling("takes_arguments"), Probe::Exact(Counting::Nothing), Events::ALL);
}

/// A branch on every condition, some at the start of their blocks, both ways, and to another
/// function.
fn all_conditions() -> String {
    const CONDITIONS: [&str; 16] =
        ["o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g"];
    let number = |index: usize| if index.is_multiple_of(2) { index + 3 } else { index - 1 };
    let branches = CONDITIONS.iter().enumerate();
    let branches = branches.map(|(index, condition)| format!(".L{index}: j{condition} .L{}\n", number(index)));
    let branches: String = branches.collect();
    format!(".globl _start\n_start: cmp %rax, %rcx\n{branches}.L16: jz other\n.L17: ret\nother: jnz _start\n ret\n")
}

#[test]
fn every_bit_of_what_notes_branches_matters() {
    for probe in [Probe::Trace, Probe::Exact(Counting::Nothing)] {
        every_bit_of_code_matters(&all_conditions(), probe, Events::BRANCH_TARGETS);
        let file = assemble(&all_conditions());
        every_fix_up_of_a_copy_matters(&file, probe, Events::BRANCH_TARGETS);
        every_run_of_a_copy_matters(&file, probe, Events::BRANCH_TARGETS);
    }
}

#[test]
fn every_fix_up_and_every_run_matters() {
    let loads = format!(".globl _start\n_start: call flags_dead\ncall ends_block\n{LOADS}");
    for (source, events) in [(loads, Events::LOADS), (calling("calls"), Events::ALL)] {
        let file = assemble(&source);
        every_fix_up_of_a_copy_matters(&file, Probe::Exact(Counting::Nothing), events);
        every_run_of_a_copy_matters(&file, Probe::Exact(Counting::Blocks), events);
        every_run_of_a_copy_matters(&file, Probe::Trace, events);
    }
}

/// Translates with the chosen places only, verifies, and stores and reads it.
fn check_selected(file: &[u8], events: Events, is_wanted: impl Fn(&Candidate) -> bool + Sync) -> ModuleCopy {
    let image = parse(file);
    let flow = flow::analyze(&image, &Sequential);
    let options = Options { cluster: 1, probe: Probe::Exact(Counting::Blocks), events };
    let selection = Selection::choose(&image, &flow, events, &Sequential, is_wanted);
    let copy = emit::translate_selected(&image, &flow, options, selection, &Sequential);
    emit_verify::verify(&image, &flow, &copy).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(ModuleCopy::from_bytes(&copy.to_bytes()).as_ref(), Ok(&copy));
    copy
}

#[test]
fn places_that_are_not_selected_cost_nothing() {
    let file = assemble(&[SHAPES, COUNTED, LOADS, NOTED, READS].concat());
    let position =
        Position { module_base: 0x40_0000, copy: 0x50_0000, cluster_lo: 0x40_0000, first_cell: 0, first_key: 0 };
    let code = |copy: &ModuleCopy| copy.place(&position).expect("in reach");
    let (_, without) = translate_with(&parse(&file), Probe::Exact(Counting::Blocks), Events::NONE);
    assert_eq!(code(&check_selected(&file, Events::ALL, |_| false)), code(&without));
    let (_, with) = translate_with(&parse(&file), Probe::Exact(Counting::Blocks), Events::ALL);
    let all = check_selected(&file, Events::ALL, |_| true);
    assert_eq!((code(&all), all.statistics()), (code(&with), with.statistics()));
}

#[test]
fn what_is_selected_is_noted() {
    let file = assemble(&format!(".globl _start\n_start: call calls\ncall addresses\n{NOTED}"));
    let n_events =
        |is_wanted: fn(&Candidate) -> bool| check_selected(&file, Events::ALL, is_wanted).statistics().events;
    assert_eq!(n_events(|candidate| candidate.event == Events::CALL_TARGETS), 6);
    assert_eq!(
        n_events(|candidate| candidate.event == Events::ADDRESSES && candidate.writes && candidate.bytes == 8),
        4
    );
    assert_eq!(n_events(|candidate| candidate.event == Events::ADDRESSES && candidate.bytes == 16), 1);
    let one = |candidate: &Candidate| candidate.event == Events::LOADS && candidate.reads && candidate.bytes == 4;
    assert_eq!(n_events(one), 1);
}
