// A robust mutex whose owner dies holding it: the kernel says so in shared memory.
//@ fails with family: the kernel cannot reach the mutex of a recorded owner when that dies
//@ with: -pthread
#include "../program.h"
#include <pthread.h>

int main(void)
{
    alarm(20); // rather than wait for ever
    pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    for (int round = 0; round < 2; round++)
    {
        pid_t child = flushed_fork();
        if (child == 0)
        {
            pthread_mutex_lock(mutex);
            if (round == 1)
            {
                raise(SIGKILL);
            }
            _exit(0);
        }
        wait_for("owner", child);
        int result = pthread_mutex_lock(mutex);
        printf("%s\n", result == EOWNERDEAD ? "the owner is dead" : strerror(result));
        int consistent = pthread_mutex_consistent(mutex);
        printf("%d %d\n", consistent, pthread_mutex_unlock(mutex));
    }
}
