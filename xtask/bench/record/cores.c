// Where the two cores of the ring's processes are, which a hypervisor may change at any time. Prints nanoseconds of a cache line's way
// from one to the other and back, and how many times as long work takes that keeps a core's multiplier busy when the other does such work
// too: above 1.25 they are two threads of one core. (Work that waits for results does not tell.)
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIPS = 2000, ROUNDS = 50000, TRIES = 5 };

struct table {
    _Alignas(64) atomic_long ball;
    _Alignas(64) atomic_int step;
};

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static double saturate(void) {
    uint64_t a = 1, b = 3, c = 5, d = 7, e = 9, f = 11, g = 13, h = 15;
    double start = now();
    for (int i = 0; i < ROUNDS; i++) {
        a *= 3, b *= 3, c *= 3, d *= 3, e *= 3, f *= 3, g *= 3, h *= 3;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
    }
    return now() - start;
}

/// The shortest of a few: the rest was interrupted.
static double best(void) {
    double best = saturate();
    for (int i = 1; i < TRIES; i++) {
        double next = saturate();
        best = next < best ? next : best;
    }
    return best;
}

int main(void) {
    struct table *table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) return 1;
    pin(0);
    saturate();
    double alone = best();
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        pin(1);
        table->step = 1;
        while (table->step == 1) saturate();
        table->step = 3;
        for (long i = 0; i < TRIPS; i++) {
            while (table->ball != 2 * i + 1) __builtin_ia32_pause();
            table->ball = 2 * i + 2;
        }
        _exit(0);
    }
    while (table->step == 0) __builtin_ia32_pause();
    double at_once = best();
    table->step = 2;
    while (table->step == 2) __builtin_ia32_pause();
    double start = now();
    for (long i = 0; i < TRIPS; i++) {
        table->ball = 2 * i + 1;
        while (table->ball != 2 * i + 2) __builtin_ia32_pause();
    }
    double trip = (now() - start) / TRIPS;
    int status = 1;
    waitpid(child, &status, 0);
    printf("%.0f %.2f\n", trip, at_once / alone);
    return status != 0;
}
