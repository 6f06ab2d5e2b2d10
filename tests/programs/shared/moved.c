// mremap of shared mappings: grown, shrunk, moved, parts of them, a second view, the old one kept. A child sees and changes the same memory.
#include "../program.h"

enum { PAGE = 4096 };

static char *check(void *address)
{
    must(address != MAP_FAILED);
    return address;
}

static unsigned long long sum(const char *bytes, size_t length) { return mix(3, bytes, length); }

static void in_child(char *memory, int from, int count)
{
    pid_t child = fork();
    must(child >= 0);
    if (child == 0)
    {
        for (int i = from; i < from + count; i++)
            memory[i]++;
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
    int all = PROT_READ | PROT_WRITE;
    int fd = memfd_create("object", 0);
    must(fd >= 0 && ftruncate(fd, 64 * PAGE) == 0);
    char *whole = check(mmap(NULL, 64 * PAGE, all, MAP_SHARED, fd, 0));
    for (int i = 0; i < 64 * PAGE; i += 97)
        whole[i] = i / 97;

    // Grown where it is or elsewhere: what was read before, by another mapping written since, and never touched.
    char *part = check(mmap(NULL, 4 * PAGE, all, MAP_SHARED, fd, 8 * PAGE));
    printf("%llx\n", sum(part, 4 * PAGE));
    part = check(mremap(part, 4 * PAGE, 16 * PAGE, MREMAP_MAYMOVE));
    whole[8 * PAGE + 5] = 77;
    whole[20 * PAGE + 5] = 78;
    printf("%d %d %llx\n", part[5], part[12 * PAGE + 5], sum(part, 16 * PAGE));
    part[15 * PAGE] = 79;
    in_child(part, 15 * PAGE, 9);
    printf("%d %llx\n", whole[23 * PAGE], sum(part, 16 * PAGE));

    // Shrunk, and the tail is gone.
    must(mremap(part, 16 * PAGE, 6 * PAGE, 0) == part);
    printf("%llx %d\n", sum(part, 6 * PAGE), mincore(part + 6 * PAGE, PAGE, (unsigned char[1]){0}));

    // Its middle moves to a place of the program's choice; the rest stays.
    char *place = check(mmap(NULL, 32 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    must(mremap(part + 2 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place + 4 * PAGE) == place + 4 * PAGE);
    place[4 * PAGE + 1]++;
    part[PAGE + 1]++;
    part[4 * PAGE + 1]++;
    printf("%llx %llx %llx\n", sum(place + 4 * PAGE, 2 * PAGE), sum(part, 2 * PAGE), sum(part + 4 * PAGE, 2 * PAGE));
    printf("%d %d %d\n", whole[10 * PAGE + 1], whole[9 * PAGE + 1], whole[12 * PAGE + 1]);

    // Onto another shared mapping, shorter and longer at the same time.
    char *other = check(mmap(NULL, 8 * PAGE, all, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    memset(other, 9, 8 * PAGE);
    must(mremap(part, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other + 2 * PAGE) == other + 2 * PAGE);
    in_child(other, 2 * PAGE, 3 * PAGE);
    printf("%llx %llx\n", sum(other, 8 * PAGE), sum(whole, 64 * PAGE));

    // A second view of the same pages.
    char *again = check(mremap(other + 2 * PAGE, 0, 3 * PAGE, MREMAP_MAYMOVE));
    again[7] = 33;
    in_child(again, 7, 2);
    printf("%d %d %llx\n", other[2 * PAGE + 7], whole[8 * PAGE + 7], sum(again, 3 * PAGE));

    // Moved, and the old mapping is kept as well.
    char *moved = mremap(again, 3 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (moved != MAP_FAILED)
    {
        moved[9] = 44;
        must(again[9] == 44);
        in_child(again, 9, 1);
        must(moved[9] == 45);
        must(munmap(moved, 3 * PAGE) == 0);
    }
    printf("%llx\n", sum(again, 3 * PAGE));

    // What cannot be done changes nothing.
    must(mremap(whole, 64 * PAGE, 65 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, whole + PAGE) == MAP_FAILED && errno == EINVAL);
    must(mprotect(whole + PAGE, PAGE, PROT_READ) == 0);
    must(mremap(whole, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
    must(mremap(other, 9 * PAGE, 10 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
    must(mmap(other, PAGE, all, MAP_SHARED | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EBADF);
    other[0]++;
    printf("%llx %llx\n", sum(other, 8 * PAGE), sum(whole, 64 * PAGE));
    struct { char *address; } read_only = {check(mremap(whole + PAGE, PAGE, 3 * PAGE, MREMAP_MAYMOVE))};
    printf("%llx\n", sum(read_only.address, 3 * PAGE));
    // The kernel's own accesses go the same ways.
    must(pread(fd, other + 2 * PAGE, 100, 0) == 100 && memcmp(other + 2 * PAGE, whole, 100) == 0);
    must(pread(fd, read_only.address, 1, 0) == -1 && errno == EFAULT);
}
