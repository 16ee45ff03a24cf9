//! What is live where: the traps of instructions that look like writes and are not.

mod fixture;

use fixture::{Fixture, analyze, function};
use flow::liveness::{Effects, LiveSet};
use iced_x86::{Decoder, DecoderOptions};

/// Needs and kills of one instruction, as names.
#[track_caller]
fn check(bytes: &[u8], needs: &str, kills: &str) {
    let insn = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode();
    assert!(!insn.is_invalid());
    let effect = Effects::default().of(&insn);
    let names = |set: LiveSet| set.names().collect::<Vec<_>>().join(" ");
    assert_eq!((names(effect.needs).as_str(), names(effect.kills).as_str()), (needs, kills), "{insn}");
}

#[test]
fn ordinary_instructions() {
    check(&[0x48, 0x89, 0xd8], "rbx", "rax"); // mov rax, rbx
    check(&[0x89, 0xd8], "rbx", "rax"); // mov eax, ebx: clears the upper half
    check(&[0x66, 0x89, 0xd8], "rbx", ""); // mov ax, bx: keeps the rest
    check(&[0x88, 0xd8], "rbx", ""); // mov al, bl
    check(&[0x48, 0x01, 0xd8], "rax rbx", "cf pf af zf sf of"); // add rax, rbx
    check(&[0x31, 0xc0], "", "rax cf pf af zf sf of"); // xor eax, eax reads nothing
    check(&[0x48, 0xff, 0xc8], "rax", "pf af zf sf of"); // dec rax keeps carry
    check(&[0x48, 0x8d, 0x04, 0x8b], "rcx rbx", "rax"); // lea rax, [rbx+rcx*4]
    check(&[0x74, 0x00], "zf", ""); // je
    check(&[0x9c], "rsp cf pf af zf sf of df", ""); // pushf
    check(&[0xfc], "", "df"); // cld
}

#[test]
fn writes_that_may_not_happen() {
    check(&[0xf3, 0x48, 0x0f, 0x1e, 0xc8], "rax", ""); // rdsspq rax: a no-op without shadow stacks
    check(&[0x48, 0x0f, 0xbc, 0xc3], "rax rbx", "zf"); // bsf rax, rbx
    check(&[0xf3, 0x48, 0x0f, 0xbc, 0xc3], "rax rbx", "zf"); // tzcnt is bsf on older processors
    check(&[0x48, 0x0f, 0x44, 0xc3], "rax rbx zf", ""); // cmove rax, rbx
    check(&[0x48, 0xd3, 0xe0], "rax rcx", ""); // shl rax, cl: a count of zero keeps the flags
    check(&[0x48, 0xc1, 0xe0, 0x00], "rax", ""); // shl rax, 0
    check(&[0x48, 0xc1, 0xe0, 0x03], "rax", "cf pf zf sf"); // shl rax, 3: overflow and adjust are undefined
    check(&[0x48, 0xc1, 0xef, 0x20], "rdi", "cf pf zf sf"); // shr rdi, 32: six bits of the count are used
    check(&[0xc1, 0xef, 0x20], "rdi", "rdi"); // shr edi, 32: five are
    check(&[0xc0, 0xd0, 0x09], "rax", ""); // rcl al, 9: where it was
    check(&[0xf3, 0xa6], "rcx rsi rdi df", ""); // repe cmpsb: a count of zero keeps the flags
    check(&[0xf3, 0xac], "rax rcx rsi df", ""); // rep lodsb
}

#[test]
fn calls_and_system_calls_need_every_register() {
    let all = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15";
    check(&[0xe8, 0x10, 0, 0, 0], all, "");
    check(&[0xff, 0xd0], all, "");
    check(&[0x0f, 0x05], all, "");
}

/// Names of what is live at the entry of `f`.
fn live_at_entry(source: &str) -> Vec<String> {
    let fixture = Fixture::assemble(source);
    let image = fixture.image();
    let module = analyze(&image);
    let f = function(&image, &module, "f");
    let live = f.liveness.live_in(f.cfg.graph.entries()[0]);
    live.names().map(str::to_owned).collect()
}

fn routine(name: &str, body: &str) -> String {
    format!(
        ".globl {name}; .hidden {name}\n.type {name}, @function\n{name}:\n.cfi_startproc\n{body}\n.cfi_endproc\n.size {name}, .-{name}\n"
    )
}

#[test]
fn dead_on_every_way() {
    let live = live_at_entry(&routine(
        "f",
        "test %edi,%edi; je 1f; mov $1,%eax; mov $2,%ecx; ret; 1: mov $3,%eax; mov $4,%ecx; ret",
    ));
    assert!(!live.contains(&"rax".to_owned()) && !live.contains(&"rcx".to_owned()), "{live:?}");
    assert!(live.contains(&"rdi".to_owned()) && live.contains(&"r11".to_owned()), "{live:?}");
}

#[test]
fn live_around_a_loop() {
    let live = live_at_entry(&routine(
        "f",
        "xor %eax,%eax; 1: add (%rdi),%rax; add %r8,%rdi; dec %esi; jne 1b; xor %r8d,%r8d; ret",
    ));
    assert!(live.contains(&"r8".to_owned()), "{live:?}");
}

#[test]
fn callee_that_returns_a_flag() {
    let source = [
        routine("f", "test %rdi,%rdi; jne 1f; ret; 1: stc; ret"),
        routine("g", "call f; jc 1f; xor %eax,%eax; 1: ret"),
    ]
    .concat();
    let fixture = Fixture::assemble(&source);
    let image = fixture.image();
    let module = analyze(&image);
    let f = function(&image, &module, "f");
    assert_eq!(f.liveness.conventions().at_return.names().collect::<Vec<_>>(), ["cf"]);
    let returning = f.cfg.graph.blocks().find(|&block| f.cfg.block(block).n_insns == 1).expect("the lone return");
    assert!(f.liveness.live_in(returning).names().any(|name| name == "cf"));
}

#[test]
fn callee_that_expects_a_flag() {
    let source = [routine("f", "cmp $3,%rdi; call g; ret"), routine("g", "ja 1f; xor %eax,%eax; 1: ret")].concat();
    let fixture = Fixture::assemble(&source);
    let image = fixture.image();
    let module = analyze(&image);
    let f = function(&image, &module, "f");
    let before_call = f.liveness.live_out(&f.cfg, f.cfg.graph.entries()[0]);
    assert_eq!((before_call & LiveSet::ARITHMETIC_FLAGS).names().collect::<Vec<_>>(), ["cf", "zf"]);
}
