// A save that is given up leaves no file, neither under its name nor under another; one at a time.
#include "../api.h"
#include <dirent.h>

int main(void)
{
    size_t size = 48 << 20;
    uint64_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), state = 1;
    for (size_t i = 0; i < size / 8; i++)
    {
        memory[i] = next_random(&state);
    }
    undolr_recording_context_t history;
    works(undolr_start(NULL));
    works(undolr_stop(&history));
    int fd, complete, progress, result;
    works(undolr_get_select_descriptor(history, &fd));
    works(undolr_save_async(history, "given_up.undo"));
    fails(undolr_save_async(history, "other.undo"), EBUSY);
    works(undolr_poll_saving_progress(history, &complete, &progress, &result));
    must(!complete && progress >= 0 && progress < 100);
    works(undolr_discard(history));
    DIR *here = opendir(".");
    for (struct dirent *entry; (entry = readdir(here)) != NULL;)
    {
        must(strstr(entry->d_name, ".undo") == NULL);
    }
    fails(waitpid(-1, NULL, __WALL | WNOHANG), ECHILD);
}
