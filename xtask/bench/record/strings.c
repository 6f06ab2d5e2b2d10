// String functions of the C library on short and long strings.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *words[] = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda"};

int main(void) {
    enum { SIZE = 1 << 16 };
    char *text = malloc(SIZE), *copy = malloc(SIZE);
    size_t total = 0;
    for (int round = 0; round < 1200; round++) {
        size_t length = 0;
        for (unsigned i = round; length < SIZE - 32; i++) {
            const char *word = words[i * 7 % 11];
            size_t n = strlen(word);
            memcpy(text + length, word, n);
            length += n;
            text[length++] = ' ';
        }
        text[length] = 0;
        memcpy(copy, text, length + 1);
        total += strlen(copy) + (strstr(copy, "omega") != NULL) + (memcmp(text, copy, length) == 0);
        for (char *p = copy; (p = strchr(p, ' ')) != NULL; p++) total++;
        for (char *p = strtok(copy, " "); p; p = strtok(NULL, " ")) total += strcmp(p, "lambda") == 0;
    }
    printf("%zu\n", total);
    return 0;
}
