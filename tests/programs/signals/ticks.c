// A timer that interrupts system calls, and what the recorder does around them, thousands of times: the count of transfers stays exact.
//@ with: -lrt
#include "../program.h"
#include <time.h>

static volatile int ticks;

static void tick(int signal) { ticks++; }

int main(void)
{
    struct sigaction action = {.sa_handler = tick};
    timer_t timer;
    struct itimerspec often = {{0, 50000}, {0, 50000}}, never = {{0, 0}, {0, 0}};
    must(sigaction(SIGALRM, &action, NULL) == 0);
    must(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 && timer_settime(timer, 0, &often, NULL) == 0);
    while (ticks < 5000)
    {
        syscall(SYS_gettid);
    }
    must(timer_settime(timer, 0, &never, NULL) == 0);
    puts("done");
}
