// Asynchronous input and output cannot be recorded; the program gets its ring.
//@ stops: io_uring_setup
#include "../program.h"

int main(void)
{
    unsigned char parameters[120] = {0};
    long fd = syscall(SYS_io_uring_setup, 4, parameters);
    printf("%d\n", fd >= 0 || errno == ENOSYS || errno == EPERM);
}
