// A library for `loading`: its constructor, a function, a thread-local variable.
#include <stdio.h>

static int loads;
static __thread int calls;

static __attribute__((constructor)) void came(void) { loads++; }
static __attribute__((destructor)) void goes(void) { printf("plugin goes\n"); }

int plugin_work(int value)
{
    calls++;
    return value * 3 + loads + calls * 1000;
}
