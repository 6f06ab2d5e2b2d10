// Advice about shared mappings: MADV_DONTNEED loses nothing, MADV_REMOVE frees the pages of all; other calls that name a range.
#include "../program.h"

static unsigned long long sum(const char *bytes, size_t length) { return mix(3, bytes, length); }

int main(void)
{
    int fd = memfd_create("object", 0);
    must(fd >= 0 && ftruncate(fd, 8 * 4096) == 0);
    char *view = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *other = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < 8 * 4096; i++)
        view[i] = i / 4096 + 1;
    printf("%llx %llx\n", sum(view, 8 * 4096), sum(other, 8 * 4096));
    must(madvise(view + 4096, 3 * 4096, MADV_DONTNEED) == 0);
    view[4096] = 9;
    printf("%d %d %d %llx\n", view[4096], view[4097], other[4096], sum(view, 8 * 4096));
    must(madvise(view + 2 * 4096, 2 * 4096, MADV_REMOVE) == 0);
    // Unchanged by somebody else's write of what was there before.
    other[2 * 4096] = 3;
    printf("%d %d %llx %llx\n", view[2 * 4096], view[2 * 4096 + 1], sum(view, 8 * 4096), sum(other, 8 * 4096));
    must(mprotect(view + 4096, 4096, PROT_READ) == 0);
    must(msync(view, 8 * 4096, MS_SYNC) == 0);
    must(madvise(view, 8 * 4096, MADV_WILLNEED) == 0);
    must(madvise(view, 8 * 4096, MADV_POPULATE_READ) == 0 || errno == EINVAL);
    must(mlock(view, 8 * 4096) == 0 && munlock(view, 8 * 4096) == 0);
    must(munmap(view + 3 * 4096, 4096) == 0);
    must(msync(view, 8 * 4096, MS_ASYNC) == -1 && errno == ENOMEM);
    must(madvise(view, 8 * 4096, MADV_DONTNEED) == -1 && errno == ENOMEM);
    printf("%llx %llx\n", sum(view, 3 * 4096), sum(view + 4 * 4096, 4 * 4096));
}
