/* Instructions and conventions that compilers use rarely: flags alive across loop edges and,
 * with a second argument, across calls, returns and jumps; operands that survive by definition;
 * return addresses that the code reads or replaces; returns used as jumps. */
#include "check.h"

#define FUNCTION(name, body) ".type " name ", @function\n" name ":\n" body ".size " name ", .-" name "\n"

__asm__(".text\n"
        /* Carry goes round the loop: dec and lea leave it alone. rdi sum, rsi addend, rdx words;
         * returns the carry. */
        FUNCTION("add_long", "  xor %ecx, %ecx\n"
                             "1: mov (%rsi,%rcx,8), %rax\n"
                             "  adc %rax, (%rdi,%rcx,8)\n"
                             "  lea 1(%rcx), %rcx\n"
                             "  dec %rdx\n"
                             "  jnz 1b\n"
                             "  setc %al\n"
                             "  movzbl %al, %eax\n"
                             "  ret\n")
        FUNCTION("nothing", "  nop\n  ret\n")
        FUNCTION("lands", "  jmp *%rdx\n")
        /* Flags edi through a direct call, an indirect call, a jump through a register and a
         * return; returns them. */
        FUNCTION("flags_through", "  push %rdi\n"
                                  "  popfq\n"
                                  "  call nothing\n"
                                  "  lea nothing(%rip), %rax\n"
                                  "  call *%rax\n"
                                  "  lea 1f(%rip), %rdx\n"
                                  "  jmp lands\n"
                                  "1: lea 2f(%rip), %rdx\n"
                                  "  push %rdx\n"
                                  "  ret\n"
                                  "2: pushfq\n"
                                  "  pop %rax\n"
                                  "  cld\n"
                                  "  ret\n")
        /* The address that a call pushes is that of the code after it. Returns 1 if so. */
        FUNCTION("own_address", "  call 1f\n"
                                "1: pop %rax\n"
                                "  lea 1b(%rip), %rcx\n"
                                "  cmp %rax, %rcx\n"
                                "  sete %al\n"
                                "  movzbl %al, %eax\n"
                                "  ret\n")
        /* A retpoline: the callee replaces its return address by rdi, then returns there. */
        FUNCTION("retpoline", "  call 1f\n"
                              "2: pause\n"
                              "  jmp 2b\n"
                              "1: mov %rdi, (%rsp)\n"
                              "  ret\n")
        /* Calls through every kind of operand on the stack; ret n. rdi: what to call. */
        FUNCTION("stack_operands", "  push %rbx\n"
                                   "  mov %rsp, %rbx\n"
                                   "  push %rdi\n"
                                   "  push %rdi\n"
                                   "  call *(%rsp)\n"
                                   "  call *8(%rsp)\n"
                                   "  mov $1, %ecx\n"
                                   "  call *(%rsp,%rcx,8)\n"
                                   "  push $5\n"
                                   "  push $6\n"
                                   "  call takes_two\n"
                                   "  push %rsp\n"
                                   "  pop %rdx\n"
                                   "  sub %rsp, %rdx\n"
                                   "  add %rdx, %rax\n"
                                   "  mov %rbx, %rsp\n"
                                   "  pop %rbx\n"
                                   "  ret\n")
        FUNCTION("takes_two", "  mov 8(%rsp), %rax\n"
                              "  imul 16(%rsp), %rax\n"
                              "  ret $16\n")
        /* loop, loopne and jrcxz count down rdi in three ways. */
        FUNCTION("count_down", "  xor %eax, %eax\n"
                               "  mov %rdi, %rcx\n"
                               "1: inc %rax\n"
                               "  loop 1b\n"
                               "  mov %rdi, %rcx\n"
                               "2: inc %rax\n"
                               "  test %rcx, %rcx\n"
                               "  loopne 2b\n"
                               "  mov %rdi, %rcx\n"
                               "3: jrcxz 4f\n"
                               "  inc %rax\n"
                               "  dec %rcx\n"
                               "  jmp 3b\n"
                               "4: ret\n")
        /* Destinations that stay: bsf of zero, cmov not taken, rep with no count, a shift by
         * zero (flags stay, too), rdsspq without shadow stacks. Returns 1 if all did. */
        FUNCTION("survivors", "  mov $0x1234, %eax\n"
                              "  xor %ecx, %ecx\n"
                              "  bsf %rcx, %rax\n"
                              "  cmp $0x1234, %rax\n"
                              "  jne 9f\n"
                              "  cmovne %rcx, %rax\n"
                              "  cmp $0x1234, %rax\n"
                              "  jne 9f\n"
                              "  mov %rsp, %rdi\n"
                              "  mov %rsp, %rsi\n"
                              "  stc\n"
                              "  rep movsb\n"
                              "  jnc 9f\n"
                              "  shl %cl, %rax\n"
                              "  jnc 9f\n"
                              "  cmp %rsp, %rdi\n"
                              "  jne 9f\n"
                              "  mov $77, %edx\n"
                              "  rdsspq %rdx\n"
                              "  cmp $77, %rdx\n"
                              "  jne 9f\n"
                              "  mov $1, %eax\n"
                              "  ret\n"
                              "9: xor %eax, %eax\n"
                              "  ret\n")
        /* Copies rdx bytes from the end with the direction flag set. */
        FUNCTION("copy_down", "  mov %rdx, %rcx\n"
                              "  lea -1(%rdi,%rdx), %rdi\n"
                              "  lea -1(%rsi,%rdx), %rsi\n"
                              "  std\n"
                              "1: movsb\n"
                              "  dec %rcx\n"
                              "  jnz 1b\n"
                              "  cld\n"
                              "  ret\n")
        FUNCTION("frames", "  enter $64, $0\n"
                           "  mov %rdi, -64(%rbp)\n"
                           "  lea 1f(%rip), %rax\n"
                           "  xchg %rax, -8(%rbp)\n"
                           "  jmp *-8(%rbp)\n"
                           "  ud2\n"
                           "1: mov -64(%rbp), %rax\n"
                           "  leave\n"
                           "  ret\n"));

