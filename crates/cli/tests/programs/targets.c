// Calls through tables and pointers, and jumps through a table, known numbers of times.
#include <stdio.h>

enum { N_CALLS = 40000 };

struct methods {
    long (*first)(long);
    long (*second)(long);
};

struct object {
    const struct methods *methods;
};

__attribute__((noinline)) long add_one(long value) { return value + 1; }
__attribute__((noinline)) long add_two(long value) { return value + 2; }

const struct methods often = {add_two, add_one};
const struct methods seldom = {add_one, add_two};

// Three of four objects have the same table.
__attribute__((noinline)) long call_method(const struct object *object, long value) {
    return object->methods->second(value) * 3;
}

__attribute__((noinline)) long call_pointer(long (*function)(long), long value) { return function(value) * 5; }

__attribute__((noinline)) long choose(long value) {
    switch (value % 8) {
    case 0: return value * 3;
    case 1: return value / 5;
    case 2: return value ^ 77;
    case 3: return value + 11;
    case 4: return value - 13;
    case 5: return value << 1;
    case 6: return value >> 1;
    default: return -value;
    }
}

int main(void) {
    struct object objects[4] = {{&often}, {&often}, {&often}, {&seldom}};
    unsigned long sum = 0;
    for (long i = 0; i < N_CALLS; i++) {
        sum += call_method(&objects[i % 4], i);
        sum += call_pointer(add_two, i);
        sum += choose(i);
    }
    printf("%lu\n", sum);
    return 0;
}
