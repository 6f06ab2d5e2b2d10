// Blocked signals wait: standard ones once, real-time ones in order; sigpending, sigsuspend, sigwaitinfo, sigtimedwait.
#include "../program.h"

static int order[32], n;
static void note(int signal) { order[n++] = signal; }

int main(void)
{
    for (int signal = SIGRTMIN; signal < SIGRTMIN + 4; signal++)
    {
        must(sigaction(signal, &(struct sigaction){.sa_handler = note}, NULL) == 0);
    }
    signal(SIGUSR1, note);
    signal(SIGUSR2, note);
    sigset_t all, old, pending;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    for (int i = 0; i < 3; i++)
    {
        raise(SIGUSR2);
        raise(SIGUSR1);
        raise(SIGRTMIN + 2);
        raise(SIGRTMIN + 1);
    }
    sigpending(&pending);
    printf("pending %d %d %d, came %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGRTMIN + 1), sigismember(&pending, SIGHUP), n);
    sigprocmask(SIG_SETMASK, &old, NULL);
    for (int i = 0; i < n; i++)
    {
        printf("%s%d ", order[i] >= SIGRTMIN ? "rt" : "", order[i] >= SIGRTMIN ? order[i] - SIGRTMIN : order[i]);
    }
    printf("\n");
    n = 0;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, NULL);
    pid_t child = flushed_fork();
    if (child == 0)
    {
        kill(getppid(), SIGUSR1);
        _exit(0);
    }
    sigset_t none;
    sigemptyset(&none);
    int result = sigsuspend(&none);
    printf("sigsuspend %d %d came %d %d\n", result, errno == EINTR, n, order[0]);
    wait_for("child", child);
    sigaddset(&one, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &one, NULL);
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 9});
    siginfo_t info;
    must(sigwaitinfo(&one, &info) == SIGRTMIN);
    printf("waited %d %d\n", info.si_value.sival_int, info.si_code == SI_QUEUE);
    struct timespec soon = {0, 1000000};
    result = sigtimedwait(&one, &info, &soon);
    printf("timed %d %d\n", result, errno == EAGAIN);
}
