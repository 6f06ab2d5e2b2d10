// SIGCHLD handlers that reap, with what siginfo says.
#include "../program.h"

static volatile sig_atomic_t reaped, statuses;
static void on_child(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    must(info->si_code == CLD_EXITED || info->si_code == CLD_KILLED);
    int status;
    while (waitpid(-1, &status, WNOHANG) > 0)
    {
        reaped++;
        statuses += WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
    }
}

int main(void)
{
    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGCHLD);
    sigprocmask(SIG_BLOCK, &block, &old);
    sigaction(SIGCHLD, &(struct sigaction){.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_NOCLDSTOP}, NULL);
    for (int i = 0; i < 10; i++)
    {
        if (flushed_fork() == 0)
        {
            if (i == 9)
            {
                raise(SIGKILL);
            }
            _exit(i);
        }
    }
    while (reaped < 10)
    {
        sigsuspend(&old);
    }
    pid_t more = wait(NULL);
    printf("reaped %d statuses %d, more: %d %d\n", reaped, statuses, more, errno == ECHILD);
    signal(SIGCHLD, SIG_IGN);
    if (flushed_fork() == 0)
    {
        _exit(1);
    }
    more = wait(NULL);
    printf("ignored %d %d\n", more, errno == ECHILD);
}
