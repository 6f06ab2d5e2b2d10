// Anonymous shared memory between forks, handed over with pipes: every size and alignment of access.
#include "../program.h"

struct __attribute__((packed)) unaligned
{
    char pad;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    double real;
    long double wide;
};

int main(void)
{
    size_t size = 64 << 10;
    unsigned char *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int to_child[2], to_parent[2];
    char byte = 0;
    must(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t child = flushed_fork();
    for (int round = 0; round < 30; round++)
    {
        if (child == 0)
        {
            must(read(to_child[0], &byte, 1) == 1);
        }
        struct unaligned *at = (struct unaligned *)(shared + round * 61 + (round % 7 == 0 ? 4096 - 20 : 0));
        at->two = (uint16_t)(at->two + round);
        at->four += 0x01010101u * (unsigned)(round + (child == 0));
        at->eight ^= at->four * 77777ull;
        at->real = at->real * 2 + at->two;
        at->wide = at->wide / 3 + at->real;
        at->pad++;
        for (int i = 0; i < 100; i++)
        {
            shared[8192 + i * 3] = (unsigned char)(shared[8192 + i * 3] * 5 + round + i);
        }
        must(write(child == 0 ? to_parent[1] : to_child[1], &byte, 1) == 1);
        if (child != 0)
        {
            must(read(to_parent[0], &byte, 1) == 1);
        }
    }
    if (child == 0)
    {
        _exit(0);
    }
    wait_for("child", child);
    // The padding of a long double is whatever it was.
    for (int round = 0; round < 30; round++)
    {
        struct unaligned *at = (struct unaligned *)(shared + round * 61 + (round % 7 == 0 ? 4096 - 20 : 0));
        printf("%d %d %08x %016llx %g\n", at->pad, at->two, at->four, (unsigned long long)at->eight, at->real);
    }
    printf("%016llx\n", (unsigned long long)mix(1, shared + 8192, 400));
}
