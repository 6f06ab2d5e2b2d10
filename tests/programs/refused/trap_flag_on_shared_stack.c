// popf takes the trap flag from shared memory.
//@ stops: setting the trap flag
#include "../program.h"

static volatile int traps;
static void count(int signal) { traps += signal == SIGTRAP; }

int main(void)
{
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_ONSTACK};
    sigaction(SIGTRAP, &action, NULL);
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned long *top = (unsigned long *)(shared + 2048);
    top[0] = 0x302;
    top[1] = 0x202;
    __asm__ volatile("mov %%rsp, %%rbx; mov %0, %%rsp; popfq; nop; nop; nop; popfq; mov %%rbx, %%rsp" : : "r"(top) : "rbx", "memory", "cc");
    printf("%d\n", traps);
}