extern unsigned add_long(uint64_t *sum, const uint64_t *addend, uint64_t words);
extern uint64_t flags_through(uint64_t flags);
extern unsigned own_address(void), survivors(void);
extern void nothing(void), retpoline(void (*target)(void));
extern uint64_t stack_operands(void (*target)(void)), count_down(uint64_t count), frames(uint64_t value);
extern void copy_down(void *to, const void *from, size_t bytes);

/* Carry, parity, adjust, zero, sign, direction and overflow in all combinations, with the bits
 * that are always set. */
static uint64_t all_flags(void) {
    static const int bits[] = {0, 2, 4, 6, 7, 10, 11};
    for (unsigned pattern = 0; pattern < 128; pattern++) {
        uint64_t flags = 0x202;
        for (unsigned i = 0; i < 7; i++)
            flags |= (uint64_t)(pattern >> i & 1) << bits[i];
        CHECK_EQUAL(flags_through(flags), flags);
    }
    return 128;
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    static uint64_t sum[256], addend[256];
    static char from[4096], to[4096];
    uint64_t digest = 0;
    for (unsigned i = 0; i < 256; i++)
        addend[i] = mix(i, 3);
    for (unsigned i = 0; i < 700 * scale; i++) {
        for (unsigned k = 0; k < 50; k++)
            digest = mix(digest, add_long(sum, addend, 256));
        if (argc > 2)
            digest = mix(digest, all_flags());
        CHECK_EQUAL(own_address(), 1);
        retpoline(nothing);
        CHECK_EQUAL(stack_operands(nothing), 30);
        CHECK_EQUAL(count_down(500), 1500);
        CHECK_EQUAL(survivors(), 1);
        memset(from, (int)i, sizeof from);
        copy_down(to, from, sizeof from);
        CHECK_EQUAL(memcmp(from, to, sizeof from), 0);
        CHECK_EQUAL(frames(i), i);
    }
    for (unsigned i = 0; i < 256; i++)
        digest = mix(digest, sum[i]);
    report("idioms", digest);
}
