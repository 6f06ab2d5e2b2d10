// mremap that puts more of a file in reach of a private mapping, and keeps or moves what has been changed.
#include "../program.h"

enum { PAGE = 4096 };

static unsigned long long sum(const char *bytes, size_t length) { return mix(3, bytes, length); }

int main(void)
{
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    char page[PAGE];
    for (int i = 0; i < 12; i++)
    {
        memset(page, 'a' + i, sizeof page);
        must(write(fd, page, sizeof page) == sizeof page);
    }
    must(write(fd, "tail", 4) == 4);
    char *file = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PAGE);
    file[0] = 'X';
    file = mremap(file, 2 * PAGE, 6 * PAGE, MREMAP_MAYMOVE);
    must(file != MAP_FAILED);
    printf("%c %c %c %llx\n", file[0], file[PAGE], file[5 * PAGE], sum(file, 6 * PAGE));
    // Up to the end of the file and one page behind it.
    file = mremap(file, 6 * PAGE, 13 * PAGE, MREMAP_MAYMOVE);
    must(file != MAP_FAILED);
    printf("%.4s %llx\n", file + 11 * PAGE, sum(file, 12 * PAGE));
    char *moved = mremap(file, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (moved != MAP_FAILED)
        must(*moved == 'X' && *file == 'b');
    // Read-only, and none of it.
    char *closed = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    closed = mremap(closed, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    must(closed != MAP_FAILED);
    printf("%llx\n", sum(closed, 3 * PAGE));
    must(mprotect(closed, 3 * PAGE, PROT_NONE) == 0);
    closed = mremap(closed, 3 * PAGE, 5 * PAGE, MREMAP_MAYMOVE);
    must(closed != MAP_FAILED && mprotect(closed, 5 * PAGE, PROT_READ) == 0);
    printf("%llx\n", sum(closed, 5 * PAGE));
    must(mprotect(closed, 5 * PAGE, PROT_NONE) == 0 && pwrite(fd, "new", 3, 0) == 3);
    must(madvise(closed, 5 * PAGE, MADV_DONTNEED) == 0 && mprotect(closed, 5 * PAGE, PROT_READ) == 0);
    printf("%llx\n", sum(closed, 5 * PAGE));
    must(remove("file") == 0);
}
