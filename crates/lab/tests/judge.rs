//! The oracle on a small program with made-up observations: what is right is accepted, and what is
//! wrong is found.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use image::{Image, Svma};
use lab::callgrind::{ObjectId, parse};
use lab::oracle::{Artefact, Exception, Finding, Index, Known, Target, Verdict, examine, judge};

const SOURCE: &str = r#"
    .text
    .globl _start, chooser, forwarder, stuck, caller
    .type _start, @function
_start:
    call chooser
direct_call:
    rep movsb
repeat_end:
    hlt
    .size _start, . - _start

    .type chooser, @function
chooser:
    cmp $2, %edi
branch:
    ja otherwise
    lea table(%rip), %rdx
    mov %edi, %edi
    movslq (%rdx,%rdi,4), %rax
    add %rdx, %rax
table_jump:
    jmp *%rax
case0:
    mov $1, %eax
    ret
case1:
    mov $2, %eax
case1_end:
    jmp case0
case2:
    mov $3, %eax
    ret
otherwise:
    xor %eax, %eax
otherwise_end:
    ret
    .size chooser, . - chooser

    .type forwarder, @function
forwarder:
    mov pointer(%rip), %rax
tail_jump:
    jmp *%rax
    .size forwarder, . - forwarder

    .type stuck, @function
stuck:
    jmp stuck
    .size stuck, . - stuck

    .type caller, @function
caller:
    push %rax
hopeless_call:
    call stuck
after_hopeless_call:
    pop %rax
    ret
    .size caller, . - caller

    .section .rodata
    .balign 4
table:
    .long case0 - table, case1 - table, case2 - table
    .data
    .balign 8
pointer:
    .quad chooser
"#;

/// Assembles the program, analyses it, and hands over its index and its symbols.
fn with_index(look: impl FnOnce(&Index<'_>, &dyn Fn(&str) -> Svma)) {
    let dir = tempfile::tempdir().unwrap();
    let [source, program] = ["small.s", "small"].map(|name| dir.path().join(name));
    fs::write(&source, SOURCE).unwrap();
    let built = Command::new("gcc").args(["-nostdlib", "-static", "-o"]).arg(&program).arg(&source).output();
    let built = built.expect("the test needs gcc: run `apt-get install gcc`");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let bytes = fs::read(&program).unwrap();
    let image = Image::parse(&bytes).unwrap();
    let module = flow::analyze(&image, &flow::Sequential);
    let symbol = |name: &str| {
        let found = image.symbols().iter().find(|symbol| symbol.name == name);
        found.unwrap_or_else(|| panic!("no symbol {name}")).address
    };
    look(&Index::new(&image, &module), &symbol);
}

#[test]
fn what_the_program_can_do_is_known() {
    with_index(|index, at| {
        let verdict = |from: &str, to: &str| judge(index, at(from), Target::Here(at(to)));
        assert_eq!(verdict("_start", "chooser"), Verdict::Known(Known::Call));
        assert_eq!(verdict("branch", "otherwise"), Verdict::Known(Known::Jump));
        assert_eq!(verdict("case1_end", "case0"), Verdict::Known(Known::Jump));
        for case in ["case0", "case1", "case2"] {
            assert_eq!(verdict("table_jump", case), Verdict::Known(Known::TableEntry), "{case}");
        }
        assert_eq!(verdict("tail_jump", "chooser"), Verdict::Known(Known::TailCall));
        assert_eq!(judge(index, at("tail_jump"), Target::OtherFile), Verdict::Known(Known::TailCall));
        let branch = index.instruction(at("branch")).unwrap();
        let past = Target::Here(Svma(branch.next_ip()));
        assert_eq!(judge(index, at("branch"), past), Verdict::Known(Known::FallThrough));
    });
}

#[test]
fn what_is_no_jump_is_an_artefact() {
    with_index(|index, at| {
        let verdict = |from: &str, to: &str| judge(index, at(from), Target::Here(at(to)));
        assert_eq!(verdict("direct_call", "direct_call"), Verdict::Artefact(Artefact::Repeat));
        assert_eq!(verdict("direct_call", "repeat_end"), Verdict::Artefact(Artefact::RunsOn));
        assert_eq!(verdict("otherwise_end", "case0"), Verdict::Artefact(Artefact::ReturnElsewhere));
    });
}

#[test]
fn what_the_program_cannot_do_is_an_exception() {
    with_index(|index, at| {
        let verdict = |from: &str, to: &str| judge(index, at(from), Target::Here(at(to)));
        assert_eq!(verdict("_start", "caller"), Verdict::Exception(Exception::OtherTarget));
        assert_eq!(verdict("branch", "case0"), Verdict::Exception(Exception::OtherTarget));
        assert_eq!(verdict("table_jump", "otherwise"), Verdict::Exception(Exception::UnlistedTarget));
        assert_eq!(verdict("tail_jump", "tail_jump"), Verdict::Exception(Exception::TailCallInside));
        assert_eq!(verdict("repeat_end", "chooser"), Verdict::Exception(Exception::TrapContinued));
        assert_eq!(verdict("case0", "case2"), Verdict::Exception(Exception::OtherTarget));
        let inside = Svma(at("case0").0 + 1);
        let verdict = judge(index, inside, Target::Here(at("case1")));
        assert_eq!(verdict, Verdict::Exception(Exception::NotAnInstruction));
    });
}

#[test]
fn a_recording_is_examined_line_by_line() {
    with_index(|index, at| {
        let mut text = "positions: instr line\nevents: Ir\nob=(1) small\nfn=(1) f\n".to_owned();
        let mut total = 0;
        let mut line = |at: Svma, executions: u64, effect: Option<String>| {
            let effect = effect.map(|effect| format!("{effect}\n{at:#x} 0\n")).unwrap_or_default();
            write!(text, "{at:#x} 0 {executions}\n{effect}").unwrap();
            total += executions;
        };
        line(at("branch"), 5, Some(format!("jcnd=2/5 {:#x} 0", at("otherwise"))));
        line(at("hopeless_call"), 1, Some(format!("calls=1 {:#x} 0", at("stuck"))));
        line(at("after_hopeless_call"), 1, None);
        line(Svma(at("case2").0 + 2), 7, None);
        writeln!(text, "totals: {total}").unwrap();

        let report = examine(ObjectId(0), &parse(text.as_bytes()).unwrap(), index);
        let jumps = report.tally(|verdict| verdict == Verdict::Known(Known::Jump));
        let falls = report.tally(|verdict| verdict == Verdict::Known(Known::FallThrough));
        assert_eq!((jumps.executions, falls.executions), (2, 3));
        let findings: Vec<_> =
            report.findings.iter().map(|&Finding { exception, from, .. }| (exception, from)).collect();
        let expected =
            [(Exception::NotAnInstruction, Svma(at("case2").0 + 2)), (Exception::Returned, at("hopeless_call"))];
        assert_eq!(findings, expected);
    });
}
