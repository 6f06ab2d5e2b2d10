// Repeated string instructions that fault half-way: what the handler sees of them, and how they go on.
#include "../program.h"
#include <ucontext.h>

enum { PAGE = 4096 };

static unsigned long long seen;
static const char *region;

static void on_fault(int signal, siginfo_t *info, void *raw)
{
    ucontext_t *context = raw;
    greg_t *r = context->uc_mcontext.gregs;
    seen = mix64(seen, r[REG_RCX]);
    seen = mix64(seen, r[REG_RDI] - (greg_t)region);
    // Not all instructions use the source register.
    long long source = r[REG_RSI] - (greg_t)region;
    printf("signal %d at %ld: rcx %lld rsi %lld rdi %lld direction %d\n", signal, (long)((char *)info->si_addr - region), r[REG_RCX],
        source >= 0 && source < 16 * PAGE ? source : -1, r[REG_RDI] - (greg_t)region, (int)(r[REG_EFL] >> 10 & 1));
    if (mprotect((void *)((uintptr_t)info->si_addr & -PAGE), PAGE, PROT_READ | PROT_WRITE) != 0)
        _exit(9);
}

static void run(char *memory, const char *name)
{
    region = memory;
    puts(name);
    char *from = memory + 100, *to = memory + 8 * PAGE + 100;
    // Forward over two closed pages.
    must(mprotect(memory + 9 * PAGE, PAGE, PROT_READ) == 0 && mprotect(memory + PAGE, PAGE, PROT_NONE) == 0);
    uintptr_t count = 2 * PAGE;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    printf("%d %d\n", (int)(from - memory), (int)(to - memory));
    // In words, of which one lies across the edge.
    must(mprotect(memory + 10 * PAGE, PAGE, PROT_READ) == 0);
    from = memory + 3, to = memory + 9 * PAGE + 5, count = PAGE / 4;
    __asm__ volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    printf("%d %d\n", (int)(from - memory), (int)(to - memory));
    must(mprotect(memory + 11 * PAGE, PAGE, PROT_NONE) == 0);
    to = memory + 10 * PAGE + 1, count = PAGE / 2;
    __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(0x01020304) : "memory");
    printf("%d\n", (int)(to - memory));
    // Backward.
    must(mprotect(memory + 12 * PAGE, PAGE, PROT_NONE) == 0);
    from = memory + 5 * PAGE, to = memory + 13 * PAGE + 50, count = 100;
    __asm__ volatile("std; rep movsb; cld" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    printf("%d %d\n", (int)(from - memory), (int)(to - memory));
    // Searches.
    must(mprotect(memory + 6 * PAGE, PAGE, PROT_NONE) == 0);
    memset(memory + 5 * PAGE, 7, PAGE);
    to = memory + 5 * PAGE + 9, count = PAGE;
    __asm__ volatile("repe scasb" : "+D"(to), "+c"(count) : "a"(7) : "memory", "cc");
    printf("%d %d\n", (int)(to - memory), (int)count);
    must(mprotect(memory + 14 * PAGE, PAGE, PROT_NONE) == 0);
    from = memory + PAGE, to = memory + 13 * PAGE + PAGE / 2, count = PAGE;
    memcpy(to, from, PAGE / 2);
    __asm__ volatile("repe cmpsb" : "+S"(from), "+D"(to), "+c"(count)::"memory", "cc");
    printf("%d %d %d\n", (int)(from - memory), (int)(to - memory), (int)count);
    printf("%llx %llx\n", seen, (unsigned long long)mix(seen, memory, 16 * PAGE));
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    static const int kinds[] = {MAP_PRIVATE, MAP_SHARED};
    for (int i = 0; i < 2; i++)
    {
        char *memory = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, kinds[i] | MAP_ANONYMOUS, -1, 0);
        must(memory != MAP_FAILED);
        uint64_t state = 1;
        for (int at = 0; at < 16 * PAGE; at++)
            memory[at] = next_random(&state);
        run(memory, i ? "shared" : "private");
    }
}
