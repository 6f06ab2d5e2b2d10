// Process-shared mutexes, conditions, semaphores, barriers and a spinlock of the C library, between three processes.
//@ with: -pthread
#include "../program.h"
#include <pthread.h>
#include <semaphore.h>

struct shared
{
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    pthread_spinlock_t spin;
    pthread_rwlock_t rwlock;
    sem_t semaphore;
    int turn, counter, spun, written;
};
enum { processes = 3, rounds = 60 };

static void work(struct shared *s, int me)
{
    for (int i = 0; i < rounds; i++)
    {
        pthread_mutex_lock(&s->mutex);
        while (s->turn % processes != me)
        {
            pthread_cond_wait(&s->condition, &s->mutex);
        }
        s->turn++;
        s->counter += me + 1;
        pthread_cond_broadcast(&s->condition);
        pthread_mutex_unlock(&s->mutex);
        sem_wait(&s->semaphore);
        int before = s->counter;
        sem_post(&s->semaphore);
        pthread_spin_lock(&s->spin);
        s->spun += before > 0;
        pthread_spin_unlock(&s->spin);
        pthread_rwlock_wrlock(&s->rwlock);
        s->written++;
        pthread_rwlock_unlock(&s->rwlock);
        pthread_rwlock_rdlock(&s->rwlock);
        must(s->written > i);
        pthread_rwlock_unlock(&s->rwlock);
    }
}

int main(void)
{
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_rwlockattr_t rwlock;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_rwlockattr_init(&rwlock);
    pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->mutex, &mutex);
    pthread_cond_init(&s->condition, &condition);
    pthread_rwlock_init(&s->rwlock, &rwlock);
    pthread_spin_init(&s->spin, PTHREAD_PROCESS_SHARED);
    sem_init(&s->semaphore, 1, 2);
    for (int me = 1; me < processes; me++)
    {
        if (flushed_fork() == 0)
        {
            work(s, me);
            _exit(0);
        }
    }
    work(s, 0);
    for (int me = 1; me < processes; me++)
    {
        int status;
        must(wait(&status) > 0);
        print_status("child", status);
    }
    printf("%d %d %d %d\n", s->turn, s->counter, s->spun, s->written);
}
