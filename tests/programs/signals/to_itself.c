// raise, kill and sigqueue to itself; SA_SIGINFO, SA_NODEFER, SA_RESETHAND; ignored and pending signals; the handler's view of its mask.
#include "../program.h"

static volatile sig_atomic_t depth;

static void plain(int signal) { printf("plain %d\n", signal); }

static void with_info(int signal, siginfo_t *info, void *context)
{
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    printf("info %d no %d code %d value %d pid %d uid %d blocked %d context %d\n", signal, info->si_signo, info->si_code, info->si_value.sival_int,
           info->si_pid == getpid(), info->si_uid == getuid(), sigismember(&mask, signal), context != NULL);
}

static void nested(int signal)
{
    printf("enter %d\n", (int)depth);
    if (depth++ < 3)
    {
        raise(signal);
    }
    printf("leave %d\n", (int)--depth);
}

int main(void)
{
    signal(SIGUSR1, plain);
    printf("raise %d\n", raise(SIGUSR1));
    kill(getpid(), SIGUSR1);
    struct sigaction action = {.sa_sigaction = with_info, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR1);
    must(sigaction(SIGUSR2, &action, NULL) == 0);
    must(sigaction(SIGRTMIN + 3, &action, NULL) == 0);
    kill(getpid(), SIGUSR2);
    must(sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 77}) == 0);
    must(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = 78}) == 0);
    action = (struct sigaction){.sa_handler = nested, .sa_flags = SA_NODEFER};
    sigaction(SIGHUP, &action, NULL);
    raise(SIGHUP);
    action = (struct sigaction){.sa_handler = nested};
    sigaction(SIGHUP, &action, NULL);
    depth = 3;
    raise(SIGHUP);
    action = (struct sigaction){.sa_handler = plain, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    raise(SIGINT);
    struct sigaction now;
    sigaction(SIGINT, NULL, &now);
    printf("default again %d\n", now.sa_handler == SIG_DFL);
    signal(SIGINT, SIG_IGN);
    raise(SIGINT);
    signal(SIGTERM, SIG_IGN);
    raise(SIGTERM);
    raise(SIGCHLD);
    raise(SIGWINCH);
    printf("%d %d\n", signal(SIGKILL, plain) == SIG_ERR, errno);
    sigaction(SIGUSR2, NULL, &now);
    printf("%d %d %d\n", now.sa_sigaction == with_info, now.sa_flags & (SA_SIGINFO | SA_RESTART), sigismember(&now.sa_mask, SIGUSR1));
}
