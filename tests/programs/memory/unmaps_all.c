// Unmaps everything that the kernel lists and that it does not stand on, the C library included, and ends without it.
//@ cc: -O1 -fno-stack-protector
//@ ends: exit 7
#include "../program.h"

static long call(long number, long a, long b)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
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
