// Robust mutexes whose owner dies holding them: the kernel says so in shared memory, to whoever locks next or waits already.
//@ unlogged: the kernel marks the mutexes of a dead process, and that is no access of anybody's
//@ with: -pthread
#include "../program.h"
#include <pthread.h>

enum
{
    MUTEXES = 6
};

struct state
{
    pthread_mutex_t mutex[MUTEXES];
    volatile int held; // set by the owner when it has them
};

static struct state *share(void)
{
    struct state *state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(state != MAP_FAILED);
    for (int i = 0; i < MUTEXES; i++)
    {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        pthread_mutexattr_setprotocol(&attributes, i == 5 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
        pthread_mutexattr_settype(&attributes, i == 4 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
        pthread_mutex_init(&state->mutex[i], &attributes);
    }
    return state;
}

static void say(const char *what, int result)
{
    printf("%s: %s\n", what, result == EOWNERDEAD ? "the owner is dead" : result == 0 ? "free" : strerror(result));
}

static void take_all(const char *what, struct state *state)
{
    for (int i = 0; i < MUTEXES; i++)
    {
        int result = pthread_mutex_lock(&state->mutex[i]);
        say(what, result);
        if (result == EOWNERDEAD)
        {
            must(pthread_mutex_consistent(&state->mutex[i]) == 0);
        }
    }
    for (int i = 0; i < MUTEXES; i++)
    {
        must(pthread_mutex_unlock(&state->mutex[i]) == 0);
    }
}

// Holds all but the second and, of another mapping, the first; the mapping of a third one goes away while that is held.
static void hold(struct state *state, struct state *other, struct state *gone)
{
    pthread_mutex_lock(&gone->mutex[2]);
    for (int i = 0; i < MUTEXES; i++)
    {
        pthread_mutex_lock(&state->mutex[i]);
    }
    pthread_mutex_lock(&other->mutex[0]);
    pthread_mutex_trylock(&other->mutex[1]);
    pthread_mutex_lock(&state->mutex[4]);
    pthread_mutex_unlock(&state->mutex[1]);
    pthread_mutex_unlock(&other->mutex[1]);
    pthread_mutex_unlock(&gone->mutex[2]);
    munmap(gone, sizeof *gone);
}

int main(void)
{
    alarm(20); // rather than wait for ever
    struct state *state = share(), *other = share(), *gone = share();
    const char *ways[] = {"exit", "killed by itself", "killed", "stopped by a fault"};
    for (int way = 0; way < 4; way++)
    {
        state->held = 0;
        pid_t owner = flushed_fork();
        if (owner == 0)
        {
            hold(state, other, gone);
            state->held = 1;
            switch (way)
            {
            case 0: _exit(0);
            case 1: raise(SIGKILL);
            case 2: pause();
            default: __builtin_trap();
            }
        }
        while (way == 2 && !state->held)
        {
            usleep(100);
        }
        // Somebody who waits already when the owner dies, if it can be arranged.
        pid_t waiter = 0;
        if (way == 2)
        {
            waiter = flushed_fork();
            if (waiter == 0)
            {
                int result = pthread_mutex_lock(&state->mutex[0]);
                say("a waiter", result);
                fflush(stdout);
                pthread_mutex_consistent(&state->mutex[0]);
                pthread_mutex_unlock(&state->mutex[0]);
                _exit(0);
            }
            usleep(20000);
            kill(owner, SIGKILL);
        }
        wait_for(ways[way], owner);
        if (waiter != 0)
        {
            wait_for("the waiter", waiter);
        }
        take_all(ways[way], state);
        take_all("other", other);
    }
}
