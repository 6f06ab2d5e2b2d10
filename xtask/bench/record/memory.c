// What recording costs a program with 1 GiB of memory: prints lines of a key and a number.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <undolr.h>
#include <unistd.h>

enum { MIB = 1 << 20, SIZE = 1024 };

static double now_ms(void) {
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

// Proportional set size of a process in MiB.
static double pss(const char *process) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%s/smaps_rollup", process);
    FILE *file = fopen(path, "r");
    double kib = 0;
    while (file && fgets(line, sizeof line, file)) sscanf(line, "Pss: %lf kB", &kib);
    if (file) fclose(file);
    return kib / 1024;
}

// This process's and its children's.
static double all(void) {
    double sum = pss("self");
    FILE *file = fopen("/proc/thread-self/children", "r");
    for (char pid[32]; file && fscanf(file, "%31s", pid) == 1;) sum += pss(pid);
    if (file) fclose(file);
    return sum;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    unsigned *memory = mmap(NULL, (size_t)SIZE * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    // Half of each page is noise, half is like the rest: memory as programs have it compresses about so.
    unsigned state = 1;
    for (size_t i = 0; i < (size_t)SIZE * MIB / 4; i++) {
        state = state * 1664525 + 1013904223;
        memory[i] = i % 1024 < 512 ? state : 0x20202020;
    }
    double before = all(), start = now_ms();
    if (undolr_start(NULL) != 0) return 1;
    double started = now_ms();
    double after = all();
    if (undolr_save(argv[1]) != 0) return 1;
    double saving = now_ms();
    if (undolr_save(argv[1]) != 0) return 1;
    double saved = now_ms();
    struct stat status;
    if (stat(argv[1], &status) != 0) return 1;
    printf("start_1gib_ms %.1f\n", started - start);
    printf("memory_added_mib %.1f\n", after - before);
    printf("save_mib_per_s %.0f\n", SIZE / (saved - saving) * 1e3);
    printf("saved_mib %.0f\n", status.st_size / (double)MIB);
    return 0;
}
