// A system call that no kernel has.
//@ stops: 5000
#include "../program.h"

int main(void)
{
    long result = syscall(5000, 1, 2, 3);
    printf("%ld %s\n", result, strerror(errno));
}
