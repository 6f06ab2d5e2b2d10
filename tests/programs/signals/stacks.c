// A handler on an alternative stack, also for a stack overflow, which ends by siglongjmp.
//@ with: -Wno-error=infinite-recursion
#include "../program.h"
#include <setjmp.h>
#include <sys/resource.h>

static sigjmp_buf out;
static char room[65536];
static volatile int faults;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    char here;
    stack_t now;
    sigaltstack(NULL, &now);
    printf("signal %d on the stack %d flags %d has address %d\n", signal, &here >= room && &here < room + sizeof room, now.ss_flags, info->si_addr != NULL);
    faults++;
    siglongjmp(out, 1);
}

static void on_user(int signal)
{
    char here;
    printf("user %d on the stack %d\n", signal, &here >= room && &here < room + sizeof room);
}

static int overflow(volatile char *before)
{
    volatile char block[4096];
    block[17] = before == NULL ? 0 : before[17];
    return overflow(block) + block[17];
}

int main(void)
{
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    must(sigaltstack(&stack, NULL) == 0);
    struct rlimit limit = {256 << 10, 256 << 10};
    must(setrlimit(RLIMIT_STACK, &limit) == 0);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    action = (struct sigaction){.sa_handler = on_user, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGUSR2, on_user);
    raise(SIGUSR1);
    raise(SIGUSR2);
    while (faults < 3)
    {
        if (sigsetjmp(out, 1) == 0)
        {
            overflow(NULL);
        }
    }
    stack.ss_flags = SS_DISABLE;
    must(sigaltstack(&stack, NULL) == 0);
    raise(SIGUSR1);
}
