// A child kills its parent while that computes.
//@ ends: signal 15
#include "../program.h"

int main(void)
{
    must(write(1, "waiting\n", 8) == 8);
    if (fork() == 0)
    {
        kill(getppid(), SIGTERM);
        _exit(0);
    }
    for (volatile uint64_t i = 0;; i++)
    {
    }
}
