//! One function for each shape of code that copies treat in a way of its own.

use emit::{CellKind, Contexts, Counting, Events, Options, Probe, SkipReason};
use flow::Sequential;
use wire::clusters::N_CLUSTERS;
use wire::sample::EndReason;

use crate::fixture::{assemble, check, parse, translate};

/// Functions of hand-written assembly; each is named for what it shows.
pub const SHAPES: &str = include_str!("../shapes.S");
/// More of them, for copies that count.
pub const COUNTED: &str = include_str!("../counted.S");

#[test]
fn all_shapes_verify() {
    let file = assemble(SHAPES);
    check(&parse(&file), "shapes", Probe::None);
    let copy = check(&parse(&file), "shapes", Probe::Trace);
    let statistics = copy.statistics();
    assert!(statistics.probes_dead_register > 0 && statistics.probes_spilled > 0, "{statistics:?}");
    assert!(statistics.probes_flags_saved > 0, "{statistics:?}");
    for reason in [EndReason::SystemCall, EndReason::Unloading, EndReason::Instruction] {
        assert!(statistics.leaving_for(reason) > 0, "{reason:?}: {statistics:?}");
    }
}

#[test]
fn all_shapes_verify_when_they_are_counted() {
    let file = assemble(&[SHAPES, COUNTED].concat());
    for counting in [
        Counting::Nothing,
        Counting::Blocks,
        Counting::Paths,
        Counting::HeaderPaths,
        Counting::PATH_CYCLES,
        Counting::SampledPaths,
        Counting::TracedPaths,
        Counting::CONTEXTS,
        Counting::CONTEXT_PATHS,
        Counting::CONTEXT_PATH_CYCLES,
        Counting::CONTEXT_CYCLES,
        Counting::CONTEXT_PATHS.by_call_site(),
        Counting::CONTEXT_CYCLES.by_call_site(),
    ] {
        let copy = check(&parse(&file), "shapes", Probe::Exact(counting));
        let has = |kind: CellKind| copy.cells().iter().any(|cell| cell.kind == kind);
        let expected = match counting {
            Counting::Contexts(Contexts { by_call_site: true, .. }) => vec![CellKind::Context, CellKind::CallSite],
            Counting::Nothing | Counting::Triggered(_) => vec![CellKind::Target],
            Counting::Blocks => {
                vec![CellKind::Target, CellKind::Block, CellKind::Edge, CellKind::InnerEdge]
            }
            Counting::Contexts(Contexts { paths: false, .. }) => vec![CellKind::Target, CellKind::Context],
            Counting::Contexts(_) => vec![CellKind::Target, CellKind::Context, CellKind::LostPaths],
            Counting::PathMetric(_) | Counting::SampledPaths | Counting::TracedPaths => {
                vec![CellKind::Target, CellKind::HashedPaths, CellKind::LostPaths]
            }
            Counting::Paths | Counting::HeaderPaths => {
                vec![CellKind::Target, CellKind::Paths, CellKind::HashedPaths, CellKind::LostPaths]
            }
        };
        assert!(expected.into_iter().all(has), "{counting:?}: {:?}", copy.cells());
    }
}

#[test]
fn copies_verify_in_every_cluster() {
    let file = assemble(&[SHAPES, COUNTED].concat());
    let image = parse(&file);
    let flow = flow::analyze(&image, &Sequential);
    for cluster in 0..N_CLUSTERS {
        let exact = [Counting::Blocks, Counting::Paths, Counting::CONTEXT_PATHS].map(Probe::Exact);
        for probe in exact.into_iter().chain([Probe::Trace]) {
            let options = Options { cluster, probe, events: Events::default() };
            let copy = emit::translate(&image, &flow, options, &Sequential);
            assert_eq!(emit_verify::verify(&image, &flow, &copy), Ok(()), "{probe:?} in cluster {cluster}");
        }
    }
}

#[test]
fn restartable_sequences_have_no_copy() {
    let source = "
        .globl _start
        _start: call sequence
                ret
        .type sequence, @function
        sequence:
        1:      incq (%rdi)
        2:      ret
        3:      jmp 1b
        .size sequence, . - sequence
        .section __rseq_cs, \"aw\"
        .balign 32
        .long 0, 0
        .quad 1b, 2b - 1b, 3b
    ";
    let file = assemble(source);
    let image = parse(&file);
    let (flow, copy) = translate(&image, Probe::Trace);
    assert_eq!(copy.statistics().skipped_for(SkipReason::RestartableSequence), 1, "{:?}", copy.statistics());
    assert_eq!(copy.statistics().leaving_for(EndReason::NoCopy), 1, "the call has no copy to go to");
    emit_verify::verify(&image, &flow, &copy).expect("the rest is right");
}

#[test]
fn a_function_with_very_many_blocks_looks_at_the_limit_everywhere() {
    let n_blocks = wire::thread::MAX_UNCHECKED_RECORDS / 2 + 10;
    let blocks: String = (0..n_blocks).map(|_| "dec %eax\njz 1f\n").collect();
    let file = assemble(&format!(".globl _start\n_start:\n{blocks}1: ret\n"));
    check(&parse(&file), "many blocks", Probe::None);
    let copy = check(&parse(&file), "many blocks", Probe::Trace);
    let statistics = copy.statistics();
    assert!(statistics.leaving_for(EndReason::BufferFull) >= n_blocks as u64, "{statistics:?}");
}

/// An interpreter of which every handler jumps through the same table: more pairs of jumps and
/// targets than rows have room for. Its paths are not counted, its contexts are.
#[test]
fn a_function_with_too_many_rows_keeps_its_contexts() {
    const N_HANDLERS: usize = 256;
    let next = "movzbl (%rdi), %ecx\ninc %rdi\njmp *table(,%rcx,8)\n";
    let own = |at: usize| match at {
        7 => "call callee\n".to_owned(),
        // One jump more than there are handlers.
        9 => format!("test %eax, %eax\njz 1f\n{next}1:\n"),
        _ => String::new(),
    };
    let handler = |at: usize| format!("handler{at}: add ${at}, %eax\n{}{next}", own(at));
    let handlers: String = (1..N_HANDLERS).map(handler).collect();
    let table: String = (0..N_HANDLERS).map(|at| format!(".quad handler{at}\n")).collect();
    let file = assemble(&format!(
        ".globl _start\n.type _start, @function\n_start: {next}{handlers}handler0: ret\n.size _start, . - _start\n\
         .type callee, @function\ncallee: ret\n.size callee, . - callee\n.section .rodata\ntable: {table}"
    ));
    let image = parse(&file);
    for (counting, kind) in [
        (Counting::Paths, Some(CellKind::Block)),
        (Counting::SampledPaths, None),
        (Counting::CONTEXT_PATHS, Some(CellKind::Context)),
        (Counting::CONTEXT_PATH_CYCLES, Some(CellKind::Context)),
        (Counting::CONTEXT_PATHS.by_call_site(), Some(CellKind::CallSite)),
    ] {
        let copy = check(&image, "too many rows", Probe::Exact(counting));
        let entry = (image.entry().expect("an entry").0 - copy.base().0) as u32;
        let cells = || copy.cells().iter().filter(|cell| (entry..entry + 0x2000).contains(&cell.at));
        let n_of = |kind: CellKind| cells().filter(|cell| cell.kind == kind).count();
        let n_counted = cells().filter(|cell| cell.kind == CellKind::LostPaths && cell.at == entry).count();
        assert_eq!(n_counted, 0, "{counting:?}");
        assert!(kind.is_none_or(|kind| n_of(kind) > 0), "{counting:?}: {:?}", copy.cells());
    }
}
