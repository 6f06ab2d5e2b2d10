// mprotect of parts of shared mappings and across their edges: what is allowed stays allowed, the rest faults at its own address.
#include "../program.h"
#include <setjmp.h>

static sigjmp_buf back;
static char *volatile where;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    where = info->si_addr;
    siglongjmp(back, 1);
}

static char *base;

// One letter per page: what may be done with it.
static void show(const char *name, int pages)
{
    printf("%s ", name);
    for (int i = 0; i < pages; i++)
    {
        volatile char *page = base + 4096 * i;
        volatile char letter = '-';
        if (sigsetjmp(back, 1) == 0)
        {
            (void)page[5];
            letter = 'r';
            page[6]++;
            letter = 'w';
        }
        else
            must(where == (char *)page + (letter == '-' ? 5 : 6));
        putchar(letter);
    }
    putchar('\n');
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSEGV, &action, NULL) == 0);
    // Pages 0 and 1 private, 2 to 5 shared, 6 private, 7 and 8 shared, 9 to 10 another object.
    int fd = memfd_create("object", 0);
    must(fd >= 0 && ftruncate(fd, 16 * 4096) == 0);
    base = mmap(NULL, 12 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int all = PROT_READ | PROT_WRITE;
    must(mmap(base + 2 * 4096, 4 * 4096, all, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
    must(mmap(base + 7 * 4096, 2 * 4096, all, MAP_SHARED | MAP_FIXED, fd, 5 * 4096) != MAP_FAILED);
    must(mmap(base + 9 * 4096, 2 * 4096, all, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    show("all", 12);
    must(mprotect(base + 3 * 4096, 2 * 4096, PROT_READ) == 0);
    show("part", 12);
    // Operands across the new edges, both allowed and not.
    *(uint64_t *)(base + 3 * 4096 - 4) == 7 ? putchar('!') : putchar('.');
    memset(base + 5 * 4096, 3, 4096);
    must(memcmp(base + 4 * 4096 + 4000, base + 3 * 4096 + 4000, 96) == 0);
    if (sigsetjmp(back, 1) == 0)
    {
        *(volatile uint64_t *)(base + 3 * 4096 - 4) = 1;
        must(!"written");
    }
    must(where == base + 3 * 4096);
    must(mprotect(base + 4096, 7 * 4096, PROT_READ) == 0);
    show("across", 12);
    must(mprotect(base + 4 * 4096, 6 * 4096, PROT_NONE) == 0);
    show("none", 12);
    must(mprotect(base, 12 * 4096, all) == 0);
    show("all", 12);
    for (int i = 0; i < 4; i++)
        ((volatile uint64_t *)(base + 2 * 4096 + 4092))[i * 512] = 0x0102030405060708 * i;
    // Up to a gap: what is before it is changed.
    must(munmap(base + 8 * 4096, 4096) == 0);
    must(mprotect(base + 3 * 4096, 9 * 4096, PROT_READ) == -1 && errno == ENOMEM);
    show("gap", 8);
    must(munmap(base + 4 * 4096, 4096) == 0);
    base += 5 * 4096;
    show("rest", 2);
    // A file that may not be written: up to there.
    int readable = open("/proc/self/fd/3", O_RDONLY);
    must(readable >= 0);
    must(mmap(base, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, readable, 0) == base);
    base -= 2 * 4096;
    must(mmap(base, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == base);
    must(mmap(base + 4096, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == base + 4096);
    must(mprotect(base, 3 * 4096, all) == -1 && errno == EACCES);
    must(mprotect(base + 4096 * 3, 4096, all) == 0);
    show("refused", 4);
    printf("%llx\n", (unsigned long long)mix(1, base, 4 * 4096));
}
