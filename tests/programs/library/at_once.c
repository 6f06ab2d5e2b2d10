// _exit: no handlers, nothing flushed.
//@ ends: exit 7
#include "../program.h"

static void never(void) { write(1, "never\n", 6); }

int main(void)
{
    atexit(never);
    printf("lost in the buffer");
    must(write(1, "seen\n", 5) == 5);
    _exit(7);
}
