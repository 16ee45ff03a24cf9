/* A program that has the kernel refuse (EPERM) what is not on its list, which has nothing that
 * only strobe needs; with a thread that ends under the filter. */
#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static uint64_t work(uint64_t rounds) {
    uint64_t digest = 1;
    for (uint64_t i = 0; i < rounds; i++)
        digest = digest * 31 + (i ^ digest >> 7);
    return digest;
}

static void *thread(void *rounds) {
    return (void *)work((uintptr_t)rounds);
}

int main(int argc, char **argv) {
    uint64_t rounds = 40000000ull * scale_of(argc, argv);
    printf("before: %llx\n", (unsigned long long)work(rounds));
    fflush(stdout);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_brk), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mprotect),
        ALLOW(SYS_madvise), ALLOW(SYS_futex), ALLOW(SYS_clone3), ALLOW(SYS_clone), ALLOW(SYS_set_robust_list),
        ALLOW(SYS_rseq), ALLOW(SYS_newfstatat), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_exit), ALLOW(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    pthread_t id;
    void *result;
    CHECK(pthread_create(&id, NULL, thread, (void *)(uintptr_t)rounds) == 0);
    CHECK(pthread_join(id, &result) == 0);
    printf("in a thread: %llx\n", (unsigned long long)(uintptr_t)result);
    printf("behind: %llx\n", (unsigned long long)work(rounds));
    return 0;
}
