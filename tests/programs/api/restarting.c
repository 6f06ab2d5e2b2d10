// Start and stop repeat in one process and log to the same file; what was known of shared memory is not carried over.
#include "../api.h"

enum { ROUNDS = 20 };

int main(void)
{
    volatile int *before = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    works(undolr_shmem_log_filename_set("log.shmem"));
    for (int round = 0; round < ROUNDS; round++)
    {
        before[1] = round; // not recorded
        works(undolr_start(NULL));
        volatile int *during = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        before[0] += before[1];
        during[0] = before[0];
        char name[30];
        snprintf(name, sizeof name, "round-%02d.undo", round);
        if (round % 2 == 0)
        {
            works(undolr_save(name));
            works(undolr_stop(NULL));
        }
        else
        {
            undolr_recording_context_t history;
            works(undolr_stop(&history));
            works(undolr_save_async(history, name));
            must(wait_for_save(history) == 0);
            works(undolr_discard(history));
        }
        must(before[0] == round * (round + 1) / 2 && during[0] == before[0]);
        munmap((void *)during, 4096);
    }
    printf("%d\n", before[0]);
    fails(waitpid(-1, NULL, __WALL | WNOHANG), ECHILD);
}
