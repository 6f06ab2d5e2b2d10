// Locked instructions on private memory, aligned and across a cache line.
//@ cc: -O0 -mcx16
//@ cc: -O2 -mcx16
#include "../program.h"

static _Alignas(64) unsigned char room[256];

static uint64_t on(uint64_t hash, void *at, uint64_t value)
{
    uint64_t *p = at, old = value, flags;
    asm volatile("lock xaddq %1, %0" : "+m"(*p), "+r"(old) : : "cc");
    hash = mix64(hash, old);
    asm volatile("xchgq %1, %0" : "+m"(*p), "+r"(old));
    hash = mix64(hash, old);
    uint64_t expected = value & 1 ? *p : value;
    asm volatile("lock cmpxchgq %3, %1\n\tpushfq\n\tpopq %2" : "+a"(expected), "+m"(*p), "=r"(flags) : "r"(value * 3) : "cc");
    hash = mix64(mix64(hash, expected), flags & 0x40);
    unsigned char carry, zero;
    asm volatile("lock btsq $5, %0\n\tsetc %1" : "+m"(*p), "=r"(carry) : : "cc");
    asm volatile("lock subl $77, %0\n\tsetz %1" : "+m"(*(uint32_t *)p), "=r"(zero) : : "cc");
    asm volatile("lock notb %0\n\tlock negw %0\n\tlock incl %0\n\tlock orb $3, %0\n\tlock andq $-2, %0\n\tlock xorl $0x55, %0" : "+m"(*p) : : "cc");
    asm volatile("lock btcl %1, %0\n\tlock adcl $1, %0\n\tlock sbbq $2, %0" : "+m"(*p) : "r"(3) : "cc");
    return mix64(mix64(hash, carry + 2u * zero), *p);
}

int main(void)
{
    uint64_t hash = 1, state = 11;
    for (int i = 0; i < 500; i++)
    {
        hash = on(hash, room + (i % 5 == 4 ? 60 : i % 40 * 4), next_random(&state));
    }
    printf("%016llx\n", (unsigned long long)hash);
    _Alignas(16) unsigned __int128 wide = 5;
    for (uint64_t i = 0; i < 10; i++)
    {
        uint64_t low = i < 5 ? (uint64_t)wide : 1, high = (uint64_t)(wide >> 64);
        unsigned char equal;
        asm volatile("lock cmpxchg16b %0\n\tsetz %3" : "+m"(wide), "+a"(low), "+d"(high), "=r"(equal) : "b"(i * 100), "c"(i * 1000) : "cc");
        printf("%d %llu %llu\n", equal, (unsigned long long)low, (unsigned long long)high);
    }
    uint64_t eight = 7;
    uint32_t expected = 7;
    asm volatile("lock cmpxchg8b %0" : "+m"(eight), "+a"(expected) : "b"(9), "c"(1), "d"(0) : "cc");
    printf("%llx\n", (unsigned long long)eight);
}
