// For programs that call libundolr themselves.
#ifndef API_H
#define API_H
#include "program.h"
#include <undolr.h>

// The call fails with this error.
#define fails(call, error)                                                                                                           \
    do                                                                                                                               \
    {                                                                                                                                \
        errno = 0;                                                                                                                   \
        int result_ = (call);                                                                                                        \
        int error_ = errno;                                                                                                          \
        if (result_ != -1 || error_ != (error))                                                                                      \
        {                                                                                                                            \
            fprintf(stderr, "%s:%d: %s: %d, %s instead of -1, %s\n", __func__, __LINE__, #call, result_, strerror(error_),          \
                    strerror(error));                                                                                                \
            _exit(98);                                                                                                               \
        }                                                                                                                            \
    } while (0)

#define works(call) must((call) == 0)

static inline int exists(const char *name) { return access(name, F_OK) == 0; }

// The result of the save that was asked for, when it is done.
static inline int wait_for_save(undolr_recording_context_t history)
{
    int complete = 0, result = 77;
    while (!complete)
    {
        works(undolr_poll_saving_complete(history, &complete, &result));
        must(complete || result == 77);
    }
    return result;
}
#endif
