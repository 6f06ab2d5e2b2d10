// Death by SIGSEGV, after some output.
//@ ends: signal 11
#include "../program.h"

int main(void)
{
    must(write(1, "going\n", 6) == 6);
    int *volatile nowhere = (int *)8;
    *nowhere = 1;
}
