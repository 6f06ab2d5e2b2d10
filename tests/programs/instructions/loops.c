// loop, loope, loopne, jrcxz and jecxz: counts in rcx and ecx, flags untouched.
//@ with: -mno-red-zone
#include "../program.h"

int main(void)
{
    uint64_t count = 1000, sum = 0;
    asm volatile("1: addq %0, %1\n\tloop 1b" : "+c"(count), "+r"(sum) : : "cc");
    printf("loop %llu %llu\n", (unsigned long long)count, (unsigned long long)sum);

    static const char text[] = "aaaaabaaaa";
    const char *at = text;
    count = 10;
    asm volatile("1: cmpb $'a', (%1)\n\tleaq 1(%1), %1\n\tloope 1b" : "+c"(count), "+r"(at) : : "cc", "memory");
    printf("loope %llu %d\n", (unsigned long long)count, (int)(at - text));
    at = text;
    count = 10;
    asm volatile("1: cmpb $'b', (%1)\n\tleaq 1(%1), %1\n\tloopne 1b" : "+c"(count), "+r"(at) : : "cc", "memory");
    printf("loopne %llu %d\n", (unsigned long long)count, (int)(at - text));

    sum = 0;
    count = 0x100000003; // ecx counts 3
    asm volatile("1: incq %1\n\t.byte 0x67\n\tloop 1b" : "+c"(count), "+r"(sum) : : "cc");
    printf("loop with ecx %llu %llu\n", (unsigned long long)count, (unsigned long long)sum);

    for (uint64_t rcx = 0; rcx < 3; rcx++)
    {
        int taken = 0, taken32 = 0;
        uint64_t high = rcx << 32;
        asm volatile("jrcxz 1f\n\tjmp 2f\n1:\tmovl $1, %0\n2:" : "+r"(taken) : "c"(high));
        asm volatile("jecxz 1f\n\tjmp 2f\n1:\tmovl $1, %0\n2:" : "+r"(taken32) : "c"(high));
        printf("jrcxz %d jecxz %d\n", taken, taken32);
    }

    uint64_t flags;
    count = 5;
    asm volatile("stc\n1:\tloop 1b\n\tpushfq\n\tpopq %1" : "+c"(count), "=r"(flags) : : "cc", "memory");
    printf("carry after loop %d\n", (int)(flags & 1));
}
