// Shared memory beside private memory: accesses next to the edges, maps of files that end in a page's middle, rights, pages made private.
#include "../program.h"
#include <setjmp.h>

static sigjmp_buf out;
static void on_fault(int signal)
{
    siglongjmp(out, signal);
}

int main(void)
{
    char *base = mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *s = mmap(base + 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    must(s == base + 4096);
    for (int i = 0; i < 5 * 4096; i++)
    {
        base[i] = (char)(i % 251);
    }
    uint64_t hash = mix(1, base, 5 * 4096);
    printf("%016llx %d %d\n", (unsigned long long)hash, s[0], s[4095]);
    int fd = open("short", O_RDWR | O_CREAT, 0600);
    must(ftruncate(fd, 100) == 0);
    char *file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    file[99] = 'x';
    file[3000] = 'y';
    signal(SIGSEGV, on_fault);
    char *fixed = mmap(file, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    int came = sigsetjmp(out, 1);
    if (came == 0)
        fixed[0] = 1;
    printf("read-only: signal %d\n", came);
    must(mmap(s, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == s);
    s[7] = 5;
    printf("%d %d\n", s[0], s[7]);
    char *none = mmap(NULL, 4096, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    came = sigsetjmp(out, 1);
    if (came == 0)
        none[0] = 1;
    printf("no rights: signal %d\n", came);
    must(mprotect(none, 4096, PROT_READ | PROT_WRITE) == 0);
    none[0] = 3;
    printf("%d\n", none[0]);
}
