/* Recorded without its child: that changes a number, and dies with a robust mutex locked, which the kernel then marks. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
    volatile int number;
    _Alignas(64) pthread_mutex_t mutex;
};

int main(void)
{
    struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->mutex, &attributes);
    shared->number = 1;
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_lock(&shared->mutex);
        shared->number = 7;
        _exit(0);
    }
    int before = shared->number != 0;
    if (waitpid(child, NULL, 0) != child)
        return 2;
    int seen = shared->number;
    int locked = pthread_mutex_lock(&shared->mutex);
    printf("%d %d %d\n", before, seen, locked == EOWNERDEAD);
    return 0;
}
