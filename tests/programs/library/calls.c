// Variable arguments, alloca, variable-length arrays, qsort and bsearch with callbacks, structures by value, nested functions' trampolines.
//@ cc: -O0 -Wno-error
//@ cc: -O2 -Wno-error
#include "../program.h"
#include <alloca.h>
#include <search.h>
#include <stdarg.h>

struct wide
{
    double values[4];
    long tag;
};

static double add_all(int n, ...)
{
    va_list list;
    double sum = 0;
    va_start(list, n);
    for (int i = 0; i < n; i++)
    {
        sum += i % 3 == 0 ? va_arg(list, int) : i % 3 == 1 ? va_arg(list, double) : (double)va_arg(list, long double);
    }
    va_end(list);
    return sum;
}

static struct wide twice(struct wide w)
{
    for (int i = 0; i < 4; i++)
    {
        w.values[i] *= 2;
    }
    w.tag++;
    return w;
}

static int compare(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int apply(int (*function)(int), int value) { return function(value); }

static __attribute__((noinline)) uint64_t on_stack(int n)
{
    unsigned char *room = alloca((size_t)n + 1);
    int array[n + 1];
    for (int i = 0; i <= n; i++)
    {
        room[i] = (unsigned char)i;
        array[i] = i * n;
    }
    return mix(mix(1, room, (size_t)n), array, sizeof array);
}

int main(void)
{
    printf("%.3f %.3f\n", add_all(9, 1, 2.5, 3.25L, 4, 5.5, 6.125L, 7, 8.5, 9.5L), add_all(0));
    struct wide w = twice(twice((struct wide){{1, 2, 3, 4}, 5}));
    printf("%g %g %ld\n", w.values[0], w.values[3], w.tag);
    enum { n = 5000 };
    static int numbers[n];
    uint64_t state = 8, hash = 1;
    for (int i = 0; i < n; i++)
    {
        numbers[i] = (int)(next_random(&state) % 100000);
    }
    qsort(numbers, n, sizeof *numbers, compare);
    int *found = bsearch(&numbers[777], numbers, n, sizeof *numbers, compare);
    printf("%016llx %d\n", (unsigned long long)mix(1, numbers, sizeof numbers), *found == numbers[777]);
    for (int i = 0; i < 300; i += 7)
    {
        hash = mix64(hash, on_stack(i));
    }
    int offset = 100;
    int add_offset(int value) { return value + offset; } // needs code on the stack
    printf("%016llx %d\n", (unsigned long long)hash, apply(add_offset, 11));
    void *tree = NULL;
    for (int i = 0; i < 100; i++)
    {
        tsearch(&numbers[i * 37 % n], &tree, compare);
    }
    printf("%d\n", tfind(&numbers[37], &tree, compare) != NULL);
}
