/*
 * shmem_stress.c - four processes that use shared memory in every way that programs do, with a result that never varies.
 *
 * Each part keeps an invariant that a lost, torn or invented access would break:
 *
 *     counters   atomic additions, without a lock
 *     spinlock   a plain counter and its negative, both changed under a spinlock
 *     seqlock    one writer and three readers, who accept a pair of values only if nobody wrote meanwhile
 *     pages      whole pages copied with memcpy from process to process, a stamp in every word
 *     turns      a token passed round by futex wait and wake
 *
 *     gcc -g shmem_stress.c $(pkg-config --cflags --libs undolr) -o shmem_stress
 *     ./shmem_stress [ROUNDS]
 *
 * Each process records itself, to stress-NUMBER-PID.undo; the log is log-PID.shmem. PID is that of the first process.
 */
#include "undolr.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { n_processes = 4, page_words = 512, default_rounds = 1000 };

struct page
{
    uint64_t words[page_words];
};

/* The groups stand on cache lines of their own; within one, processes contend. */
struct shared
{
    struct page pages[n_processes];

    alignas(64) _Atomic uint32_t n_arrived; /* Barrier: who has come, */
    _Atomic uint32_t n_barriers;            /* and how many barriers were passed. */

    alignas(64) _Atomic uint32_t counter32;
    _Atomic uint64_t counter64;
    _Atomic uint8_t counter8;

    alignas(64) _Atomic uint32_t spinlock;
    int64_t locked;
    int64_t locked_negative;

    alignas(64) _Atomic uint32_t sequence; /* Odd while the writer is at work. */
    volatile uint64_t value;
    volatile uint64_t complement;

    alignas(64) _Atomic uint32_t turn;

    alignas(64) _Atomic uint32_t n_broken;
};

static struct shared *shared;
static uint32_t rounds = default_rounds;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

