// An exec that fails changes nothing: the program goes on, and so does its recording.
#include "../program.h"
#include <sys/resource.h>
#include <sys/stat.h>

static char *const environment[] = {"A=B", NULL};

static void try(const char *name, char **argv)
{
    errno = 0;
    int result = execve(name, argv, environment);
    printf("%.20s: %d %s\n", (uintptr_t)name < 4096 ? "not a string" : name, result, strerror(errno));
}

static void on_signal(int signal) { printf("signal %d\n", signal); }

static void make(const char *name, const char *text, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0 && chmod(name, mode) == 0);
}

int main(void)
{
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[0] = 1;
    signal(SIGUSR1, on_signal);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1); // waits
    char *argv[] = {"x", NULL};
    make("plain", "not a program", 0600);
    make("text", "not a program", 0700);
    make("empty", "", 0700);
    must(symlink("loop", "loop") == 0);
    static const char *const names[] = {"/no/such/program", "plain", "/", "text", "empty", "loop", "text/x", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    {
        try(names[i], argv);
    }
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    try(name, argv);
    try((const char *)8, argv);
    int fd = open("text", O_RDONLY);
    printf("%ld %s\n", syscall(SYS_execveat, fd, "", argv, environment, AT_EMPTY_PATH), strerror(errno));
    // In a child that borrows this process's memory.
    pid_t child = vfork();
    if (child == 0)
    {
        execve("script", argv, environment);
        shared[1] = errno;
        _exit(7);
    }
    wait_for("child", child);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    printf("still here %d %d\n", ++shared[0], shared[1]);
}
