// Gathers, scatters and masked moves on shared memory: alone, across the edge to private memory, and at a page that is not there.
#include "../program.h"
#include <immintrin.h>

enum { words = 1024 };

static uint32_t *s, *edge;

__attribute__((target("avx2"))) static void avx2(void)
{
    __m256i index = _mm256_setr_epi32(0, 5, -3, 7, 100, 2, 2, 9), mask = _mm256_setr_epi32(-1, 0, -1, -1, 0, -1, 0, -1);
    __m256i got = _mm256_mask_i32gather_epi32(_mm256_set1_epi32(42), (int *)s + 16, index, mask, 4);
    printf("gather %016llx\n", (unsigned long long)mix(1, &got, sizeof got));
    __m128i four = _mm256_i64gather_epi32((int *)s + 16, _mm256_setr_epi64x(3, -4, 40, 41), 4);
    printf("gather of four %016llx\n", (unsigned long long)mix(1, &four, sizeof four));
    // Some lanes are private: the memory before the shared page.
    got = _mm256_i32gather_epi32((int *)s, _mm256_setr_epi32(0, -1, 1, -2, 2, -3, 3, -4), 4);
    printf("mixed gather %016llx\n", (unsigned long long)mix(1, &got, sizeof got));
    _mm256_maskstore_epi32((int *)s + 64, mask, got);
    got = _mm256_maskload_epi32((int *)s + 63, mask);
    printf("mask load %016llx\n", (unsigned long long)mix(1, &got, sizeof got));
    // The last two elements would lie behind all mappings.
    mask = _mm256_setr_epi32(-1, -1, -1, -1, -1, -1, 0, 0);
    got = _mm256_maskload_epi32((int *)edge - 6, mask);
    _mm256_maskstore_epi32((int *)edge - 6, mask, _mm256_add_epi32(got, got));
    __m128i bytes = _mm_setr_epi8(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    _mm_maskmoveu_si128(bytes, _mm_setr_epi8(-1, 0, 0, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1), (char *)(s + 80));
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2"))) static void avx512(void)
{
    __m512i index = _mm512_setr_epi32(0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, -1, -2, -3, -4);
    __m512i got = _mm512_mask_i32gather_epi32(_mm512_set1_epi32(7), 0xb7d3, index, (int *)s, 4);
    printf("wide gather %016llx\n", (unsigned long long)mix(1, &got, sizeof got));
    _mm512_mask_i32scatter_epi32((int *)s + 200, 0x7fff, index, got, 4);
    _mm512_i32scatter_epi64((long long *)s + 60, _mm512_castsi512_si256(index), got, 8);
    _mm512_mask_storeu_epi8(s + 300, 0x8000ff01f00ff001, got);
    got = _mm512_maskz_loadu_epi8(0x0123456789abcdef, (char *)s + 1201);
    printf("masked bytes %016llx\n", (unsigned long long)mix(1, &got, sizeof got));
    _mm512_mask_compressstoreu_epi32(s + 400, 0x5a5a, got);
    got = _mm512_maskz_expandloadu_epi32(0xf0f3, s + 401);
    printf("expanded %016llx\n", (unsigned long long)mix(1, &got, sizeof got));
    got = _mm512_maskz_loadu_epi32(0x00ff, edge - 8);
    _mm512_mask_storeu_epi32(edge - 8, 0x00ff, _mm512_slli_epi32(got, 1));
    // Begins in private and ends in shared memory.
    got = _mm512_maskz_loadu_epi32(0xff0f, s - 8);
    _mm512_mask_storeu_epi32(s - 8, 0xf0ff, _mm512_slli_epi32(got, 3));
}

int main(void)
{
    // private, shared, private page, then nothing.
    char *base = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    s = mmap(base + 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    uint32_t *last = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(mprotect((char *)last + 4096, 4096, PROT_NONE) == 0);
    edge = last + words;
    for (int i = -words; i < words; i++)
    {
        s[i] = (uint32_t)i * 2654435761u;
        last[i & (words - 1)] = (uint32_t)i * 40503u;
    }
    if (__builtin_cpu_supports("avx2"))
    {
        avx2();
    }
    if (__builtin_cpu_supports("avx512vbmi2"))
    {
        avx512();
    }
    printf("%016llx\n", (unsigned long long)mix(mix(1, base, 3 * 4096), last, 4096));
}
