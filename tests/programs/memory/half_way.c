// Calls that fail with ENOMEM at a gap have done their work up to it, or all around it; a hint may lie where no program ever maps.
#include "../program.h"

enum { PAGE = 4096 };

int main(void)
{
    char *base = mmap(NULL, 6 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(base != MAP_FAILED);
    must(munmap(base + 2 * PAGE, PAGE) == 0);
    must(mprotect(base, 6 * PAGE, PROT_READ | PROT_WRITE) == -1 && errno == ENOMEM);
    memset(base, 'a', 2 * PAGE);
    must(mprotect(base + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    memset(base + 3 * PAGE, 'b', PAGE);
    must(madvise(base, 6 * PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);
    printf("%d %d %d\n", base[0], base[PAGE], base[3 * PAGE]);
    for (unsigned long hint = 0x100000000000; hint < 0x7e0000000000; hint += 0x020000000000)
    {
        char *page = mmap((void *)hint, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(page != MAP_FAILED);
        page[0] = 'x';
        must(munmap(page, PAGE) == 0);
    }
    return 0;
}
