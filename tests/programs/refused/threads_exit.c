// Another thread ends the program: what was registered for that runs.
//@ with: -pthread
//@ stops: a second thread
//@ ends: exit 9
#include "../program.h"
#include <pthread.h>

static void bye(void) { printf("bye\n"); }

static void *leave(void *argument) { exit((int)(long)argument); }

int main(void)
{
    atexit(bye);
    pthread_t thread;
    must(pthread_create(&thread, NULL, leave, (void *)9L) == 0);
    pthread_join(thread, NULL);
    return 1;
}
