// clone without shared memory: on a stack of its own, with a parent that waits or not, with what it tells of the child.
#define _GNU_SOURCE
#include "../program.h"
#include <sched.h>

static char stack[64 << 10] __attribute__((aligned(16)));
static int seen;

static int run(void *argument)
{
    seen = 5;
    _exit(*(int *)argument + seen);
}

int main(void)
{
    int flags[] = {0, CLONE_VFORK, CLONE_PARENT_SETTID, CLONE_PIDFD, CLONE_VFORK | CLONE_PIDFD, CLONE_VFORK | CLONE_PARENT_SETTID,
        CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, CLONE_VM | CLONE_VFORK | CLONE_PIDFD};
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
    {
        int told = -7, child_told = -7, argument = i;
        seen = 0;
        pid_t child = clone(run, stack + sizeof stack, flags[i] | SIGCHLD, &argument, &told, NULL, &child_told);
        must(child > 0);
        int status;
        must(waitpid(child, &status, 0) == child);
        const char *what = told == child ? "process" : told >= 0 && fcntl(told, F_GETFD) >= 0 ? "descriptor" : "nothing";
        printf("%d: exit %d, told %s %d, seen %d\n", i, WEXITSTATUS(status), what, child_told, seen);
    }
}
