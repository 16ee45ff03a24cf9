/* Work inside the C library, where it calls back and where its hand-written loops run: sorting,
 * formatting, parsing, searching, copying, clocks; errno stays what it was set to. */
#include "check.h"

#include <math.h>
#include <regex.h>
#include <sys/time.h>
#include <time.h>

enum { N = 5000 };

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t sort(unsigned round) {
    static uint64_t values[N];
    for (unsigned i = 0; i < N; i++)
        values[i] = mix(round, i);
    qsort(values, N, sizeof values[0], by_value);
    uint64_t key = mix(round, 100), *found = bsearch(&key, values, N, sizeof values[0], by_value);
    CHECK(found && *found == key);
    return (uint64_t)(found - values);
}

static uint64_t format(unsigned round) {
    uint64_t digest = 0;
    char text[256];
    for (unsigned i = 0; i < 500; i++) {
        double value = sqrt(round + i) * 1e3;
        int length = snprintf(text, sizeof text, "%u %s %.17g %#x %5.2e", i, "name", value, i, value);
        double back;
        CHECK(sscanf(text, "%*u %*s %lf", &back) == 1 && back == value);
        for (int k = 0; k < length; k++)
            digest = mix(digest, (unsigned char)text[k]);
    }
    return digest;
}

static uint64_t copy(unsigned round) {
    static char from[70000], to[70000];
    uint64_t digest = 0;
    memset(from, 'a' + (int)(round % 20), sizeof from - 1);
    for (unsigned length = 1; length < sizeof from; length = length * 5 / 4 + 1) {
        memcpy(to, from, length);
        memmove(to + 1, to, length - 1);
        to[length] = 0;
        digest = mix(digest, strlen(to) + (unsigned char)to[length / 2]);
        CHECK(memchr(from, 0, length) == NULL);
        CHECK(strcmp(to, from) < 0);
    }
    return digest;
}

static uint64_t match(void) {
    regex_t expression;
    uint64_t n_matches = 0;
    CHECK_EQUAL(regcomp(&expression, "^(a|ab)(c|bcd)*d+[0-9]{2,3}$", REG_EXTENDED), 0);
    static const char *const texts[] = {"abcdd12", "acbcdd999", "abd1", "acccccd123", "x"};
    for (int i = 0; i < 5; i++)
        n_matches = n_matches * 2 + (regexec(&expression, texts[i], 0, NULL, 0) == 0);
    regfree(&expression);
    return n_matches;
}

static void clocks(void) {
    struct timespec last = {0, 0}, now;
    for (int i = 0; i < 5000; i++) {
        CHECK_EQUAL(clock_gettime(CLOCK_MONOTONIC, &now), 0);
        CHECK(now.tv_sec > last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec >= last.tv_nsec));
        last = now;
        struct timeval wall;
        CHECK_EQUAL(gettimeofday(&wall, NULL), 0);
    }
}

int main(int argc, char **argv) {
    unsigned scale = scale_of(argc, argv);
    uint64_t digest = 0;
    for (unsigned i = 0; i < 20 * scale; i++) {
        errno = 1234;
        digest = mix(digest, sort(i));
        digest = mix(digest, copy(i));
        clocks();
        CHECK_EQUAL(errno, 1234);
        digest = mix(digest, format(i));
        digest = mix(digest, match());
        printf("%u: %016llx\n", i, (unsigned long long)digest);
    }
}
