// What sigaltstack accepts and shows, in and out of handlers; a blocked signal of a kind that faults is pending like any other.
#include "../program.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

static char room[65536];

static void show(const char *where)
{
    stack_t now;
    must(sigaltstack(NULL, &now) == 0);
    printf("%s: flags %#x, size %zu, %s\n", where, now.ss_flags, now.ss_size, now.ss_sp == room ? "room" : now.ss_sp == NULL ? "none" : "other");
}

static void set(const char *what, int flags, size_t size)
{
    stack_t stack = {.ss_sp = room, .ss_flags = flags, .ss_size = size};
    int result = sigaltstack(&stack, NULL);
    printf("%s: %s\n", what, result == 0 ? "done" : strerror(errno));
}

static void handler(int signal)
{
    char here;
    printf("signal %d on the stack %d\n", signal, &here >= room && &here < room + sizeof room);
    show("in the handler");
    set("change", 0, sizeof room / 2);
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    must(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGFPE, &action, NULL) == 0);
    show("at first");
    set("too small", 0, 1024);
    set("wrong flags", 77, sizeof room);
    set("disabled, with a size", SS_DISABLE, sizeof room);
    show("disabled");
    raise(SIGUSR1);
    set("enabled", SS_ONSTACK, sizeof room);
    show("enabled");
    raise(SIGUSR1);
    show("after the handler");
    set("disarmed by handlers", SS_AUTODISARM, sizeof room);
    raise(SIGUSR1);
    show("at the end");
    sigset_t mask, pending;
    sigemptyset(&mask);
    sigaddset(&mask, SIGFPE);
    sigaddset(&mask, SIGUSR2);
    must(sigprocmask(SIG_BLOCK, &mask, NULL) == 0);
    raise(SIGFPE);
    must(sigpending(&pending) == 0);
    printf("pending: %d %d\n", sigismember(&pending, SIGFPE), sigismember(&pending, SIGUSR2));
    must(sigprocmask(SIG_UNBLOCK, &mask, NULL) == 0);
    return 0;
}
