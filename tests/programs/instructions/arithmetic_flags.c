// Add and subtract with carry, rotates through carry, and all status flags after each.
//@ with: -mno-red-zone
#include "../program.h"

#define ARITH 0x8d5 // OF SF ZF AF PF CF
#define DEFINED_LOGIC 0x8c5

#define BINARY(name, op, type)                                                                                                       \
    static uint64_t name(uint64_t hash, type a, type b, int carry)                                                                   \
    {                                                                                                                                \
        uint64_t flags;                                                                                                              \
        asm volatile("bt $0, %3\n\t" op " %2, %0\n\tpushfq\n\tpopq %1" : "+&r"(a), "=&r"(flags) : "r"(b), "r"(carry) : "cc", "memory");    \
        return mix64(mix64(hash, a), flags & ARITH);                                                                                 \
    }
#define ALL_SIZES(op)                                                                                                                \
    BINARY(op##_8, #op "b", uint8_t)                                                                                                 \
    BINARY(op##_16, #op "w", uint16_t)                                                                                               \
    BINARY(op##_32, #op "l", uint32_t)                                                                                               \
    BINARY(op##_64, #op "q", uint64_t)
ALL_SIZES(add)
ALL_SIZES(adc)
ALL_SIZES(sub)
ALL_SIZES(sbb)
ALL_SIZES(cmp)

static uint64_t rotate(uint64_t hash, uint64_t a, uint8_t by, int carry)
{
    uint64_t left = a, right = a, by_one = a, flags;
    asm volatile("bt $0, %3\n\trclq %%cl, %0\n\trcrq $1, %2\n\trcrq %%cl, %1\n\trcll $3, %k2"
                 : "+&r"(left), "+&r"(right), "+&r"(by_one)
                 : "r"(carry), "c"(by)
                 : "cc");
    asm volatile("bt $0, %1\n\tpushfq\n\tpopq %0" : "=r"(flags) : "r"(carry) : "cc", "memory");
    return mix64(mix64(mix64(mix64(hash, left), right), by_one), flags & 1);
}

static uint64_t one_operand(uint64_t hash, uint64_t a, int carry)
{
    uint64_t up = a, down = a, minus = a, not = a, flags[3];
    asm volatile("bt $0, %7\n\tincq %0\n\tpushfq\n\tpopq %4\n\tdecq %1\n\tpushfq\n\tpopq %5\n\tnegq %2\n\tpushfq\n\tpopq %6\n\tnotq %3"
                 : "+&r"(up), "+&r"(down), "+&r"(minus), "+&r"(not), "=&r"(flags[0]), "=&r"(flags[1]), "=&r"(flags[2])
                 : "r"(carry)
                 : "cc", "memory");
    for (int i = 0; i < 3; i++)
    {
        hash = mix64(hash, flags[i] & ARITH);
    }
    return mix64(mix64(mix64(mix64(hash, up), down), minus), not);
}

static uint64_t multiply_divide(uint64_t hash, uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    __int128 signed_product = (__int128)(int64_t)a * (int64_t)b;
    b |= 1;
    return mix64(mix64(mix(mix(hash, &product, 16), &signed_product, 16), a / b), (uint64_t)((int64_t)(int32_t)a / (int32_t)b));
}

int main(void)
{
    static const uint64_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0x7fffffff, 0x80000000, INT64_MAX, 1ull << 63, UINT64_MAX};
    uint64_t hash = 1, state = 42;
    for (int round = 0; round < 2000; round++)
    {
        uint64_t a = round < 144 ? edges[round % 12] : next_random(&state);
        uint64_t b = round < 144 ? edges[round / 12] : next_random(&state);
        int carry = round & 1;
        hash = add_64(add_32(add_16(add_8(hash, a, b, carry), a, b, carry), a, b, carry), a, b, carry);
        hash = adc_64(adc_32(adc_16(adc_8(hash, a, b, carry), a, b, carry), a, b, carry), a, b, carry);
        hash = sub_64(sub_32(sub_16(sub_8(hash, a, b, carry), a, b, carry), a, b, carry), a, b, carry);
        hash = sbb_64(sbb_32(sbb_16(sbb_8(hash, a, b, carry), a, b, carry), a, b, carry), a, b, carry);
        hash = cmp_64(cmp_32(cmp_16(cmp_8(hash, a, b, carry), a, b, carry), a, b, carry), a, b, carry);
        hash = multiply_divide(one_operand(rotate(hash, a, b & 63, carry), a, carry), a, b);
    }
    printf("%016llx\n", (unsigned long long)hash);
}
