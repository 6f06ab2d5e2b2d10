// Bit tests in registers and memory, scans, counts, byte swaps, conditional moves and sets.
//@ cc: -O0
//@ cc: -O2
//@ cc: -O3 -march=native
#include "../program.h"

static uint64_t scan(uint64_t hash, uint64_t a)
{
    uint64_t forward = 99, reverse = 99;
    unsigned char zero;
    asm volatile("bsfq %2, %0\n\tsetz %1" : "+r"(forward), "=r"(zero) : "r"(a) : "cc");
    if (!zero)
    {
        asm volatile("bsrq %1, %0" : "+r"(reverse) : "r"(a) : "cc");
    }
    return mix64(mix64(mix64(hash, zero ? 0 : forward), reverse), zero);
}

static uint64_t bit_strings(uint64_t hash, uint64_t index)
{
    static uint32_t field[64];
    unsigned char was[4];
    long at = (long)(index % 2048);
    asm volatile("btsq %2, %1\n\tsetc %0" : "=r"(was[0]), "+m"(field) : "r"(at) : "cc", "memory");
    at = (long)(index / 2048 % 2048);
    asm volatile("btcq %2, %1\n\tsetc %0" : "=r"(was[1]), "+m"(field) : "r"(at) : "cc", "memory");
    at = (long)(index / 7 % 2048);
    asm volatile("btrq %2, %1\n\tsetc %0" : "=r"(was[2]), "+m"(field) : "r"(at) : "cc", "memory");
    asm volatile("btl %2, %1\n\tsetc %0" : "=r"(was[3]) : "m"(field[32]), "r"((int)(at % 64) - 32) : "cc", "memory");
    return mix(mix(hash, was, 4), field, sizeof field);
}

static uint64_t conditional(uint64_t hash, int64_t a, int64_t b)
{
    uint64_t r = 0;
#define COND(c)                                                                                                                      \
    asm volatile("cmpq %2, %1\n\tset" c " %b0\n\tcmov" c " %1, %0" : "+q"(r) : "r"(a), "r"(b) : "cc");                                 \
    hash = mix64(hash, r);
    COND("o") COND("no") COND("b") COND("ae") COND("e") COND("ne") COND("be") COND("a")
    COND("s") COND("ns") COND("p") COND("np") COND("l") COND("ge") COND("le") COND("g")
    return hash;
}

int main(void)
{
    uint64_t hash = 1, state = 99;
    hash = scan(hash, 0);
    for (int round = 0; round < 3000; round++)
    {
        uint64_t a = next_random(&state), b = next_random(&state) >> (round & 63);
        hash = conditional(bit_strings(scan(hash, b), a), (int64_t)a, (int64_t)b);
        hash = mix64(hash, __builtin_bswap64(a) + __builtin_popcountll(b) + __builtin_ctzll(b | 1ull << 63) + __builtin_clzll(a | 1));
        hash = mix64(hash, __builtin_bswap32(a) ^ __builtin_parityll(b));
    }
    printf("%016llx\n", (unsigned long long)hash);
}
