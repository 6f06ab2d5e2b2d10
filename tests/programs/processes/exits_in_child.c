// Parent and child both run exit handlers and flush.
//@ ends: exit 2
#include "../program.h"

static int is_child;
static void at_end(void) { printf("end of %s\n", is_child ? "child" : "parent"); }

int main(void)
{
    int ends[2];
    char byte;
    must(pipe(ends) == 0);
    atexit(at_end);
    if (flushed_fork() == 0)
    {
        is_child = 1;
        close(ends[1]);
        must(read(ends[0], &byte, 1) == 1);
        exit(1);
    }
    must(write(ends[1], "x", 1) == 1);
    wait(NULL);
    return 2;
}
