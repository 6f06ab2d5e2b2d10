// One access that begins in private and ends in shared memory, and the reverse.
#include "../program.h"

int main(void)
{
    char *base = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *s = mmap(base + 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    must(s == base + 4096);
    memset(base, 3, 3 * 4096);
    volatile uint64_t *into = (uint64_t *)(s - 4), *out = (uint64_t *)(s + 4092);
    *into += 5;
    *out += 7;
    printf("%llx %llx\n", (unsigned long long)*into, (unsigned long long)*out);
}
