// Runs for about as many turns as asked, calling a function of its own in each.
#include <stdlib.h>

volatile unsigned long counter;
volatile int rare;

__attribute__((noinline)) static void turn(unsigned long number)
{
    counter = number;
    if (number % 10000000 == 77)
    {
        rare++;
    }
}

int main(int argc, char **argv)
{
    unsigned long turns = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
    for (unsigned long number = 0; number < turns; number++)
    {
        turn(number);
    }
    return 0;
}
