// A handler for int3, the program's own breakpoint: the saved counter is behind the instruction.
#include "../program.h"
#include <ucontext.h>

extern char behind[];
static void on_trap(int signal, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    printf("signal %d code %d behind %d\n", signal, info->si_code, (char *)u->uc_mcontext.gregs[REG_RIP] == behind);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGTRAP, &action, NULL) == 0);
    int n = 3;
    asm volatile("int3\nbehind:\n\taddl $2, %0" : "+r"(n) : : "cc");
    printf("%d\n", n);
}
