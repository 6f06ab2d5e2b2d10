// A handler with and without SA_RESTART during read on a pipe, and during calls that never restart.
#include "../program.h"
#include <poll.h>
#include <time.h>

static volatile sig_atomic_t came;
static void note(int signal)
{
    (void)signal;
    came++;
}

// A child signals its parent, then writes.
static pid_t child_that(int signals, int to)
{
    sigset_t usr1, old;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, &old); // so that the signal comes while the parent sleeps, or just before
    pid_t child = flushed_fork();
    if (child == 0)
    {
        for (int i = 0; i < signals; i++)
        {
            kill(getppid(), SIGUSR1);
            nanosleep(&(struct timespec){0, 3000000}, NULL);
        }
        must(write(to, "x", 1) == 1);
        _exit(0);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    return child;
}

int main(void)
{
    int ends[2];
    char byte;
    must(pipe(ends) == 0);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = note, .sa_flags = SA_RESTART}, NULL);
    pid_t child = child_that(5, ends[1]);
    ssize_t got = read(ends[0], &byte, 1);
    wait_for("child", child);
    printf("read with restart %zd %c came %d\n", got, byte, came > 0);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = note}, NULL);
    came = 0;
    child = child_that(20, ends[1]);
    int interrupted = 0;
    while ((got = read(ends[0], &byte, 1)) < 0 && errno == EINTR)
    {
        interrupted++;
    }
    wait_for("child", child);
    printf("read without %zd %c interrupted %d\n", got, byte, interrupted > 0);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = note, .sa_flags = SA_RESTART}, NULL);
    child = child_that(20, ends[1]);
    interrupted = 0;
    struct pollfd set = {.fd = ends[0], .events = POLLIN};
    int ready;
    while ((ready = poll(&set, 1, -1)) < 0 && errno == EINTR)
    {
        interrupted++;
    }
    wait_for("child", child);
    printf("poll %d interrupted %d\n", ready, interrupted > 0);
    child = child_that(20, ends[1]);
    struct timespec left = {10, 0};
    int rounds = 0;
    while (rounds++ < 3 && nanosleep(&left, &left) != 0 && errno == EINTR)
    {
    }
    printf("nanosleep interrupted %d left %d\n", rounds, left.tv_sec > 5);
    wait_for("child", child);
    alarm(1);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = note}, NULL);
    printf("pause %d %d\n", pause(), errno == EINTR);
}
