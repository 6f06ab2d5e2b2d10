// Copies out of shared memory in pieces, all of them within one straight line of code: what another mapping of the object wrote there
// before, and what this one and the other write between two pieces.
//@ cc: -O2
#include "../program.h"

enum { rounds = 2000, line = 64, lines = 50 };

struct pieces
{
    unsigned char bytes[line];
};

/// Reads a whole line, and nothing else.
static struct pieces copy(const unsigned char *from)
{
    struct pieces own;
    asm volatile("movups (%1), %%xmm0\n\tmovups 16(%1), %%xmm1\n\tmovups 32(%1), %%xmm2\n\tmovups 48(%1), %%xmm3\n\t"
                 "movups %%xmm0, %0\n\tmovups %%xmm1, 16+%0\n\tmovups %%xmm2, 32+%0\n\tmovups %%xmm3, 48+%0"
                 : "=m"(own)
                 : "r"(from)
                 : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
    return own;
}

/// Reads the first piece, writes the second one here and then by the other mapping, and reads it.
static struct pieces copy_and_write(unsigned char *here, unsigned char *there, const unsigned char *what)
{
    struct pieces own = {{0}};
    asm volatile("movups (%1), %%xmm0\n\tmovups (%3), %%xmm1\n\tmovups 16(%3), %%xmm2\n\t"
                 "movups %%xmm1, 16(%1)\n\tmovups %%xmm2, 16(%2)\n\tmovups 16(%1), %%xmm3\n\t"
                 "movups %%xmm0, %0\n\tmovups %%xmm3, 16+%0"
                 : "+m"(own)
                 : "r"(here), "r"(there), "r"(what)
                 : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
    return own;
}

/// The same with writes that are no plain stores: of the second piece by locked instructions, of the third by string instructions.
static struct pieces copy_and_change(unsigned char *here, unsigned char *there)
{
    struct pieces own = {{0}};
    unsigned char *to = here + 32;
    asm volatile("movups (%2), %%xmm0\n\tlock addq $3, 16(%2)\n\tlock addq $5, 16(%3)\n\tmovups 16(%2), %%xmm1\n\t"
                 "mov $7, %%eax\n\tmov $2, %%ecx\n\trep stosq\n\t"
                 "lea 32(%3), %1\n\tmov $9, %%eax\n\tmov $2, %%ecx\n\trep stosq\n\tmovups 32(%2), %%xmm2\n\t"
                 "movups %%xmm0, %0\n\tmovups %%xmm1, 16+%0\n\tmovups %%xmm2, 32+%0"
                 : "+m"(own), "+D"(to)
                 : "r"(here), "r"(there)
                 : "memory", "cc", "rax", "rcx", "xmm0", "xmm1", "xmm2");
    return own;
}

int main(void)
{
    int file = memfd_create("pieces", 0);
    if (file < 0 || ftruncate(file, 4096) != 0)
    {
        return 1;
    }
    unsigned char *here = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unsigned char *there = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    uint64_t state = 7, hash = 1;
    for (int i = 0; i < rounds; i++)
    {
        size_t at = (size_t)(i % lines) * line;
        struct pieces what, own;
        for (size_t k = 0; k < line; k++)
        {
            what.bytes[k] = (unsigned char)next_random(&state);
        }
        memcpy(there + at, &what, line);
        own = copy(here + at);
        hash = mix(hash, own.bytes, line);
        memcpy(there + at, what.bytes + 16, 16);
        memcpy(there + at + 48, what.bytes, 16);
        own = copy(here + at);
        hash = mix(hash, own.bytes, line);
        memcpy(there + at, what.bytes + 32, 16);
        own = copy_and_write(here + at, there + at, what.bytes);
        hash = mix(hash, own.bytes, line);
        memcpy(there + at, what.bytes + 48, 16);
        own = copy_and_change(here + at, there + at);
        hash = mix(hash, own.bytes, line);
    }
    printf("%llx\n", (unsigned long long)hash);
    return 0;
}
