volatile int sink;

__attribute__((noinline)) void rare(int x) {
    sink += x;
}

__attribute__((noinline)) void usual(int x) {
    sink -= x;
}

static inline int twice(int x) {
    return sink + 2 * x;
}

__attribute__((noinline)) int choose(int x) {
    if (x % 3 == 0)
        rare(x);
    else
        usual(x);
    return twice(x);
}

int main(void) {
    for (int i = 0; i < 3000; i++)
        choose(i);
    return 0;
}
