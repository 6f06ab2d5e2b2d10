// A handler that uses every kind of register, while the main program checks that none of its own changed.
//@ cc: -O1 -mavx2
//@ cc: -O2 -march=native -mno-red-zone
//@ with: -lm
#include "../program.h"
#include <math.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static double junk[64];

static void tick(int signal)
{
    for (int i = 0; i < 64; i++)
    {
        junk[i] = sqrt(junk[i] + signal + i);
    }
    volatile long double x = 3.0L;
    x = x / 7;
    char text[64];
    snprintf(text, sizeof text, "%.10f", junk[7]);
    ticks++;
}

static uint64_t work(uint64_t seed)
{
    double d[64], sum = 0;
    long double e = 1;
    uint64_t hash = seed;
    for (int i = 0; i < 64; i++)
    {
        d[i] = i;
    }
    for (int round = 0; round < 40; round++)
    {
        for (int i = 0; i < 64; i++)
        {
            d[i] = d[i] * 1.25 + 1 / (d[i] + 1);
        }
        e = e * 1.0001L + 1;
        hash = hash * 31 + (uint64_t)d[round];
        asm volatile("stc\n\tsbbq $0, %0\n\tmovl $5, %%ecx\n\tstd\n\tcld" : "+r"(hash) : : "rcx", "cc");
    }
    for (int i = 0; i < 64; i++)
    {
        sum += d[i];
    }
    return mix(mix64(hash, (uint64_t)e), &sum, sizeof sum);
}

int main(void)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    uint64_t expected = work(12345);
    must(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &every, NULL);
    int wrong = 0;
    while (ticks < 60)
    {
        wrong += work(12345) != expected;
    }
    printf("wrong %d\n", wrong);
}
