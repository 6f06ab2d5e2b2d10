// What most guest programs need. Output must not depend on addresses, process numbers or time.
#ifndef PROGRAM_H
#define PROGRAM_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

// Ends the program unless `holds`.
#define must(holds)                                                                                                                  \
    do                                                                                                                               \
    {                                                                                                                                \
        if (!(holds))                                                                                                                \
        {                                                                                                                            \
            fprintf(stderr, "%s:%d: %s fails: %s\n", __func__, __LINE__, #holds, strerror(errno));                                   \
            _exit(99);                                                                                                               \
        }                                                                                                                            \
    } while (0)

// FNV-1a, to show much in one number.
static inline uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
    {
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    }
    return hash;
}

static inline uint64_t mix64(uint64_t hash, uint64_t value) { return mix(hash, &value, sizeof value); }

// Xorshift: the same numbers in each run.
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// How a child ended.
static inline void print_status(const char *what, int status)
{
    if (WIFEXITED(status))
    {
        printf("%s exited %d\n", what, WEXITSTATUS(status));
    }
    else if (WIFSIGNALED(status))
    {
        printf("%s killed by %d\n", what, WTERMSIG(status));
    }
    else
    {
        printf("%s stopped or continued\n", what);
    }
}

static inline pid_t flushed_fork(void)
{
    fflush(stdout);
    pid_t pid = fork();
    must(pid >= 0);
    return pid;
}

static inline void wait_for(const char *what, pid_t pid)
{
    int status;
    must(waitpid(pid, &status, 0) == pid);
    print_status(what, status);
}
#endif
