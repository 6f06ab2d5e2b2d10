// A stack in shared memory: pushes, pops, calls and returns there; and pushes and pops whose operand is shared.
#include "../program.h"
#include <ucontext.h>

static ucontext_t outer, inner;

static uint64_t fib(uint64_t n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static void work(void)
{
    char text[100];
    snprintf(text, sizeof text, "fib %llu\n", (unsigned long long)fib(12));
    fputs(text, stdout);
}

int main(void)
{
    uint64_t *s = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    s[0] = 5;
    asm volatile("subq $128, %%rsp\n\tpushq %0\n\tpopq %1\n\taddq $128, %%rsp" : : "m"(s[0]), "m"(s[1]) : "memory");
    printf("%llu\n", (unsigned long long)s[1]);
    must(getcontext(&inner) == 0);
    inner.uc_stack.ss_sp = s + 512;
    inner.uc_stack.ss_size = (1 << 20) - 4096;
    inner.uc_link = &outer;
    makecontext(&inner, work, 0);
    must(swapcontext(&outer, &inner) == 0);
    printf("done\n");
}
