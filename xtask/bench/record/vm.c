// An interpreter of byte code: a switch in a loop, and calls through pointers.
#include <stdio.h>

enum { PUSH, ADD, MUL, DUP, SWAP, DEC, JUMP_IF, CALL, HALT };

static long twice(long x) { return x + x; }
static long square(long x) { return x * x; }
static long (*const functions[])(long) = {twice, square};

static long run(const unsigned char *code, long argument) {
    long stack[16] = {0}, *top = stack;
    *top = argument;
    for (;;) {
        switch (*code++) {
        case PUSH: *++top = *code++; break;
        case ADD: top--; top[0] += top[1]; break;
        case MUL: top--; top[0] *= top[1]; break;
        case DUP: top++; top[0] = top[-1]; break;
        case SWAP: { long t = top[0]; top[0] = top[-1]; top[-1] = t; break; }
        case DEC: top[0]--; break;
        case JUMP_IF: { signed char to = (signed char)*code++; if (top[0]) code += to; break; }
        case CALL: top[0] = functions[*code++](top[0]); break;
        case HALT: return top[-1];
        }
    }
}

int main(void) {
    // The argument counts down; below it on the stack a sum stays as it is: it grows by f(counter) * 0.
    static const unsigned char code[] = {PUSH, 1, SWAP, DUP, PUSH, 3, MUL, CALL, 0, CALL, 1, PUSH, 0, MUL, ADD, DEC, JUMP_IF, (unsigned char)-15, HALT};
    unsigned long sum = 0;
    for (int i = 0; i < 400; i++) sum += run(code, 40000);
    printf("%lu\n", sum);
    return 0;
}
