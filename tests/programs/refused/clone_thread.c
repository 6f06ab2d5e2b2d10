// A thread made by the system call itself, without the C library's knowledge; it ends by clearing its number.
//@ stops: a second thread
#include "../program.h"
#include <linux/futex.h>
#include <sched.h>

static volatile int seen;
static int number;

static int work(void *argument)
{
    seen = *(int *)argument;
    syscall(SYS_exit, 0);
    return 0;
}

int main(void)
{
    int flags = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_FS | CLONE_FILES | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID;
    char *stack = malloc(65536);
    int value = 42, left;
    must(clone(work, stack + 65536, flags, &value, &number, NULL, &number) > 0);
    while ((left = *(volatile int *)&number) != 0)
    {
        syscall(SYS_futex, &number, FUTEX_WAIT, left, NULL, NULL, 0);
    }
    printf("%d\n", seen);
}
