// A failed assertion and its message.
//@ ends: signal 6
#undef NDEBUG
#include "../program.h"
#include <assert.h>

int main(int argc, char **argv)
{
    printf("flushed? no\n");
    assert(argc > 1 && "needs an argument");
    return argv[1][0];
}
