// Histories after undolr_stop: saved in the background, several at once, beside a recording that runs.
#include "../api.h"
#include <poll.h>
#include <sys/select.h>

enum { COUNT = 3 };

static int is_ready(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int ready = poll(&poll_fd, 1, 0);
    must(ready >= 0);
    return ready;
}

// Waits for the byte and takes it.
static void take_byte(int fd)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    must(select(fd + 1, &set, NULL, NULL, NULL) == 1);
    char byte;
    must(read(fd, &byte, 1) == 1);
    must(!is_ready(fd));
}

static undolr_recording_context_t record(int number)
{
    undolr_recording_context_t history = NULL;
    works(undolr_start(NULL));
    printf("recording %d\n", number);
    works(undolr_stop(&history));
    must(history != NULL);
    return history;
}

static void check_errors(undolr_recording_context_t history)
{
    int complete = 5, progress = 5, result = 5, fd = -5;
    undolr_recording_context_t wrong[] = {NULL, (undolr_recording_context_t)8, (undolr_recording_context_t)&complete};
    for (int i = 0; i < 3; i++)
    {
        fails(undolr_save_async(wrong[i], "never.undo"), EINVAL);
        fails(undolr_poll_saving_complete(wrong[i], &complete, &result), EINVAL);
        fails(undolr_poll_saving_progress(wrong[i], &complete, &progress, &result), EINVAL);
        fails(undolr_get_select_descriptor(wrong[i], &fd), EINVAL);
        fails(undolr_discard(wrong[i]), EINVAL);
    }
    fails(undolr_poll_saving_complete(history, &complete, &result), EINVAL); // no save was started
    fails(undolr_save_async(history, NULL), EINVAL);
    fails(undolr_save_async(history, ""), EINVAL);
    fails(undolr_get_select_descriptor(history, NULL), EFAULT);
    must(complete == 5 && progress == 5 && result == 5 && fd == -5);
}

static void in_child(undolr_recording_context_t history)
{
    int complete, result;
    fails(undolr_save_async(history, "never.undo"), EINVAL);
    fails(undolr_poll_saving_complete(history, &complete, &result), EINVAL);
    fails(undolr_discard(history), EINVAL);
    _exit(0);
}

int main(void)
{
    undolr_recording_context_t histories[COUNT];
    for (int i = 0; i < COUNT; i++)
    {
        histories[i] = record(i);
        must(i == 0 || histories[i] != histories[i - 1]);
    }
    check_errors(histories[0]);

    // The descriptor is asked for before the save, and is kept out of the numbers that programs count on.
    int fd = -1, again = -1, lowest = dup(0);
    works(undolr_get_select_descriptor(histories[0], &fd));
    works(undolr_get_select_descriptor(histories[0], &again));
    must(fd > 100 && fd == again && fd < FD_SETSIZE);
    must(close(lowest) == 0 && dup(0) == lowest && close(lowest) == 0);
    must((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    must(!is_ready(fd));
    works(undolr_save_async(histories[0], "first.undo"));
    take_byte(fd);
    must(exists("first.undo"));
    int complete = 0, progress = 0, result = 5;
    works(undolr_poll_saving_progress(histories[0], &complete, &progress, &result));
    must(complete == 1 && progress == 100 && result == 0);
    fails(undolr_poll_saving_complete(histories[0], NULL, &result), EFAULT);

    // A second save of the same history, one that fails, and one more.
    works(undolr_save_async(histories[0], "second.undo"));
    take_byte(fd);
    works(undolr_save_async(histories[0], "missing/a.undo"));
    must(wait_for_save(histories[0]) == -1);
    take_byte(fd);
    works(undolr_save_async(histories[0], "third.undo"));
    must(wait_for_save(histories[0]) == 0);
    take_byte(fd);
    must(exists("second.undo") && exists("third.undo"));

    // Meanwhile the others; the descriptor is asked for after the save.
    works(undolr_save_async(histories[1], "fourth.undo"));
    must(wait_for_save(histories[1]) == 0);
    int late;
    works(undolr_get_select_descriptor(histories[1], &late));
    must(late != fd);
    take_byte(late);

    pid_t child = flushed_fork();
    if (child == 0)
    {
        in_child(histories[2]);
    }
    wait_for("child", child);

    // While a recording runs.
    works(undolr_start(NULL));
    works(undolr_save_async(histories[2], "fifth.undo"));
    int fd2;
    works(undolr_get_select_descriptor(histories[2], &fd2));
    take_byte(fd2);
    works(undolr_poll_saving_progress(histories[2], &complete, &progress, &result));
    must(complete == 1 && progress == 100 && result == 0);
    works(undolr_discard(histories[2]));
    fails(undolr_discard(histories[2]), EINVAL);
    fails(fcntl(fd2, F_GETFD), EBADF);
    works(undolr_save("outer.undo"));
    works(undolr_stop(&histories[2]));
    works(undolr_save_async(histories[2], "sixth.undo"));
    must(wait_for_save(histories[2]) == 0);

    works(undolr_discard(histories[0]));
    fails(fcntl(fd, F_GETFD), EBADF);
    fails(undolr_save_async(histories[0], "never.undo"), EINVAL);
    works(undolr_discard(histories[1]));
    works(undolr_discard(histories[2]));
    must(!exists("never.undo"));
    // Nothing of ours is left: no child of any kind.
    fails(waitpid(-1, NULL, __WALL | WNOHANG), ECHILD);
}
