/* Two roles over one shared array. The producer's range is closed by mistake, so that a 100 gets in; the consumer asserts on it. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNT = 12 };

static int *shmem_data_array;
static unsigned seed = 7;

static int random_in_range(int low, int high)
{
    seed = seed * 1103515245u + 12345u;
    return low + (int)((seed >> 16) % (unsigned)(high - low + 1));
}

static int record_me(const char *process_name)
{
    int length = 0;
    while (process_name[length])
        length++;
    return length;
}

static void producer_run(void)
{
    for (int index = 0; index < COUNT; index++) {
        int new_value = random_in_range(0, 100);
        if (index == COUNT - 1)
            new_value = 100;
        shmem_data_array[index] = new_value;
    }
}

static void consumer_run(void)
{
    int used = 0;
    for (int index = 0; index < COUNT; index++) {
        int value = shmem_data_array[index];
        assert(value >= 0 && value < 100);
        used += value;
    }
    printf("%d\n", used);
}

int main(int argc, char **argv)
{
    int fd = open(argv[2], O_RDWR | O_CREAT, 0600);
    if (argc != 3 || fd < 0 || ftruncate(fd, 4096) != 0)
        return 2;
    shmem_data_array = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    record_me(argv[1]);
    if (strcmp(argv[1], "producer") == 0)
        producer_run();
    else
        consumer_run();
    return 0;
}
