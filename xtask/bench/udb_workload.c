/*
 * A parent and a child that both work until they have used SECONDS of processor time and made ACCESSES accesses to the memory that
 * they share: what `cargo xtask bench udb` records.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { n_cells = 1 << 16, round_accesses = 1 << 10 };

static _Atomic uint64_t *cells;
static volatile uint64_t private_sum;

static double processor_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static void touch(uint64_t *state)
{
    for (int i = 0; i < round_accesses; i++)
    {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        _Atomic uint64_t *cell = &cells[(*state >> 33) % n_cells];
        if (i % 4 == 0)
        {
            *cell = *state;
        }
        else
        {
            private_sum += *cell;
        }
    }
}

static void compute(uint64_t *state)
{
    for (int i = 0; i < 1 << 17; i++)
    {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        private_sum += *state;
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
    {
        fprintf(stderr, "Usage: %s SECONDS ACCESSES\n", argv[0]);
        return 2;
    }
    double seconds = atof(argv[1]);
    long accesses = atol(argv[2]);
    cells = mmap(NULL, sizeof *cells * n_cells, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cells == MAP_FAILED)
    {
        perror("mmap");
        return 1;
    }
    pid_t child = fork();
    uint64_t state = child == 0 ? 1 : 2;
    long made = 0;
    double used = 0;
    while (made < accesses || used < seconds)
    {
        /* The accesses are spread over the whole time. */
        if ((double)made * seconds <= used * (double)accesses || used >= seconds)
        {
            touch(&state);
            made += round_accesses;
        }
        if (used < seconds)
        {
            compute(&state);
        }
        used = processor_seconds();
    }
    if (child != 0)
    {
        waitpid(child, NULL, 0);
    }
    return 0;
}
