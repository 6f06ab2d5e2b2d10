// While a call sleeps with a signal mask of its own, a handler runs with that mask and returns to the program's.
#include "../program.h"
#include <poll.h>
#include <sys/select.h>

static void show_mask(const char *where)
{
    sigset_t mask;
    must(sigprocmask(SIG_BLOCK, NULL, &mask) == 0);
    printf("%s:", where);
    for (int signal = 1; signal < 32; signal++)
        if (sigismember(&mask, signal))
            printf(" %d", signal);
    printf("\n");
}

static void handler(int signal)
{
    printf("signal %d, ", signal);
    show_mask("in the handler");
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    must(sigaddset(&action.sa_mask, SIGUSR2) == 0);
    must(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    sigset_t blocked, during;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigaddset(&blocked, SIGUSR1);
    must(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
    sigemptyset(&during);
    sigaddset(&during, SIGCHLD);
    sigaddset(&during, SIGUSR1);
    must(raise(SIGUSR1) == 0); // stays blocked all the while
    alarm(1);
    must(sigsuspend(&during) == -1 && errno == EINTR);
    show_mask("after sigsuspend");
    alarm(1);
    must(ppoll(NULL, 0, NULL, &during) == -1 && errno == EINTR);
    show_mask("after ppoll");
    alarm(1);
    must(pselect(0, NULL, NULL, NULL, NULL, &during) == -1 && errno == EINTR);
    show_mask("after pselect");
    must(raise(SIGALRM) == 0);
    sigdelset(&during, SIGUSR1);
    must(sigsuspend(&during) == -1 && errno == EINTR); // both at once
    show_mask("at the end");
    return 0;
}
