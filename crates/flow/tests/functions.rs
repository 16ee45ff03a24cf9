//! Which bytes belong to which function, how blocks are cut, and who returns.

mod fixture;

use fixture::{Fixture, address, analyze, function};
use flow::FunctionFlow;
use flow::cfg::{EdgeKind, EntryKind};
use image::{Image, Svma};

/// Kinds of all edges of a function, as a sorted list of (from, kind, target).
fn edges(function: &FunctionFlow) -> Vec<(Svma, EdgeKind, Option<Svma>)> {
    let from = |edge: &flow::graph::Edge| function.cfg.block(edge.from).range.start;
    let cfg = &function.cfg;
    cfg.graph.edges().iter().zip(&cfg.edges).map(|(edge, facts)| (from(edge), facts.kind, facts.target)).collect()
}

fn starts(function: &FunctionFlow) -> Vec<Svma> {
    function.cfg.blocks.iter().map(|block| block.range.start).collect()
}

fn addresses(image: &Image<'_>, names: &[&str]) -> Vec<Svma> {
    names.iter().map(|name| address(image, name)).collect()
}

/// A function with unwind information; its labels are visible as symbols.
fn routine(name: &str, body: &str) -> String {
    format!(
        ".globl {name}\n.type {name}, @function\n{name}:\n.cfi_startproc\n{body}\n.cfi_endproc\n.size {name}, .-{name}\n"
    )
}

#[test]
fn blocks_and_edge_kinds() {
    let body = "test %edi,%edi; je B2\nB1: call g\nB1r: jmp B3\nB2: cmp $5,%esi; jae g\nB3: ret";
    let source = format!("{}{}", routine("f", body), routine("g", "ud2"));
    let source = source
        .replace("jmp B3", "test %eax,%eax; jne B3; jmp other")
        .replace("ud2", "test %edi,%edi; je 1f; ud2; 1: ret");
    let fixture = Fixture::assemble(&format!("{source}{}", routine("other", "hlt")));
    let image = fixture.image();
    let module = analyze(&image);
    let f = function(&image, &module, "f");
    let [b1, b1r, b2, b3, g, other] = addresses(&image, &["B1", "B1r", "B2", "B3", "g", "other"]).try_into().unwrap();
    let entry = f.entry;
    let last = starts(f)[3];
    assert_eq!(
        edges(f),
        [
            (entry, EdgeKind::FallThrough, Some(b1)),
            (entry, EdgeKind::Taken, Some(b2)),
            (b1, EdgeKind::Call, Some(b1r)),
            (b1r, EdgeKind::FallThrough, Some(last)),
            (b1r, EdgeKind::Taken, Some(b3)),
            (last, EdgeKind::TailCall, Some(other)),
            (b2, EdgeKind::FallThrough, Some(b3)),
            (b2, EdgeKind::TailCall, Some(g)),
            (b3, EdgeKind::Return, None),
        ]
    );
}

#[test]
fn overlapping_instructions_are_both_decoded() {
    let body = "cmpl $0,%fs:24; je SINGLE\nLOCKED: .byte 0xf0\nSINGLE: cmpxchg %ecx,(%rdi)\nJOINED: mov %eax,%edx; ret";
    let fixture = Fixture::assemble(&routine("f", body));
    let image = fixture.image();
    let module = analyze(&image);
    let f = function(&image, &module, "f");
    let [locked, single, joined] = addresses(&image, &["LOCKED", "SINGLE", "JOINED"]).try_into().unwrap();
    assert_eq!(starts(f), [f.entry, locked, single, joined]);
    assert!(edges(f).contains(&(locked, EdgeKind::FallThrough, Some(joined))));
    assert!(edges(f).contains(&(single, EdgeKind::FallThrough, Some(joined))));
}

