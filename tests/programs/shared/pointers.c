// Function pointers in shared memory, called directly from there.
#include "../program.h"

struct shared
{
    long (*handlers[4])(long);
    long (*next)(long);
};
static long add(long a) { return a + 1; }
static long twice(long a) { return a * 2; }
static long flip(long a) { return a ^ 0x55; }
static long less(long a) { return a - 3; }

int main(void)
{
    struct shared *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *s = (struct shared){{add, twice, flip, less}, less};
    long value = 1;
    for (int i = 0; i < 100; i++)
    {
        value = s->next(s->handlers[i % 4](value)) & 0xffff;
    }
    printf("%ld\n", value);
    void *to = &&here;
    void **slot = (void **)s + 100;
    *slot = to;
    asm goto("jmp *%0" : : "m"(*slot) : "memory" : here);
    printf("never\n");
here:
    printf("jumped\n");
}
