// A file in memory mapped twice, to write code through one mapping and execute it through the other.
//@ stops: code in shared memory that is written through another mapping
#include "../program.h"

int main(void)
{
    int file = memfd_create("code", 0);
    must(file >= 0 && ftruncate(file, 4096) == 0);
    unsigned char *writable = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    must(writable != MAP_FAILED && code != MAP_FAILED);
    for (int i = 0; i < 300; i++)
    {
        // mov eax, i; ret
        memcpy(writable, (unsigned char[]){0xb8, i, i >> 8, 0, 0, 0xc3}, 6);
        must(((int (*)(void))code)() == i);
    }
    puts("done");
}
