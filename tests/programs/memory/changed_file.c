// A file that is mapped privately is changed afterwards, by another process: pages that were not written show that.
//@ fails: replay shows what the file held when it was mapped, and the verification says so
#include "../program.h"

int main(void)
{
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    must(fd >= 0 && ftruncate(fd, 8192) == 0);
    volatile char *map = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
    printf("%d\n", map[5000]);
    pid_t child = flushed_fork();
    if (child == 0)
    {
        must(pwrite(fd, "x", 1, 5000) == 1);
        _exit(0);
    }
    wait_for("child", child);
    printf("%d\n", map[5000]);
}
