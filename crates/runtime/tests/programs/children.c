// fork, vfork, spawn, exec in all forms: each generation shows its environment and descriptors.
#include "burn.h"
#include <dirent.h>
#include <spawn.h>
#include <sys/wait.h>
extern char **environ;
static char *self;
static void show(const char *what) {
    printf("%s:", what);
    for (char **entry = environ; *entry; entry++) if (strncmp(*entry, "LD_", 3) == 0 || strncmp(*entry, "STROBE", 6) == 0 || strncmp(*entry, "MARK", 4) == 0) printf(" %s", *entry);
    DIR *files = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(files));) if (entry->d_name[0] != '.' && atoi(entry->d_name) > 2) count++;
    closedir(files);
    printf(" files %d\n", count);
    sigset_t set; sigprocmask(SIG_BLOCK, 0, &set);
    printf(" blocked:");
    for (int each = 1; each < 65; each++) if (sigismember(&set, each) == 1) printf(" %d", each);
    printf("\n");
    fflush(stdout);
}
static void wait_for(int pid) { int status; CHECK(waitpid(pid, &status, 0) == pid); printf("status %x\n", status); fflush(stdout); }
static void tree(int depth) {
    burn(3000000);
    if (depth == 0) return;
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        int pid = fork();
        if (pid == 0) { tree(depth - 1); show("leaf"); _exit(depth); }
        wait_for(pid);
    }
}
int main(int argc, char **argv) {
    self = argv[0];
    show(argc > 1 ? argv[1] : "first");
    burn(10000000);
    if (argc > 1) {
        CHECK(argc == 2 || argc > 10 && strcmp(argv[9], "10") == 0);
        return 7;
    }
    tree(2);
    char *arguments[] = {self, "child", 0};
    char *other[] = {"MARK=1", "LD_PRELOAD=", "PATH=/usr/bin:/bin", 0};
    char *none[] = {0};
    for (int form = 0; form < 10; form++) {
        fflush(stdout);
        int pid = form % 2 ? vfork() : fork();
        if (pid == 0) {
            switch (form) {
            case 0: execve(self, arguments, other);
            case 1: execve(self, arguments, environ);
            case 2: execv(self, arguments);
            case 3: execvp(self, arguments);
            case 4: execl(self, self, "list", (char *)0);
            case 5: execl(self, self, "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", (char *)0);
            case 6: execle(self, self, "with", (char *)0, other);
            case 7: execlp("sh", "sh", "-c", "env | grep -c -e STROBE -e LD_PRELOAD", (char *)0);
            case 8: execvpe("env", (char *[]){"env", 0}, other);
            case 9: execve(self, arguments, none);
            }
            _exit(50);
        }
        wait_for(pid);
    }
    sigset_t set; sigemptyset(&set); sigaddset(&set, SIGURG); sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    for (int form = 0; form < 3; form++) {
        int pid;
        if (form == 0) CHECK(posix_spawn(&pid, self, 0, 0, arguments, environ) == 0);
        if (form == 1) CHECK(posix_spawnp(&pid, "env", 0, 0, (char *[]){"env", 0}, other) == 0);
        if (form == 2) CHECK(posix_spawn(&pid, self, 0, 0, arguments, other) == 0);
        wait_for(pid);
    }
    sigprocmask(SIG_UNBLOCK, &set, 0);
    printf("system %d\n", system("env | grep -c -e STROBE -e LD_PRELOAD")); fflush(stdout);
    char line[100];
    FILE *pipe = popen("echo from pipe; env | grep -c -e STROBE -e LD_PRELOAD", "r");
    while (fgets(line, 100, pipe)) printf("%s", line);
    printf("closed %d\n", pclose(pipe));
    show("last");
    char template[] = "/tmp/strobe-script-XXXXXX";
    int script = mkstemp(template);
    dprintf(script, "#!/bin/sh\necho script; env | grep -c -e STROBE -e LD_PRELOAD\n");
    fchmod(script, 0755); close(script);
    fflush(stdout);
    int pid = fork();
    if (pid == 0) { execl(template, "script", (char *)0); _exit(51); }
    wait_for(pid);
    unlink(template);
    errno = 0;
    printf("%d %d\n", execl("/nonexistent", "x", (char *)0), errno);
    fflush(stdout);
    execl(self, self, "exec", (char *)0);
}
