// A child of a recorded process is not recorded, and may start recording itself, with the same log.
#include "../api.h"

int main(void)
{
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    works(undolr_shmem_log_filename_set("log.shmem"));
    works(undolr_start(NULL));
    works(undolr_save_on_termination("parent.undo"));
    pid_t child = flushed_fork();
    if (child == 0)
    {
        fails(undolr_save("never.undo"), EINVAL);
        fails(undolr_stop(NULL), EINVAL);
        const char *log = NULL;
        works(undolr_shmem_log_filename_get(&log));
        must(log != NULL && strcmp(log, "log.shmem") == 0);
        shared[1] = 5; // nobody logs that
        works(undolr_start(NULL));
        works(undolr_save_on_termination("child.undo"));
        shared[0] = shared[1] + 1;
        exit(3);
    }
    wait_for("child", child);
    printf("%d\n", shared[0]);
    child = flushed_fork();
    if (child == 0)
    {
        exit(4); // saves nothing: termination concerns the process that asked
    }
    wait_for("another", child);
    must(!exists("parent.undo") && exists("child.undo"));
}
