// Speaks the runtime's side of the protocol and does nothing else: joins the session named by its
// first argument in the way that its second argument says, then obeys commands from its standard
// input, one line of answer each.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct hello { uint32_t version, is_fork, pid, parent_pid, tid, reserved; uint64_t runtime_address; };
struct cluster { uint64_t lo, span, map, checking_map, leader_base, copy_base, copy_len; };
struct welcome { uint32_t version, refused, n_files, shares_copies, area_bits, n_areas; uint64_t control, arena; struct cluster clusters[3]; };
struct ready { uint32_t error, failed_file; uint64_t control, arena; };

static struct cluster clusters[3];
static char *control, *arena;

int probe_me(void) { return 7; }

static int connect_to(const char *name) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path + 1, name);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(s, (struct sockaddr *)&address, sizeof(sa_family_t) + 1 + strlen(name))) exit(90);
    return s;
}

static int receive(int s, struct welcome *welcome, int *files) {
    char space[CMSG_SPACE(8 * sizeof(int))];
    struct iovec part = { welcome, sizeof *welcome };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space };
    if (recvmsg(s, &message, MSG_CMSG_CLOEXEC) != sizeof *welcome) exit(91);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    int n = rights ? (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    if (rights) memcpy(files, CMSG_DATA(rights), n * sizeof(int));
    return n == (int)welcome->n_files ? n : -1;
}

static int map_at(uint64_t at, uint64_t bytes, int protection, int file) {
    void *got = mmap((void *)at, bytes, protection, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, 0);
    return got == (void *)at ? 0 : errno;
}

static uint32_t map_all(const struct welcome *welcome, const int *files, uint32_t *failed) {
    uint32_t error;
    *failed = 0;
    if ((error = map_at(welcome->control, CONTROL_BYTES, PROT_READ | PROT_WRITE, files[0]))) return error;
    *failed = 1;
    if ((error = map_at(welcome->arena, ARENA_BYTES, PROT_READ | PROT_WRITE, files[1]))) return error;
    madvise((void *)welcome->control, CONTROL_BYTES, MADV_DONTFORK);
    madvise((void *)welcome->arena, ARENA_BYTES, MADV_DONTFORK);
    for (int i = 0, file = 2; !welcome->shares_copies && i < 3; i++) {
        const struct cluster *c = &welcome->clusters[i];
        if (!c->span) continue;
        *failed = file;
        if ((error = map_at(c->copy_base, c->copy_len, PROT_READ | PROT_EXEC, files[file++]))) return error;
        *failed = file;
        if ((error = map_at(c->map, 2 * (c->checking_map - c->map), PROT_READ, files[file++]))) return error;
    }
    return 0;
}

