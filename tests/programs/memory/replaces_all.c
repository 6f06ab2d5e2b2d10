// Maps other memory over everything that the kernel lists and that it does not stand on, the C library included, and ends without it.
//@ cc: -O1 -fno-stack-protector
//@ ends: exit 7
//@ stops: a change of the recorder's own memory
#include "../program.h"

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

static struct
{
    unsigned long from, to;
} list[1000];

int main(void)
{
    char line[4500];
    int count = 0, refused = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps) != NULL)
    {
        unsigned long from, to, places[] = {(unsigned long)main, (unsigned long)list, (unsigned long)(list + 999), (unsigned long)line,
                                          (unsigned long)&errno}; // the kernel writes to the thread block (rseq)
        must(sscanf(line, "%lx-%lx", &from, &to) == 2 && count < 1000);
        int keep = strstr(line, "[vsyscall]") != NULL;
        for (int i = 0; i < 5; i++)
        {
            keep |= places[i] >= from && places[i] < to;
        }
        if (!keep)
        {
            list[count].from = from;
            list[count++].to = to;
        }
    }
    printf("replacing\n");
    fflush(stdout);
    for (int i = 0; i < count; i++)
    {
        refused += map(list[i].from, list[i].to - list[i].from) != (long)list[i].from;
    }
    __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(7 + refused));
}
