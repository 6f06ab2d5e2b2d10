// Instructions whose result no program can compute: they must still make sense.
#include "../program.h"
#include <cpuid.h>
#include <x86intrin.h>

int main(void)
{
    uint64_t before = __rdtsc();
    unsigned processor;
    for (int i = 0; i < 1000; i++)
    {
        uint64_t now = i & 1 ? __rdtsc() : __rdtscp(&processor);
        must(now > before);
        before = now;
    }
    unsigned a, b, c, d;
    must(__get_cpuid(0, &a, &b, &c, &d));
    char vendor[13] = {0};
    memcpy(vendor, &b, 4);
    memcpy(vendor + 4, &d, 4);
    memcpy(vendor + 8, &c, 4);
    printf("%s\n", vendor);
    must(__get_cpuid_count(7, 0, &a, &b, &c, &d));
    printf("%08x %08x\n", b, c & ~0u);
    __get_cpuid(1, &a, &b, &c, &d);
    printf("rdrand %d osxsave %d\n", c >> 30 & 1, c >> 27 & 1);
    if (c >> 30 & 1)
    {
        uint64_t random[4] = {0};
        for (int i = 0; i < 4; i++)
        {
            unsigned char ok;
            asm volatile("1: rdrand %0\n\tsetc %1\n\tjnc 1b" : "=r"(random[i]), "=qm"(ok) : : "cc");
            must(ok);
        }
        printf("differ %d\n", random[0] != random[1] && random[2] != random[3]);
        uint16_t small;
        asm volatile("1: rdrand %0\n\tjnc 1b" : "=r"(small) : : "cc");
    }
    unsigned low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    printf("xcr0 %x %x\n", low, high);
    asm volatile("pause\n\tlfence\n\tmfence\n\tsfence\n\tnop\n\tprefetcht0 (%0)\n\tclflush (%0)" : : "r"(&low) : "memory");
}
