/*
 * shmem_producer_consumer.c - two processes, an array in shared memory, and a bug.
 *
 * The producer (the parent) writes random numbers in the range [0, 100) into the array, and the consumer (the child) reads
 * them. It usually works. Now and then the consumer finds a value that it cannot use and aborts: who wrote it, and why?
 *
 *     gcc -g shmem_producer_consumer.c $(pkg-config --cflags --libs undolr) -o shmem_producer_consumer
 *     ./until-failure.sh ./shmem_producer_consumer
 *     udb consumer-PID.undo
 *
 * Both processes record themselves; PID in the names of the files is that of the producer.
 */
#undef NDEBUG /* The assertion is the point of this program. */

#include "undolr.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { max_elements = 256, default_elements = 30 };

static int *shmem_data_array; /* max_elements of them, in shared memory. */
static int n_elements = default_elements;
static int ready_pipe[2]; /* Holds a byte for each element that the consumer may read. */
static pid_t producer_pid;
static int histogram[10]; /* The consumer's: how many values below 10, 20, 30, ... */

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

/* Starts recording this process. The recording is saved when the process ends, in whatever way. */
static void record_me(const char *process_name)
{
    int e = undolr_start(NULL);
    if (e != 0)
    {
        fail("Could not start recording");
    }

    char filename[64];
    snprintf(filename, sizeof filename, "./%s-%d.undo", process_name, (int)producer_pid);
    e = undolr_save_on_termination(filename);
    if (e != 0)
    {
        fail("Could not ask for the recording to be saved");
    }
}

/* Lets the consumer read one element more. */
static void element_ready(void)
{
    if (write(ready_pipe[1], "", 1) != 1)
    {
        fail("Could not wake the consumer");
    }
}

/* Waits until the producer has written one element more. */
static void wait_for_element(void)
{
    char token;
    if (read(ready_pipe[0], &token, 1) != 1)
    {
        fail("The producer is gone");
    }
}

/* A random number from lowest to highest. */
static int random_in_range(int lowest, int highest)
{
    int n_numbers = highest - lowest + 1;
    return lowest + rand() % n_numbers;
}

/* Reads the values from shared memory and counts them by tens. */
static void consumer_run(void)
{
    for (int index = 0; index < n_elements; index++)
    {
        wait_for_element();
        int value = shmem_data_array[index];

        /* The histogram has no place for other values. */
        assert(value >= 0 && value < 100);
        histogram[value / 10] += 1;
    }
}

/* Generates the values and writes them to shared memory. */
static void producer_run(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    srand((unsigned)now.tv_nsec ^ (unsigned)now.tv_sec);

    for (int index = 0; index < n_elements; index++)
    {
        /* Values are in the range [0, 100). */
        int new_value = random_in_range(0, 100);
        shmem_data_array[index] = new_value;
        element_ready();
    }
}

/* Sets up what the two processes share. */
static void share(void)
{
    shmem_data_array = mmap(NULL, sizeof *shmem_data_array * max_elements, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shmem_data_array == MAP_FAILED || pipe(ready_pipe) != 0)
    {
        fail("Could not share memory and a pipe");
    }

    char filename[64];
    snprintf(filename, sizeof filename, "./log-%d.shmem", (int)producer_pid);
    if (undolr_shmem_log_filename_set(filename) != 0)
    {
        fail("Could not set the file of the shared memory log");
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
    {
        n_elements = atoi(argv[1]);
    }
    if (argc > 2 || n_elements < 1 || n_elements > max_elements)
    {
        fprintf(stderr, "Usage: %s [NUMBER OF VALUES, 1 TO %d]\n", argv[0], max_elements);
        return 2;
    }

    producer_pid = getpid();
    share();
    printf("Will save shared memory log to: ./log-%d.shmem\n", (int)producer_pid);
    printf("Will save recording for producer to: ./producer-%d.undo\n", (int)producer_pid);
    printf("Will save recording for consumer to: ./consumer-%d.undo\n", (int)producer_pid);
    fflush(stdout); /* Before there are two of its buffer. */

    pid_t consumer_pid = fork();
    if (consumer_pid == 0)
    {
        close(ready_pipe[1]); /* Only the producer's end counts: the consumer notices when it is gone. */
        record_me("consumer");
        consumer_run();
        return EXIT_SUCCESS;
    }
    if (consumer_pid < 0)
    {
        fail("Could not start the consumer");
    }

    /* This process keeps both ends of the pipe, so that it may go on writing when the consumer has died. */
    record_me("producer");
    producer_run();

    int status;
    if (waitpid(consumer_pid, &status, 0) != consumer_pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    {
        fprintf(stderr, "Child process failed.\n");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
