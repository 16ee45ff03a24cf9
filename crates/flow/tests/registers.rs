//! Registers across calls and returns: who keeps to the calling convention, and who does not.

mod fixture;

use fixture::{Fixture, address, analyze, function};
use flow::liveness::LiveSet;
use flow::{Sequential, Transfer};
use image::Image;

/// What is needed where the first block of `name` that ends so ends, as names.
fn needed_at_end(image: &Image<'_>, name: &str, ends: impl Fn(Transfer) -> bool) -> Vec<&'static str> {
    let module = analyze(image);
    let id = module.function_containing(address(image, name)).expect("a function");
    let known = flow::registers::known_needs(image, &module, &Sequential);
    let cfg = &function(image, &module, name).cfg;
    let block = cfg.graph.blocks().find(|&block| ends(cfg.block(block).transfer)).expect("such a block");
    let live: LiveSet = known[id.index()].live_out(cfg, block);
    live.registers().names().collect()
}

fn at_return(source: &str, name: &str) -> Vec<&'static str> {
    needed_at_end(&Fixture::assemble(source).image(), name, |transfer| transfer == Transfer::Return)
}

fn at_call(source: &str, name: &str) -> Vec<&'static str> {
    needed_at_end(&Fixture::assemble(source).image(), name, Transfer::is_call)
}

const CONVENTION: [&str; 9] = ["rax", "rdx", "rbx", "rsp", "rbp", "r12", "r13", "r14", "r15"];
const ALL: usize = 16;

/// A function with unwind information.
fn unwound(name: &str, body: &str) -> String {
    format!(".type {name}, @function\n{name}: .cfi_startproc\n{body}\n.cfi_endproc\n.size {name}, .-{name}\n")
}

#[test]
fn a_return_needs_what_the_convention_says() {
    assert_eq!(at_return(&unwound("f", "mov (%rdi), %rax; ret"), "f"), CONVENTION);
}

#[test]
fn without_unwind_information_a_return_needs_everything() {
    let source = ".type f, @function\nf: mov (%rdi), %rax; ret\n.size f, .-f\n";
    assert_eq!(at_return(source, "f").len(), ALL);
}

#[test]
fn a_switch_of_stacks_needs_everything() {
    let source = unwound(
        "f",
        "push %rbx; .cfi_adjust_cfa_offset 8; mov %rsp, (%rdi); mov (%rsi), %rsp; pop %rbx; .cfi_adjust_cfa_offset -8; ret",
    );
    assert_eq!(at_return(&source, "f").len(), ALL);
    let exchanged = unwound("f", "xchg %rsp, %rax; ret");
    assert_eq!(at_return(&exchanged, "f").len(), ALL);
}

#[test]
fn a_frame_is_no_switch_of_stacks() {
    let source = unwound(
        "f",
        "sub $24, %rsp; .cfi_adjust_cfa_offset 24; mov %rdi, (%rsp); add $24, %rsp; .cfi_adjust_cfa_offset -24; ret",
    );
    assert_eq!(at_return(&source, "f"), CONVENTION);
}

#[test]
fn what_a_caller_leaves_in_a_register_is_alive_in_its_callee() {
    let caller = unwound("caller", "mov %rdi, %r11; call callee; mov (%r11), %rax; ret");
    let source = caller + &unwound("callee", "mov %rsi, %rax; ret");
    assert!(at_return(&source, "callee").contains(&"r11"));
    assert!(at_call(&source, "caller").contains(&"r11"));
    let through_tail_call = unwound("caller", "mov %rdi, %r11; call first; mov (%r11), %rax; ret")
        + &unwound("first", "jmp callee")
        + &unwound("callee", "mov %rsi, %rax; ret");
    assert!(at_return(&through_tail_call, "callee").contains(&"r11"));
}

#[test]
fn a_result_outside_the_convention_is_alive() {
    let read_by_caller = unwound("caller", "call callee; mov (%rcx), %rax; ret");
    let source = read_by_caller
        + &unwound("callee", "mov %rdi, %rcx; test %rcx, %rcx; je 1f; add $8, %rcx; 1: cmp %rcx, %rdi; ret");
    assert!(at_return(&source, "callee").contains(&"rcx"));
    // Nobody reads it in this module, but it is written for somebody.
    let restored = unwound(
        "f",
        "push %rsi; .cfi_adjust_cfa_offset 8; mov $1, %esi; mov %esi, %eax; pop %rsi; .cfi_adjust_cfa_offset -8; ret",
    );
    assert!(at_return(&restored, "f").contains(&"rsi"));
}

#[test]
fn a_call_needs_what_its_callee_reads() {
    let source =
        unwound("caller", "mov $1, %edi; mov $2, %r8d; call callee; ret") + &unwound("callee", "mov (%rdi), %rax; ret");
    let needed = at_call(&source, "caller");
    assert!(needed.contains(&"rdi"));
    assert!(!needed.contains(&"r8") && !needed.contains(&"r11"));
    let odd = unwound("caller", "mov $1, %r11d; call callee; ret") + &unwound("callee", "mov (%r11), %rax; ret");
    assert!(at_call(&odd, "caller").contains(&"r11"));
}

#[test]
fn an_unknown_callee_may_read_what_was_set() {
    let source = unwound("caller", "call *(%rdi); mov $1, %edi; call *(%rax); ret");
    let image = Fixture::assemble(&source);
    let needed = needed_at_end(&image.image(), "caller", Transfer::is_call);
    assert!(needed.contains(&"r9") && !needed.contains(&"r11"), "its own arguments may be passed on: {needed:?}");
    let module = analyze(&image.image());
    let known = flow::registers::known_needs(&image.image(), &module, &Sequential);
    let function = function(&image.image(), &module, "caller");
    let id = module.function_containing(function.entry).expect("a function");
    let mut calls = function.cfg.graph.blocks().filter(|&block| function.cfg.block(block).transfer.is_call());
    let second = known[id.index()].live_out(&function.cfg, calls.next_back().expect("two calls"));
    let needed: Vec<&str> = second.registers().names().collect();
    assert!(needed.contains(&"rdi") && !needed.contains(&"r9"), "the first call has overwritten it: {needed:?}");
}

#[test]
fn a_module_with_results_of_its_own_keeps_its_registers() {
    let odd: String = (0..20).map(|n| unwound(&format!("odd{n}"), "call *(%rdi); mov (%rcx), %rax; ret")).collect();
    let source = odd + &unwound("f", "mov (%rdi), %rax; ret");
    assert_eq!(at_return(&source, "f").len(), ALL);
    // A function that takes an argument in r11 shows that others may.
    let odd = unwound("odd", "mov (%r11), %rax; ret") + &unwound("f", "mov $1, %r11d; call *(%rdi); ret");
    assert!(at_call(&odd, "f").contains(&"r11"));
}

#[test]
fn the_dynamic_linker_has_conventions_of_its_own() {
    let source = ".globl __tls_get_addr\n".to_owned()
        + &unwound("__tls_get_addr", "mov (%rdi), %rax; ret")
        + &unwound("f", "mov (%rdi), %rax; ret");
    assert_eq!(at_return(&source, "f").len(), ALL);
}

#[test]
fn jumps_to_unknown_places_need_everything() {
    let source = unwound("f", "sub $8, %rsp; .cfi_adjust_cfa_offset 8; jmp *(%rdi)");
    let needed = needed_at_end(&Fixture::assemble(&source).image(), "f", |transfer| transfer == Transfer::IndirectJump);
    assert_eq!(needed.len(), ALL);
}
