// Much address space, little memory: pages touched here and there, many mappings, large stack frames.
#include "../program.h"

static __attribute__((noinline)) uint64_t big_frame(int n)
{
    volatile char room[1 << 20];
    for (int i = 0; i < 1 << 20; i += 4096)
    {
        room[i] = (char)(i >> 12);
    }
    return (uint64_t)room[n * 4096 % (1 << 20)];
}

int main(void)
{
    size_t size = 8ull << 30;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(p != MAP_FAILED);
    uint64_t hash = 1, state = 5;
    for (int i = 0; i < 300; i++)
    {
        size_t at = next_random(&state) % size;
        p[at] = (char)i;
        hash = mix64(hash, (uint64_t)p[at ^ 4096]);
    }
    munmap(p, size);
    char *maps[200];
    for (int i = 0; i < 200; i++)
    {
        maps[i] = mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(maps[i] != MAP_FAILED);
    }
    for (int i = 0; i < 200; i++)
    {
        hash = mix64(hash, (uint64_t)maps[i][i]);
        munmap(maps[i], 4096);
    }
    for (int i = 0; i < 4; i++)
    {
        hash = mix64(hash, big_frame(i * 77));
    }
    printf("%016llx\n", (unsigned long long)hash);
}