static void join(const char *name, const char *how, uint32_t parent) {
    int s = connect_to(name), files[8];
    if (!strcmp(how, "silent")) pause();
    struct hello hello = { VERSION, parent != 0, getpid(), parent, gettid(), 0, 0 };
    if (!strcmp(how, "old")) hello.version = VERSION + 1;
    send(s, &hello, !strcmp(how, "short") ? 5 : sizeof hello, MSG_NOSIGNAL);
    for (int attempt = 0;; attempt++) {
        struct welcome welcome;
        int n = receive(s, &welcome, files);
        if (n < 0 || welcome.refused) { printf("refused\n"); fflush(stdout); exit(n < 0 ? 92 : 3); }
        struct ready ready = { 0, 0, welcome.control, welcome.arena };
        if (!strcmp(how, "occupied") && attempt == 0) {
            mmap((void *)welcome.clusters[1].copy_base, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            ready.error = EEXIST;
        } else {
            ready.error = map_all(&welcome, files, &ready.failed_file);
        }
        for (int i = 0; i < n; i++) close(files[i]);
        send(s, &ready, sizeof ready, MSG_NOSIGNAL);
        if (ready.error) continue;
        if (!welcome.shares_copies) memcpy(clusters, welcome.clusters, sizeof clusters);
        control = (char *)welcome.control;
        arena = (char *)welcome.arena;
        close(s);
        return;
    }
}

// The twin of an address, by the map.
static char *twin(void *original) {
    for (int i = 0; i < 3; i++) {
        uint64_t distance = (uint64_t)original - clusters[i].lo;
        if (distance >= clusters[i].span) continue;
        uint32_t entry = ((volatile uint32_t *)clusters[i].map)[distance];
        return entry ? (char *)clusters[i].copy_base + (entry & 0x7fffffff) : 0;
    }
    return 0;
}

static int call_twin(void *original) {
    char *copy = twin(original);
    return copy ? ((int (*)(void))copy)() : -1;
}

// A sample without stack, of one record, in the first area; not committed if `state` is not 0.
static void sample(uint32_t state) {
    char *segment = arena + FIRST_SEGMENT;
    uint32_t *committed = (uint32_t *)(arena + OFFSET_SEGMENTS + 4);
    *(uint64_t *)arena = (uint64_t)arena;
    *(uint64_t *)(arena + 8) = MAGIC;
    *(uint32_t *)(arena + OFFSET_SEGMENTS) = 1;
    uint32_t *header = (uint32_t *)(segment + *committed);
    memset(header, 0, HEADER_BYTES + 8);
    header[0] = HEADER_BYTES + 8;
    header[2] = 1;
    header[3] = getpid();
    header[4] = 1;
    header[HEADER_BYTES / 4] = 0x1234;
    *(uint64_t *)(arena + OFFSET_CURSOR) = (uint64_t)header + HEADER_BYTES + 4;
    *(uint32_t *)(arena + OFFSET_STATE) = state;
    if (!state) atomic_store((_Atomic uint32_t *)committed, *committed + HEADER_BYTES + 8);
    atomic_store((_Atomic uint32_t *)(control + OFFSET_N_AREAS), 1);
}

static void obey(const char *name);

// The child obeys until it is told to leave; the parent waits for that.
static void fork_and_join(const char *name) {
    uint32_t pid = *(uint32_t *)(control + 4);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        join(name, "fork", pid);
        obey(name);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("%d\n", status);
}

static void *library;

static void load(const char *path) {
    library = dlopen(path, RTLD_NOW);
    printf("%s\n", library ? "ok" : dlerror());
}

static void unload(void) {
    dlclose(library);
    ++*(uint32_t *)(control + OFFSET_UNLOADS);
    printf("ok\n");
}

// As if a child had closed a library before it joined.
static void fork_unload_and_join(const char *name) {
    uint32_t pid = *(uint32_t *)(control + 4);
    if (fork() == 0) {
        dlclose(library);
        join(name, "fork", pid);
    }
}

// A child that has not joined yet.
static void fork_quietly(void) {
    pid_t child = fork();
    while (child == 0) pause();
    printf("%d\n", child);
}

static void obey(const char *name) {
    char line[4096];
    for (printf("joined\n"), fflush(stdout); fgets(line, sizeof line, stdin); fflush(stdout)) {
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "leave")) return;
        else if (!strcmp(line, "call")) printf("%d\n", call_twin(probe_me));
        else if (!strncmp(line, "slot ", 5)) printf("%lu\n", *(unsigned long *)(control + MODULES_OFFSET + 64 * atoi(line + 5) + 24));
        else if (!strcmp(line, "sample")) sample(0), printf("ok\n");
        else if (!strcmp(line, "burst")) sample(1), printf("ok\n");
        else if (!strcmp(line, "fork")) fork_and_join(name);
        else if (!strcmp(line, "fork unload")) fork_unload_and_join(name);
        else if (!strcmp(line, "fork quietly")) fork_quietly();
        else if (!strncmp(line, "load ", 5)) load(line + 5);
        else if (!strcmp(line, "call library")) printf("%d\n", call_twin(dlsym(library, "in_library")));
        else if (!strcmp(line, "unload")) unload();
        else printf("what?\n");
    }
}

int main(int argc, char **argv) {
    if (argc != 3) return 1;
    setvbuf(stdin, 0, _IONBF, 0);
    join(argv[1], argv[2], 0);
    obey(argv[1]);
    return 0;
}
