// What is configured before a start: values, limits, and that a recording that runs fixes them.
#include "../api.h"

static void get(long events, const char *log, unsigned long size)
{
    long bytes = -1;
    const char *name = "?";
    unsigned long log_bytes = 1;
    works(undolr_event_log_size_get(&bytes));
    works(undolr_shmem_log_filename_get(&name));
    works(undolr_shmem_log_size_get(&log_bytes));
    must(bytes == events);
    must((name == NULL && log == NULL) || (name != NULL && log != NULL && strcmp(name, log) == 0));
    must(log_bytes == size);
}

static void set(void)
{
    long standard;
    works(undolr_event_log_size_get(&standard));
    get(standard, NULL, 0);
    works(undolr_event_log_size_set(10 << 20));
    get(10 << 20, NULL, 0);
    works(undolr_event_log_size_set((10 << 20) - 1)); // whole pages
    get(10 << 20, NULL, 0);
    fails(undolr_event_log_size_set(-1), EINVAL);
    fails(undolr_event_log_size_set(1L << 60), EINVAL);
    get(10 << 20, NULL, 0);
    works(undolr_event_log_size_set(0));
    get(standard, NULL, 0);

    fails(undolr_shmem_log_filename_set("log"), EINVAL);
    fails(undolr_shmem_log_filename_set("log.shmem.txt"), EINVAL);
    fails(undolr_shmem_log_filename_set(""), EINVAL);
    char name[5000];
    memset(name, 'x', sizeof name);
    memcpy(name + sizeof name - 7, ".shmem", 7);
    fails(undolr_shmem_log_filename_set(name), EINVAL);
    get(standard, NULL, 0);
    strcpy(name, "log.shmem");
    works(undolr_shmem_log_filename_set(name));
    memset(name, 'y', 9); // it was copied
    get(standard, "log.shmem", 0);
    works(undolr_shmem_log_filename_set(NULL));
    get(standard, NULL, 0);

    works(undolr_shmem_log_size_set(1));
    get(standard, NULL, 4096);
    works(undolr_shmem_log_size_set((1 << 20) + 1));
    get(standard, NULL, (1 << 20) + 4096);
    works(undolr_shmem_log_size_set(0));
    get(standard, NULL, 0);
}

int main(void)
{
    set();
    long *nowhere = (long *)8;
    fails(undolr_event_log_size_get(NULL), EFAULT);
    fails(undolr_event_log_size_get(nowhere), EFAULT);
    fails(undolr_shmem_log_filename_get(NULL), EFAULT);
    fails(undolr_shmem_log_size_get(NULL), EFAULT);
    works(undolr_include_symbol_files(0));
    works(undolr_include_symbol_files(1));
    long events;
    works(undolr_event_log_size_get(&events));

    works(undolr_shmem_log_filename_set("log.shmem"));
    works(undolr_start(NULL));
    get(events, "log.shmem", 0);
    fails(undolr_event_log_size_set(0), EINVAL);
    fails(undolr_shmem_log_filename_set("other.shmem"), EINVAL);
    fails(undolr_shmem_log_filename_set(NULL), EINVAL);
    fails(undolr_shmem_log_size_set(0), EINVAL);
    fails(undolr_event_log_size_get(NULL), EFAULT);
    fails(undolr_event_log_size_get(nowhere), EFAULT);
    get(events, "log.shmem", 0);
    works(undolr_include_symbol_files(0));
    works(undolr_save("small.undo"));
    works(undolr_include_symbol_files(1));
    works(undolr_save("large.undo"));
    works(undolr_stop(NULL));
    works(undolr_shmem_log_filename_set(NULL));
    set();
    struct stat small, large;
    must(stat("small.undo", &small) == 0 && stat("large.undo", &large) == 0);
    must(small.st_size < large.st_size);
}
