// A block operation that runs into a guard page and ends the program: what it has written until then is there to be seen.
//@ cc: -O1
//@ ends: signal 11
#include "../program.h"

int main(void)
{
    char *memory = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED && mprotect(memory + 9 * 4096, 4096, PROT_NONE) == 0);
    char *to = memory + 50;
    uintptr_t count = 16 * 4096;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(7) : "memory");
}
