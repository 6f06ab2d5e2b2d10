// setjmp and longjmp, over many frames, from a nested function, repeatedly.
//@ with: -Wno-error=infinite-recursion
//@ cc: -O0
//@ cc: -O2
//@ cc: -O2 -D_FORTIFY_SOURCE=2
#include "../program.h"
#include <setjmp.h>

static jmp_buf outer, inner;
static volatile int reached;

static __attribute__((noinline)) void dive(int depth)
{
    volatile char frame[100];
    frame[depth % 100] = (char)depth;
    if (depth == 0)
    {
        longjmp(inner, 5 + reached++);
    }
    dive(depth - 1);
    frame[0]++;
}

int main(void)
{
    volatile int rounds = 0;
    int value = setjmp(outer);
    printf("outer %d\n", value);
    if (value == 3)
    {
        sigjmp_buf with_mask;
        if (sigsetjmp(with_mask, 1) == 0)
        {
            siglongjmp(with_mask, 1);
        }
        return 0;
    }
    int from = setjmp(inner);
    if (from != 0)
    {
        printf("inner %d\n", from);
    }
    if (rounds++ < 5)
    {
        dive(rounds * 10);
    }
    longjmp(outer, value + 1);
}
