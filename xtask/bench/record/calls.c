// What one kind of system call costs: prints nanoseconds per call.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { CALLS = 200000 };

static double now(void) {
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

#define REPEAT(call) for (int i = 0; i < CALLS; i++) sink += (long)(call)

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY), word = 0;
    char byte = 0;
    struct timespec time;
    volatile long sink = 0;
    double start = now();
    if (strcmp(argv[1], "read") == 0) REPEAT(read(zero, &byte, 1));
    else if (strcmp(argv[1], "write") == 0) REPEAT(write(null, &byte, 1));
    else if (strcmp(argv[1], "futex") == 0) REPEAT(syscall(SYS_futex, &word, FUTEX_WAKE, 1, 0, 0, 0));
    else if (strcmp(argv[1], "clock") == 0) REPEAT(clock_gettime(CLOCK_MONOTONIC, &time));
    else if (strcmp(argv[1], "rdtsc") == 0) REPEAT(__rdtsc());
    else return 2;
    printf("%.1f\n", (now() - start) / CALLS);
    return 0;
}
