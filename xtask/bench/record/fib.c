// Recursion: calls and returns, little else.
#include <stdio.h>

__attribute__((noinline)) static unsigned long fib(int n) {
    return n < 2 ? (unsigned long)n : fib(n - 1) + fib(n - 2);
}

int main(void) {
    printf("%lu\n", fib(41));
    return 0;
}
