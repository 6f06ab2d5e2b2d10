// A hash table with chains: insert, look up, delete.
#include <stdio.h>
#include <stdlib.h>

#define BUCKETS (1 << 14)

struct node {
    struct node *next;
    unsigned long key, value;
};

static struct node *buckets[BUCKETS];

static unsigned long hash(unsigned long key) {
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdul;
    key ^= key >> 33;
    return key;
}

static struct node **find(unsigned long key) {
    struct node **at = &buckets[hash(key) % BUCKETS];
    while (*at && (*at)->key != key) at = &(*at)->next;
    return at;
}

int main(void) {
    unsigned long sum = 0, seed = 42;
    for (long i = 0; i < 14000000; i++) {
        seed = seed * 6364136223846793005ul + 1442695040888963407ul;
        unsigned long key = seed >> 48;
        struct node **at = find(key);
        if (!*at) {
            struct node *node = malloc(sizeof *node);
            *node = (struct node){NULL, key, i};
            *at = node;
        } else if ((seed & 0xf00000) == 0) {
            struct node *node = *at;
            *at = node->next;
            free(node);
        } else {
            sum += (*at)->value;
        }
    }
    printf("%lu\n", sum);
    return 0;
}
