// Threads of OpenMP, whose library waits for them by spinning and by futexes.
//@ cc: -O2 -fopenmp
//@ stops: a second thread
#include "../program.h"

static int fibonacci(int n)
{
    if (n < 2)
    {
        return n;
    }
    int a, b;
#pragma omp task shared(a)
    a = fibonacci(n - 1);
#pragma omp task shared(b)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(void)
{
    long sum = 0;
    int result = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(3)
    for (int i = 0; i < 100000; i++)
    {
        sum += i;
    }
#pragma omp parallel num_threads(2)
#pragma omp single
    result = fibonacci(10);
    printf("%ld %d\n", sum, result);
}
