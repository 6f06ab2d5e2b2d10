// A recording that ends by itself, here by a second thread, can still be saved and stopped.
#include "../api.h"
#include <pthread.h>

static void *nothing(void *argument) { return argument; }

static void run_a_thread(void)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, nothing, NULL) == 0);
    must(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    undolr_recording_context_t history = NULL;
    works(undolr_start(NULL));
    run_a_thread();
    works(undolr_save("saved.undo"));
    works(undolr_stop(&history));
    fails(undolr_stop(NULL), EINVAL);
    works(undolr_save_async(history, "kept.undo"));
    must(wait_for_save(history) == 0);
    works(undolr_discard(history));

    works(undolr_start(NULL));
    run_a_thread();
    works(undolr_start(NULL)); // the other history is discarded
    works(undolr_save_on_termination("last.undo"));
    fails(waitpid(-1, NULL, WNOHANG), ECHILD);
}
