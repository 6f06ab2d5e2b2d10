// A tree of processes that all add to one array, each child to its own slot and to a common one.
#include "../program.h"

int main(void)
{
    volatile uint32_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int path = 1;
    for (int level = 0; level < 3; level++)
    {
        for (int side = 0; side < 2; side++)
        {
            if (flushed_fork() == 0)
            {
                path = path * 2 + side;
                goto next;
            }
        }
        break;
    next:;
    }
    for (int i = 0; i < 500; i++)
    {
        shared[path] += (uint32_t)i;
        __atomic_fetch_add(&shared[100], 1, __ATOMIC_RELAXED);
    }
    while (wait(NULL) > 0)
    {
    }
    if (path != 1)
    {
        _exit(0);
    }
    for (int i = 1; i < 16; i++)
    {
        printf("%u ", shared[i]);
    }
    printf("%u\n", shared[100]);
}
