// SIGALRM from a timer while the program computes without system calls; counts ticks.
#include "../program.h"
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static void tick(int signal)
{
    (void)signal;
    ticks++;
}

int main(void)
{
    signal(SIGALRM, tick);
    struct itimerval every = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, NULL);
    double x = 1;
    uint64_t spins = 0;
    while (ticks < 30)
    {
        x = x * 1.0000001 + 0.5 / x;
        spins++;
    }
    setitimer(ITIMER_REAL, &off, NULL);
    printf("ticks %d %d %d\n", ticks >= 30, x > 1, spins > 1000);
}
