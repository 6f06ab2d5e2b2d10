// String instructions: every size, with and without rep, both directions, counts of 0, flags of cmps and scas.
//@ with: -mno-red-zone
#include "../program.h"

static unsigned char from[512], to[512];

static void fill(void)
{
    for (int i = 0; i < 512; i++)
    {
        from[i] = (unsigned char)(i * 7 + i / 50);
        to[i] = (unsigned char)i;
    }
}

#define MOVE(op, size, prefix, direction)                                                                                            \
    for (uint64_t n = 0; n < 20; n++)                                                                                                \
    {                                                                                                                                \
        fill();                                                                                                                      \
        unsigned char *d = to + 256, *s = from + 250;                                                                                \
        uint64_t count = n;                                                                                                          \
        asm volatile(direction "\n\t" prefix " " op "\n\tcld" : "+D"(d), "+S"(s), "+c"(count) : "a"(0x1122334455667788) : "cc", "memory"); \
        hash = mix(hash, to, sizeof to);                                                                                             \
        hash = mix64(mix64(mix64(hash, (uint64_t)(d - to)), (uint64_t)(s - from)), count);                                           \
    }
#define COMPARE(op, prefix, direction)                                                                                               \
    for (uint64_t n = 0; n < 20; n++)                                                                                                \
    {                                                                                                                                \
        fill();                                                                                                                      \
        memcpy(to + 200, from + 200, 100);                                                                                           \
        to[250 + n / 2] ^= 1;                                                                                                        \
        unsigned char *d = to + 250, *s = from + 250;                                                                                \
        uint64_t count = n, flags;                                                                                                   \
        asm volatile("cmpq $7, %3\n\t" direction "\n\t" prefix " " op "\n\tcld\n\tpushfq\n\tpopq %4"                                     \
                     : "+D"(d), "+S"(s), "+c"(count), "+r"(n), "=r"(flags)                                                           \
                     : "a"(0x8877665544332211)                                                                                       \
                     : "cc", "memory");                                                                                              \
        hash = mix64(mix64(mix64(mix64(hash, (uint64_t)(d - to)), (uint64_t)(s - from)), count), flags & 0x8d5);                     \
    }
#define BOTH(op, size, prefix) MOVE(op, size, prefix, "cld") MOVE(op, size, prefix, "std")
#define BOTH_COMPARE(op, prefix) COMPARE(op, prefix, "cld") COMPARE(op, prefix, "std")

int main(void)
{
    uint64_t hash = 1;
    BOTH("movsb", 1, "") BOTH("movsw", 2, "") BOTH("movsl", 4, "") BOTH("movsq", 8, "")
    printf("%016llx\n", (unsigned long long)hash);
    BOTH("movsb", 1, "rep") BOTH("movsw", 2, "rep") BOTH("movsl", 4, "rep") BOTH("movsq", 8, "rep")
    printf("%016llx\n", (unsigned long long)hash);
    BOTH("stosb", 1, "rep") BOTH("stosw", 2, "rep") BOTH("stosl", 4, "rep") BOTH("stosq", 8, "rep") BOTH("stosb", 1, "")
    printf("%016llx\n", (unsigned long long)hash);
    BOTH_COMPARE("cmpsb", "repe") BOTH_COMPARE("cmpsb", "repne") BOTH_COMPARE("cmpsw", "repe") BOTH_COMPARE("cmpsq", "repe") BOTH_COMPARE("cmpsl", "")
    printf("%016llx\n", (unsigned long long)hash);
    BOTH_COMPARE("scasb", "repne") BOTH_COMPARE("scasw", "repe") BOTH_COMPARE("scasl", "repne") BOTH_COMPARE("scasq", "repne")
    printf("%016llx\n", (unsigned long long)hash);
    uint64_t a = 0;
    unsigned char *s = from + 9;
    asm volatile("lodsb\n\tlodsl\n\tlodsq" : "+S"(s), "+a"(a) : : "memory");
    printf("%016llx %d\n", (unsigned long long)a, (int)(s - from));
}
