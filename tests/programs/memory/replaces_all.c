// Maps other memory over everything that the kernel lists and that it does not stand on, the C library included, and ends without it.
//@ cc: -O1 -fno-stack-protector
//@ ends: exit 7
//@ stops: a change of the recorder's own memory
#include "../every_map.h"

static long map(long address, long length)
{
    long result;
    register long flags __asm__("r10") = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, fd __asm__("r8") = -1, offset __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_mmap), "D"(address), "S"(length), "d"(PROT_NONE), "r"(flags), "r"(fd), "r"(offset)
                     : "rcx", "r11", "memory");
    return result;
}

int main(void)
{
    int count = list_maps(), refused = 0;
    printf("replacing\n");
    fflush(stdout);
    for (int i = 0; i < count; i++)
    {
        refused += map(list[i].from, list[i].to - list[i].from) != (long)list[i].from;
    }
    __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(7 + refused));
}
