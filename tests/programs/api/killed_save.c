// The process that saves is killed in the middle: the save has failed, nothing of it is left, and the program goes on.
#include "../api.h"
#include <dirent.h>

// The child process of that name; 0 if there is none.
static pid_t find_child(const char *name)
{
    char path[300], line[300];
    pid_t found = 0;
    DIR *directory = opendir("/proc");
    must(directory != NULL);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
    {
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = atoi(entry->d_name) > 0 ? fopen(path, "r") : NULL;
        char process[100];
        int parent;
        if (file != NULL && fgets(line, sizeof line, file) != NULL &&
            sscanf(line, "%*d (%99[^)]) %*c %d", process, &parent) == 2 && parent == getpid() && strcmp(process, name) == 0)
            found = atoi(entry->d_name);
        if (file != NULL)
            fclose(file);
    }
    closedir(directory);
    return found;
}

// Waits until it has written a megabyte to a file in this directory, or something has.
static void wait_for_writing(pid_t process)
{
    char path[300], here[4096], target[4200];
    must(getcwd(here, sizeof here) != NULL);
    for (;;)
        for (int fd = 0; fd < 8; fd++)
        {
            snprintf(path, sizeof path, "/proc/%d/fd/%d", process, fd);
            ssize_t length = readlink(path, target, sizeof target - 1);
            struct stat status;
            if (length > 0 && strncmp(target, here, strlen(here)) == 0 && stat(path, &status) == 0 && status.st_size > 1 << 20)
                return;
        }
}

int main(void)
{
    // Long to save, and not to be compressed.
    size_t length = 160 << 20;
    uint64_t *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), state = 1;
    must(memory != MAP_FAILED);
    for (size_t i = 0; i < length / 8; i++)
        memory[i] = next_random(&state);
    undolr_recording_context_t history;
    works(undolr_start(NULL));
    printf("recorded\n");
    works(undolr_stop(&history));
    works(undolr_save_async(history, "killed.undo"));
    pid_t saver = find_child("undo-history");
    must(saver > 0);
    wait_for_writing(saver);
    must(kill(saver, SIGKILL) == 0);
    must(wait_for_save(history) == -1);
    works(undolr_discard(history));
    must(!exists("killed.undo") && !exists("killed.undo.part"));
    // Nor does it keep a later recording from being saved.
    munmap(memory, length);
    works(undolr_start(NULL));
    works(undolr_save("later.undo"));
    works(undolr_stop(NULL));
    puts("and went on");
}
