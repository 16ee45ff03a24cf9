/* Holds values in the vector, mask and x87 registers and in their control words over long loops. */
#include "check.h"

#include <fenv.h>
#include <immintrin.h>

/* Each returns 0 after `rounds` rounds in which no register changed, else 1. */
extern int hold_xmm(const void *patterns, uint64_t rounds);
extern int hold_ymm(const void *patterns, uint64_t rounds);
extern int hold_zmm(const void *patterns, uint64_t rounds);
extern int hold_masks(uint64_t rounds);
extern int hold_x87(uint64_t rounds);

__asm__(".text\n"
        ".altmacro\n"
        ".macro load instruction, prefix, number, bytes\n"
        "  \\instruction \\bytes*\\number(%rdi), %\\prefix\\number\n"
        ".endm\n"
        "hold_xmm:\n"
        "  .set n, 0\n  .rept 15\n  load movdqu, xmm, %n, 16\n  .set n, n+1\n  .endr\n"
        "1:\n"
        ".macro verify_xmm number\n"
        "  movdqu 16*\\number(%rdi), %xmm15\n  pcmpeqb %xmm\\number, %xmm15\n  pmovmskb %xmm15, %eax\n"
        "  cmp $0xffff, %eax\n  jne 2f\n"
        ".endm\n"
        "  .set n, 0\n  .rept 15\n  verify_xmm %n\n  .set n, n+1\n  .endr\n"
        "  dec %rsi\n  jnz 1b\n  xor %eax, %eax\n  ret\n"
        "2: mov $1, %eax\n  ret\n"
        "hold_ymm:\n"
        "  .set n, 0\n  .rept 15\n  load vmovdqu, ymm, %n, 32\n  .set n, n+1\n  .endr\n"
        "1:\n"
        ".macro verify_ymm number\n"
        "  vpxor 32*\\number(%rdi), %ymm\\number, %ymm15\n  vptest %ymm15, %ymm15\n  jnz 2f\n"
        ".endm\n"
        "  .set n, 0\n  .rept 15\n  verify_ymm %n\n  .set n, n+1\n  .endr\n"
        "  dec %rsi\n  jnz 1b\n  xor %eax, %eax\n  vzeroupper\n  ret\n"
        "2: mov $1, %eax\n  vzeroupper\n  ret\n"
        "hold_zmm:\n"
        "  .set n, 0\n  .rept 31\n  load vmovdqu64, zmm, %n, 64\n  .set n, n+1\n  .endr\n"
        "1:\n"
        ".macro verify_zmm number\n"
        "  vpxorq 64*\\number(%rdi), %zmm\\number, %zmm31\n  vptestmq %zmm31, %zmm31, %k1\n  kortestw %k1, %k1\n"
        "  jnz 2f\n"
        ".endm\n"
        "  .set n, 0\n  .rept 31\n  verify_zmm %n\n  .set n, n+1\n  .endr\n"
        "  dec %rsi\n  jnz 1b\n  xor %eax, %eax\n  vzeroupper\n  ret\n"
        "2: mov $1, %eax\n  vzeroupper\n  ret\n"
        "hold_masks:\n"
        ".macro fill_mask number\n  mov $0x1234*\\number, %eax\n  kmovw %eax, %k\\number\n.endm\n"
        ".macro verify_mask number\n  kmovw %k\\number, %eax\n  cmp $0x1234*\\number, %eax\n  jne 2f\n.endm\n"
        "  .set n, 0\n  .rept 8\n  fill_mask %n\n  .set n, n+1\n  .endr\n"
        "1:\n"
        "  .set n, 0\n  .rept 8\n  verify_mask %n\n  .set n, n+1\n  .endr\n"
        "  dec %rdi\n  jnz 1b\n  xor %eax, %eax\n  ret\n"
        "2: mov $1, %eax\n  ret\n"
        /* All eight registers full; each round turns the stack once, so that eight rounds
         * restore it. */
        "hold_x87:\n"
        "  fninit\n  fldz\n  fldln2\n  fldlg2\n  fldl2t\n  fldl2e\n  fldpi\n  fld1\n  fldlg2\n"
        "  shl $3, %rdi\n"
        "1: fincstp\n  dec %rdi\n  jnz 1b\n"
        "  xor %eax, %eax\n"
        ".macro verify_x87 instruction\n"
        "  ffree %st(7)\n  \\instruction\n  fcomip %st(1), %st\n  setne %cl\n  setp %dl\n"
        "  or %cl, %al\n  or %dl, %al\n  fstp %st(0)\n"
        ".endm\n"
        "  fstp %st(0)\n"
        "  .irp constant, fld1, fldpi, fldl2e, fldl2t, fldlg2, fldln2, fldz\n  verify_x87 \\constant\n  .endr\n"
        "  movzbl %al, %eax\n  fninit\n  ret\n"
        ".noaltmacro\n");

/* Rounding by the control words of both units decides the last bits. */
static uint64_t sum_rounded(int rounding, unsigned rounds) {
    CHECK_EQUAL(fesetround(rounding), 0);
    volatile double third = 1.0 / 3.0;
    volatile long double seventh = 1.0L / 7.0L;
    double sum = 0;
    long double long_sum = 0;
    for (unsigned i = 1; i < rounds; i++) {
        sum += third / i;
        long_sum += seventh / i;
    }
    CHECK_EQUAL(fegetround(), rounding);
    CHECK_EQUAL(fesetround(FE_TONEAREST), 0);
    union { double value; uint64_t bits; } bits = {sum};
    union { long double value; uint64_t bits; } long_bits = {long_sum};
    return mix(bits.bits, long_bits.bits);
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    static unsigned char patterns[32 * 64];
    for (unsigned i = 0; i < sizeof patterns; i++)
        patterns[i] = (unsigned char)mix(i, 5);
    __builtin_cpu_init();
    int has_avx2 = __builtin_cpu_supports("avx2"), has_avx512 = __builtin_cpu_supports("avx512f");
    uint64_t digest = 0;
    static const int roundings[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
    for (unsigned i = 0; i < 30 * scale; i++) {
        CHECK_EQUAL(hold_xmm(patterns, 30000), 0);
        if (has_avx2)
            CHECK_EQUAL(hold_ymm(patterns, 30000), 0);
        if (has_avx512) {
            CHECK_EQUAL(hold_zmm(patterns, 30000), 0);
            CHECK_EQUAL(hold_masks(30000), 0);
        }
        CHECK_EQUAL(hold_x87(30000), 0);
        digest = mix(digest, sum_rounded(roundings[i % 4], 50000));
    }
    printf("avx2 %s, avx512 %s\n", has_avx2 ? "held" : "absent", has_avx512 ? "held" : "absent");
    report("rounding", digest);
}
