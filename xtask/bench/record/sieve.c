// Sieve of Eratosthenes, then quicksort and insertion sort of pseudo-random numbers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT 4000000
#define COUNT 2000000

static unsigned char composite[LIMIT];
static unsigned numbers[COUNT];

static void sort(unsigned *a, long n) {
    while (n > 16) {
        unsigned pivot = a[n / 2];
        long i = 0, j = n - 1;
        while (i <= j) {
            while (a[i] < pivot) i++;
            while (a[j] > pivot) j--;
            if (i <= j) {
                unsigned t = a[i];
                a[i++] = a[j];
                a[j--] = t;
            }
        }
        sort(a, j + 1);
        a += i;
        n -= i;
    }
    for (long i = 1; i < n; i++) {
        unsigned v = a[i];
        long j = i;
        for (; j > 0 && a[j - 1] > v; j--) a[j] = a[j - 1];
        a[j] = v;
    }
}

int main(void) {
    long primes = 0;
    for (int round = 0; round < 8; round++) {
        memset(composite, 0, sizeof composite);
        for (long i = 2; i * i < LIMIT; i++)
            if (!composite[i])
                for (long j = i * i; j < LIMIT; j += i) composite[j] = 1;
        for (long i = 2; i < LIMIT; i++) primes += !composite[i];
    }
    unsigned long seed = 1;
    for (int round = 0; round < 2; round++) {
        for (long i = 0; i < COUNT; i++) {
            seed = seed * 6364136223846793005ul + 1442695040888963407ul;
            numbers[i] = seed >> 33;
        }
        sort(numbers, COUNT);
    }
    printf("%ld %u\n", primes, numbers[COUNT / 2]);
    return 0;
}
