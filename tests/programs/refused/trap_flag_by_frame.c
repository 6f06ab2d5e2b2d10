// A handler sets the trap flag of what it returns to, as the emulators of debuggers do; a later one clears it.
//@ stops: setting the trap flag
#include "../program.h"
#include <ucontext.h>

static volatile int traps;
static void on_usr(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= 0x100;
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    if (++traps == 10)
    {
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100L;
    }
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_usr, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_sigaction = on_trap;
    sigaction(SIGTRAP, &action, NULL);
    raise(SIGUSR1);
    for (volatile int i = 0; i < 100; i++) {}
    printf("%d\n", traps);
}
