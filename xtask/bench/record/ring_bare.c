// Two processes hand numbers to each other through a ring in shared memory, each on its own core, and do nothing else: prints
// nanoseconds per number. See ring.c for a ring with something to do.
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 256

struct ring {
    _Alignas(64) atomic_ulong head;
    _Alignas(64) atomic_ulong tail;
    _Alignas(64) unsigned long slots[SLOTS];
};

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

int main(void) {
    enum { NUMBERS = 200000 };
    struct ring *ring = mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED) return 1;
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (fork() == 0) {
        pin(1);
        for (unsigned long i = 0; i < NUMBERS; i++) {
            while (i - atomic_load_explicit(&ring->tail, memory_order_acquire) == SLOTS) __builtin_ia32_pause();
            ring->slots[i % SLOTS] = i * i;
            atomic_store_explicit(&ring->head, i + 1, memory_order_release);
        }
        _exit(0);
    }
    pin(0);
    unsigned long sum = 0, expected = 0;
    for (unsigned long i = 0; i < NUMBERS; i++) {
        while (atomic_load_explicit(&ring->head, memory_order_acquire) == i) __builtin_ia32_pause();
        sum += ring->slots[i % SLOTS];
        atomic_store_explicit(&ring->tail, i + 1, memory_order_release);
        expected += i * i;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    int status = 1;
    wait(&status);
    printf("%.1f\n", ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / NUMBERS);
    return status != 0 || sum != expected;
}
