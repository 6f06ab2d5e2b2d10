// The C library's printf, qsort and malloc.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int main(void) {
    enum { COUNT = 20000 };
    static char *lines[COUNT];
    unsigned long sum = 0;
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < COUNT; i++) {
            char line[64];
            int n = snprintf(line, sizeof line, "%08x %-10s %6.2f %d", i * 2654435761u, "record", i / 7.0, round);
            lines[i] = malloc(n + 1);
            memcpy(lines[i], line, n + 1);
        }
        qsort(lines, COUNT, sizeof *lines, by_text);
        for (int i = 0; i < COUNT; i++) {
            sum += strtoul(lines[i], NULL, 16);
            free(lines[i]);
        }
    }
    printf("%lu\n", sum);
    return 0;
}
