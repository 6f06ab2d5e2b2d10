// The C library's own check stops an overflow.
//@ cc: -O2 -D_FORTIFY_SOURCE=2 -Wno-error
//@ ends: signal 6
#include "../program.h"

int main(int argc, char **argv)
{
    char small[4];
    volatile size_t n = (size_t)argc + 15;
    memcpy(small, "0123456789abcdef", n);
    printf("%.4s %s\n", small, argv[0]);
}
