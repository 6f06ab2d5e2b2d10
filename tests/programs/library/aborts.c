// abort after output to both streams.
//@ ends: signal 6
#include "../program.h"

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("about to abort\n");
    abort();
}