/// Split-off code as gcc lays it out: an unwind entry of its own, entered with a frame in place;
/// symbols stripped.
#[test]
fn cold_part_of_a_stripped_function() {
    let source = "
        .section .text.unlikely
        cold: .cfi_startproc; .cfi_def_cfa_offset 16; call abort@plt
        cold2: incl (%rdi); jmp back; .cfi_endproc
        .text
        hot: .cfi_startproc; push %rbx; .cfi_def_cfa_offset 16; test %edi,%edi; je cold; cmp $3,%edi; je cold2
        back: mov %edi,%eax; pop %rbx; .cfi_def_cfa_offset 8; ret; .cfi_endproc
        .globl f; .type f, @function
        f: .cfi_startproc; call hot; ret; .cfi_endproc; .size f, .-f
    ";
    let fixture = Fixture::build("S", source, &["-shared", "-nostdlib", "-s"]);
    let image = fixture.image();
    let module = analyze(&image);
    let f = function(&image, &module, "f");
    let flow::Callee::Direct(hot) = f.calls[0].callee else { panic!("{:?}", f.calls) };
    let hot = module.function_at(hot).expect("the callee");
    assert_eq!(hot.parts.len(), 2, "{:?}", hot.parts);
    assert!(hot.parts[1].start < hot.parts[0].start, "the entry's part comes first");
    assert!(edges(hot).iter().all(|&(_, kind, _)| kind != EdgeKind::TailCall), "{:?}", edges(hot));
    assert!(hot.cfg.entry_kinds.iter().all(|&kind| kind == EntryKind::Primary), "{:?}", hot.cfg.entry_kinds);
}

#[test]
fn code_shared_by_two_functions_gets_a_second_entry() {
    let source = format!(
        "{}{}",
        routine("f", "test %edi,%edi; je SHARED; mov $1,%eax; ret"),
        routine("g", "mov $2,%esi\nSHARED: mov %esi,%eax; ret")
    );
    let fixture = Fixture::assemble(&source);
    let image = fixture.image();
    let module = analyze(&image);
    let shared = address(&image, "SHARED");
    let (f, g) = (function(&image, &module, "f"), function(&image, &module, "g"));
    assert!(edges(f).contains(&(f.entry, EdgeKind::TailCall, Some(shared))));
    let block = g.cfg.block_at(shared).expect("a block of its own");
    let index = g.cfg.graph.entries().iter().position(|&entry| entry == block).expect("an entry");
    assert_eq!(g.cfg.entry_kinds[index], EntryKind::Secondary);
}

#[test]
fn functions_that_do_not_return() {
    let source = [
        routine("dies", "push %rbx; call abort@plt"),
        routine("forwards", "mov $1,%edi; jmp dies"),
        routine("loops", "1: pause; jmp 1b"),
        routine("maybe", "test %edi,%edi; je 1f; call dies; 1: ret"),
        routine("f", "call maybe; test %eax,%eax; je 1f; call forwards; .byte 0x06; 1: call loops"),
        routine("recursive", "test %edi,%edi; jne 1f; call dies; 1: dec %edi; call recursive; ret"),
    ]
    .concat();
    let fixture = Fixture::assemble(&source);
    let image = fixture.image();
    let module = analyze(&image);
    let returns = |name| function(&image, &module, name).returns;
    let expected =
        [("dies", false), ("forwards", false), ("loops", false), ("maybe", true), ("f", false), ("recursive", false)];
    for (name, expected) in expected {
        assert_eq!(returns(name), expected, "{name}");
    }
    let f = function(&image, &module, "f");
    let call_edges = edges(f).iter().filter(|(_, kind, _)| *kind == EdgeKind::Call).count();
    assert_eq!(call_edges, 1, "only the call of maybe comes back: {:?}", edges(f));
}

