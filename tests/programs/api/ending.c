// Ends in the way its argument says, after asking for a save on termination.
#include "../api.h"

static void by_signal(int signal)
{
    (void)signal;
    write(1, "handler\n", 8);
}

int main(int argc, char **argv)
{
    must(argc == 2);
    const char *how = argv[1];
    works(undolr_start(NULL));
    fails(undolr_save_on_termination(NULL), EINVAL);
    fails(undolr_save_on_termination(""), EINVAL);
    works(undolr_save_on_termination("first.undo"));
    works(undolr_save_on_termination("ending.undo")); // the last name counts
    works(undolr_save("early.undo"));                 // and an ordinary save does not change it
    signal(SIGUSR1, by_signal);
    raise(SIGUSR1);
    printf("%s\n", how);
    fflush(stdout);
    if (strcmp(how, "return") == 0)
    {
        return 3;
    }
    if (strcmp(how, "exit") == 0)
    {
        exit(4);
    }
    if (strcmp(how, "_exit") == 0)
    {
        _exit(5);
    }
    if (strcmp(how, "abort") == 0)
    {
        abort();
    }
    if (strcmp(how, "fault") == 0)
    {
        *(volatile int *)8 = 1;
    }
    if (strcmp(how, "term") == 0)
    {
        raise(SIGTERM);
    }
    if (strcmp(how, "kill") == 0)
    {
        raise(SIGKILL);
    }
    if (strcmp(how, "cancel") == 0)
    {
        works(undolr_save_on_termination_cancel());
        works(undolr_save_on_termination_cancel());
        return 6;
    }
    if (strcmp(how, "cancel and kill") == 0)
    {
        works(undolr_save_on_termination_cancel());
        raise(SIGKILL);
    }
    if (strcmp(how, "stop") == 0)
    {
        works(undolr_stop(NULL));
        fails(undolr_save_on_termination("late.undo"), EINVAL);
        return 7;
    }
    if (strcmp(how, "stop and kill") == 0)
    {
        undolr_recording_context_t history;
        works(undolr_stop(&history));
        raise(SIGKILL);
    }
    if (strcmp(how, "restart") == 0)
    {
        works(undolr_stop(NULL));
        works(undolr_start(NULL));
        return 8; // what was asked before the stop is cancelled
    }
    if (strcmp(how, "closed") == 0)
    {
        close(2);
        int data = open("data", O_RDWR | O_CREAT, 0600);
        must(data == 2); // our messages must not get into it
        works(undolr_save_on_termination("missing/a.undo"));
        return 9;
    }
    return 99;
}
