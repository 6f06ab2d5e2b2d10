// Death by SIGFPE.
//@ ends: signal 8
#include "../program.h"

int main(int argc, char **argv)
{
    volatile int zero = argc - 1;
    must(write(1, "going\n", 6) == 6);
    return argv[0][0] / zero;
}