#[test]
fn landing_pads_start_blocks() {
    let source = "
        void thrower(int); struct Guard { ~Guard(); };
        int f(int x) { Guard guard; try { thrower(x); } catch (int e) { return e; } catch (...) { return 1; } return 0; }
        Guard::~Guard() { __asm__ volatile(\"\"); } void thrower(int x) { if (x) throw x; }
        int main(int argc, char **) { return f(argc); }
    ";
    for flags in [&["-O2"][..], &["-O0"], &["-O2", "-s"]] {
        let fixture = Fixture::build("cc", source, flags);
        let image = fixture.image();
        let module = analyze(&image);
        let mut n_pads = 0;
        for frame in image.frames() {
            for pad in image.call_sites(frame).expect("a sound table").iter().filter_map(|site| site.landing_pad) {
                let owner = module.function_at(pad).expect("a pad lies in a function");
                let block = owner.cfg.block_at(pad).expect("a pad starts a block");
                assert!(owner.cfg.graph.entries().contains(&block), "{flags:?} {pad}");
                assert!(owner.contains(frame.range.start), "{flags:?}: a pad belongs to the function that throws");
                n_pads += 1;
            }
        }
        assert!(n_pads >= 2, "{flags:?}");
    }
}

/// Programs without unwind information are found by calls and pointers alone.
#[test]
fn functions_without_symbols_or_unwind_entries() {
    let source = "int twice(int x) { return x * 2; } static int thrice(int x) { return x * 3; }
        int (*volatile pointer)(int) = thrice; __attribute__((noinline)) static int once(int x) { __asm__(\"\" : \"+r\"(x)); return x; }
        int main(int argc, char **argv) { return once(twice(argc)) + pointer(argc); }";
    let fixture = Fixture::build(
        "c",
        source,
        &["-O1", "-s", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-inline"],
    );
    let image = fixture.image();
    let module = analyze(&image);
    let by_call = module
        .functions
        .iter()
        .filter(|function| function.called && function.sources == image::Sources::default())
        .count();
    let by_pointer = module
        .functions
        .iter()
        .filter(|function| function.address_taken && function.sources == image::Sources::default())
        .count();
    assert!(by_call >= 2, "{by_call}");
    assert!(by_pointer >= 1, "{by_pointer}");
}

#[test]
fn bytes_that_are_no_code_are_counted() {
    let body = "lea D(%rip),%rax; ret\nD: .byte 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f";
    let fixture = Fixture::assemble(&routine("f", body));
    let image = fixture.image();
    let module = analyze(&image);
    let f = function(&image, &module, "f");
    assert_eq!(f.data_bytes, 7);
    assert!(f.is_complete());
}

/// A handler of exceptions as ocamlopt lays it out: no jump leads there, and padding is before it.
#[test]
fn code_behind_padding_that_nothing_leads_to_is_a_block() {
    let body = "lea H(%rip),%rax; push %rax; call other; pop %rcx; jmp OUT\n.p2align 4\nH: mov $1,%eax; test %edi,%edi; jne OUT\nAFTER: xor %eax,%eax\nOUT: ret";
    let fixture = Fixture::assemble(&format!("{}{}", routine("f", body), routine("other", "ret")));
    let image = fixture.image();
    let module = analyze(&image);
    let f = function(&image, &module, "f");
    let [handler, after] = addresses(&image, &["H", "AFTER"]).try_into().unwrap();
    let block = f.cfg.block_at(handler).expect("a block starts at the handler");
    assert_eq!(f.cfg.block(block).range.end, after);
    assert!(f.cfg.graph.is_entry(block), "nothing known leads there");
}

/// Labels of an interpreter whose instructions hold addresses: nothing says which jump goes where,
/// but control that falls into a label may also come there by its address.
#[test]
fn labels_whose_addresses_are_kept_start_blocks() {
    let body = "push %rbx; mov (%rdi),%rax; jmp *%rax\nA: add $1,%esi\nB: add $2,%esi\nC: mov (%rdi),%rax; jmp *%rax";
    let table = ".section .data.rel.ro,\"aw\"\n.p2align 3\n.globl T\nT: .quad A, B\n.text\n";
    for by_code in [false, true] {
        let body = if by_code { body.replace("push %rbx", "lea B(%rip),%rbx") } else { body.to_owned() };
        let source = if by_code { routine("f", &body) } else { format!("{}{table}", routine("f", &body)) };
        let fixture =
            Fixture::assemble(&format!(".text\n.hidden A, B, C\n{}", source.replace("A:", ".globl A, B, C\nA:")));
        let image = fixture.image();
        let module = analyze(&image);
        let f = function(&image, &module, "f");
        let [a, b, c] = addresses(&image, &["A", "B", "C"]).try_into().unwrap();
        assert!(starts(f).contains(&a) && starts(f).contains(&b), "{by_code}: {:?}", starts(f));
        assert!(!starts(f).contains(&c), "{by_code}: the address of C is nowhere");
        assert!(edges(f).contains(&(a, EdgeKind::FallThrough, Some(b))), "{by_code}: A goes on into B");
    }
}
