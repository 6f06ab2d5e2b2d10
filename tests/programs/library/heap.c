// malloc in all its ways: small, large, aligned, grown, shrunk, trimmed, until it fails.
#include "../program.h"
#include <malloc.h>

int main(void)
{
    enum { n = 500 };
    static unsigned char *blocks[n];
    static size_t sizes[n];
    uint64_t state = 21, hash = 1;
    for (int round = 0; round < 20000; round++)
    {
        int at = (int)(next_random(&state) % n);
        size_t size = next_random(&state) % (round % 50 == 0 ? 400000 : 600) + 1;
        if (blocks[at] != NULL)
        {
            hash = mix64(hash, blocks[at][sizes[at] / 2]);
        }
        switch (round % 4)
        {
        case 0:
            blocks[at] = realloc(blocks[at], size);
            break;
        case 1:
            free(blocks[at]);
            blocks[at] = aligned_alloc(64, (size + 63) / 64 * 64);
            break;
        case 2:
            free(blocks[at]);
            blocks[at] = calloc(size, 1);
            break;
        default:
            free(blocks[at]);
            blocks[at] = malloc(size);
        }
        must(blocks[at] != NULL);
        memset(blocks[at], round & 255, size);
        sizes[at] = size;
    }
    for (int i = 0; i < n; i++)
    {
        free(blocks[i]);
    }
    malloc_trim(0);
    volatile size_t too_much = SIZE_MAX / 2;
    void *never = malloc(too_much);
    printf("%016llx %d %s\n", (unsigned long long)hash, never == NULL, strerror(errno));
}
