// A program that steps through itself, by popf: it gets every trap.
//@ stops: setting the trap flag
#include "../program.h"

static volatile int traps;
static void count(int signal) { traps += signal == SIGTRAP; }

int main(void)
{
    long x = getppid() > 0;
    signal(SIGTRAP, count);
    __asm__ volatile("sub $256, %%rsp; pushfq; orq $0x100, (%%rsp); popfq; nop; nop; add $1, %0; jmp 1f; nop\n"
                     "1: pushfq; andq $~0x100, (%%rsp); popfq; add $256, %%rsp"
                     : "+r"(x)
                     :
                     : "memory", "cc");
    printf("%d %ld\n", traps, x);
}
