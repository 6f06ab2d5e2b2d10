// Start and stop, the deprecated names too, and what is refused while a recording runs or none does.
#include "../api.h"
#include <pthread.h>

static void *wait_there(void *barrier)
{
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

static void nothing_runs(void)
{
    fails(undolr_stop(NULL), EINVAL);
    undolr_recording_context_t history;
    fails(undolr_stop(&history), EINVAL);
    fails(undolr_save("never.undo"), EINVAL);
    fails(undolr_save_on_termination("never.undo"), EINVAL);
    fails(undolr_save_on_termination_cancel(), EINVAL);
    fails(undolr_recording_stop(), EINVAL);
    fails(undolr_recording_stop_and_save("never.undo"), EINVAL);
}

int main(void)
{
    nothing_runs();
    undolr_error_t error = undolr_error_RSEQ_IN_USE;
    works(undolr_start(&error));
    must(error == undolr_error_NONE);
    fails(undolr_start(&error), EALREADY);
    must(error == undolr_error_CANNOT_RECORD);
    fails(undolr_start(NULL), EALREADY);
    works(undolr_recording_start(&error));
    must(error == undolr_error_NONE);
    works(undolr_recording_start(NULL));
    works(undolr_recording_stop());
    nothing_runs();

    works(undolr_recording_start(NULL));
    fails(undolr_recording_stop_and_save(NULL), EINVAL);
    works(undolr_recording_stop_and_save("deprecated.undo"));
    must(exists("deprecated.undo"));
    nothing_runs();

    works(undolr_recording_start(NULL));
    fails(undolr_recording_stop_and_save("missing/a.undo"), ENOENT);
    nothing_runs(); // stopped all the same

    // Where the handle cannot be stored the recording goes on.
    works(undolr_start(NULL));
    fails(undolr_stop((undolr_recording_context_t *)8), EFAULT);
    works(undolr_save("goes_on.undo"));
    works(undolr_stop(NULL));

    pthread_barrier_t barrier;
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    must(pthread_create(&thread, NULL, wait_there, &barrier) == 0);
    pthread_barrier_wait(&barrier);
    fails(undolr_start(&error), EBUSY);
    must(error == undolr_error_CANNOT_RECORD);
    pthread_barrier_wait(&barrier);
    must(pthread_join(thread, NULL) == 0);
    nothing_runs();
    works(undolr_start(&error));
    works(undolr_save("after_threads.undo"));
    works(undolr_stop(NULL));
    must(!exists("never.undo"));
}
