// Vector loads, stores and gathers on shared memory, aligned and not, across pages; copies and searches by the C library; rep movs and stos.
//@ cc: -O0
//@ cc: -O2
//@ cc: -O3 -march=native
#include "../program.h"

enum { size = 1 << 16 };

int main(void)
{
    unsigned char *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static unsigned char own[size];
    uint64_t state = 31, hash = 1;
    for (int i = 0; i < size; i++)
    {
        own[i] = (unsigned char)next_random(&state);
    }
    memcpy(shared, own, size);
    printf("%d\n", memcmp(shared, own, size));
    pid_t child = flushed_fork();
    if (child == 0)
    {
        float *f = (float *)(shared + 4096 + 4);
        uint32_t *u = (uint32_t *)(shared + 20001);
        for (int i = 0; i < 3000; i++)
        {
            f[i] = (float)i * 1.5f;
            u[i] = u[i] * 3 + (uint32_t)i;
        }
        memmove(shared + 40000, shared + 40003, 5000);
        memset(shared + 50001, 0x5a, 999);
        unsigned char *to = shared + 60000;
        const unsigned char *from = own + 13;
        size_t n = 777;
        asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
        n = 50;
        to = shared + 62000;
        asm volatile("std\n\trep stosq\n\tcld" : "+D"(to), "+c"(n) : "a"(0x1122334455667788) : "memory", "cc");
        strcpy((char *)shared + 63000, "a string in shared memory");
        _exit((int)strlen((char *)shared + 63000));
    }
    wait_for("child", child);
    const float *f = (const float *)(shared + 4096 + 4);
    double sum = 0;
    for (int i = 0; i < 3000; i++)
    {
        sum += f[(unsigned)i * 7 % 3000] * 0.5f;
    }
    for (int i = 0; i < 200; i++)
    {
        hash = mix(hash, shared + i * 17, (size_t)(i * 3));
        hash = mix64(hash, (uint64_t)(memcmp(shared + i * 31, own + i * 31, (size_t)i * 20) > 0));
        hash = mix64(hash, (uint64_t)((unsigned char *)memchr(shared + i * 100, 0x5a, 60000 - (size_t)i * 100) - shared));
    }
    unsigned char *to = own + 5;
    const unsigned char *from = shared + 60000;
    size_t n = 99;
    asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    memcpy(own + 4096, shared + 4000, 9000);
    memcpy(shared + 100, shared + 8100, 8000);
    hash = mix(mix(hash, own, size), shared, size);
    printf("%.1f %016llx %s %zu\n", sum, (unsigned long long)hash, (char *)shared + 63000, strlen((char *)shared + 63000));
}
