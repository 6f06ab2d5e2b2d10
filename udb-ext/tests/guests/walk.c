/* A small program to walk through: calls, a loop, shared memory of its own, output, a struct. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct pair {
    int first;
    int second;
    char name[8];
};

static int counter;
static int total;

static int square(int x)
{
    int result = x * x;
    counter++;
    return result;
}

int main(void)
{
    struct pair *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 1; i <= 5; i++) {
        total += square(i);
        shared->first = total;
    }
    memcpy(shared->name, "abc", 4);
    printf("%d %d\n", total, shared->first);
    return 0;
}
