// memcpy, memmove, memset, memcmp, memchr, strlen and others at all small sizes and alignments, as the C library picks them for this machine.
//@ with: -fno-builtin
#include "../program.h"

static unsigned char a[8192], b[8192];

int main(void)
{
    uint64_t hash = 1, state = 17;
    for (size_t i = 0; i < sizeof a; i++)
    {
        a[i] = (unsigned char)(next_random(&state) | 1);
    }
    static const size_t sizes[] = {0,  1,  2,  3,  4,  5,  7,  8,  9,  15,  16,  17,  31,  32,  33,  47,  63,  64,  65,
                                   95, 96, 97, 127, 128, 129, 255, 256, 257, 511, 513, 1023, 1025, 2049, 4095, 4096, 4097};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    {
        size_t n = sizes[s];
        for (size_t from = 0; from < 66; from += 5)
        {
            for (size_t to = 0; to < 66; to += 13)
            {
                memset(b, (int)(n + from), n + 130);
                memcpy(b + to, a + from, n);
                memmove(b + to + 3, b + to, n);
                memmove(b + to, b + to + 7, n);
                hash = mix(hash, b, n + 80);
                b[to + n] = 0;
                hash = mix64(hash, strlen((char *)b + to));
                hash = mix64(hash, (uint64_t)(memcmp(a + from, b + to, n) > 0));
                hash = mix64(hash, memchr(a + from, 0x41, n) == NULL);
                hash = mix64(hash, memrchr(a + from, 0x41, n) == NULL);
            }
        }
    }
    printf("%016llx\n", (unsigned long long)hash);
    char text[600], copy[600];
    for (size_t n = 0; n < 500; n += 3)
    {
        memset(text, 'x', sizeof text);
        text[n] = 0;
        strcpy(copy, text);
        strcat(copy, "end");
        hash = mix64(hash, strlen(copy) + (size_t)(strchr(copy, 'e') - copy) + (size_t)(strrchr(copy, 'x') ? 1 : 0));
        hash = mix64(hash, (uint64_t)(strcmp(copy, text) > 0) + (uint64_t)(strncmp(copy, text, n) == 0) + strnlen(copy, n / 2));
        hash = mix64(hash, (uint64_t)(strstr(copy, "xen") != NULL) + strspn(copy, "x") + strcspn(copy, "e") + (uint64_t)(strcasecmp(copy, text) > 0));
    }
    printf("%016llx\n", (unsigned long long)hash);
}
