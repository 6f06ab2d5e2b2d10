// AVX-512 by hand: masks, compress, expand, gather, scatter, embedded broadcast and rounding; nothing where the processor lacks it.
//@ cc: -O1 -mavx512f -mavx512bw -mavx512vl -mavx512dq
//@ cc: -O2 -mavx512f -mavx512bw -mavx512vl -mavx512dq
#include "../program.h"
#include <immintrin.h>

static int32_t table[256];
static int32_t out[16];

static __attribute__((noinline)) uint64_t across_calls(uint64_t hash, __mmask16 mask) { return mix64(hash, (uint64_t)_cvtmask16_u32(mask)); }

int main(void)
{
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl"))
    {
        printf("not here\n");
        return 0;
    }
    uint64_t state = 3, hash = 1;
    for (int i = 0; i < 256; i++)
    {
        table[i] = (int32_t)next_random(&state);
    }
    __m512i a = _mm512_loadu_si512(table), sum = _mm512_setzero_si512();
    for (int round = 0; round < 200; round++)
    {
        __m512i index = _mm512_and_epi32(_mm512_add_epi32(a, _mm512_set1_epi32(round)), _mm512_set1_epi32(255));
        __m512i found = _mm512_i32gather_epi32(index, table, 4);
        __mmask16 mask = _mm512_cmpgt_epi32_mask(found, a);
        hash = across_calls(hash, mask);
        a = _mm512_mask_add_epi32(a, mask, found, sum);
        sum = _mm512_maskz_compress_epi32(mask, a);
        sum = _mm512_mask_expand_epi32(sum, _knot_mask16(mask), found);
        _mm512_mask_i32scatter_epi32(table, mask, index, sum, 4);
        _mm512_mask_compressstoreu_epi32(out, mask, a);
        hash = mix(hash, out, sizeof out);
        __m256i half = _mm512_castsi512_si256(a);
        hash = mix64(hash, (uint64_t)_mm256_cmpeq_epi8_mask(half, _mm256_set1_epi8(round & 127)));
    }
    __m512d x = _mm512_set1_pd(1.0), y = _mm512_set1_pd(3.0);
    double up = _mm512_reduce_add_pd(_mm512_div_round_pd(x, y, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC));
    double down = _mm512_reduce_add_pd(_mm512_div_round_pd(x, y, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    hash = mix(mix(hash, table, sizeof table), &sum, sizeof sum);
    printf("%016llx %a %a\n", (unsigned long long)hash, up, down);
}
