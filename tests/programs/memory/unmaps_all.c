// Unmaps everything that the kernel lists and that it does not stand on, the C library included, and ends without it.
//@ cc: -O1 -fno-stack-protector
//@ ends: exit 7
#include "../every_map.h"

static long call(long number, long a, long b)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return result;
}

int main(void)
{
    int count = list_maps(), refused = 0;
    printf("unmapping\n");
    fflush(stdout);
    for (int i = 0; i < count; i++)
    {
        refused += call(SYS_munmap, list[i].from, list[i].to - list[i].from) != 0;
    }
    // All that lies between this program and its stack, as the kernel lets it.
    refused += call(SYS_munmap, 0x100000000000, 0x10000000000) != 0;
    refused += call(SYS_munmap, 0x600000000000, 0x140000000000) != 0;
    call(SYS_exit_group, 7 + refused, 0);
}
