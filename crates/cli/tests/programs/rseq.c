/* Counts per processor in a restartable sequence, on the registration that the C library made:
 * two threads, many migrations, no count lost. Without such a registration the counts are atomic
 * and the output the same. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <sys/rseq.h>

enum { MAX_CPUS = 512 };

static struct {
    uint64_t count;
    char padding[56];
} counts[MAX_CPUS];
static uint64_t per_thread;

static struct rseq *own_rseq(void) {
    return (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* The descriptor lies in its own section, as the librseq convention has it; the word before the
 * abort address is the signature that the kernel asks for. Returns 0 if the sequence was
 * aborted. */
static __attribute__((noinline)) int try_count(struct rseq *rseq) {
    uint32_t cpu = *(volatile uint32_t *)&rseq->cpu_id_start;
    CHECK(cpu < MAX_CPUS);
    __asm__ goto(".pushsection __rseq_cs, \"aw\"\n"
                 ".balign 32\n"
                 "3: .long 0, 0\n"
                 ".quad 1f, 2f - 1f, 4f\n"
                 ".popsection\n"
                 "lea 3b(%%rip), %%rax\n"
                 "mov %%rax, %c[cs](%[rseq])\n"
                 "1: cmp %[cpu], %c[cpu_id](%[rseq])\n"
                 "jne 4f\n"
                 "mov %[slot], %%rcx\n"
                 "mov (%%rcx), %%rax\n"
                 "inc %%rax\n"
                 "mov %%rax, (%%rcx)\n"
                 "2:\n"
                 ".pushsection .text.aborted, \"ax\"\n"
                 ".byte 0x0f, 0xb9, 0x3d\n"
                 ".long 0x53053053\n"
                 "4: jmp %l[aborted]\n"
                 ".popsection\n"
                 :
                 : [rseq] "r"(rseq), [cpu] "r"(cpu), [slot] "r"(&counts[cpu].count),
                   [cs] "i"(__builtin_offsetof(struct rseq, rseq_cs)),
                   [cpu_id] "i"(__builtin_offsetof(struct rseq, cpu_id))
                 : "rax", "rcx", "memory", "cc"
                 : aborted);
    return 1;
aborted:
    return 0;
}

static void *run(void *unused) {
    struct rseq *rseq = own_rseq();
    int is_registered = __rseq_size > 0 && (int)rseq->cpu_id >= 0;
    cpu_set_t all, one;
    CHECK_EQUAL(sched_getaffinity(0, sizeof all, &all), 0);
    for (uint64_t i = 0; i < per_thread; i++) {
        if (!is_registered)
            __atomic_add_fetch(&counts[0].count, 1, __ATOMIC_RELAXED);
        else
            while (!try_count(rseq)) {
            }
        if (i % 500000 == 0) { /* move elsewhere */
            int cpu = (int)(i / 500000 % (uint64_t)CPU_COUNT(&all));
            CPU_ZERO(&one);
            for (int k = 0, seen = 0; k < CPU_SETSIZE; k++)
                if (CPU_ISSET(k, &all) && seen++ == cpu)
                    CPU_SET(k, &one);
            CHECK_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
            CHECK_EQUAL(sched_setaffinity(0, sizeof all, &all), 0);
        }
    }
    return unused;
}

int main(int argc, char **argv) {
    per_thread = 4000000ull * scale_of(argc, argv);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, run, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    uint64_t total = 0;
    for (int i = 0; i < MAX_CPUS; i++)
        total += counts[i].count;
    CHECK_EQUAL(total, 3 * per_thread);
    printf("%llu counted\n", (unsigned long long)total);
}
