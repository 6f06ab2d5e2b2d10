// Shifts and rotates by every count, 0 included, which leaves the flags alone; double shifts.
//@ with: -mno-red-zone
#include "../program.h"

#define SHIFT(name, op, type)                                                                                                        \
    static uint64_t name(uint64_t hash, type a, uint8_t by, uint64_t before, uint64_t relevant)                                      \
    {                                                                                                                                \
        uint64_t flags;                                                                                                              \
        asm volatile("pushq %3\n\tpopfq\n\t" op " %%cl, %0\n\tpushfq\n\tpopq %1"                                                      \
                     : "+&r"(a), "=&r"(flags)                                                                                        \
                     : "c"(by), "r"(before)                                                                                          \
                     : "cc", "memory");                                                                                              \
        return mix64(mix64(hash, a), flags & relevant);                                                                              \
    }
SHIFT(shl_64, "shlq", uint64_t)
SHIFT(shl_8, "shlb", uint8_t)
SHIFT(shr_32, "shrl", uint32_t)
SHIFT(sar_64, "sarq", uint64_t)
SHIFT(sar_16, "sarw", uint16_t)
SHIFT(rol_64, "rolq", uint64_t)
SHIFT(ror_32, "rorl", uint32_t)
SHIFT(rcl_16, "rclw", uint16_t)
SHIFT(rcr_8, "rcrb", uint8_t)

static uint64_t doubles(uint64_t hash, uint64_t a, uint64_t b, uint8_t by)
{
    uint64_t left = a, right = a;
    asm volatile("shldq %%cl, %2, %0\n\tshrdq %%cl, %2, %1\n\tshldq $7, %2, %0" : "+&r"(left), "+&r"(right) : "r"(b), "c"(by) : "cc");
    return mix64(mix64(hash, left), right);
}

int main(void)
{
    uint64_t hash = 1, state = 7;
    for (int round = 0; round < 64 * 40; round++)
    {
        uint64_t a = next_random(&state), b = next_random(&state);
        uint8_t by = round & 63;
        uint64_t before = 0x202 | (b & 0x8d5);
        // With a count of 0 all flags stay; otherwise CF, and ZF SF PF of shifts, are defined.
        int stays = (by & 31) == 0;
        uint64_t all = stays ? 0x8d5 : 0xc5, carry = stays ? 0x8d5 : 0xd4;
        hash = shl_64(hash, a, by, before, by == 0 ? 0x8d5 : 0xc5);
        hash = shl_8(hash, a, by & 7, before, (by & 7) == 0 ? 0x8d5 : 0xc5);
        hash = shr_32(hash, a, by, before, all);
        hash = sar_64(hash, a, by, before, by == 0 ? 0x8d5 : 0xc5);
        hash = sar_16(hash, a, by & 15, before, (by & 15) == 0 ? 0x8d5 : 0xc5);
        hash = rol_64(hash, a, by, before, by == 0 ? 0x8d5 : 0xd5);
        hash = ror_32(hash, a, by, before, stays ? 0x8d5 : 0xd5);
        hash = rcl_16(hash, a, by & 15, before, 0xd5);
        hash = rcr_8(hash, a, by & 7, before, carry | 1);
        hash = doubles(hash, a, b, by);
    }
    printf("%016llx\n", (unsigned long long)hash);
}