/* Counts a broken invariant. */
static void check(int holds, const char *what)
{
    if (!holds)
    {
        fprintf(stderr, "Broken: %s\n", what);
        atomic_fetch_add(&shared->n_broken, 1);
    }
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Returns when all processes have come here. */
static void barrier(void)
{
    uint32_t n_barriers = atomic_load(&shared->n_barriers);
    if (atomic_fetch_add(&shared->n_arrived, 1) == n_processes - 1)
    {
        atomic_store(&shared->n_arrived, 0);
        atomic_fetch_add(&shared->n_barriers, 1);
        futex_wake_all(&shared->n_barriers);
        return;
    }
    while (atomic_load(&shared->n_barriers) == n_barriers)
    {
        futex_wait(&shared->n_barriers, n_barriers);
    }
}

/* Waits a little for another process, and lets it run if there are fewer processors than processes. */
static void spin(unsigned *n_spins)
{
    __builtin_ia32_pause();
    if (++*n_spins % 64 == 0)
    {
        sched_yield();
    }
}

static void run_counters(void)
{
    uint32_t newest = 0;
    for (uint32_t i = 0; i < rounds; i++)
    {
        uint32_t before = atomic_fetch_add(&shared->counter32, 1);
        check(i == 0 || before > newest, "a counter went back");
        newest = before;
        atomic_fetch_add(&shared->counter64, UINT64_C(0x100000001));
        atomic_fetch_add(&shared->counter8, 1);
    }
}

static void run_spinlock(void)
{
    for (uint32_t i = 0; i < rounds; i++)
    {
        unsigned n_spins = 0;
        while (atomic_exchange_explicit(&shared->spinlock, 1, memory_order_acquire) != 0)
        {
            spin(&n_spins);
        }
        check(shared->locked + shared->locked_negative == 0, "two processes hold the spinlock");
        shared->locked += 1;
        shared->locked_negative -= 1;
        atomic_store_explicit(&shared->spinlock, 0, memory_order_release);
    }
}

static void write_seqlock(void)
{
    for (uint32_t i = 0; i < rounds; i++)
    {
        atomic_fetch_add(&shared->sequence, 1);
        shared->value = i;
        shared->complement = ~(uint64_t)i;
        atomic_fetch_add(&shared->sequence, 1);
    }
}

static void read_seqlock(void)
{
    uint64_t newest = 0;
    for (uint32_t n_read = 0; n_read < rounds / 4;)
    {
        unsigned n_spins = 0;
        uint32_t before = atomic_load(&shared->sequence);
        while (before % 2 != 0)
        {
            spin(&n_spins);
            before = atomic_load(&shared->sequence);
        }
        uint64_t value = shared->value;
        uint64_t complement = shared->complement;
        if (atomic_load(&shared->sequence) != before)
        {
            continue;
        }
        check(before == 0 || complement == ~value, "the seqlock's pair does not match");
        check(value >= newest, "the seqlock went back in time");
        newest = value;
        n_read++;
    }
}

/* Every process stamps a page of its own; then the pages travel round, each copied into the next process's slot. */
static void run_pages(uint32_t me)
{
    struct page mine;
    for (uint32_t i = 0; i < page_words; i++)
    {
        mine.words[i] = (uint64_t)me << 32 | i;
    }
    for (uint32_t step = 0; step < n_processes; step++)
    {
        memcpy(&shared->pages[(me + 1) % n_processes], &mine, sizeof mine);
        barrier();
        memcpy(&mine, &shared->pages[me], sizeof mine);
        barrier();
        uint32_t origin = (me + n_processes - 1 - step) % n_processes;
        for (uint32_t i = 0; i < page_words; i++)
        {
            check(mine.words[i] == ((uint64_t)origin << 32 | i), "a page was torn");
        }
    }
}

static void run_turns(uint32_t me)
{
    for (uint32_t i = 0; i < rounds / 10; i++)
    {
        uint32_t turn;
        while ((turn = atomic_load(&shared->turn)) % n_processes != me)
        {
            futex_wait(&shared->turn, turn);
        }
        atomic_store(&shared->turn, turn + 1);
        futex_wake_all(&shared->turn);
    }
}

static void run(uint32_t me, pid_t first_pid)
{
    char filename[64];
    snprintf(filename, sizeof filename, "./stress-%u-%d.undo", me, (int)first_pid);
    if (undolr_start(NULL) != 0 || undolr_save_on_termination(filename) != 0)
    {
        fail("Could not start recording");
    }

    barrier();
    run_counters();
    run_spinlock();
    barrier();
    if (me == 0)
    {
        write_seqlock();
    }
    else
    {
        read_seqlock();
    }
    run_pages(me);
    run_turns(me);
    barrier();
}

int main(int argc, char **argv)
{
    if (argc > 1)
    {
        rounds = (uint32_t)strtoul(argv[1], NULL, 10);
    }
    if (argc > 2 || rounds == 0)
    {
        fprintf(stderr, "Usage: %s [ROUNDS]\n", argv[0]);
        return 2;
    }

    pid_t first_pid = getpid();
    char log[64];
    snprintf(log, sizeof log, "./log-%d.shmem", (int)first_pid);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || undolr_shmem_log_filename_set(log) != 0)
    {
        fail("Could not share memory");
    }

    for (uint32_t i = 1; i < n_processes; i++)
    {
        pid_t pid = fork();
        if (pid < 0)
        {
            fail("Could not start a process");
        }
        if (pid == 0)
        {
            run(i, first_pid);
            return EXIT_SUCCESS;
        }
    }
    run(0, first_pid);

    int n_failed = 0;
    int status;
    while (wait(&status) > 0)
    {
        n_failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }

    uint32_t n_all = rounds * n_processes;
    check(n_failed == 0, "a process failed");
    check(shared->counter32 == n_all, "the 32-bit counter");
    check(shared->counter64 == n_all * UINT64_C(0x100000001), "the 64-bit counter");
    check(shared->counter8 == (uint8_t)n_all, "the 8-bit counter");
    check(shared->locked == n_all && shared->locked_negative == -(int64_t)n_all, "the counter under the spinlock");
    check(shared->sequence == 2 * rounds && shared->value == rounds - 1, "the seqlock");
    check(shared->turn == rounds / 10 * n_processes, "the turns");

    printf("counters %u %llu %u\n", shared->counter32, (unsigned long long)shared->counter64, (unsigned)shared->counter8);
    printf("spinlock %lld\n", (long long)shared->locked);
    printf("seqlock  %u %llu\n", shared->sequence, (unsigned long long)shared->value);
    printf("turns    %u\n", shared->turn);
    printf("broken   %u\n", shared->n_broken);
    return shared->n_broken == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
