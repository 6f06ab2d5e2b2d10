// What a plain access to shared memory costs: prints nanoseconds per access, half of them loads, half stores.
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

int main(void) {
    enum { ROUNDS = 1000000, WORDS = 512 };
    volatile unsigned long *shared = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    struct timespec start, end;
    unsigned long sum = 0;
    for (int i = 0; i < WORDS; i++) shared[i] = i;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < ROUNDS; i++) {
        sum += shared[i % WORDS];
        shared[(i + 7) % WORDS] = sum;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.2f\n", ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / (2.0 * ROUNDS));
    return 0;
}
