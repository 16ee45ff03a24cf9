/* Which addresses a program may see. Code of the program and of its libraries lies in private
 * mappings of files (or in the vDSO); an executable mapping of any other kind was put there by
 * someone else, and none of its addresses may ever reach a signal handler: not as the program
 * counter, not in a register, not in a backtrace. Everything here is safe inside signal
 * handlers. */
#ifndef MAPS_H
#define MAPS_H

#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

enum { MAX_RANGES = 64, LINE_BYTES = 160 };

struct range {
    uintptr_t lo, hi;
};

struct maps {
    struct range own[MAX_RANGES], foreign[MAX_RANGES];
    int n_own, n_foreign;
};

static uintptr_t parse_hex(const char **text) {
    uintptr_t value = 0;
    for (;; ++*text) {
        char c = **text;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (c - 'a' + 10);
        else
            return value;
    }
}

static void add_mapping(struct maps *maps, const char *line) {
    const char *text = line;
    struct range range;
    range.lo = parse_hex(&text);
    text++;
    range.hi = parse_hex(&text);
    const char *permissions = text + 1;
    if (permissions[2] != 'x')
        return;
    const char *name = permissions;
    for (int field = 0; field < 4; field++) {
        while (*name && *name != ' ')
            name++;
        while (*name == ' ')
            name++;
    }
    if (strncmp(name, "[vsyscall]", 10) == 0)
        return;
    int is_own = permissions[3] == 'p' && (*name == '/' || strncmp(name, "[vdso]", 6) == 0);
    int *count = is_own ? &maps->n_own : &maps->n_foreign;
    CHECK(*count < MAX_RANGES);
    (is_own ? maps->own : maps->foreign)[(*count)++] = range;
}

static void read_maps(struct maps *maps) {
    maps->n_own = maps->n_foreign = 0;
    int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    CHECK(descriptor >= 0);
    char line[LINE_BYTES], chunk[512];
    size_t length = 0;
    for (ssize_t got; (got = read(descriptor, chunk, sizeof chunk)) != 0;) {
        if (got < 0 && errno == EINTR)
            continue;
        CHECK(got > 0);
        for (ssize_t i = 0; i < got; i++) {
            if (chunk[i] == '\n') {
                line[length] = 0;
                add_mapping(maps, line);
                length = 0;
            } else if (length < LINE_BYTES - 1) {
                line[length++] = chunk[i];
            }
        }
    }
    close(descriptor);
}

static int contains(const struct range *ranges, int count, uintptr_t address) {
    for (int i = 0; i < count; i++)
        if (address >= ranges[i].lo && address < ranges[i].hi)
            return 1;
    return 0;
}

static struct maps known_maps[2];
static struct maps *volatile current_maps;

/* Called by one thread, outside handlers: mappings may have come since the last time. No handler
 * of this thread runs before other work has washed the bounds of foreign mappings out of the
 * registers. */
static void refresh_maps(void) {
    sigset_t all, before;
    sigfillset(&all);
    CHECK_EQUAL(pthread_sigmask(SIG_BLOCK, &all, &before), 0);
    struct maps *next = current_maps == &known_maps[0] ? &known_maps[1] : &known_maps[0];
    read_maps(next);
    __atomic_store_n(&current_maps, next, __ATOMIC_RELEASE);
    CHECK(busy(1, 100));
    CHECK_EQUAL(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

static void check_code_address(uintptr_t address, const char *what) {
    if (contains(current_maps->own, current_maps->n_own, address))
        return;
    struct maps now;
    read_maps(&now);
    if (!contains(now.own, now.n_own, address))
        check_failed(__FILE__, __LINE__, "%s is 0x%lx, which is no code of this program", what, (long)address);
}

/* A value below 4 GiB may be a number that merely looks like an address, and the first address
 * of a mapping is in the registers of a handler that was interrupted while it searched this very
 * table. */
static void check_register(int index, uintptr_t value) {
    const struct maps *maps = current_maps;
    for (int i = 0; i < maps->n_foreign; i++)
        if (value == maps->foreign[i].lo)
            return;
    if (value >> 32 && contains(maps->foreign, maps->n_foreign, value))
        check_failed(__FILE__, __LINE__, "register %d is 0x%lx, an address in foreign code", index, (long)value);
}

/* The program counter and every register. Return addresses on the stack are for backtrace.c:
 * what lies between them may be left over from anyone. */
static __attribute__((unused)) void check_context(const void *context) {
    const ucontext_t *ucontext = (const ucontext_t *)context;
    const greg_t *registers = ucontext->uc_mcontext.gregs;
    check_code_address(registers[REG_RIP], "RIP");
    for (int i = REG_R8; i <= REG_RSP; i++)
        check_register(i, (uintptr_t)registers[i]);
}

#endif
