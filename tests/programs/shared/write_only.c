// A mapping that may only be written may also be read: the processor knows no other.
#include "../program.h"

int main(void)
{
    int fd = memfd_create("page", 0);
    must(ftruncate(fd, 4096) == 0);
    volatile int *writer = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0);
    volatile int *reader = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    must(writer != MAP_FAILED && reader != MAP_FAILED);
    for (int i = 0; i < 10; i++)
    {
        writer[i] = i * i;
        writer[i] += 1;
        printf("%d %d\n", reader[i], writer[i]);
    }
    return 0;
}
