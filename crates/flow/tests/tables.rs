//! Jump tables as gcc and clang lay them out, and jumps that are no tables.

mod fixture;

use fixture::{Fixture, address, analyze, function};
use flow::indirect::{Bound, Reason, Resolution};

/// What the single indirect jump of function `f` is, with the labels that it reaches.
#[derive(Debug, PartialEq)]
enum Found {
    Table { labels: Vec<&'static str>, n_entries: u32, bound: Bound },
    TailCall,
    Unresolved(Reason),
}

/// Assembles `body` as function `f`, in which every `L?` is a label, and tells what became of its
/// last indirect jump.
fn find(body: &str) -> Found {
    const LABELS: [&str; 6] = ["L0", "L1", "L2", "L3", "L4", "L5"];
    let globals: String = LABELS
        .iter()
        .filter(|label| body.contains(&format!("{label}:")))
        .map(|l| format!(".globl {l}; .hidden {l}\n"))
        .collect();
    let source = format!(
        ".text\n.globl f, other\n{globals}.type f, @function\nf:\n.cfi_startproc\n{body}\n.cfi_endproc\n.size f, .-f\n\
         .type other, @function\nother:\n.cfi_startproc\nxor %eax, %eax\nret\n.cfi_endproc\n.size other, .-other\n"
    );
    let fixture = Fixture::assemble(&source);
    let image = fixture.image();
    let module = analyze(&image);
    let jump = function(&image, &module, "f").indirect_jumps.last().expect("an indirect jump");
    match &jump.resolution {
        Resolution::Table(table) => {
            let is_target = |label: &&str| table.targets.contains(&address(&image, label));
            let labels: Vec<&str> =
                LABELS.into_iter().filter(|label| body.contains(&format!("{label}:"))).filter(is_target).collect();
            assert_eq!(labels.len(), table.targets.len(), "every target is a label");
            Found::Table { labels, n_entries: table.n_entries, bound: table.bound }
        }
        Resolution::TailCall { .. } => Found::TailCall,
        Resolution::Unresolved(reason) => Found::Unresolved(*reason),
    }
}

fn table(labels: &[&'static str], n_entries: u32, bound: Bound) -> Found {
    Found::Table { labels: labels.to_vec(), n_entries, bound }
}

const ARMS: &str = "L0: mov $1,%eax; ret\nL1: mov $2,%eax; ret\nL2: mov $3,%eax; ret\nL3: xor %eax,%eax; ret\n";
const RELATIVE: &str = ".section .rodata\n.p2align 2\nT: .long L0-T, L1-T, L2-T, L0-T\n.text\n";
const ABSOLUTE: &str = ".section .data.rel.ro,\"aw\"\n.p2align 3\nT: .quad L0, L1, L2, L0\n.text\n";

#[test]
fn gcc_position_independent() {
    let body = "cmp $3,%edi; ja L3; lea T(%rip),%rdx; mov %edi,%edi; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; notrack jmp *%rax\n";
    assert_eq!(find(&format!("endbr64\n{body}{ARMS}{RELATIVE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

#[test]
fn clang_position_independent_with_bias() {
    let body =
        "add $-10,%edi; cmp $3,%edi; ja L3; lea T(%rip),%rcx; movslq (%rcx,%rdi,4),%rax; add %rcx,%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{body}{ARMS}{RELATIVE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

#[test]
fn absolute_pointers() {
    let body = "cmp $3,%rdi; ja L3; lea T(%rip),%rax; jmp *(%rax,%rdi,8)\n";
    assert_eq!(find(&format!("{body}{ARMS}{ABSOLUTE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

#[test]
fn branch_if_below_or_equal() {
    let body = "cmp $3,%edi; jbe 1f; L3: xor %eax,%eax; ret; 1: lea T(%rip),%rdx; mov %edi,%edi; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax\n";
    let arms = ARMS.replace("L3: ", "");
    assert_eq!(find(&format!("{body}{arms}{RELATIVE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

#[test]
fn masked_index_without_comparison() {
    let body = "and $3,%edi; lea T(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{body}{ARMS}{RELATIVE}")), table(&["L0", "L1", "L2"], 4, Bound::Width));
}

#[test]
fn byte_compared_then_extended() {
    let body = "movzbl (%rdi),%eax; sub $97,%eax; cmp $3,%al; ja L3; movzbl %al,%eax; lea T(%rip),%rdx; movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{body}{ARMS}{RELATIVE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

#[test]
fn memory_compared_then_loaded() {
    let body = "cmpl $3,8(%rdi); ja L3; mov 8(%rdi),%eax; lea T(%rip),%rdx; movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{body}{ARMS}{RELATIVE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

#[test]
fn two_levels() {
    let bytes = ".section .rodata\nB: .byte 0,2,2,0,1,0,2,2\n.text\n";
    let body = "cmp $7,%edi; ja L3; mov %edi,%edi; lea B(%rip),%rcx; movzbl (%rcx,%rdi),%eax; lea T(%rip),%rdx; movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{body}{ARMS}{RELATIVE}{bytes}")), table(&["L0", "L1", "L2"], 8, Bound::Compared));
}

#[test]
fn index_and_table_spilled_to_the_stack() {
    let body = "push %rbx; .cfi_adjust_cfa_offset 8; sub $32,%rsp; .cfi_adjust_cfa_offset 32; lea T(%rip),%rdx; mov %rdx,8(%rsp)
        cmp $3,%edi; ja L3; mov %edi,%edi; mov %rdi,16(%rsp); call other; mov 16(%rsp),%rcx; mov 8(%rsp),%rdx
        movslq (%rdx,%rcx,4),%rax; add %rdx,%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{body}{ARMS}{RELATIVE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

#[test]
fn table_address_hoisted_out_of_a_loop() {
    let body = "lea T(%rip),%rbx; 1: movzbl (%rdi),%eax; inc %rdi; cmp $3,%al; ja L3; movslq (%rbx,%rax,4),%rax; add %rbx,%rax; jmp *%rax\n";
    let arms = "L0: jmp 1b\nL1: add $2,%esi; jmp 1b\nL2: dec %esi; jmp 1b\nL3: mov %esi,%eax; ret\n";
    assert_eq!(find(&format!("{body}{arms}{RELATIVE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

#[test]
fn bound_checked_on_every_way_to_a_shared_jump() {
    let body = "lea T(%rip),%rdx; test %esi,%esi; je 1f; mov %edi,%eax; cmp $2,%eax; ja L3; jmp 2f
        1: mov %ecx,%eax; cmp $1,%eax; ja L3; 2: movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{body}{ARMS}{RELATIVE}")), table(&["L0", "L1", "L2"], 3, Bound::Compared));
}

#[test]
fn one_jump_for_two_tables() {
    let second = ".section .rodata\n.p2align 2\nU: .long L4-U, L5-U\n.text\n";
    let arms = format!("{ARMS}L4: mov $9,%eax; ret\nL5: mov $8,%eax; ret\n");
    let body = "test %esi,%esi; je 1f; cmp $3,%edi; ja L3; mov %edi,%edi; lea T(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp 2f
        1: cmp $1,%edi; ja L3; mov %edi,%edi; lea U(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; 2: jmp *%rax\n";
    assert_eq!(
        find(&format!("{body}{arms}{RELATIVE}{second}")),
        table(&["L0", "L1", "L2", "L4", "L5"], 6, Bound::Compared)
    );
}

#[test]
fn computed_goto_is_read_until_the_next_table() {
    let tables = ".section .rodata\n.p2align 2\nT: .long L0-T, L1-T, L2-T\nU: .long L3-U\n.text\n";
    let body = "lea U(%rip),%rcx; mov (%rcx),%r8d; mov (%rdi),%eax; lea T(%rip),%rdx; movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{body}{ARMS}{tables}")), table(&["L0", "L1", "L2"], 3, Bound::Scanned));
}

/// Behind the table there is another one, which nothing in the function names.
#[test]
fn a_comparison_of_the_lower_half_ends_the_table() {
    let body = "cmp $1,%edi; ja L3; lea T(%rip),%rdx; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{body}{ARMS}{RELATIVE}")), table(&["L0", "L1"], 2, Bound::Scanned));
    let ways = "lea T(%rip),%rdx; test %esi,%esi; je 1f; movslq %ecx,%rdi; cmp $1,%edi; ja L3; jmp 2f
        1: cmp $0,%edi; ja L3; 2: movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{ways}{ARMS}{RELATIVE}")), table(&["L0", "L1"], 2, Bound::Scanned));
}

/// clang without optimization stores the label before it jumps there.
#[test]
fn entry_spilled_to_the_stack() {
    let tables = ".section .data.rel.ro,\"aw\"\n.p2align 3\nT: .quad L0, L1, L2, L3\n.text\n";
    let body = "movzbl (%rdi),%eax; lea T(%rip),%rcx; mov (%rcx,%rax,8),%rax; mov %rax,-8(%rsp); mov -8(%rsp),%rax; jmp *%rax\n";
    assert_eq!(find(&format!("{body}{ARMS}{tables}")), table(&["L0", "L1", "L2", "L3"], 4, Bound::Width));
}

#[test]
fn table_in_the_text_is_not_code() {
    let body =
        "cmp $3,%edi; ja L3; lea T(%rip),%rdx; mov %edi,%edi; movslq (%rdx,%rdi,4),%rax; add %rdx,%rax; jmp *%rax
        .p2align 2\nT: .long L0-T, L1-T, L2-T, L0-T\n";
    assert_eq!(find(&format!("{body}{ARMS}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

#[test]
fn computed_block_address_without_a_table() {
    let body = "and $2,%edi; shl $3,%edi; lea L0(%rip),%rax; add %rdi,%rax; jmp *%rax\n.p2align 4\nL0: mov $1,%eax; ret; .p2align 3\nL1: mov $2,%eax; ret; .p2align 3\nL2: mov $3,%eax; ret; .p2align 3\n";
    let found = find(body);
    assert_eq!(found, table(&["L0", "L1", "L2"], 3, Bound::Width));
}

/// gcc keeps the table's address in a register that this callee does not touch, though the
/// convention would let it.
#[test]
fn table_address_kept_across_a_call() {
    let body = "lea T(%rip),%rsi; 1: movzbl (%rcx),%eax; inc %rcx; sub $97,%eax; cmp $3,%al; ja L3; movzbl %al,%eax
        movslq (%rsi,%rax,4),%rax; add %rsi,%rax; jmp *%rax\n";
    let arms = "L0: call other; jmp 1b\nL1: jmp 1b\nL2: dec %edi; jmp 1b\nL3: ret\n.hidden other\n";
    assert_eq!(find(&format!("{body}{arms}{RELATIVE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

/// A state machine: the state number lives in one register and its extension in another, and only
/// one of them is compared.
#[test]
fn bound_on_the_twin_of_the_index() {
    let body = "xor %ebp,%ebp; xor %r12d,%r12d; lea T(%rip),%rdx; 1: cmp $3,%ebp; ja L3; movslq (%rdx,%r12,4),%rax
        add %rdx,%rax; jmp *%rax\n";
    let arms = "L0: mov $1,%ebp; mov $1,%r12d; jmp 1b\nL1: mov (%rdi),%ebp; mov %rbp,%r12; jmp 1b\nL2: mov $3,%ebp; mov $3,%r12d; jmp 1b\nL3: ret\n";
    assert_eq!(find(&format!("{body}{arms}{RELATIVE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
}

#[test]
fn tail_calls_through_pointers() {
    assert_eq!(find("mov 16(%rdi),%rax; jmp *24(%rax)\n"), Found::TailCall);
    assert_eq!(find("mov %rsi,%rax; mov %rdi,%rsi; jmp *%rax\n"), Found::TailCall);
    assert_eq!(
        find(
            "push %rbx; .cfi_adjust_cfa_offset 8; mov %rdi,%rbx; call other; mov (%rbx),%rax; pop %rbx; .cfi_adjust_cfa_offset -8; jmp *8(%rax)\n"
        ),
        Found::TailCall
    );
}

/// gcc keeps values over a call in registers that the callee does not touch (`-fipa-ra`), and so
/// does the code of a jump through a table.
#[test]
fn table_address_kept_over_a_call() {
    let kept = ".hidden other; cmp $3,%edi; ja L3; mov %edi,%esi; lea T(%rip),%rcx; call other; jmp *(%rcx,%rsi,8)\n";
    assert_eq!(find(&format!("{kept}{ARMS}{ABSOLUTE}")), table(&["L0", "L1", "L2"], 4, Bound::Compared));
    let scanned = ".hidden other; mov %rdi,%r8; lea T(%rip),%rcx; call other; movzbl (%r8),%esi; jmp *(%rcx,%rsi,8)\n";
    assert_eq!(find(&format!("{scanned}{ARMS}{ABSOLUTE}")), table(&["L0", "L1", "L2"], 4, Bound::Width));
}

#[test]
fn register_behind_a_call_is_not_guessed() {
    for register in ["rcx", "rsi", "rdi", "r8", "r9", "r10", "r11"] {
        let body = format!("mov %rdi,%{register}; call *(%rax); jmp *8(%{register})\n");
        assert_eq!(find(&body), Found::Unresolved(Reason::BehindCall), "{register}");
    }
    assert_eq!(
        find(".hidden other; lea other(%rip),%rcx; call *(%rax); jmp *%rcx\n"),
        Found::Unresolved(Reason::BehindCall)
    );
    // Results, and what a callee must keep.
    for register in ["rax", "rdx", "rbx", "r12"] {
        assert_eq!(find(&format!("call *(%rax); jmp *8(%{register})\n")), Found::TailCall, "{register}");
    }
}

#[test]
fn table_of_functions_with_a_hole() {
    let functions = ".section .data.rel.ro,\"aw\"\n.p2align 3\nF: .quad 0, other, other\n.text\n";
    assert_eq!(
        find(&format!("cmp $2,%rdi; ja L3; lea F(%rip),%rax; jmp *(%rax,%rdi,8)\nL3: ret\n{functions}")),
        Found::TailCall
    );
}

#[test]
fn pointer_with_a_frame_in_place_is_not_a_tail_call() {
    assert_eq!(
        find("push %rbx; .cfi_adjust_cfa_offset 8; mov (%rdi),%rax; jmp *%rax\n"),
        Found::Unresolved(Reason::PointerInFrame)
    );
}

#[test]
fn arithmetic_on_a_module_address_is_not_guessed() {
    let body = "lea L0(%rip),%rax; imul %rdi,%rsi; add %rsi,%rax; jmp *%rax\nL0: ret\n";
    assert_eq!(find(body), Found::Unresolved(Reason::NotATable));
}

/// A switch and a computed goto in C, at several optimization levels, with and without position
/// independence.
#[test]
fn gcc_output() {
    let source = r#"
        int sink(int);
        __attribute__((noinline)) int dense(unsigned x, int y) {
            switch (x) { case 0: return y + 3; case 1: return sink(y); case 2: return y * 7; case 3: return y - 1;
                         case 4: return y / 3; case 5: return ~y; case 6: return y << 2; case 7: return sink(9); }
            return 0;
        }
        __attribute__((noinline)) int letters(const char *s) {
            int n = 0;
            for (; *s; s++) switch (*s) { case 'a': n += 1; break; case 'b': n *= 3; break; case 'c': n ^= 5; break;
                case 'd': n = sink(n); break; case 'e': n -= 4; break; case 'f': n |= 64; break; case 'z': return n; }
            return n;
        }
        __attribute__((noinline)) int threaded(const unsigned char *p) {
            static void *const labels[] = { &&add, &&sub, &&mul, &&end };
            int n = 1;
            goto *labels[*p++];
            add: n += 2; goto *labels[*p++];
            sub: n -= 1; goto *labels[*p++];
            mul: n *= 3; goto *labels[*p++];
            end: return n;
        }
        __attribute__((noinline)) int sink(int x) { __asm__ volatile("" : "+r"(x)); return x; }
        int main(int argc, char **argv) {
            const unsigned char program[] = { 0, 1, 2, 3 };
            return dense(argc, 1) + letters(argv[0]) + threaded(program);
        }
    "#;
    for optimization in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        for position in [&["-fpie", "-pie"][..], &["-fno-pie", "-no-pie"], &["-fpie", "-pie", "-fcf-protection=full"]] {
            let flags: Vec<&str> = std::iter::once(optimization).chain(position.iter().copied()).collect();
            let fixture = Fixture::build("c", source, &flags);
            let image = fixture.image();
            let module = analyze(&image);
            for (name, least) in [("dense", 7), ("letters", 5), ("threaded", 4)] {
                let jumps = &function(&image, &module, name).indirect_jumps;
                assert!(!jumps.is_empty(), "{name} {flags:?}: no indirect jump");
                for jump in jumps {
                    let Resolution::Table(table) = &jump.resolution else { panic!("{name} {flags:?}: {jump:?}") };
                    assert!(table.targets.len() >= least, "{name} {flags:?}: {table:?}");
                }
            }
        }
    }
}
