// A function chosen by a resolver at load time, called directly and by pointer.
//@ cc: -O0
//@ cc: -O2 -Wl,-z,lazy
#include "../program.h"

static int fast(int a) { return a * 2 + 1; }
static int slow(int a) { return a * 2 + 2; }
static int (*resolve(void))(int)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse2") ? fast : slow;
}
int chosen(int) __attribute__((ifunc("resolve")));
int (*volatile pointer)(int) = chosen;

int main(void)
{
    int sum = 0;
    for (int i = 0; i < 1000; i++)
    {
        sum += chosen(i) - pointer(i / 2);
    }
    printf("%d\n", sum);
}
