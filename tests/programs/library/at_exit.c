// Handlers run at exit in reverse order, destructors last; one of them changes what is printed; the status is cut to a byte.
//@ ends: exit 44
#include "../program.h"

static void first(void) { printf("registered first\n"); }
static void second(void)
{
    printf("registered second\n");
    atexit(first);
}
static void with_status(int status, void *text) { printf("%s %d\n", (char *)text, status); }
static __attribute__((constructor)) void before(void) { printf("before main\n"); }
static __attribute__((destructor)) void after(void) { printf("after main\n"); }

int main(void)
{
    atexit(first);
    on_exit(with_status, "status");
    atexit(second);
    printf("main\n");
    exit(0x12c);
}
