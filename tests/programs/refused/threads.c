// A second thread ends the recording; the program does not notice.
//@ with: -pthread
//@ stops: a second thread
#include "../program.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long sum;

static void *work(void *argument)
{
    for (int i = 0; i < 10000; i++)
    {
        pthread_mutex_lock(&mutex);
        sum += (long)argument;
        pthread_mutex_unlock(&mutex);
    }
    return argument;
}

int main(void)
{
    pthread_t threads[4];
    long results = 0;
    printf("before\n");
    for (long i = 0; i < 4; i++)
    {
        must(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    }
    for (int i = 0; i < 4; i++)
    {
        void *result;
        pthread_join(threads[i], &result);
        results += (long)result;
    }
    printf("%ld %ld\n", sum, results);
}
