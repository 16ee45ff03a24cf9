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
    check(&[0x66, 0x89, 0xd8], "rbx", "al"); // mov ax, bx: keeps the rest, and some of that it writes
    check(&[0x88, 0xd8], "bl", "al"); // mov al, bl
    check(&[0x88, 0xfc], "rbx", ""); // mov ah, bh
    check(&[0x40, 0x88, 0xfe], "dil", "sil"); // mov sil, dil
    check(&[0x0f, 0xb6, 0xc0], "al", "rax"); // movzx eax, al
    check(&[0x0f, 0x94, 0xc0], "zf", "al"); // sete al
    check(&[0x04, 0x01], "al", "cf pf af zf sf of"); // add al, 1
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
    check(&[0x48, 0xd3, 0xe0], "rax cl", ""); // shl rax, cl: a count of zero keeps the flags
    check(&[0x48, 0xc1, 0xe0, 0x00], "rax", ""); // shl rax, 0
    check(&[0x48, 0xc1, 0xe0, 0x03], "rax", "cf pf zf sf"); // shl rax, 3: overflow and adjust are undefined
    check(&[0x48, 0xc1, 0xef, 0x20], "rdi", "cf pf zf sf"); // shr rdi, 32: six bits of the count are used
    check(&[0xc1, 0xef, 0x20], "rdi", "rdi"); // shr edi, 32: five are
    check(&[0x48, 0xd3, 0xf1], "rcx", ""); // shl rcx, cl in the encoding that nobody uses
    check(&[0xc0, 0xd0, 0x09], "al", ""); // rcl al, 9: where it was
    check(&[0xf3, 0xa6], "rcx rsi rdi df", ""); // repe cmpsb: a count of zero keeps the flags
    check(&[0xf3, 0xac], "al rcx rsi df", ""); // rep lodsb
}

#[test]
fn repeated_comparisons_write_flags_if_the_count_is_known() {
    let flags_of_last = |code: &[u8]| {
        let mut effects = Effects::default();
        let decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
        let last = decoder.into_iter().map(|insn| effects.of(&insn)).last().expect("an instruction");
        last.kills.names().collect::<Vec<_>>().join(" ")
    };
    let count_of_15 = [0xb9, 0x0f, 0, 0, 0]; // mov ecx, 15
    let no_count = [0xb9, 0, 0, 0, 0];
    let repe = &[0xf3, 0xa6][..]; // repe cmpsb
    let other_count = [0x89, 0xc1]; // mov ecx, eax
    let low_byte = [0xb1, 0x00]; // mov cl, 0
    let in_between = [0x48, 0x89, 0xde]; // mov rsi, rbx
    assert_eq!(flags_of_last(&[&count_of_15, &in_between[..], repe].concat()), "cf pf af zf sf of");
    assert_eq!(flags_of_last(&[&no_count, repe].concat()), "");
    assert_eq!(flags_of_last(&[&count_of_15, &other_count[..], repe].concat()), "");
    assert_eq!(flags_of_last(&[&count_of_15, &low_byte[..], repe].concat()), "");
    assert_eq!(flags_of_last(&[&count_of_15, repe, repe].concat()), "", "the first one has used it up");

    let mut effects = Effects::default();
    let decode = |code: &[u8]| Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode();
    effects.of(&decode(&count_of_15));
    effects.start_block();
    assert!(effects.of(&decode(repe)).kills.is_empty(), "a block may be reached in other ways");
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
fn a_byte_that_is_written_and_read_leaves_the_rest_alone() {
    let live_with =
        |use_of_it: &str| live_at_entry(&routine("f", &format!("test %edi,%edi; sete %cl; {use_of_it}; ret")));
    let has = |live: &[String], name: &str| live.iter().any(|each| each == name);
    let zero_extended = live_with("movzbl %cl,%ecx");
    assert!(!has(&zero_extended, "rcx") && !has(&zero_extended, "cl"), "{zero_extended:?}");
    let whole = live_with("mov %ecx,%edx");
    assert!(has(&whole, "rcx"), "{whole:?}");
    let second_byte = live_with("mov %ch,%dl; xor %ecx,%ecx");
    assert!(has(&second_byte, "rcx"), "{second_byte:?}");
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
