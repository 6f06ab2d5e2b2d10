// Jumps to where no code is: memory without the right, nothing at all, bytes that are no instruction, the end of a page.
#include "../program.h"
#include <setjmp.h>

static sigjmp_buf back;
static siginfo_t told;

static void note(int signal, siginfo_t *info, void *context)
{
    (void)context;
    (void)signal;
    told = *info;
    siglongjmp(back, 1);
}

static void run(const char *what, char *at)
{
    if (sigsetjmp(back, 1) == 0)
    {
        ((void (*)(void))at)();
        printf("%s returns\n", what);
    }
    else
        printf("%s: signal %d, code %d, at %+ld\n", what, told.si_signo, told.si_code, (long)((char *)told.si_addr - at));
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGILL, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(pages != MAP_FAILED && munmap(pages + 8192, 4096) == 0);
    memset(pages, 0xc3, 4096); // ret
    run("data", pages);
    must(mprotect(pages, 4096, PROT_NONE) == 0);
    run("a closed page", pages);
    run("nothing", pages + 8192);
    run("address zero", NULL);
    must(mprotect(pages, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    run("code", pages);
    memset(pages, 0x06, 32); // no instruction in 64-bit mode
    run("no instruction", pages);
    memset(pages, 0x90, 8192); // nop, up to the end
    run("a slide off the edge", pages + 8000);
    pages[8191] = 0x0f; // half an instruction
    run("half an instruction", pages + 8191);
    memset(pages, 0xc3, 4096);
    must(mprotect(pages, 4096, PROT_READ) == 0);
    run("data again", pages);
    char on_stack[] = {(char)0xc3};
    run("the stack", on_stack);
    return 0;
}
