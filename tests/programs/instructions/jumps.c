// Every conditional jump, taken and not, on every combination of flags.
//@ with: -mno-red-zone
#include "../program.h"

#define ONE(cc)                                                                                                                      \
    {                                                                                                                                \
        int taken = 0;                                                                                                               \
        asm volatile("pushq %1\n\tpopfq\n\tj" cc " 1f\n\tjmp 2f\n1:\tmovl $1, %0\n2:" : "+r"(taken) : "r"(flags) : "cc", "memory");         \
        line[n++] = taken ? '1' : '0';                                                                                               \
    }

int main(void)
{
    for (int bits = 0; bits < 32; bits++)
    {
        char line[20];
        int n = 0;
        uint64_t flags = 0x202 | (bits & 1) | (bits & 2) << 1 | (uint64_t)(bits & 4) << 4 | (uint64_t)(bits & 8) << 4 | (uint64_t)(bits & 16) << 7;
        ONE("o") ONE("no") ONE("b") ONE("ae") ONE("e") ONE("ne") ONE("be") ONE("a")
        ONE("s") ONE("ns") ONE("p") ONE("np") ONE("l") ONE("ge") ONE("le") ONE("g")
        line[n] = 0;
        printf("%03llx %s\n", (unsigned long long)flags, line);
    }
}
