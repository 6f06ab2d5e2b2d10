// Handlers for faults of the program's own making: what they are told, and going on by siglongjmp or by changing the saved registers.
#include "../program.h"
#include <setjmp.h>
#include <ucontext.h>

static sigjmp_buf out;
static int *volatile bad = (int *)16;

static void leave(int signal, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    printf("signal %d code %d address %lx trap %lld error %llx\n", signal, info->si_code, signal == SIGSEGV ? (long)info->si_addr : 0,
           u->uc_mcontext.gregs[REG_TRAPNO], u->uc_mcontext.gregs[REG_ERR]);
    siglongjmp(out, signal);
}

static void skip_division(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    ucontext_t *u = context;
    printf("division code %d at its own address %d\n", info->si_code, (long)info->si_addr == u->uc_mcontext.gregs[REG_RIP]);
    u->uc_mcontext.gregs[REG_RIP] += 2; // idiv %ecx
    u->uc_mcontext.gregs[REG_RAX] = 4242;
}

static char *page;
static void open_page(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    must((char *)info->si_addr == page + 100);
    must(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void handle(int signal, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    must(sigaction(signal, &action, NULL) == 0);
}

int main(void)
{
    static const int kinds[] = {SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGBUS};
    for (int i = 0; i < 5; i++)
    {
        handle(kinds[i], leave);
    }
    if (sigsetjmp(out, 1) == 0)
        *bad = 1;
    if (sigsetjmp(out, 1) == 0)
        printf("%d\n", *bad);
    if (sigsetjmp(out, 1) == 0)
        asm volatile("ud2");
    if (sigsetjmp(out, 1) == 0)
        ((void (*)(void))(uintptr_t)32)();
    if (sigsetjmp(out, 1) == 0)
        asm volatile("hlt");
    if (sigsetjmp(out, 1) == 0)
    {
        int fd = open("file", O_RDWR | O_CREAT, 0600);
        char *map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
        printf("%d\n", map[5000]);
    }
    handle(SIGFPE, skip_division);
    int quotient;
    asm volatile("xorl %%ecx, %%ecx\n\tmovl $7, %%eax\n\tcltd\n\tidivl %%ecx" : "=a"(quotient) : : "ecx", "edx", "cc");
    printf("quotient %d\n", quotient);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    handle(SIGSEGV, open_page);
    for (int i = 0; i < 3; i++)
    {
        mprotect(page, 4096, PROT_NONE);
        page[100] = (char)(page[100] + 5);
    }
    printf("page %d\n", page[100]);
}
