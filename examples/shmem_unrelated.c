/*
 * shmem_unrelated.c - two programs that know nothing of each other but a name, and a bug.
 *
 * The writer puts order records into a POSIX shared memory object, the reader checks them. They are started separately, in
 * either order, and map the object at different addresses. Most runs go well; in some the reader finds an order whose total
 * is not price times quantity, though the writer computed just that. Who changed the price?
 *
 *     gcc -g shmem_unrelated.c $(pkg-config --cflags --libs undolr) -o shmem_unrelated
 *     ./shmem_unrelated writer orders & ./shmem_unrelated reader orders; wait
 *     udb reader-PID.undo
 *
 * Files: writer-PID.undo, reader-PID.undo and orders.shmem.
 */
#undef NDEBUG /* The assertion is the point of this program. */

#include "undolr.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { n_orders = 20, name_size = 16 };

struct order
{
    char name[name_size];
    int price;
    int quantity;
    int total;
};

/* What the object holds. All zeros is the state before the first process comes. */
struct shared
{
    _Atomic uint32_t n_attached;
    _Atomic uint32_t n_written; /* Orders below this one are complete; the reader sleeps on it. */
    struct order orders[n_orders];
};

static struct shared *shared;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

/* Maps the object near an address that differs from role to role. The second process to come removes the name. */
static void attach(const char *name, void *near)
{
    char path[64];
    snprintf(path, sizeof path, "/%s", name);
    int fd = shm_open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *shared) != 0)
    {
        fail("Could not open the shared memory object");
    }
    shared = mmap(near, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
    {
        fail("Could not map the shared memory object");
    }
    close(fd);
    if (atomic_fetch_add(&shared->n_attached, 1) == 1)
    {
        shm_unlink(path);
    }
}

/* Records this process until its end. The log has the object's name, so both processes find it. */
static void record_me(const char *role, const char *name)
{
    char filename[64];
    snprintf(filename, sizeof filename, "./%s.shmem", name);
    if (undolr_shmem_log_filename_set(filename) != 0 || undolr_start(NULL) != 0)
    {
        fail("Could not start recording");
    }
    snprintf(filename, sizeof filename, "./%s-%d.undo", role, (int)getpid());
    if (undolr_save_on_termination(filename) != 0)
    {
        fail("Could not ask for the recording to be saved");
    }
    printf("Will save recording for %s to: %s\n", role, filename);
    fflush(stdout);
}

/* Names an order "part-" and some random digits. */
static void invent_name(char *name)
{
    int length = 0;
    for (const char *prefix = "part-"; *prefix != '\0'; prefix++)
    {
        name[length++] = *prefix;
    }
    do
    {
        name[length++] = (char)('0' + rand() % 10);
    } while (rand() % 3 != 0);
    name[length] = '\0';
}

static void writer_run(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    srand((unsigned)now.tv_nsec ^ (unsigned)now.tv_sec);

    for (uint32_t i = 0; i < n_orders; i++)
    {
        struct order *order = &shared->orders[i];
        int price = 1 + rand() % 1000;
        int quantity = 1 + rand() % 9;
        order->price = price;
        order->quantity = quantity;
        order->total = price * quantity;
        invent_name(order->name);

        atomic_store(&shared->n_written, i + 1);
        syscall(SYS_futex, &shared->n_written, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

static void reader_run(void)
{
    for (uint32_t i = 0; i < n_orders; i++)
    {
        uint32_t n_written;
        while ((n_written = atomic_load(&shared->n_written)) <= i)
        {
            syscall(SYS_futex, &shared->n_written, FUTEX_WAIT, n_written, NULL, NULL, 0);
        }

        const struct order *order = &shared->orders[i];
        int price = order->price;
        int quantity = order->quantity;
        int total = order->total;
        assert(total == price * quantity);
    }
}

int main(int argc, char **argv)
{
    int is_writer = argc == 3 && strcmp(argv[1], "writer") == 0;
    int is_reader = argc == 3 && strcmp(argv[1], "reader") == 0;
    if (!is_writer && !is_reader)
    {
        fprintf(stderr, "Usage: %s writer|reader NAME\n", argv[0]);
        return 2;
    }

    attach(argv[2], (void *)(is_writer ? 0x100000000000 : 0x200000000000));
    record_me(argv[1], argv[2]);
    if (is_writer)
    {
        writer_run();
    }
    else
    {
        reader_run();
    }
    return EXIT_SUCCESS;
}
