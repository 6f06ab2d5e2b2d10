// Thread-local storage in all models, and accesses relative to fs.
//@ cc: -O0
//@ cc: -O2
//@ cc: -O2 -fPIC -ftls-model=global-dynamic
#include "../program.h"

__thread int counter = 5;
static __thread char text[32] = "zero";
__thread int *where;

static __attribute__((noinline)) int *get(void) { return &counter; }

int main(void)
{
    for (int i = 0; i < 1000; i++)
    {
        counter += i;
        *get() ^= 3;
        snprintf(text, sizeof text, "%d", counter);
    }
    where = &counter;
    void *self, *again;
    asm("movq %%fs:0, %0\n\tmovq %%fs:16, %1" : "=r"(self), "=r"(again));
    printf("%d %s %d %d %d\n", counter, text, *where, self == again, errno);
    uint64_t offset = (uint64_t)((char *)&counter - (char *)self);
    int value;
    asm("movl %%fs:(%1), %0" : "=r"(value) : "r"(offset));
    asm volatile("addl $5, %%fs:(%0)" : : "r"(offset) : "memory", "cc");
    printf("%d %d\n", value, counter);
}
