// 16 processes touch every 1 MiB of a shared map of 1 GiB: prints KiB of private memory per process.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 16, STEP = 1 << 20 };

static double private_kib(void) {
    char line[256];
    double sum = 0, kib;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "Private_Dirty: %lf kB", &kib) == 1) sum += kib;
    }
    if (file) fclose(file);
    return sum;
}

int main(void) {
    size_t size = 1 << 30;
    char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double *results = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || results == MAP_FAILED) return 1;
    for (int process = 0; process < PROCESSES; process++) {
        pid_t child = fork();
        if (child < 0) return 1;
        if (child == 0) {
            double before = private_kib();
            for (size_t at = 64 * process; at < size; at += STEP) map[at]++;
            results[process] = private_kib() - before;
            _exit(0);
        }
        if (waitpid(child, NULL, 0) != child) return 1;
    }
    double sum = 0;
    for (int process = 0; process < PROCESSES; process++) sum += results[process];
    printf("%.0f\n", sum / PROCESSES);
    return 0;
}
