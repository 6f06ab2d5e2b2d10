// Bit instructions with the bit's number in a register, which may lie far from the address: plain and locked, by two processes.
#include "../program.h"

int main(void)
{
    uint32_t *field = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = flushed_fork();
    for (long bit = 0; bit < 20000; bit += 37)
    {
        if (child == 0)
        {
            asm volatile("lock btsq %1, %0" : "+m"(field[512]) : "r"(bit) : "cc", "memory");
        }
        else
        {
            asm volatile("lock btcq %1, %0" : "+m"(field[512]) : "r"(-1 - bit / 3) : "cc", "memory");
        }
    }
    if (child == 0)
    {
        _exit(0);
    }
    wait_for("child", child);
    int set = 0;
    for (long bit = -8000; bit < 20000; bit++)
    {
        unsigned char carry;
        asm volatile("btq %2, %1\n\tsetc %0" : "=r"(carry) : "m"(field[512]), "r"(bit) : "cc", "memory");
        set += carry;
    }
    printf("%d %016llx\n", set, (unsigned long long)mix(1, field, 8192));
}
