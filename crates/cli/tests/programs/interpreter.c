/* Ways to dispatch: a computed-goto interpreter, a switch, a table of functions, tail calls. All
 * run one program and must agree. */
#include "check.h"

enum operation { PUSH, ADD, MULTIPLY, SWAP, DUPLICATE, XOR, DECREMENT, JUMP_UNLESS_ZERO, HALT };

/* acc = 1; n = argument; do { acc = (acc * 31 + 7) ^ n; } while (--n) */
static const int PROGRAM[] = {PUSH, 1, SWAP, SWAP, PUSH, 31, MULTIPLY, PUSH, 7, ADD, SWAP, DUPLICATE, PUSH, 0, ADD, XOR,
                              DECREMENT, JUMP_UNLESS_ZERO, 3, HALT};

struct machine {
    const int *next;
    uint64_t stack[16];
    unsigned top;
};

static inline void step(struct machine *m, int operation) {
    uint64_t *s = m->stack, last = s[m->top - 1];
    switch (operation) {
    case PUSH: s[m->top++] = (uint64_t)*m->next++; break;
    case ADD: m->top--, s[m->top - 1] += last; break;
    case MULTIPLY: m->top--, s[m->top - 1] *= last; break;
    case SWAP: s[m->top - 1] = s[m->top - 2], s[m->top - 2] = last; break;
    case DUPLICATE: s[m->top++] = last; break;
    case XOR: m->top--, s[m->top - 2] ^= last; break;
    case DECREMENT: s[m->top - 1]--; break;
    case JUMP_UNLESS_ZERO: m->next = last ? PROGRAM + *m->next : m->next + 1; break;
    default: break;
    }
}

static struct machine start(uint64_t argument) { return (struct machine){PROGRAM, {argument}, 1}; }

static __attribute__((noinline)) uint64_t by_switch(uint64_t argument) {
    struct machine m = start(argument);
    for (int operation; (operation = *m.next++) != HALT;)
        step(&m, operation);
    return m.stack[0] + m.stack[1];
}

static __attribute__((noinline)) uint64_t by_goto(uint64_t argument) {
    static void *const labels[] = {&&push, &&add, &&multiply, &&swap, &&duplicate, &&xor, &&decrement, &&jump, &&halt};
    struct machine m = start(argument);
#define NEXT goto *labels[*m.next++]
#define OPERATION(label, operation) label: step(&m, operation); NEXT
    NEXT;
    OPERATION(push, PUSH);
    OPERATION(add, ADD);
    OPERATION(multiply, MULTIPLY);
    OPERATION(swap, SWAP);
    OPERATION(duplicate, DUPLICATE);
    OPERATION(xor, XOR);
    OPERATION(decrement, DECREMENT);
    OPERATION(jump, JUMP_UNLESS_ZERO);
halt:
    return m.stack[0] + m.stack[1];
}

#define FUNCTION(name, operation) \
    static __attribute__((noinline)) void name(struct machine *m) { step(m, operation); }
FUNCTION(do_push, PUSH)
FUNCTION(do_add, ADD)
FUNCTION(do_multiply, MULTIPLY)
FUNCTION(do_swap, SWAP)
FUNCTION(do_duplicate, DUPLICATE)
FUNCTION(do_xor, XOR)
FUNCTION(do_decrement, DECREMENT)
FUNCTION(do_jump, JUMP_UNLESS_ZERO)

static __attribute__((noinline)) uint64_t by_table(uint64_t argument) {
    static void (*const table[])(struct machine *) = {do_push,      do_add, do_multiply,  do_swap,
                                                      do_duplicate, do_xor, do_decrement, do_jump};
    struct machine m = start(argument);
    for (int operation; (operation = *m.next++) != HALT;)
        table[operation](&m);
    return m.stack[0] + m.stack[1];
}

/* gcc turns the last call of each into a jump. */
typedef uint64_t tail_function(struct machine *m);
static tail_function *const tails[];
#define TAIL(name, operation)                                                                                        \
    static __attribute__((noinline, optimize("O2"))) uint64_t name(struct machine *m) {                              \
        step(m, operation);                                                                                          \
        return tails[*m->next++](m);                                                                                 \
    }
TAIL(tail_push, PUSH)
TAIL(tail_add, ADD)
TAIL(tail_multiply, MULTIPLY)
TAIL(tail_swap, SWAP)
TAIL(tail_duplicate, DUPLICATE)
TAIL(tail_xor, XOR)
TAIL(tail_decrement, DECREMENT)
TAIL(tail_jump, JUMP_UNLESS_ZERO)
static uint64_t tail_halt(struct machine *m) { return m->stack[0] + m->stack[1]; }
static tail_function *const tails[] = {tail_push, tail_add,       tail_multiply, tail_swap, tail_duplicate,
                                       tail_xor,  tail_decrement, tail_jump,     tail_halt};

static uint64_t by_tails(uint64_t argument) {
    struct machine m = start(argument);
    return tails[*m.next++](&m);
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    uint64_t digest = 0;
    for (unsigned i = 1; i <= 3 * scale; i++) {
        uint64_t argument = 100000 + i, result = by_switch(argument);
        CHECK_EQUAL(by_goto(argument), result);
        CHECK_EQUAL(by_table(argument), result);
        CHECK_EQUAL(by_tails(argument), result);
        digest = mix(digest, result);
    }
    report("interpreter", digest);
}
