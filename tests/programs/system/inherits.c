// What a program gets from the one that starts it: ignored signals, blocked signals, umask, limits.
#include "../program.h"
#include <sys/resource.h>

int main(void)
{
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int signal = 1; signal < 65; signal++)
    {
        struct sigaction action;
        if (sigaction(signal, NULL, &action) == 0)
        {
            printf("%d%s%s ", signal, action.sa_handler == SIG_IGN ? "i" : action.sa_handler == SIG_DFL ? "d" : "?", sigismember(&mask, signal) ? "b" : "");
        }
    }
    stack_t stack;
    must(sigaltstack(NULL, &stack) == 0);
    printf("\n%o %d\n", umask(0), stack.ss_flags);
    for (int i = 0; i < RLIM_NLIMITS; i++)
    {
        struct rlimit limit;
        must(getrlimit(i, &limit) == 0);
        printf("%lld %lld\n", (long long)limit.rlim_cur, (long long)limit.rlim_max);
    }
}
