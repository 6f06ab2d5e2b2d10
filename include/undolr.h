/*
 * undolr.h - the interface of libundolr, with which a program records itself.
 *
 * A recording holds the execution history of one process, from undolr_start() until undolr_stop() or the process's end. It
 * is written to a file (extension .undo) that the debugger udb opens, on this or another machine. Several processes that
 * share memory may also log their accesses to it in one common file (extension .shmem): udb then tells which process wrote
 * a byte, and when.
 *
 *     undolr_shmem_log_filename_set("log.shmem");       (only for programs that share memory)
 *     undolr_start(NULL);
 *     undolr_save_on_termination("program.undo");
 *     ...
 *
 * Results. Unless noted otherwise a function returns 0 for success, and -1 for failure with errno set. Pointers must not be
 * NULL unless noted: a result that cannot be stored is EFAULT. A file name that is NULL, empty or longer than 4095 bytes is
 * EINVAL; a relative one is made absolute at once. A function that fails has changed nothing.
 *
 * Threads and signals. Calls must not overlap each other, in whatever threads they are made, and must not be made from a
 * signal handler.
 *
 * fork(). A child of a recorded process is not recorded until it calls undolr_start() itself; what was configured before
 * the fork holds for it too, except that undolr_save_on_termination() concerns the process that called it only, and that
 * histories belong to the process that stopped them.
 *
 * Recordings that end early. What cannot be recorded (docs/limits.md) ends a recording, with a line on standard error. The
 * history until then can still be saved by undolr_save() and taken by undolr_stop(); undolr_start() discards it.
 *
 * Privacy. A recording and a log contain what was in the program's memory. Both are created with mode 0600.
 */
#ifndef UNDOLR_H
#define UNDOLR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define UNDOLR_PUBLIC __attribute__((visibility("default")))
#else
#define UNDOLR_PUBLIC
#endif

/* Why recording could not start. The values never change; new ones are added at the end. */
typedef enum
{
    undolr_error_NONE = 0,                  /* No error. */
    undolr_error_NO_ATTACH_YAMA = 1,        /* The Yama security module forbids to attach to the process. */
    undolr_error_CANNOT_ATTACH = 2,         /* The process cannot be attached to for another reason. */
    undolr_error_LIBRARY_SEARCH_FAILED = 3, /* The libraries loaded into the process could not be found out. */
    undolr_error_CANNOT_RECORD = 4,         /* The process, the machine or the kernel lacks what recording needs. */
    undolr_error_NO_THREAD_INFO = 5,        /* The threads of the process could not be found out. */
    undolr_error_PKEYS_IN_USE = 6,          /* The process uses memory protection keys. */
    undolr_error_RSEQ_IN_USE = 7            /* The process uses restartable sequences that cannot be switched off. */
} undolr_error_t;

/*
 * A history that is no longer growing: made by undolr_stop(), valid until undolr_discard() in the process that made it. Up to
 * 64 histories may exist at a time, whether or not a recording runs. Each keeps the memory that the program has changed since
 * its start, and its event log.
 */
typedef struct undolr_recording_context_private_t *undolr_recording_context_t;

/*
 * A sentence for a person, in static storage; "<unknown error>" for a value that is not listed above. Never NULL.
 */
UNDOLR_PUBLIC const char *undolr_error_string(undolr_error_t error);

/*
 * The version of the library, in static storage. Never NULL.
 */
UNDOLR_PUBLIC const char *undolr_get_version_string(void);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Recording                                                                                                          */

/*
 * Starts recording the calling process. When the call returns, execution is being recorded.
 *
 * error: where to store the reason of a failure, or undolr_error_NONE; may be NULL.
 *
 * Errors: EALREADY the process is already being recorded.
 *         EBUSY    it has more than one thread.
 *         ENOMEM   there is not enough memory, or address space, for the recorder.
 *         Or the error of opening the shared memory log, or of another call that the recorder needs.
 */
UNDOLR_PUBLIC int undolr_start(undolr_error_t *error);

/*
 * Stops recording; the program goes on at full speed. Recording may be started again later. Whatever was asked with
 * undolr_save_on_termination() is cancelled.
 *
 * context: where to store a handle to the history, which is kept until undolr_discard(). NULL discards the history at once.
 *
 * Errors: EINVAL the process is not being recorded.
 *         ENOMEM there are 64 histories already; recording goes on.
 */
UNDOLR_PUBLIC int undolr_stop(undolr_recording_context_t *context);

/*
 * Writes the history up to this call to a file, while recording goes on. May be repeated; each file is complete in itself.
 * Returns when the file is in place. An existing file of that name is replaced in one step; after a failure it is untouched.
 *
 * Errors: EINVAL the process is not being recorded.
 *         Or any error of creating and writing the file.
 */
UNDOLR_PUBLIC int undolr_save(const char *filename);

/*
 * Asks for the history to be written to this file however the process ends: by returning from main, by exit() or _exit(), by
 * abort() or another fatal signal. After SIGKILL the file comes into being a moment after the process is gone, and the history
 * in it ends at the last event, a system call for instance. The last name given counts.
 *
 * Errors: EINVAL the process is not being recorded.
 */
