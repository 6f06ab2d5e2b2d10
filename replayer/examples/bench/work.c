// What the benchmark records: `work stores N`, `work calls N`, `work mixed N`.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

volatile uint64_t watched;
volatile uint64_t others[64];

// Where gdb's recording begins and ends: no instruction of libc in between, as gdb knows few of those.
__attribute__((noinline)) void begin_work(void) { __asm__ volatile(""); }
__attribute__((noinline)) void end_work(void) { __asm__ volatile(""); }

// One store to the watched word, then `rounds` to other ones.
static void stores(uint64_t rounds) {
    begin_work();
    watched = 1;
    for (uint64_t i = 0; i < rounds; i++)
        others[0] = i;
    end_work();
}

static void calls(uint64_t rounds) {
    for (uint64_t i = 0; i < rounds; i++)
        others[0] += (uint64_t)syscall(SYS_getppid);
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

// Sorting through a function pointer, copying, allocating, printing: calls, branches and memory like a usual program's.
static void mixed(uint64_t rounds) {
    enum { COUNT = 20000 };
    uint32_t state = 12345;
    FILE *out = fopen("/dev/null", "w");
    for (uint64_t round = 0; round < rounds; round++) {
        uint32_t *numbers = malloc(COUNT * sizeof *numbers);
        for (int i = 0; i < COUNT; i++) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            numbers[i] = state;
        }
        qsort(numbers, COUNT, sizeof *numbers, by_value);
        uint32_t *copy = malloc(COUNT * sizeof *copy);
        memcpy(copy, numbers, COUNT * sizeof *copy);
        for (int i = 0; i < COUNT; i += 50)
            fprintf(out, "%u %f\n", copy[i], (double)copy[i] / 7);
        fflush(out);
        free(copy);
        free(numbers);
    }
    fclose(out);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    uint64_t rounds = strtoull(argv[2], NULL, 10);
    if (strcmp(argv[1], "stores") == 0)
        stores(rounds);
    else if (strcmp(argv[1], "calls") == 0)
        calls(rounds);
    else
        mixed(rounds);
    return 0;
}
