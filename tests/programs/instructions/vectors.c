// Vector code as compilers write it, up to what this processor has, with denormals and rounding control.
//@ cc: -O0
//@ cc: -O2
//@ cc: -O3 -mavx2 -mfma
//@ cc: -O3 -march=native
//@ cc: -O3 -march=native -mprefer-vector-width=512
//@ with: -lm
#include "../program.h"
#include <immintrin.h>
#include <math.h>

enum { n = 1027 };
static float a[n], b[n], c[n];
static double d[n];
static int32_t k[n];
static uint8_t bytes[n];

int main(void)
{
    uint64_t state = 5;
    for (int i = 0; i < n; i++)
    {
        a[i] = (float)(next_random(&state) % 1000) / 8;
        b[i] = (float)(next_random(&state) % 1000) / 16 + 1;
        k[i] = (int32_t)next_random(&state);
        bytes[i] = (uint8_t)next_random(&state);
    }
    double total = 0;
    long count = 0;
    for (int round = 0; round < 50; round++)
    {
        for (int i = 0; i < n; i++)
        {
            c[i] = a[i] * 0.5f + b[i];
            d[i] = sqrt((double)c[i]) + round;
            k[i] = k[i] * 3 + (k[i] >> 5) + round;
            bytes[i] = (uint8_t)(bytes[i] > 100 ? bytes[i] - 3 : bytes[i] * 2);
        }
        for (int i = 0; i < n; i++)
        {
            total += d[(unsigned)k[i] % n]; // a gather, where there is one
            count += k[i] > 0;
        }
    }
    uint64_t hash = mix(mix(1, k, sizeof k), bytes, sizeof bytes);
    printf("%.6f %ld %016llx\n", total, count, (unsigned long long)hash);
    unsigned int mxcsr = _mm_getcsr();
    _mm_setcsr(mxcsr | 0x8040);
    volatile float tiny = 1e-39f, half = 0.5f;
    printf("%g ", (double)(tiny * half));
    _mm_setcsr(mxcsr);
    printf("%g %x\n", (double)(tiny * half), mxcsr & 0xffc0);
}
