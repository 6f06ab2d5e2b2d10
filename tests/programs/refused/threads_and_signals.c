// Handlers, masks and the alternative stack that were set while it was recorded hold for the program and its threads afterwards.
//@ with: -pthread
//@ stops: a second thread
#include "../program.h"
#include <pthread.h>
#include <setjmp.h>

static sigjmp_buf back;
static char stack[65536];
static volatile int counted, on_stack;
static volatile int *volatile nowhere = (int *)8;

static void count(int signal) { counted += signal == SIGUSR1; }

static void faulted(int signal)
{
    (void)signal;
    char here;
    on_stack += &here >= stack && &here < stack + sizeof stack;
    siglongjmp(back, 1);
}

static void *wait_for_signal(void *set)
{
    int signal;
    must(sigwait(set, &signal) == 0);
    return (void *)(long)signal;
}

static void fault(void)
{
    if (sigsetjmp(back, 1) == 0)
    {
        *nowhere = 1;
    }
}

int main(void)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    must(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
    must(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) == 0);
    must(sigaction(SIGSEGV, &(struct sigaction){.sa_handler = faulted, .sa_flags = SA_ONSTACK}, NULL) == 0);
    signal(SIGUSR1, count);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR2);
    fault();
    pthread_t thread;
    must(pthread_create(&thread, NULL, wait_for_signal, &blocked) == 0);
    void *signal;
    pthread_join(thread, &signal);
    fault();
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    printf("%ld %d %d\n", (long)signal, counted, on_stack);
}