UNDOLR_PUBLIC int undolr_save_on_termination(const char *filename);

/*
 * Takes back undolr_save_on_termination().
 *
 * Errors: EINVAL the process is not being recorded.
 */
UNDOLR_PUBLIC int undolr_save_on_termination_cancel(void);

/* ------------------------------------------------------------------------------------------------------------------ */
/* A history after undolr_stop()                                                                                      */

/*
 * Starts to write the history to a file and returns at once. undolr_poll_saving_complete(), undolr_poll_saving_progress() and
 * the descriptor of undolr_get_select_descriptor() tell when it is done. One save at a time.
 *
 * If the process ends before the save does, the file is completed all the same.
 *
 * Errors: EINVAL context is not a valid handle.
 *         EBUSY  a save of this history has not ended.
 *         Errors of writing the file are found in the result of the save.
 */
UNDOLR_PUBLIC int undolr_save_async(undolr_recording_context_t context, const char *filename);

/*
 * Asks, without waiting, whether the save has ended.
 *
 * complete: set to 1 if it has, else to 0.
 * result:   written only if it has: 0 if the file is in place, else -1.
 *
 * Errors: EINVAL context is not a valid handle, or no save was started.
 */
UNDOLR_PUBLIC int undolr_poll_saving_complete(undolr_recording_context_t context, int *complete, int *result);

/*
 * The same, and how far the save has come.
 *
 * progress: set to 0..100 per cent, or to -1 while that is not known.
 */
UNDOLR_PUBLIC int undolr_poll_saving_progress(undolr_recording_context_t context, int *complete, int *progress, int *result);

/*
 * A descriptor for select() or poll(): one byte can be read from it once the save has ended. It belongs to the library;
 * undolr_discard() closes it. Each save of the history, also one that fails, gives one byte. The descriptor is below
 * FD_SETSIZE, close-on-exec, and 1000 or more if the process's limit allows, so that it is not among the lowest free numbers.
 *
 * Errors: EINVAL context is not a valid handle.
 *         EMFILE, ENFILE, ENOMEM, EAGAIN as for pipe() and fork().
 */
UNDOLR_PUBLIC int undolr_get_select_descriptor(undolr_recording_context_t context, int *fd);

/*
 * Frees the history and its handle. A save that has not ended is given up; it leaves no file.
 *
 * Errors: EINVAL context is not a valid handle.
 */
UNDOLR_PUBLIC int undolr_discard(undolr_recording_context_t context);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Configuration, before undolr_start()                                                                               */

/*
 * How much memory the log of events may take, in bytes; 0 for the default.
 *
 * Errors: EINVAL the process is being recorded (only _set), or bytes is negative or too large.
 */
UNDOLR_PUBLIC int undolr_event_log_size_get(long *bytes);
UNDOLR_PUBLIC int undolr_event_log_size_set(long bytes);

/*
 * Whether recordings include the files that hold the program's debug information, so that they can be opened where these
 * files are not. 0 for no; 1, the default, or any other value for yes. It may change while recording, and counts when a file is
 * saved; for a history, when recording stopped.
 */
UNDOLR_PUBLIC int undolr_include_symbol_files(int include);

/* ------------------------------------------------------------------------------------------------------------------ */
/* The log of accesses to shared memory                                                                               */

/*
 * Sets the file in which accesses to shared memory are logged, by this and by any number of other processes at once. The file
 * is created if there is none; an existing log is continued, never emptied. Memory may be shared before or after this call.
 *
 * filename: a name that ends in ".shmem"; it is copied. NULL, the default, switches logging off.
 *
 * Errors: EINVAL the process is being recorded, or the name does not end in ".shmem".
 */
UNDOLR_PUBLIC int undolr_shmem_log_filename_set(const char *filename);

/*
 * Stores the name set last, or NULL if logging is off. The string belongs to the library and is valid until the next
 * undolr_shmem_log_filename_set().
 */
UNDOLR_PUBLIC int undolr_shmem_log_filename_get(const char **o_filename);

/*
 * Sets the largest size of the log in bytes, rounded up to whole pages; 0, the default, leaves the choice to the library.
 * When the log is full, new accesses overwrite the oldest. The process that creates the file decides.
 *
 * Errors: EINVAL the process is being recorded.
 */
UNDOLR_PUBLIC int undolr_shmem_log_size_set(unsigned long max_size);

/*
 * Stores the size set last, rounded up as described, or 0 for the default.
 */
UNDOLR_PUBLIC int undolr_shmem_log_size_get(unsigned long *o_max_size);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Deprecated: names of an earlier interface                                                                          */

/*
 * As undolr_start(), but succeeds if the process is already being recorded.
 */
UNDOLR_PUBLIC int undolr_recording_start(undolr_error_t *error);

/*
 * As undolr_stop(NULL).
 */
UNDOLR_PUBLIC int undolr_recording_stop(void);

/*
 * Stops recording, then writes the history to a file. Recording has stopped also if writing fails (but not for EINVAL).
 */
UNDOLR_PUBLIC int undolr_recording_stop_and_save(const char *filename);

#ifdef __cplusplus
}
#endif

#endif /* UNDOLR_H */
