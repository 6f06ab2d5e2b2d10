// A stack that grows far beyond the usual limit, which the program has raised.
#include "../program.h"
#include <sys/resource.h>

static int deep(int depth)
{
    volatile char frame[1000];
    frame[0] = depth;
    return depth ? deep(depth - 1) + frame[0] : 0;
}

int main(void)
{
    struct rlimit limit;
    must(getrlimit(RLIMIT_STACK, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < (64 << 20) ? limit.rlim_max : 64 << 20;
    must(setrlimit(RLIMIT_STACK, &limit) == 0);
    printf("%d\n", deep(30000));
}
