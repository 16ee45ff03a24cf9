// A library whose code depends on FACTOR.
unsigned long compute(unsigned long value) {
    for (int i = 0; i < FACTOR; i++) value = value * FACTOR + i;
    return value;
}
