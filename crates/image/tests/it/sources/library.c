/* A library whose exported functions call each other through the linkage table, so that another
 * module may interpose them. */
#include <stdlib.h>

int exported_leaf(int value) { return value * 3; }
__attribute__((visibility("hidden"))) int hidden_leaf(int value) { return value * 5; }
__attribute__((visibility("protected"))) int protected_leaf(int value) { return value * 7; }
static int private_leaf(int value) { return value * 11; }

int (*leaves[])(int) = { exported_leaf, hidden_leaf, protected_leaf, private_leaf };
void (*release)(void *) = free;

int exported_root(int value) {
    void *memory = malloc((size_t)value);
    int sum = memory == NULL;
    for (int i = 0; i < 4; i++)
        sum += leaves[i](value) + exported_leaf(i) + protected_leaf(i);
    release(memory);
    return sum;
}

#ifndef WITHOUT_IFUNC
static int chosen(int value) { return value + 1; }
static int (*choose(void))(int) { return chosen; }
int selected(int value) __attribute__((ifunc("choose")));
int call_selected(int value) { return selected(value) + selected(value + 1); }
#endif
