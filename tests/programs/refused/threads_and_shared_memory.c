// After the recording has ended, shared memory, handlers and masks are the program's own again.
//@ with: -pthread
//@ stops: a second thread
#include "../program.h"
#include <pthread.h>

static volatile sig_atomic_t came;
static void note(int signal) { came += signal; }
static void *work(void *shared)
{
    ((volatile int *)shared)[1] += 10;
    return NULL;
}

int main(void)
{
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[0] = 1;
    shared[1] = 2;
    signal(SIGUSR1, note);
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, NULL);
    pthread_t thread;
    must(pthread_create(&thread, NULL, work, (void *)shared) == 0);
    pthread_join(thread, NULL);
    raise(SIGUSR1);
    raise(SIGUSR2);
    sigset_t pending;
    sigpending(&pending);
    shared[2] = 7;
    pid_t child = flushed_fork();
    if (child == 0)
    {
        shared[3] = 9;
        _exit(0);
    }
    wait_for("child", child);
    printf("%d %d %d %d came %d pending %d\n", shared[0], shared[1], shared[2], shared[3], came, sigismember(&pending, SIGUSR2));
}
