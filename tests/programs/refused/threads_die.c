// Another thread dies of a fault, and all with it.
//@ with: -pthread
//@ stops: a second thread
//@ ends: signal 11
#include "../program.h"
#include <pthread.h>

static void *die(void *argument) { return (void *)(long)*(volatile int *)argument; }

int main(void)
{
    printf("before\n");
    fflush(stdout);
    pthread_t thread;
    must(pthread_create(&thread, NULL, die, (void *)16L) == 0);
    pthread_join(thread, NULL);
}
