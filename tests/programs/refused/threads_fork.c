// A second thread in a child of the recorded process, which is no concern of the recording; then in itself, and that forks.
//@ with: -pthread
//@ stops: a second thread
#include "../program.h"
#include <pthread.h>

static void *in_child(void *argument)
{
    pid_t child = fork();
    must(child >= 0);
    if (child == 0)
    {
        _exit((int)(long)argument);
    }
    int status;
    must(waitpid(child, &status, 0) == child);
    return (void *)(long)WEXITSTATUS(status);
}

static long in_thread(long number)
{
    pthread_t thread;
    void *result;
    must(pthread_create(&thread, NULL, in_child, (void *)number) == 0);
    pthread_join(thread, &result);
    return (long)result;
}

int main(void)
{
    pid_t child = flushed_fork();
    if (child == 0)
    {
        _exit((int)in_thread(7));
    }
    wait_for("child", child);
    printf("%ld\n", in_thread(8));
}
